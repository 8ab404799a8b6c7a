//! Parsing of queries and updates; errors have line, column, caret, and a suggestion.

use crate::error::{Error, Result, SyntaxError};
use crate::nesting::{self, LINKS_MAX, NEGATED_MAX, NESTED_MAX, NestingError};
use spargebra::{Query, SparqlParser, Update};
use std::borrow::Cow;

/// Well-known prefixes, suggested where they are used without a declaration.
const WELL_KNOWN_PREFIXES: [(&str, &str); 12] = [
    ("rdf", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"),
    ("rdfs", "http://www.w3.org/2000/01/rdf-schema#"),
    ("xsd", "http://www.w3.org/2001/XMLSchema#"),
    ("owl", "http://www.w3.org/2002/07/owl#"),
    ("foaf", "http://xmlns.com/foaf/0.1/"),
    ("dc", "http://purl.org/dc/elements/1.1/"),
    ("dcterms", "http://purl.org/dc/terms/"),
    ("prov", "http://www.w3.org/ns/prov#"),
    ("skos", "http://www.w3.org/2004/02/skos/core#"),
    ("schema", "http://schema.org/"),
    ("dcat", "http://www.w3.org/ns/dcat#"),
    ("void", "http://rdfs.org/ns/void#"),
];

/// Limit of expected words in a message.
const EXPECTED_MAX: usize = 12;

fn parser(base: Option<&str>) -> Result<SparqlParser> {
    let parser = SparqlParser::new();
    match base {
        Some(base) => parser
            .with_base_iri(base)
            .map_err(|e| Error::Refused(format!("the base IRI {base} is not one: {e}"))),
        None => Ok(parser),
    }
}

/// Parses a query, within limits.
pub fn query(text: &str, base: Option<&str>) -> Result<Query> {
    let text = bounded(text)?;
    parser(base)?
        .parse_query(&text)
        .map_err(|e| syntax_error(&text, &e.to_string()))
}

/// Parses an update, within limits.
pub fn update(text: &str, base: Option<&str>) -> Result<Update> {
    let text = bounded(text)?;
    parser(base)?
        .parse_update(&text)
        .map_err(|e| syntax_error(&text, &e.to_string()))
}

/// Returns whether the outermost SELECT has `*`.
pub(crate) fn selects_all(text: &str) -> bool {
    let head = text
        .split('{')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let Some((_, after)) = head.rsplit_once("select") else {
        return false;
    };
    let after = after.trim_start();
    let after = after
        .strip_prefix("distinct")
        .or_else(|| after.strip_prefix("reduced"))
        .unwrap_or(after);
    after.trim_start().starts_with('*')
}

/// Returns the position of a variable's first use.
pub(crate) fn first_use(text: &str, name: &str) -> usize {
    let mut from = 0;
    while let Some(i) = text.get(from..).and_then(|t| t.find(name)) {
        let at = from + i;
        let before = text[..at].ends_with(['?', '$']);
        let after = text[at + name.len()..]
            .chars()
            .next()
            .is_some_and(|c| c.is_alphanumeric() || c == '_');
        if before && !after {
            return at;
        }
        from = at + name.len();
    }
    usize::MAX
}

/// Returns the text to parse in place of `text`, with limits on nesting, because the parser is recursive.
fn bounded(text: &str) -> Result<Cow<'_, str>> {
    nesting::bounded(text).map_err(|error| {
        let (i, message, advice) = match error {
            NestingError::Deep(i) => (
                i,
                format!("more than {NESTED_MAX} brackets within brackets"),
                "a flatter query",
            ),
            NestingError::Long(i) => (
                i,
                format!("more than {LINKS_MAX} brackets and operations"),
                "several smaller requests, or a load of data",
            ),
            NestingError::Negated(i) => (
                i,
                format!("more than {NEGATED_MAX} negations within negations"),
                "a flatter expression",
            ),
            NestingError::Escape(i) => (
                i,
                "unknown escape".to_owned(),
                r#"expected one of \t, \b, \n, \r, \f, \", \', \\, or \u or \U with a character's number"#,
            ),
        };
        let before = text.get(..i).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let row = before.rsplit('\n').next().unwrap_or_default();
        at(text, line, row.chars().count() + 1, &message, advice)
    })
}

/// Converts the parser's message `error at LINE:COLUMN: expected …`.
fn syntax_error(text: &str, message: &str) -> Error {
    let place = message
        .split("error at ")
        .nth(1)
        .and_then(|rest| rest.split_once(": "))
        .and_then(|(place, what)| {
            let (line, column) = place.split_once(':')?;
            Some((line.parse().ok()?, column.parse().ok()?, what))
        });
    let Some((line, column, what)): Option<(usize, usize, &str)> = place else {
        return Error::Syntax(Box::new(SyntaxError {
            line: 0,
            column: 0,
            rendered: message.to_owned(),
        }));
    };
    if let Some((name, line, column)) = undefined_prefix(text) {
        let advice = match WELL_KNOWN_PREFIXES.iter().find(|(p, _)| *p == name) {
            Some((p, iri)) => format!("add `PREFIX {p}: <{iri}>` before the query"),
            None => match near(text, &name) {
                Some(other) => format!(
                    "did you mean `{other}:`? Else add `PREFIX {name}: <…>` before the query"
                ),
                None => format!("add `PREFIX {name}: <…>` before the query"),
            },
        };
        return at(
            text,
            line,
            column,
            &format!("the prefix `{name}:` is not defined"),
            &advice,
        );
    }
    // Character classes in the parser's message do not help users.
    let words: Vec<&str> = what
        .trim_start_matches("expected ")
        .trim_start_matches("one of ")
        .split(", ")
        .filter(|w| !w.contains("..=") && !w.contains('|') && *w != "[_]")
        .collect();
    let more = if words.len() > EXPECTED_MAX {
        ", …"
    } else {
        ""
    };
    let what = match words.get(..EXPECTED_MAX.min(words.len())) {
        Some([]) | None => "something else".to_owned(),
        Some([word]) => (*word).to_owned(),
        Some(some) => format!("one of {}{more}", some.join(", ")),
    };
    at(
        text,
        line,
        column,
        "the query is not SPARQL here",
        &format!("expected {what}"),
    )
}

fn at(text: &str, line: usize, column: usize, message: &str, advice: &str) -> Error {
    let row = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    // An excerpt of at most 120 characters around the position.
    let start = column.saturating_sub(61);
    let excerpt: String = row
        .chars()
        .skip(start)
        .take(120)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let caret = " ".repeat(column.saturating_sub(1).saturating_sub(start));
    let rendered = format!(
        "line {line}, column {column}: {message}\n  {}\n  {caret}^\n  {advice}",
        excerpt.trim_end()
    );
    Error::Syntax(Box::new(SyntaxError {
        line,
        column,
        rendered,
    }))
}

/// Returns the first prefixed name with an undeclared prefix, outside IRIs, strings and comments.
fn undefined_prefix(text: &str) -> Option<(String, usize, usize)> {
    let declared = declared(text);
    let (mut line, mut column) = (1, 1);
    let mut word = String::new();
    let mut word_at = (1, 1);
    let mut chars = text.chars().peekable();
    let mut last = ' ';
    while let Some(c) = chars.next() {
        let here = (line, column);
        if c == '\n' {
            line += 1;
            column = 1;
        } else {
            column += 1;
        }
        match c {
            // An IRI, unless it is a comparison operator.
            '<' if chars
                .peek()
                .is_some_and(|n| !n.is_whitespace() && *n != '=' && *n != '?') =>
            {
                for c in chars.by_ref() {
                    column += 1;
                    if c == '>' || c == '\n' {
                        break;
                    }
                }
            }
            '"' | '\'' => {
                let mut escaped = false;
                for d in chars.by_ref() {
                    if d == '\n' {
                        line += 1;
                        column = 1;
                    } else {
                        column += 1;
                    }
                    if d == c && !escaped {
                        break;
                    }
                    escaped = d == '\\' && !escaped;
                }
            }
            '#' if !last.is_alphanumeric() => {
                for c in chars.by_ref() {
                    if c == '\n' {
                        line += 1;
                        column = 1;
                        break;
                    }
                }
            }
            ':' => {
                let variable = word.starts_with(['?', '$', '@', '_']);
                if !variable && !declared.contains(&word) && !word.is_empty() {
                    return Some((word, word_at.0, word_at.1));
                }
                word.clear();
            }
            c if c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '?' | '$' | '@') => {
                if word.is_empty() {
                    word_at = here;
                }
                word.push(c);
                last = c;
                continue;
            }
            _ => word.clear(),
        }
        if c != ':' {
            word.clear();
        }
        last = c;
    }
    None
}

fn declared(text: &str) -> Vec<String> {
    let mut words = text.split_whitespace();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case("prefix")
            && let Some(name) = words.next()
            && let Some((name, _)) = name.split_once(':')
        {
            found.push(name.to_owned());
        }
    }
    found
}

/// Returns a declared prefix that differs in one letter.
fn near(text: &str, name: &str) -> Option<String> {
    declared(text).into_iter().find(|d| {
        let same = d
            .chars()
            .zip(name.chars())
            .take_while(|(a, b)| a == b)
            .count();
        let (a, b) = (d.chars().count(), name.chars().count());
        !d.is_empty() && a.abs_diff(b) <= 1 && same + 1 >= a.min(b) && same > 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> String {
        query(text, None).unwrap_err().to_string()
    }

    #[test]
    fn a_mistake_shows_its_place() {
        let text = rendered("SELECT * WHERE {\n  ?s ?p }");
        assert!(text.contains("line 2, column 10"), "{text}");
        assert!(text.contains("    ?s ?p }\n           ^"), "{text}");
    }

    #[test]
    fn an_undefined_prefix_comes_with_what_it_may_mean() {
        let text = rendered("SELECT * WHERE { ?s foaf:name ?n }");
        assert!(text.contains("`foaf:` is not defined"), "{text}");
        assert!(
            text.contains("PREFIX foaf: <http://xmlns.com/foaf/0.1/>"),
            "{text}"
        );
        let text = rendered("PREFIX bench: <http://x/> SELECT * { ?s bnch:name \"a:b\" }");
        assert!(text.contains("`bnch:` is not defined"), "{text}");
    }

    #[test]
    fn deep_brackets_are_refused() {
        let text = format!("SELECT * {{ {} {} }}", "{".repeat(5000), "}".repeat(5000));
        assert!(rendered(&text).contains("brackets"));
    }
}
