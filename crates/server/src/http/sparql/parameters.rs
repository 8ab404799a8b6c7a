//! Parameters of the SPARQL protocol: names may be repeated, and unknown names are ignored, because clients add their own.

use crate::http::percent::decode;
use esker_model::object::Principal;

/// Names and values in their order.
#[derive(Debug, Default, Clone)]
pub(super) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Adds the parameters of a query string or form.
    pub(super) fn read(&mut self, text: &str) -> Result<(), String> {
        for part in text.split('&').filter(|p| !p.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (Some(name), Some(value)) = (decode(name), decode(value)) else {
                let shown: String = part.chars().take(100).collect();
                return Err(format!(
                    "`{shown}` is not encoded as a part of a URL: expected UTF-8 with %XX"
                ));
            };
            self.0.push((name, value));
        }
        Ok(())
    }

    pub(super) fn all(&self, name: &str) -> Vec<String> {
        self.0
            .iter()
            .filter(|(n, _)| n == name)
            .map(|(_, v)| v.clone())
            .collect()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(n, _)| n == name)
    }

    /// Returns the value of a name that may occur once.
    pub(super) fn one(&self, name: &str) -> Result<Option<&str>, String> {
        let mut all = self.0.iter().filter(|(n, _)| n == name);
        let first = all.next().map(|(_, v)| v.as_str());
        if all.next().is_some() {
            return Err(format!("parameter `{name}` is given more than once"));
        }
        Ok(first)
    }

    /// Reads the principal: `uid`, and `gids` separated by commas.
    pub(super) fn principal(&self) -> Result<Option<Principal>, String> {
        let number = |name: &str, text: &str| {
            text.trim().parse::<i64>().map_err(|_| {
                let shown: String = text.chars().take(100).collect();
                format!("parameter `{name}`: expected whole numbers; got `{shown}`")
            })
        };
        match (self.one("uid")?, self.one("gids")?) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err("parameter `gids` needs `uid`".into()),
            (Some(uid), gids) => Ok(Some(Principal {
                uid: number("uid", uid)?,
                gids: gids
                    .into_iter()
                    .flat_map(|g| g.split(','))
                    .map(|g| number("gids", g))
                    .collect::<Result<_, _>>()?,
            })),
        }
    }

    /// Reads a Boolean: false if it is absent, true if it has no value.
    pub(super) fn flag(&self, name: &str) -> Result<bool, String> {
        match self.one(name)? {
            None | Some("false") => Ok(false),
            Some("true" | "") => Ok(true),
            Some(other) => Err(format!(
                "parameter `{name}`: expected true or false; got `{other}`"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_come_more_than_once_and_be_unknown() {
        let mut p = Parameters::default();
        p.read("query=ASK+%7B%7D&default-graph-uri=a&output=xml&default-graph-uri=b%3Ac")
            .unwrap();
        assert_eq!(p.one("query"), Ok(Some("ASK {}")));
        assert_eq!(p.all("default-graph-uri"), ["a", "b:c"]);
        assert!(p.one("default-graph-uri").is_err());
        assert!(p.read("x=%ff").unwrap_err().contains("not encoded"));
    }
}
