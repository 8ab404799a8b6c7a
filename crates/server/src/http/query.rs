//! Parameters in the query string of a URL.

use super::ApiError;
use super::json_body::advice;
use super::percent::{decode, decode_path};
use esker_model::object::Principal;
use esker_model::{Schema, Version, VertexName, VertexTypeId};

/// Decoded names and values; each name is known and occurs once.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

/// Returns the text of an error: a parameter's value is not one of the known ones.
pub(super) fn unknown_value(name: &str, given: &str, known: &[&str]) -> String {
    let advice = advice(given, known.iter().copied());
    format!("parameter `{name}`: unknown value `{given}`; {advice}")
}

impl Query {
    /// Parses the parameters of a request that accepts these names.
    pub(super) fn parse(query: Option<&str>, known: &[&str]) -> Result<Self, ApiError> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for part in query
            .unwrap_or_default()
            .split('&')
            .filter(|p| !p.is_empty())
        {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (Some(name), Some(value)) = (decode(name), decode(value)) else {
                return Err(ApiError::bad(format!(
                    "`{part}` is not encoded as a part of a URL: expected UTF-8 with %XX"
                )));
            };
            if !known.contains(&name.as_str()) {
                let advice = advice(&name, known.iter().copied());
                return Err(ApiError::bad(format!(
                    "unknown parameter `{name}`; {advice}"
                )));
            }
            if pairs.iter().any(|(n, _)| *n == name) {
                return Err(ApiError::bad(format!("parameter `{name}` is given twice")));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }

    pub(super) fn required(&self, name: &str) -> Result<&str, ApiError> {
        self.get(name)
            .ok_or_else(|| ApiError::bad(format!("parameter `{name}` is missing")))
    }

    /// Reads a parameter that names a vertex.
    pub(super) fn vertex_name(&self, name: &str) -> Result<VertexName, ApiError> {
        Ok(VertexName::parse(self.required(name)?)?)
    }

    /// Reads the parameter `type`.
    pub(super) fn vertex_type(&self, schema: &Schema) -> Result<VertexTypeId, ApiError> {
        Ok(schema.vertex_type_id(self.required("type")?)?)
    }

    /// Reads the parameter `as_of`; the default is now.
    pub(super) fn as_of(&self) -> Result<Version, ApiError> {
        Ok(match self.get("as_of") {
            None | Some("now") => Version::MAX,
            Some(text) => Version::parse_as_of(text)?,
        })
    }

    /// Reads a non-negative integer.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        match self.get(name) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                ApiError::bad(format!(
                    "parameter `{name}`: expected a whole number; got `{text}`"
                ))
            }),
        }
    }

    /// Reads an integer that may be negative.
    pub(super) fn integer(&self, name: &str) -> Result<Option<i64>, ApiError> {
        match self.get(name) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                ApiError::bad(format!(
                    "parameter `{name}`: expected a whole number; got `{text}`"
                ))
            }),
        }
    }

    /// Reads a Boolean: false if it is absent, true if it has no value.
    pub(super) fn flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("true" | "") => Ok(true),
            Some(other) => Err(ApiError::bad(format!(
                "parameter `{name}`: expected true or false; got `{other}`"
            ))),
        }
    }

    /// Reads the principal: `uid`, and `gids` separated by commas.
    pub(super) fn principal(&self) -> Result<Option<Principal>, ApiError> {
        let gids = self.get("gids").map(|list| {
            let gids = list.split(',').filter(|g| !g.is_empty());
            gids.map(str::parse).collect::<Result<Vec<i64>, _>>()
        });
        let gids = gids.transpose().map_err(|_| {
            ApiError::bad("parameter `gids`: expected whole numbers with commas".into())
        })?;
        match (self.integer("uid")?, gids) {
            (Some(uid), gids) => Ok(Some(Principal {
                uid,
                gids: gids.unwrap_or_default(),
            })),
            (None, None) => Ok(None),
            (None, Some(_)) => Err(ApiError::bad("parameter `gids` needs `uid`".into())),
        }
    }

    /// Adds a segment of the path as a parameter.
    pub(super) fn with(mut self, name: &str, value: &str) -> Result<Self, ApiError> {
        let Some(value) = decode_path(value) else {
            return Err(ApiError::bad(format!(
                "`{value}` is not encoded as a part of a URL: expected UTF-8 with %XX"
            )));
        };
        self.0.push((name.to_owned(), value));
        Ok(self)
    }

    /// Reads the parameter `limit`.
    pub(super) fn limit(&self) -> Result<usize, ApiError> {
        Self::limit_of(self.number("limit")?)
    }

    /// Checks a limit and applies its default.
    pub(super) fn limit_of(limit: Option<u64>) -> Result<usize, ApiError> {
        const DEFAULT: u64 = 1_000;
        const MOST: u64 = 100_000;
        let limit = limit.unwrap_or(DEFAULT);
        if !(1..=MOST).contains(&limit) {
            return Err(ApiError::bad(format!(
                "parameter `limit`: expected 1 to {MOST}; got {limit}"
            )));
        }
        Ok(limit as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_checked() {
        let query = Query::parse(Some("id=file:/a%20b+c%2Fd&limit=7"), &["id", "limit"]).unwrap();
        assert_eq!(query.get("id"), Some("file:/a b c/d"));
        assert_eq!(query.limit().unwrap(), 7);
        for (text, expected) in [
            (
                "ids=1",
                "unknown parameter `ids`; did you mean `id`? (expected one of: id)",
            ),
            ("id=1&id=2", "parameter `id` is given twice"),
            ("id=%zz", "is not encoded"),
            ("id=%ff", "is not encoded"),
            ("id=%4", "is not encoded"),
        ] {
            let refused = Query::parse(Some(text), &["id"]).unwrap_err();
            assert!(
                refused.message().contains(expected),
                "{text}: {}",
                refused.message()
            );
        }
    }
}
