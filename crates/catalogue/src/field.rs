//! Fields of a record, and the tags from which they are read.

use crate::agent::Agent;
use crate::identifier::{self, License};
use crate::record::Record;
use crate::time;
use esker_model::Value;
use std::fmt;

/// A field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// Title.
    Title,
    /// Description.
    Description,
    /// Authors.
    Creator,
    /// Other contributors.
    Contributor,
    /// Publisher.
    Publisher,
    /// Licence.
    License,
    /// DOI.
    Doi,
    /// Keywords.
    Keyword,
    /// Language of the content.
    Language,
    /// Version of the content.
    Version,
    /// Date of publication.
    Issued,
    /// Media type of the content.
    MediaType,
    /// SHA-256 of the content.
    Sha256,
    /// Address of the content.
    Url,
}

/// A field with its name and the tags that are read for it.
type Row = (Field, &'static str, &'static [&'static str]);

/// All fields; the first tag that an item has gives the value.
const FIELDS: [Row; 14] = [
    (
        Field::Title,
        "title",
        &["title", "dc:title", "dcterms:title"],
    ),
    (
        Field::Description,
        "description",
        &[
            "description",
            "abstract",
            "dc:description",
            "dcterms:description",
        ],
    ),
    (
        Field::Creator,
        "creator",
        &[
            "creator",
            "creators",
            "author",
            "authors",
            "dc:creator",
            "dcterms:creator",
        ],
    ),
    (
        Field::Contributor,
        "contributor",
        &["contributor", "contributors", "dc:contributor"],
    ),
    (
        Field::Publisher,
        "publisher",
        &["publisher", "dc:publisher", "dcterms:publisher"],
    ),
    (
        Field::License,
        "license",
        &[
            "license",
            "licence",
            "rights",
            "dc:rights",
            "dcterms:license",
        ],
    ),
    (Field::Doi, "doi", &["doi", "DOI"]),
    (
        Field::Keyword,
        "keyword",
        &["keyword", "keywords", "subject", "subjects", "dc:subject"],
    ),
    (
        Field::Language,
        "language",
        &["language", "dc:language", "dcterms:language"],
    ),
    (
        Field::Version,
        "version",
        &["data_version", "release", "dcterms:hasVersion"],
    ),
    (
        Field::Issued,
        "issued",
        &[
            "issued",
            "publication_date",
            "publication_year",
            "date",
            "dc:date",
            "dcterms:issued",
        ],
    ),
    (
        Field::MediaType,
        "media_type",
        &["media_type", "content_type", "format", "dc:format"],
    ),
    (Field::Sha256, "sha256", &["sha256", "checksum"]),
    (Field::Url, "url", &["url", "download_url"]),
];

impl Field {
    /// Iterates over all fields.
    pub fn all() -> impl Iterator<Item = Self> {
        FIELDS.iter().map(|(field, _, _)| *field)
    }

    fn row(self) -> &'static Row {
        let index = FIELDS.iter().position(|(field, _, _)| *field == self);
        &FIELDS[index.unwrap_or(0)]
    }

    /// Name of the field, as in `--set FIELD=VALUE`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Names of the tags from which the field is read, the preferred one first.
    pub fn tags(self) -> &'static [&'static str] {
        self.row().2
    }

    fn of_tag(tag: &str) -> Option<Self> {
        let mut rows = FIELDS.iter();
        let row = rows.find(|(_, _, tags)| tags.contains(&tag))?;
        Some(row.0)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Values of fields that take precedence over tags, in the order in which they were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides(Vec<(Field, String)>);

impl Overrides {
    /// Adds `FIELD=VALUE`. A field that holds several values, such as the keywords, may be given again.
    ///
    /// # Errors
    /// Returns a message that says what was expected.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let known = || {
            let names: Vec<&str> = Field::all().map(Field::name).collect();
            names.join(", ")
        };
        let Some((name, value)) = text.split_once('=') else {
            return Err(format!(
                "`{text}`: expected FIELD=VALUE; fields are {}",
                known()
            ));
        };
        let field = Field::all().find(|field| field.name() == name.trim());
        let Some(field) = field else {
            return Err(format!(
                "unknown field `{name}`; expected one of {}",
                known()
            ));
        };
        let several = matches!(field, Field::Creator | Field::Contributor | Field::Keyword);
        if !several && self.0.iter().any(|(given, _)| *given == field) {
            return Err(format!("field `{field}` is given twice"));
        }
        // A value given by hand is checked at once, and not left out with a remark as a tag's is.
        check(field, value).map_err(|why| format!("field `{field}`: {why}"))?;
        self.0.push((field, value.to_owned()));
        Ok(())
    }

    fn of(&self, field: Field) -> Vec<String> {
        let given = self.0.iter().filter(|(f, _)| *f == field);
        given.map(|(_, value)| value.clone()).collect()
    }
}

/// Checks the value of a field whose values have a form.
fn check(field: Field, value: &str) -> Result<(), String> {
    match field {
        Field::Creator | Field::Contributor => Agent::parse(value).map(drop),
        Field::Doi if identifier::doi(value).is_none() => {
            Err(format!("`{value}` is not a DOI: expected 10.PREFIX/SUFFIX"))
        }
        Field::Issued if time::parse_date(value).is_none() => Err(format!(
            "`{value}` is not a date: expected YYYY, YYYY-MM or YYYY-MM-DD"
        )),
        Field::Language if !is_language(value) => Err(format!(
            "`{value}` is not a language: expected a tag such as en or de-CH"
        )),
        Field::MediaType if !is_media_type(value) => Err(format!(
            "`{value}` is not a media type: expected TYPE/SUBTYPE such as text/csv"
        )),
        Field::Sha256 if !identifier::is_sha256(value) => Err(format!(
            "`{value}` is not a SHA-256: expected 64 hexadecimal digits"
        )),
        Field::Url if !identifier::is_url(value) => Err(format!(
            "`{value}` is not an address: expected https://… or http://…"
        )),
        _ if value.trim().is_empty() => Err("the value is empty".into()),
        _ => Ok(()),
    }
}

fn is_language(text: &str) -> bool {
    let mut parts = text.split('-');
    let first = parts.next().unwrap_or_default();
    (2..=3).contains(&first.len())
        && first.bytes().all(|b| b.is_ascii_alphabetic())
        && parts.all(|part| {
            (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
        })
}

fn is_media_type(text: &str) -> bool {
    let token = |part: &str| {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b);
        !part.is_empty() && part.bytes().all(fits)
    };
    let kind = text.split(';').next().unwrap_or_default().trim();
    kind.split_once('/')
        .is_some_and(|(kind, subtype)| token(kind) && token(subtype))
}

/// A value as texts: one of each element of a list; a tag without a value gives none.
fn texts(value: &Value) -> Vec<String> {
    let one = |value: &Value| match value {
        Value::String(text) => Some(text.trim().to_owned()).filter(|t| !t.is_empty()),
        Value::I64(number) => Some(number.to_string()),
        Value::F64(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Timestamp(nanos) => Some(time::full(*nanos)),
        Value::Null | Value::Bytes(_) | Value::List(_) => None,
    };
    match value {
        Value::List(items) => items.iter().filter_map(one).collect(),
        value => one(value).into_iter().collect(),
    }
}

/// Values that belong to the content of a file and not to the record.
#[derive(Debug, Default)]
pub(crate) struct ContentFields {
    pub(crate) media_type: Option<String>,
    pub(crate) sha256: Option<String>,
    pub(crate) url: Option<String>,
}

/// Fills the fields of a record from an item's tags and from values that take precedence over them. Tags of no field are listed in the
/// record; a value of a wrong form is left out, and the record says so.
pub(crate) fn fill<'a>(
    record: &mut Record,
    tags: impl Iterator<Item = (&'a str, &'a Value)>,
    overrides: &Overrides,
) -> ContentFields {
    let mut content = ContentFields::default();
    let mut found: Vec<(Field, usize, &str, Vec<String>)> = Vec::new();
    for (tag, value) in tags {
        let values = texts(value);
        match Field::of_tag(tag) {
            Some(field) => {
                let rank = field.tags().iter().position(|t| *t == tag).unwrap_or(0);
                found.push((field, rank, tag, values));
            }
            None if values.is_empty() => record.tags.push((tag.to_owned(), String::new())),
            None => record.tags.push((tag.to_owned(), values.join(", "))),
        }
    }
    found.sort_by_key(|(field, rank, _, _)| (*field, *rank));
    for field in Field::all() {
        let given = overrides.of(field);
        if given.is_empty() {
            let tag = found
                .iter()
                .find(|(f, _, _, values)| *f == field && !values.is_empty());
            if let Some((_, _, tag, values)) = tag {
                let place = format!("tag `{tag}`");
                set(record, &mut content, field, &place, values);
            }
        } else {
            let place = format!("field `{field}`");
            set(record, &mut content, field, &place, &given);
        }
    }
    content
}

fn set(
    record: &mut Record,
    content: &mut ContentFields,
    field: Field,
    place: &str,
    values: &[String],
) {
    let mut good = Vec::new();
    for value in values {
        match check(field, value) {
            Ok(()) => good.push(value.clone()),
            Err(why) => record
                .problems
                .push(format!("{place}: {why}; the record leaves it out")),
        }
    }
    let joined = || good.join("; ");
    let Some(first) = good.first().cloned() else {
        return;
    };
    let agents = || {
        good.iter()
            .filter_map(|text| Agent::parse(text).ok())
            .collect()
    };
    match field {
        Field::Title => record.title = joined(),
        Field::Description => record.description = Some(good.join("\n\n")),
        Field::Creator => record.creators = agents(),
        Field::Contributor => record.contributors = agents(),
        Field::Publisher => record.publisher = Some(joined()),
        Field::License => record.license = Some(License::parse(&first)),
        Field::Doi => record.doi = identifier::doi(&first),
        Field::Keyword => {
            // A single text may hold several keywords, as in forms; the items of a list are whole.
            let separators: &[char] = if good.len() == 1 { &[',', ';'] } else { &[] };
            let words = good.iter().flat_map(|text| text.split(separators));
            for word in words.map(str::trim).filter(|word| !word.is_empty()) {
                if !record.keywords.iter().any(|known| known == word) {
                    record.keywords.push(word.to_owned());
                }
            }
        }
        Field::Language => record.language = Some(first),
        Field::Version => record.version = Some(first),
        Field::Issued => record.issued = time::parse_date(&first),
        Field::MediaType => content.media_type = Some(first),
        Field::Sha256 => content.sha256 = Some(first.to_ascii_lowercase()),
        Field::Url => content.url = Some(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ItemKind;

    fn empty() -> Record {
        crate::collect::blank("object:1".into(), ItemKind::Object, None)
    }

    #[test]
    fn preferred_tags_win_and_overrides_win_over_tags() {
        let tags = [
            ("dc:title", Value::from("second")),
            ("title", Value::from("first")),
            (
                "authors",
                Value::List(vec!["Curie, Marie".into(), "x <y>".into()]),
            ),
            ("keywords", Value::from("physics, radium; physics")),
            ("doi", Value::from("not one")),
            ("publication_year", Value::I64(1903)),
            ("energy", Value::F64(2.5)),
            ("checked", Value::Null),
        ];
        let mut record = empty();
        let mut overrides = Overrides::default();
        overrides.add("publisher=A centre").unwrap();
        fill(&mut record, tags.iter().map(|(n, v)| (*n, v)), &overrides);
        assert_eq!(record.title, "first");
        assert_eq!(record.creators.len(), 1);
        assert_eq!(record.keywords, ["physics", "radium"]);
        assert_eq!(record.issued.as_deref(), Some("1903"));
        assert_eq!(record.year().as_deref(), Some("1903"));
        assert_eq!(record.publisher.as_deref(), Some("A centre"));
        let tags: Vec<_> = record
            .tags
            .iter()
            .map(|(n, v)| format!("{n}={v}"))
            .collect();
        assert_eq!(tags, ["energy=2.5", "checked="]);
        assert_eq!(record.problems.len(), 2, "{:?}", record.problems);
        assert!(record.problems[0].starts_with("tag `authors`: `x <y>`: expected an address"));
        assert!(record.problems[1].starts_with("tag `doi`: `not one` is not a DOI"));
        assert_eq!(record.missing(), ["description", "license"]);
    }

    #[test]
    fn wrong_overrides_are_refused() {
        for (text, expected) in [
            (
                "title",
                "expected FIELD=VALUE; fields are title, description",
            ),
            (
                "heading=x",
                "unknown field `heading`; expected one of title",
            ),
            ("title=", "field `title`: the value is empty"),
            ("issued=soon", "field `issued`: `soon` is not a date"),
            ("language=english!", "is not a language"),
            ("media_type=csv", "is not a media type"),
            ("sha256=12", "is not a SHA-256"),
            ("url=/a", "is not an address"),
        ] {
            let refused = Overrides::default().add(text).unwrap_err();
            assert!(refused.contains(expected), "{text}: {refused}");
        }
        let mut overrides = Overrides::default();
        overrides.add("keyword=a").unwrap();
        overrides.add("keyword=b").unwrap();
        overrides.add("title=a").unwrap();
        assert!(overrides.add("title=b").is_err());
    }
}
