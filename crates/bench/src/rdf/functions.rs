//! Generated literals, and one query for each SPARQL function: the function's value of each literal is bound and counted.

use crate::random::Random;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Queries by name, with the property of the literals and the expression over the literal `?v`.
const QUERIES: [(&str, &str, &str); 46] = [
    ("replace-class", "text", "REPLACE(?v, '[aeiou]', 'x')"),
    ("replace-text", "text", "REPLACE(?v, 'wind', 'storm')"),
    ("regex", "text", "IF(REGEX(?v, '^wi.*n'), 1, 0)"),
    ("contains", "text", "IF(CONTAINS(?v, 'wind'), 1, 0)"),
    ("strstarts", "text", "IF(STRSTARTS(?v, 'wind'), 1, 0)"),
    ("strends", "text", "IF(STRENDS(?v, 'wind'), 1, 0)"),
    ("strlen", "text", "STRLEN(?v)"),
    ("ucase", "text", "UCASE(?v)"),
    ("substr", "text", "SUBSTR(?v, 3, 4)"),
    ("strbefore", "text", "STRBEFORE(?v, ' ')"),
    ("strafter", "text", "STRAFTER(?v, ' ')"),
    ("concat", "text", "CONCAT(?v, '-x')"),
    ("encode-for-uri", "text", "ENCODE_FOR_URI(?v)"),
    ("strlang", "text", "STRLANG(?v, 'en')"),
    ("strdt", "text", "STRDT(?v, :type)"),
    ("md5", "text", "MD5(?v)"),
    ("sha256", "text", "SHA256(?v)"),
    (
        "iri",
        "text",
        "IRI(CONCAT('http://example.org/', STR(STRLEN(?v))))",
    ),
    ("in", "text", "IF(?v IN ('wind', 'ocean'), 1, 0)"),
    ("coalesce", "text", "COALESCE(?u, ?v)"),
    ("lang", "tagged", "LANG(?v)"),
    (
        "langmatches",
        "tagged",
        "IF(LANGMATCHES(LANG(?v), 'en'), 1, 0)",
    ),
    ("abs", "decimal", "ABS(?v)"),
    ("ceil", "decimal", "CEIL(?v)"),
    ("floor", "decimal", "FLOOR(?v)"),
    ("round", "decimal", "ROUND(?v)"),
    ("add-decimal", "decimal", "?v + 1"),
    ("multiply-decimal", "decimal", "?v * 2.5"),
    ("divide-decimal", "decimal", "?v / 3"),
    ("compare-decimal", "decimal", "IF(?v > 10.5, 1, 0)"),
    ("cast-double", "decimal", "xsd:double(?v)"),
    ("cast-float", "decimal", "xsd:float(?v)"),
    ("cast-integer", "decimal", "xsd:integer(?v)"),
    ("cast-string", "decimal", "xsd:string(?v)"),
    ("cast-boolean", "decimal", "xsd:boolean(?v)"),
    ("datatype", "decimal", "DATATYPE(?v)"),
    ("str", "decimal", "STR(?v)"),
    ("multiply-double", "double", "?v * 2.5"),
    ("multiply-integer", "integer", "?v * 3"),
    ("year", "time", "YEAR(?v)"),
    ("seconds", "time", "SECONDS(?v)"),
    ("timezone", "time", "TIMEZONE(?v)"),
    ("tz", "time", "TZ(?v)"),
    ("cast-datetime", "time", "xsd:dateTime(STR(?v))"),
    (
        "subtract-times",
        "time",
        "?v - '2020-01-01T00:00:00Z'^^xsd:dateTime",
    ),
    (
        "compare-times",
        "time",
        "IF(?v > '2020-01-01T00:00:00Z'^^xsd:dateTime, 1, 0)",
    ),
];

/// Writes the queries to files of a folder; returns their paths.
pub(super) fn write_queries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let write = |(name, property, expression): (&str, &str, &str)| {
        let path = folder.join(format!("{name}.rq"));
        let text = format!(
            "PREFIX : <http://example.org/>\nPREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n\
             SELECT (COUNT(?x) AS ?count) {{ ?s :{property} ?v BIND({expression} AS ?x) }}\n"
        );
        std::fs::write(&path, text)?;
        Ok(path)
    };
    QUERIES.into_iter().map(write).collect()
}

/// Writes N-Triples with this number of literals of each kind.
pub(super) fn write(rows: u32, to: &mut dyn Write) -> io::Result<()> {
    const WORDS: [&str; 8] = [
        "wind",
        "pressure",
        "ocean",
        "hurricane",
        "north",
        "model",
        "run",
        "tas",
    ];
    const XSD: &str = "http://www.w3.org/2001/XMLSchema#";
    let mut random = Random::new(1);
    let mut below = |n: u64| random.next() % n;
    for row in 0..rows {
        let mut literal = |property: &str, literal: String| {
            writeln!(
                to,
                "<http://example.org/{row}> <http://example.org/{property}> {literal} ."
            )
        };
        let mut word = || WORDS[below(WORDS.len() as u64) as usize];
        literal(
            "text",
            format!("\"{} {} {row} {}\"", word(), word(), word()),
        )?;
        literal("tagged", format!("\"{} {row}\"@en", word()))?;
        let mut thousandths = || below(2_000_000) as f64 / 1_000.0 - 1_000.0;
        literal(
            "decimal",
            format!("\"{:.3}\"^^<{XSD}decimal>", thousandths()),
        )?;
        literal(
            "double",
            format!("\"{:.3}E0\"^^<{XSD}double>", thousandths()),
        )?;
        literal("integer", format!("\"{}\"^^<{XSD}integer>", below(1 << 31)))?;
        let (year, month, day) = (2010 + below(16), 1 + below(12), 1 + below(28));
        let (hour, minute, second) = (below(24), below(60), below(60));
        literal(
            "time",
            format!(
                "\"{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z\"^^<{XSD}dateTime>"
            ),
        )?;
    }
    Ok(())
}
