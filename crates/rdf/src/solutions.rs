//! Reader of SPARQL results of other endpoints: SPARQL 1.1 Query Results JSON and SPARQL Query Results XML, with limits.

mod json;
mod xml;

use crate::dictionary::triple;
use oxrdf::{BaseDirection, BlankNode, Literal, NamedNode, Term};
use std::io::Read;

/// Solutions of another endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Solutions {
    /// Names of the variables.
    pub names: Vec<String>,
    /// Terms of each solution, in the order of the names.
    pub rows: Vec<Vec<Option<Term>>>,
}

/// Response of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Results {
    /// Solutions of a `SELECT`.
    Solutions(Solutions),
    /// Boolean result of an `ASK`.
    Truth(bool),
}

/// Limit of values in all rows, including unbound ones.
const VALUES_MAX: usize = 1 << 24;

/// Reads an endpoint's response, at most `most` rows.
///
/// # Errors
/// Fails if the content type is not a results format, the text is invalid, or a limit is exceeded.
pub fn read_results(content_type: &str, from: impl Read, most: usize) -> Result<Results, String> {
    let name = content_type.split(';').next().unwrap_or_default().trim();
    let is = |known: &[&str]| known.iter().any(|k| k.eq_ignore_ascii_case(name));
    let mut table = SolutionsBuilder::new(most);
    let truth = if is(&[
        "application/sparql-results+json",
        "application/json",
        "text/json",
    ]) {
        json::read(from, &mut table)?
    } else if is(&[
        "application/sparql-results+xml",
        "application/xml",
        "text/xml",
    ]) {
        xml::read(from, &mut table)?
    } else {
        return Err(format!(
            "it answered with `{content_type}`, not with solutions"
        ));
    };
    match truth {
        Some(truth) => Ok(Results::Truth(truth)),
        None => Ok(Results::Solutions(table.finish()?)),
    }
}

/// Solutions being read; the variable names may come after them.
#[derive(Debug)]
struct SolutionsBuilder {
    most: usize,
    /// Variables in order of occurrence; rows have values at these indices.
    found: Vec<String>,
    rows: Vec<Vec<Option<Term>>>,
    values: usize,
    /// Variables named in the head.
    named: Option<Vec<String>>,
}

impl SolutionsBuilder {
    fn new(most: usize) -> Self {
        Self {
            most,
            found: Vec::new(),
            rows: Vec::new(),
            values: 0,
            named: None,
        }
    }

    fn name(&mut self, name: String) -> Result<(), String> {
        let named = self.named.get_or_insert_default();
        if named.contains(&name) {
            return Err(format!("the variable ?{name} is named twice"));
        }
        if named.len() >= 10_000 {
            return Err("it names more than 10000 variables".into());
        }
        named.push(name);
        Ok(())
    }

    fn row(&mut self) -> Result<(), String> {
        if self.rows.len() == self.most {
            return Err(format!("it gave more than {} solutions", self.most));
        }
        self.rows.push(Vec::new());
        Ok(())
    }

    /// Sets a value in the last row.
    fn value(&mut self, name: &str, term: Term) -> Result<(), String> {
        let at = match self.found.iter().position(|n| n == name) {
            Some(at) => at,
            None => {
                if self.found.len() >= 10_000 {
                    return Err("it names more than 10000 variables".into());
                }
                self.found.push(name.to_owned());
                self.found.len() - 1
            }
        };
        let row = self
            .rows
            .last_mut()
            .ok_or("a value is outside of a solution")?;
        if row.len() <= at {
            self.values += at + 1 - row.len();
            if self.values > VALUES_MAX {
                return Err(format!("it gave more than {VALUES_MAX} values"));
            }
            row.resize(at + 1, None);
        }
        let slot = row.get_mut(at).ok_or("a value has no variable")?;
        if slot.replace(term).is_some() {
            return Err(format!("?{name} has two values in one solution"));
        }
        Ok(())
    }

    /// Returns the solutions, with the variables in the order of the head.
    fn finish(self) -> Result<Solutions, String> {
        let names = self.named.ok_or("it names no variables")?;
        if names.len().saturating_mul(self.rows.len()) > VALUES_MAX {
            return Err(format!("it gave more than {VALUES_MAX} values"));
        }
        let mut places = Vec::with_capacity(self.found.len());
        for name in &self.found {
            let place = names.iter().position(|n| n == name);
            places.push(place.ok_or_else(|| format!("?{name} is not among its variables"))?);
        }
        let ordered = |row: Vec<Option<Term>>| {
            let mut values = vec![None; names.len()];
            for (value, place) in row.into_iter().zip(&places) {
                if let Some(slot) = values.get_mut(*place) {
                    *slot = value;
                }
            }
            values
        };
        let rows = self.rows.into_iter().map(ordered).collect();
        Ok(Solutions { names, rows })
    }
}

/// Returns a term of a kind, as both formats name it.
fn term(
    kind: &str,
    value: String,
    language: Option<&str>,
    direction: Option<&str>,
    datatype: Option<String>,
) -> Result<Term, String> {
    let iri = |iri: String| match NamedNode::new(iri.as_str()) {
        Ok(node) => Ok(node),
        Err(e) => Err(format!("<{iri}> is not an IRI: {e}")),
    };
    Ok(match (kind, language, datatype) {
        ("uri", ..) => iri(value)?.into(),
        ("bnode", ..) => match BlankNode::new(value.as_str()) {
            Ok(node) => node.into(),
            Err(_) => return Err(format!("`{value}` is not a label of a blank node")),
        },
        ("literal" | "typed-literal", Some(language), _) => {
            let literal = match direction {
                None => Literal::new_language_tagged_literal(value, language),
                Some(direction) => {
                    let direction = match direction {
                        "ltr" => BaseDirection::Ltr,
                        "rtl" => BaseDirection::Rtl,
                        _ => {
                            return Err(format!(
                                "the direction `{direction}` is neither ltr nor rtl"
                            ));
                        }
                    };
                    Literal::new_directional_language_tagged_literal(value, language, direction)
                }
            };
            match literal {
                Ok(literal) => literal.into(),
                Err(e) => return Err(format!("the language `{language}` is wrong: {e}")),
            }
        }
        ("literal" | "typed-literal", None, Some(datatype)) => {
            Literal::new_typed_literal(value, iri(datatype)?).into()
        }
        ("literal" | "typed-literal", None, None) => Literal::new_simple_literal(value).into(),
        _ => return Err(format!("`{kind}` is not a kind of term")),
    })
}

/// Returns the triple term of three terms.
fn triple_term(parts: [Option<Term>; 3]) -> Result<Term, String> {
    let [Some(s), Some(p), Some(o)] = parts else {
        return Err("a triple has no subject, no predicate or no object".into());
    };
    let shown = format!("{s} {p} {o}");
    triple::term(s, p, o).ok_or_else(|| format!("`{shown}` is not a triple"))
}

/// Fails if triple terms are nested too deeply.
fn check_depth(depth: usize) -> Result<(), String> {
    if depth > triple::NESTED_MAX {
        return Err(crate::Error::Nested(triple::NESTED_MAX).to_string());
    }
    Ok(())
}
