//! Arguments of requests.

use super::fault::Fault;
use super::list::{List, Position, Prefix, application};
use super::token;
use esker_model::object::ObjectId;
use jiff::Timestamp;

/// Requests of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verb {
    Identify,
    ListMetadataFormats(Option<ObjectId>),
    ListSets,
    GetRecord(ObjectId, Prefix),
    List(List),
}

/// Arguments of a verb: required ones and optional ones.
const ARGUMENTS: [(&str, &[&str], &[&str]); 6] = [
    ("Identify", &[], &[]),
    ("ListMetadataFormats", &[], &["identifier"]),
    ("ListSets", &[], &["resumptionToken"]),
    ("GetRecord", &["identifier", "metadataPrefix"], &[]),
    (
        "ListIdentifiers",
        &["metadataPrefix"],
        &["from", "until", "set", "resumptionToken"],
    ),
    (
        "ListRecords",
        &["metadataPrefix"],
        &["from", "until", "set", "resumptionToken"],
    ),
];

impl Verb {
    /// Checks and reads the arguments of a request; `host` is part of identifiers.
    pub(crate) fn parse(arguments: &[(String, String)], host: &str) -> Result<Self, Fault> {
        let get = |name: &str| {
            let mut all = arguments.iter().filter(|(n, _)| n == name);
            all.next().map(|(_, value)| value.as_str())
        };
        let verbs = arguments.iter().filter(|(name, _)| name == "verb").count();
        let known = ARGUMENTS.map(|(name, _, _)| name).join(", ");
        let verb = match (get("verb"), verbs) {
            (Some(verb), 1) => verb,
            (None, _) => {
                let message = format!("the argument verb is missing; expected one of {known}");
                return Err(Fault::new("badVerb", message));
            }
            (Some(_), _) => {
                return Err(Fault::new("badVerb", "the argument verb is given twice"));
            }
        };
        let row = ARGUMENTS.iter().find(|(name, _, _)| *name == verb);
        let Some((_, required, optional)) = row else {
            let message = format!("unknown verb `{verb}`; expected one of {known}");
            return Err(Fault::new("badVerb", message));
        };
        for (at, (name, _)) in arguments.iter().enumerate() {
            let fits = name == "verb"
                || required.contains(&name.as_str())
                || optional.contains(&name.as_str());
            if !fits {
                return Err(Fault::argument(format!("{verb} has no argument `{name}`")));
            }
            if arguments.iter().take(at).any(|(before, _)| before == name) {
                return Err(Fault::argument(format!("argument `{name}` is given twice")));
            }
        }
        for (name, value) in arguments {
            if !is_repeatable(name, value) {
                return Err(Fault::argument(format!(
                    "argument `{name}` has characters that it may not have"
                )));
            }
        }
        if let Some(text) = get("resumptionToken") {
            if arguments.len() > 2 {
                return Err(Fault::argument(
                    "resumptionToken excludes all other arguments",
                ));
            }
            if verb == "ListSets" {
                return Err(token::bad(text));
            }
            let headers = verb == "ListIdentifiers";
            return token::parse(text, headers).map(Self::List);
        }
        if let Some(missing) = required.iter().find(|name| get(name).is_none()) {
            return Err(Fault::argument(format!(
                "argument `{missing}` of {verb} is missing"
            )));
        }
        let prefix = get("metadataPrefix").map(Prefix::parse).transpose()?;
        let id = get("identifier")
            .map(|text| identifier(text, host))
            .transpose()?;
        Ok(match (verb, id, prefix) {
            ("Identify", _, _) => Self::Identify,
            ("ListMetadataFormats", id, _) => Self::ListMetadataFormats(id),
            ("ListSets", _, _) => Self::ListSets,
            ("GetRecord", Some(id), Some(prefix)) => Self::GetRecord(id, prefix),
            (verb, _, prefix) => {
                let (from, until) = range(get("from"), get("until"))?;
                Self::List(List {
                    headers: verb == "ListIdentifiers",
                    prefix: prefix.unwrap_or(Prefix::DublinCore),
                    from,
                    until,
                    set: get("set").map(application).transpose()?,
                    after: Position::Objects(None),
                    done: 0,
                })
            }
        })
    }
}

/// Whether the schema of responses allows an argument's value, so that it can be repeated.
fn is_repeatable(name: &str, value: &str) -> bool {
    let word = |text: &str| {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&b);
        !text.is_empty() && text.bytes().all(fits)
    };
    match name {
        "metadataPrefix" => word(value),
        "set" => value.split(':').all(word),
        "identifier" => {
            let bytes = value.as_bytes();
            let plain = |b: &u8| b.is_ascii_graphic() && !b"<>\"{}|\\^`".contains(b);
            let encoded = bytes.iter().enumerate().all(|(at, byte)| {
                let digits = bytes.get(at + 1..at + 3);
                *byte != b'%' || digits.is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit))
            });
            !bytes.is_empty() && bytes.iter().all(plain) && encoded
        }
        _ => true,
    }
}

/// Formats the identifier of an object.
pub(crate) fn identifier_of(id: ObjectId, host: &str) -> String {
    format!("oai:{host}:object:{id}")
}

fn identifier(text: &str, host: &str) -> Result<ObjectId, Fault> {
    let number = text
        .strip_prefix("oai:")
        .and_then(|rest| rest.strip_prefix(host))
        .and_then(|rest| rest.strip_prefix(":object:"));
    number.and_then(ObjectId::of_key).ok_or_else(|| {
        let message = format!("no item `{text}`; expected oai:{host}:object:NUMBER");
        Fault::new("idDoesNotExist", message)
    })
}

/// Seconds since 1970 of a datestamp, and whether it is a day.
fn datestamp(name: &str, text: &str) -> Result<(i64, bool), Fault> {
    let is_day = text.len() == 10;
    let whole = if is_day {
        format!("{text}T00:00:00Z")
    } else {
        text.to_owned()
    };
    let form = whole.len() == 20 && whole.ends_with('Z') && !whole.contains(' ');
    let parsed = whole.parse::<Timestamp>().ok().filter(|_| form);
    let seconds = parsed.map(Timestamp::as_second).ok_or_else(|| {
        Fault::argument(format!(
            "argument `{name}`: `{text}` is not a datestamp; expected YYYY-MM-DD or YYYY-MM-DDThh:mm:ssZ"
        ))
    })?;
    Ok((seconds, is_day))
}

/// First and last second of a range of datestamps.
type Seconds = (Option<i64>, Option<i64>);

fn range(from: Option<&str>, until: Option<&str>) -> Result<Seconds, Fault> {
    let from = from.map(|text| datestamp("from", text)).transpose()?;
    let until = until.map(|text| datestamp("until", text)).transpose()?;
    if let (Some((_, a)), Some((_, b))) = (from, until)
        && a != b
    {
        return Err(Fault::argument(
            "`from` and `until` have different granularities: give two days or two times",
        ));
    }
    let first = from.map(|(seconds, _)| seconds);
    // A day lasts until its last second.
    let last = until.map(|(seconds, day)| if day { seconds + 86_399 } else { seconds });
    if let (Some(first), Some(last)) = (first, last)
        && first > last
    {
        return Err(Fault::argument("`from` is later than `until`"));
    }
    Ok((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oai::list::set_of;
    use proptest::prelude::*;

    fn parse(query: &str) -> Result<Verb, Fault> {
        let arguments: Vec<(String, String)> = query
            .split('&')
            .filter_map(|part| part.split_once('='))
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Verb::parse(&arguments, "example.org")
    }

    #[test]
    fn wrong_requests_have_the_codes_of_the_protocol() {
        for (query, code) in [
            ("", "badVerb"),
            ("verb=Harvest", "badVerb"),
            ("verb=Identify&verb=Identify", "badVerb"),
            ("verb=Identify&set=a", "badArgument"),
            ("verb=GetRecord&metadataPrefix=oai_dc", "badArgument"),
            (
                "verb=GetRecord&metadataPrefix=oai_dc&identifier=oai:example.org:object:x",
                "idDoesNotExist",
            ),
            (
                "verb=GetRecord&metadataPrefix=oai_dc&identifier=oai:other:object:1",
                "idDoesNotExist",
            ),
            ("verb=ListRecords", "badArgument"),
            (
                "verb=ListRecords&metadataPrefix=marc",
                "cannotDisseminateFormat",
            ),
            (
                "verb=ListRecords&metadataPrefix=oai_dc&metadataPrefix=oai_dc",
                "badArgument",
            ),
            (
                "verb=ListRecords&metadataPrefix=oai_dc&from=2026",
                "badArgument",
            ),
            (
                "verb=ListRecords&metadataPrefix=oai_dc&from=2026-02-30",
                "badArgument",
            ),
            (
                "verb=ListRecords&metadataPrefix=oai_dc&from=2026-01-02&until=2026-01-01",
                "badArgument",
            ),
            (
                "verb=ListRecords&metadataPrefix=oai_dc&from=2026-01-02&until=2026-01-03T00:00:00Z",
                "badArgument",
            ),
            (
                "verb=ListRecords&metadataPrefix=oai_dc&set=vpic",
                "noRecordsMatch",
            ),
            ("verb=ListRecords&resumptionToken=x", "badResumptionToken"),
            (
                "verb=ListRecords&metadataPrefix=oai_dc&resumptionToken=x",
                "badArgument",
            ),
            ("verb=ListSets&resumptionToken=x", "badResumptionToken"),
            ("verb=ListRecords&metadataPrefix=a b", "badArgument"),
            (
                "verb=ListRecords&metadataPrefix=oai_dc&set=a b",
                "badArgument",
            ),
            ("verb=ListMetadataFormats&identifier=%% <x>", "badArgument"),
        ] {
            let fault = parse(query).unwrap_err();
            assert_eq!(fault.code, code, "{query}: {}", fault.message);
        }
    }

    #[test]
    fn a_day_lasts_until_its_last_second() {
        let day = "verb=ListRecords&metadataPrefix=oai_dc&from=1970-01-02&until=1970-01-02";
        let Verb::List(list) = parse(day).unwrap() else {
            panic!("{day}")
        };
        assert_eq!((list.from, list.until), (Some(86_400), Some(172_799)));
    }

    proptest! {
        #[test]
        fn sets_name_applications(name in "\\PC{1,20}") {
            prop_assert_eq!(application(&set_of(&name)).unwrap(), name);
        }
    }
}
