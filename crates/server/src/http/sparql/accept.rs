//! Content negotiation: the client's accepted formats and weights against the available ones.

use esker::rdf::engine::{Format, JsonLdProfileSet, RdfFormat};

const JSON: &str = "application/sparql-results+json";
const XML: &str = "application/sparql-results+xml";
const CSV: &str = "text/csv; charset=utf-8";
const TSV: &str = "text/tab-separated-values; charset=utf-8";

/// Formats of solutions, the preferred one first: content type, names in `Accept`, short names.
const SOLUTIONS: [(Format, &str, &[&str]); 4] = [
    (
        Format::Json,
        JSON,
        &[JSON, "application/json", "text/json", "json"],
    ),
    (
        Format::Xml,
        XML,
        &[XML, "application/xml", "text/xml", "xml"],
    ),
    (Format::Csv, CSV, &["text/csv", "csv"]),
    (Format::Tsv, TSV, &["text/tab-separated-values", "tsv"]),
];

/// JSON-LD without a profile.
pub(super) const JSON_LD: RdfFormat = RdfFormat::JsonLd {
    profile: JsonLdProfileSet::empty(),
};

/// Formats of graphs, in the same form.
const GRAPHS: [(RdfFormat, &str, &[&str]); 4] = [
    (
        RdfFormat::Turtle,
        "text/turtle; charset=utf-8",
        &["text/turtle", "application/x-turtle", "turtle", "ttl"],
    ),
    (
        RdfFormat::NTriples,
        "application/n-triples",
        &["application/n-triples", "text/plain", "n-triples", "nt"],
    ),
    (
        RdfFormat::RdfXml,
        "application/rdf+xml",
        &[
            "application/rdf+xml",
            "application/xml",
            "text/xml",
            "rdf",
            "xml",
        ],
    ),
    (
        JSON_LD,
        "application/ld+json",
        &[
            "application/ld+json",
            "application/json",
            "json-ld",
            "jsonld",
            "json",
        ],
    ),
];

/// A format and its content type.
pub(super) type ChosenFormat<F> = (F, &'static str);

/// Chooses a format for solutions and Boolean results.
pub(super) fn solutions(accept: &[String]) -> Result<ChosenFormat<Format>, String> {
    choose(accept, &SOLUTIONS)
}

/// Chooses a format for graphs.
pub(super) fn graphs(accept: &[String]) -> Result<ChosenFormat<RdfFormat>, String> {
    choose(accept, &GRAPHS)
}

/// Returns whether a client names JSON as such, for plans: they are text otherwise.
pub(super) fn names_json(accept: &[String]) -> bool {
    let mut names = accept.iter().flat_map(|line| line.split(',')).map(name_of);
    names.any(|name| name == "application/json" || name == "json")
}

/// Format of a graph by the content type that a client sends.
pub(super) fn sent(content_type: &str) -> Option<RdfFormat> {
    let name = name_of(content_type);
    GRAPHS
        .iter()
        .find(|(_, _, names)| names.contains(&name.as_str()) && name.contains('/'))
        .filter(|_| !matches!(name.as_str(), "application/xml" | "text/xml"))
        .map(|g| g.0)
}

/// Media type without its parameters.
pub(super) fn name_of(content_type: &str) -> String {
    content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

/// Precision with which a media range matches one of these names; 0 if it does not match.
fn exactness(range: &str, names: &[&str]) -> u8 {
    if names.contains(&range) {
        return 3;
    }
    match range.strip_suffix("/*") {
        Some("*") => 1,
        Some(family) => {
            let in_family = |n: &&str| n.split('/').next() == Some(family) && n.contains('/');
            // Only the first name counts: not every XML type is a result format.
            if names.first().is_some_and(in_family) {
                2
            } else {
                0
            }
        }
        None => 0,
    }
}

fn choose<F: Copy>(
    accept: &[String],
    formats: &[(F, &'static str, &'static [&'static str])],
) -> Result<ChosenFormat<F>, String> {
    // Ranges and their weights in thousandths.
    let ranges: Vec<(String, u32)> = accept
        .iter()
        .flat_map(|line| line.split(','))
        .map(|part| {
            let weight = part
                .split(';')
                .skip(1)
                .filter_map(|p| p.trim().strip_prefix("q="))
                .find_map(|q| q.trim().parse::<f32>().ok());
            let weight = weight.map_or(1_000, |q| (q.clamp(0.0, 1.0) * 1_000.0) as u32);
            (name_of(part), weight)
        })
        .filter(|(name, _)| !name.is_empty())
        .collect();
    let mut best: Option<(u32, usize)> = None;
    for (i, (_, _, names)) in formats.iter().enumerate() {
        // The most precise range determines the weight.
        let weight = ranges
            .iter()
            .map(|(range, weight)| (exactness(range, names), *weight))
            .filter(|(exact, _)| *exact > 0)
            .max()
            .map_or(0, |(_, weight)| weight);
        if weight > 0 && best.is_none_or(|(most, _)| weight > most) {
            best = Some((weight, i));
        }
    }
    let at = match best {
        Some((_, at)) => Some(at),
        None if ranges.is_empty() => Some(0),
        None => None,
    };
    at.and_then(|i| formats.get(i))
        .map(|f| (f.0, f.1))
        .ok_or_else(|| {
            let there: Vec<&str> = formats.iter().map(|f| f.2[0]).collect();
            format!(
                "none of the formats that the client accepts ({}) is one of this answer; there are {}",
                accept.join(", "),
                there.join(", ")
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(accept: &str) -> Result<Format, String> {
        solutions(&[accept.to_owned()]).map(|f| f.0)
    }

    #[test]
    fn the_heaviest_wins_and_the_first_of_the_same_weight() {
        assert_eq!(solutions(&[]).unwrap().0, Format::Json);
        assert_eq!(of("*/*").unwrap(), Format::Json);
        assert_eq!(of(XML).unwrap(), Format::Xml);
        assert_eq!(
            of("application/sparql-results+json;q=0.5, application/sparql-results+xml").unwrap(),
            Format::Xml
        );
        assert_eq!(of("text/csv;q=0.2, */*;q=0.1").unwrap(), Format::Csv);
        assert_eq!(of("text/*").unwrap(), Format::Csv);
        assert_eq!(
            of("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8").unwrap(),
            Format::Xml
        );
        assert_eq!(
            of("application/sparql-results+json;q=0, */*").unwrap(),
            Format::Xml
        );
        assert_eq!(of("tsv").unwrap(), Format::Tsv);
        assert!(
            of("text/turtle")
                .unwrap_err()
                .contains("there are application/sparql-results+json")
        );
        let graph = |a: &str| graphs(&[a.to_owned()]).unwrap().0;
        assert_eq!(graph("*/*"), RdfFormat::Turtle);
        assert_eq!(graph("application/rdf+xml"), RdfFormat::RdfXml);
        assert_eq!(sent("text/turtle; charset=utf-8"), Some(RdfFormat::Turtle));
        assert_eq!(sent("application/xml"), None);
        assert_eq!(sent("json"), None);
    }
}
