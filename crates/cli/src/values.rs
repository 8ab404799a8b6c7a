//! `name=value` and `name:kind=value`: attributes and properties on the command line.
//!
//! A predefined attribute has the kind of its definition in the schema. Any other has the kind that is written (`name:i64=5`), else the
//! kind that its value looks like: `true`, `42`, `0.5`, `2026-03-01T12:00:00Z`, `[1, 2]`, `null`; all else is a string.
//! `docs/book/values.md` is the page for users.

use esker_model::filter::SPECIAL_NAMES;
use esker_model::limits::LIST_DEPTH_MAX;
use esker_model::object::{ID_ATTRIBUTES, object_type};
use esker_model::schema::check_attribute_name;
use esker_model::{AttributeDefinition, Properties, Schema, Value, ValueKind, VertexTypeId};
use esker_terminal::exit::usage;
use jiff::Timestamp;
use jiff::civil;
use serde_json::Value as Json;

/// One `name=value` as the user wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// Name of the attribute or property.
    pub(crate) name: String,
    /// The kind of the value, if the user wrote one.
    pub(crate) kind: Option<ValueKind>,
    /// The text after the first `=`.
    pub(crate) text: String,
}

impl Assignment {
    /// Splits `name=value` or `name:kind=value`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some((left, value)) = text.split_once('=') else {
            return Err(format!(
                "`{text}` sets nothing: expected NAME=VALUE or NAME:KIND=VALUE, as in size=42 or run:string=42"
            ));
        };
        // Names may contain colons (`dc:title`): the text after the last colon is a kind only if it names one.
        let kind = left
            .rsplit_once(':')
            .and_then(|(name, kind)| Some((name, ValueKind::from_name(kind)?)));
        let (name, kind) = match kind {
            Some((name, kind)) => (name, Some(kind)),
            None => (left, None),
        };
        check_attribute_name(name).map_err(|e| e.to_string())?;
        Ok(Self {
            name: name.to_owned(),
            kind,
            text: value.to_owned(),
        })
    }

    /// Returns the value of an attribute of that vertex type, and whether the attribute is predefined.
    pub(crate) fn value_for(
        &self,
        schema: &Schema,
        vertex_type: VertexTypeId,
    ) -> anyhow::Result<(Value, bool)> {
        let Some(defined) = schema.attribute(vertex_type, &self.name) else {
            return Ok((self.value()?, false));
        };
        if let Some(kind) = self.kind
            && kind != defined.kind
            && defined.kind != ValueKind::Any
        {
            return Err(self.wrong_kind(
                schema,
                vertex_type,
                defined,
                &format!("`:{}`", kind.name()),
            ));
        }
        let kind = self.kind.unwrap_or(defined.kind);
        parse_value(kind, &self.text)
            .map(|value| (value, true))
            .ok_or_else(|| {
                self.wrong_kind(schema, vertex_type, defined, &format!("`{}`", self.text))
            })
    }

    /// Returns the value of an attribute or property that no schema defines.
    pub(crate) fn value(&self) -> anyhow::Result<Value> {
        let Some(kind) = self.kind else {
            return Ok(guess(&self.text));
        };
        parse_value(kind, &self.text).ok_or_else(|| {
            usage(format!(
                "`{}:{}={}`: expected {}",
                self.name,
                kind.name(),
                self.text,
                looks_like(kind)
            ))
        })
    }

    fn wrong_kind(
        &self,
        schema: &Schema,
        vertex_type: VertexTypeId,
        defined: &AttributeDefinition,
        got: &str,
    ) -> anyhow::Error {
        let type_name = schema
            .vertex_type(vertex_type)
            .map_or("the vertex", |t| t.name.as_str());
        usage(format!(
            "attribute `{}` of {type_name} holds {}: expected {}; got {got}",
            self.name,
            defined.kind.name(),
            looks_like(defined.kind),
        ))
    }
}

/// One tag as the user wrote it: `NAME` alone, or an [`Assignment`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TagArg {
    /// A tag without a value.
    Bare(String),
    /// A tag with a value.
    Valued(Assignment),
}

impl TagArg {
    /// Parses `NAME`, `NAME=VALUE` or `NAME:KIND=VALUE`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.contains('=') {
            return Assignment::parse(text).map(Self::Valued);
        }
        check_attribute_name(text).map_err(|e| e.to_string())?;
        Ok(Self::Bare(text.to_owned()))
    }

    /// Returns the values of all tags; none may be a predefined attribute of objects.
    pub(crate) fn all(tags: &[Self], schema: &Schema) -> anyhow::Result<Properties> {
        let mut all = Properties::new();
        for tag in tags {
            let (name, value) = match tag {
                Self::Bare(name) => (name, Value::Null),
                Self::Valued(assignment) => (&assignment.name, assignment.value()?),
            };
            check_tag(name, schema)?;
            if all.get(name).is_some() {
                return Err(usage(format!("tag `{name}` is given twice")));
            }
            all.set(name, value);
        }
        Ok(all)
    }
}

/// Checks that objects can have a tag of that name.
pub(crate) fn check_tag(name: &str, schema: &Schema) -> anyhow::Result<()> {
    if SPECIAL_NAMES.contains(&name) {
        return Err(usage(format!(
            "`{name}` cannot be a tag: in filters it means something else ({})",
            SPECIAL_NAMES.join(", ")
        )));
    }
    let predefined = object_type(schema).is_some_and(|t| schema.attribute(t, name).is_some());
    if !predefined {
        return Ok(());
    }
    let how = if ID_ATTRIBUTES.contains(&name) {
        "an ID attribute: `esker object move` changes it"
    } else {
        "a predefined attribute: `esker object update` changes it"
    };
    Err(usage(format!("`{name}` is not a tag but {how}")))
}

/// Parses a file mode in octal: `0644`, `644` or `0o644`.
pub(crate) fn parse_mode(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    match i64::from_str_radix(digits, 8) {
        Ok(mode) if (0..=0o7777).contains(&mode) && !digits.starts_with('+') => Ok(mode),
        _ => Err(format!(
            "`{text}` is not a mode: expected octal digits as for files, as in 0640"
        )),
    }
}

fn looks_like(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Bool => "true or false",
        ValueKind::I64 => "a whole number from -2^63 to 2^63-1",
        ValueKind::F64 => "a number, as in 0.5 or 6e23",
        ValueKind::String => "any text",
        ValueKind::Bytes => "hexadecimal digits, two a byte, as in 0x00ff",
        ValueKind::Timestamp => "a time, as in 2026-03-01T12:00:00Z, 2026-03-01 or @1772366400.5",
        ValueKind::List => "a list in JSON, as in [1, \"two\"]",
        ValueKind::Any => "any value",
    }
}

/// Parses a value of that kind; `null` is a value of any kind but string.
pub(crate) fn parse_value(kind: ValueKind, text: &str) -> Option<Value> {
    if text == "null" && kind != ValueKind::String {
        return Some(Value::Null);
    }
    match kind {
        ValueKind::Bool => text.parse().ok().map(Value::Bool),
        ValueKind::I64 => text.parse().ok().map(Value::I64),
        ValueKind::F64 => text.parse().ok().map(Value::F64),
        ValueKind::String => Some(Value::String(text.to_owned())),
        ValueKind::Bytes => parse_hex(text).map(Value::Bytes),
        ValueKind::Timestamp => parse_timestamp(text).map(Value::Timestamp),
        ValueKind::List => parse_list(text),
        ValueKind::Any => Some(guess(text)),
    }
}

/// Returns the value of the kind that a text looks like.
fn guess(text: &str) -> Value {
    match text {
        "null" => return Value::Null,
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        _ => {}
    }
    if text.starts_with('[')
        && let Some(list) = parse_list(text)
    {
        return list;
    }
    if text.starts_with('"')
        && let Ok(string) = serde_json::from_str(text)
    {
        return Value::String(string);
    }
    // `007` and `+5` are not integers and `1e5`, `inf`, `nan` not numbers: these are names more often than numbers.
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.starts_with(|c: char| c.is_ascii_digit())
        && (digits == "0" || digits.starts_with("0.") || !digits.starts_with('0'));
    if plain {
        if let Ok(n) = text.parse() {
            return Value::I64(n);
        }
        let number =
            digits.contains(['.', 'e', 'E']) && digits.ends_with(|c: char| c.is_ascii_digit());
        if number && let Ok(x) = text.parse::<f64>() {
            return Value::F64(x);
        }
        if let Ok(t) = text.parse::<Timestamp>()
            && let Some(nanos) = nanos(t)
        {
            return Value::Timestamp(nanos);
        }
    }
    Value::String(text.to_owned())
}

fn nanos(t: Timestamp) -> Option<i64> {
    i64::try_from(t.as_nanosecond()).ok()
}

/// Parses RFC 3339, a date and time or a date alone (UTC), or `@SECONDS[.FRACTION]`, to nanoseconds since 1970.
fn parse_timestamp(text: &str) -> Option<i64> {
    if let Some(seconds) = text.strip_prefix('@') {
        let (sign, digits) = match seconds.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, seconds),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let whole: i64 = whole
            .parse::<u32>()
            .map(i64::from)
            .or_else(|_| whole.parse())
            .ok()?;
        let fraction: i64 = format!("{fraction:0<9}").parse().ok()?;
        return whole
            .checked_mul(1_000_000_000)?
            .checked_add(fraction)?
            .checked_mul(sign);
    }
    if let Ok(t) = text.parse::<Timestamp>() {
        return nanos(t);
    }
    let utc = |t: civil::DateTime| nanos(t.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp());
    if let Ok(date) = text.parse::<civil::Date>()
        && text.len() <= 10
    {
        return utc(date.at(0, 0, 0, 0));
    }
    utc(text.parse::<civil::DateTime>().ok()?)
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x").unwrap_or(text).as_bytes();
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |c: u8| {
        char::from(c)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    pairs
        .iter()
        .map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?))
        .collect()
}

fn parse_list(text: &str) -> Option<Value> {
    match serde_json::from_str(text).ok()? {
        Json::Array(items) => list_from_json(items, 1),
        _ => None,
    }
}

fn list_from_json(items: Vec<Json>, depth: usize) -> Option<Value> {
    if depth > LIST_DEPTH_MAX {
        return None;
    }
    let items: Option<Vec<Value>> = items
        .into_iter()
        .map(|item| match item {
            Json::Null => Some(Value::Null),
            Json::Bool(b) => Some(Value::Bool(b)),
            Json::Number(n) => n
                .as_i64()
                .map(Value::I64)
                .or_else(|| n.as_f64().map(Value::F64)),
            Json::String(s) => Some(Value::String(s)),
            Json::Array(items) => list_from_json(items, depth + 1),
            Json::Object(_) => None,
        })
        .collect();
    Some(Value::List(items?))
}

/// Parses `name:kind` of a schema command.
pub(crate) fn parse_attribute(text: &str) -> Result<AttributeDefinition, String> {
    let kinds = || ValueKind::ALL.map(ValueKind::name).join(", ");
    let Some((name, kind)) = text.rsplit_once(':') else {
        return Err(format!(
            "`{text}` defines no attribute: expected NAME:KIND, as in nodes:i64; kinds are {}",
            kinds()
        ));
    };
    let Some(kind) = ValueKind::from_name(kind) else {
        return Err(format!(
            "unknown kind `{kind}` in `{text}`: kinds are {}",
            kinds()
        ));
    };
    check_attribute_name(name).map_err(|e| e.to_string())?;
    Ok(AttributeDefinition {
        name: name.to_owned(),
        kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(text: &str) -> Value {
        Assignment::parse(text).unwrap().value().unwrap()
    }

    #[test]
    fn values_are_what_they_look_like() {
        assert_eq!(guessed("a=5"), Value::I64(5));
        assert_eq!(guessed("a=-5"), Value::I64(-5));
        assert_eq!(guessed("a=0.5"), Value::F64(0.5));
        assert_eq!(guessed("a=1e3"), Value::F64(1000.0));
        assert_eq!(guessed("a=true"), Value::Bool(true));
        assert_eq!(guessed("a=null"), Value::Null);
        assert_eq!(
            guessed("a=1970-01-01T00:00:01Z"),
            Value::Timestamp(1_000_000_000)
        );
        assert_eq!(
            guessed("a=[1, \"two\", [3.5]]"),
            Value::List(vec![1.into(), "two".into(), Value::List(vec![3.5.into()])])
        );
        for text in [
            "",
            "x",
            "007",
            "+5",
            "1.2.3",
            "inf",
            "NaN",
            "[1",
            "2026-03-01",
            "12ab",
            "5.",
            "/a=b",
        ] {
            assert_eq!(guessed(&format!("a={text}")), Value::from(text), "{text}");
        }
        assert_eq!(guessed("a=\"42\""), Value::from("42"));
        // Larger integers than 64 bits are kept as text rather than rounded.
        assert_eq!(
            guessed("a=18446744073709551616"),
            Value::from("18446744073709551616")
        );
    }

    #[test]
    fn kinds_can_be_written() {
        assert_eq!(guessed("a:string=5"), Value::from("5"));
        assert_eq!(guessed("a:f64=5"), Value::F64(5.0));
        assert_eq!(guessed("a:bytes=0x00fF"), Value::Bytes(vec![0, 255]));
        assert_eq!(
            guessed("a:timestamp=1970-01-02"),
            Value::Timestamp(86_400_000_000_000)
        );
        assert_eq!(guessed("a:timestamp=@1.5"), Value::Timestamp(1_500_000_000));
        assert_eq!(
            guessed("a:timestamp=@-1.5"),
            Value::Timestamp(-1_500_000_000)
        );
        assert_eq!(guessed("dc:title=x"), Value::from("x"));
        assert_eq!(Assignment::parse("dc:title=x").unwrap().name, "dc:title");
        for bad in [
            "a:i64=x",
            "a:bool=1",
            "a:bytes=0x0",
            "a:list=5",
            "a:timestamp=soon",
        ] {
            let error = Assignment::parse(bad).unwrap().value().unwrap_err();
            assert!(error.to_string().contains("expected"), "{error}");
        }
        assert!(Assignment::parse("a").is_err());
        assert!(Assignment::parse("=5").is_err());
    }

    #[test]
    fn predefined_attributes_take_the_kind_of_the_schema() {
        let schema = Schema::default();
        let file = schema.vertex_type_id("File").unwrap();
        let value = |text: &str| Assignment::parse(text).unwrap().value_for(&schema, file);
        assert_eq!(value("size=5").unwrap(), (Value::I64(5), true));
        assert_eq!(value("name=5").unwrap(), (Value::from("5"), true));
        assert_eq!(value("tag=5").unwrap(), (Value::I64(5), false));
        let error = value("size=big").unwrap_err().to_string();
        assert_eq!(
            error,
            "attribute `size` of File holds i64: expected a whole number from -2^63 to 2^63-1; got `big`"
        );
        assert!(value("size:string=5").is_err());
    }

    #[test]
    fn attributes_are_defined_by_name_and_kind() {
        assert_eq!(parse_attribute("dc:nodes:i64").unwrap().name, "dc:nodes");
        assert!(parse_attribute("nodes").unwrap_err().contains("NAME:KIND"));
        assert!(parse_attribute("nodes:int").unwrap_err().contains("i64"));
    }

    #[test]
    fn modes_are_octal() {
        assert_eq!(parse_mode("0640"), Ok(0o640));
        assert_eq!(parse_mode("755"), Ok(0o755));
        assert_eq!(parse_mode("0o600"), Ok(0o600));
        for bad in ["", "8", "rw", "-1", "+7", "77777"] {
            assert!(parse_mode(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn tags_may_have_no_value_and_no_predefined_name() {
        let schema = Schema::default();
        let all = |texts: &[&str]| {
            let tags: Vec<_> = texts.iter().map(|t| TagArg::parse(t).unwrap()).collect();
            TagArg::all(&tags, &schema).map_err(|e| e.to_string())
        };
        let tags = all(&["Conf_0", "energy=2.5", "run:string=7"]).unwrap();
        assert_eq!(tags.get("Conf_0"), Some(&Value::Null));
        assert_eq!(tags.get("energy"), Some(&Value::F64(2.5)));
        assert_eq!(tags.get("run"), Some(&Value::from("7")));
        assert!(all(&["a", "a=1"]).unwrap_err().contains("twice"));
        assert!(all(&["name=x"]).unwrap_err().contains("object move"));
        assert!(all(&["type=x"]).unwrap_err().contains("in filters"));
        assert!(all(&["size=1"]).unwrap_err().contains("object update"));
    }
}
