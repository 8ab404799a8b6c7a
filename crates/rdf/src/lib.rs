//! RDF and SPARQL, in memory and deterministic: the host supplies bytes, the time and a seed.
//!
//! A [`quads::Dataset`] has terms by id ([`dictionary`]) and, for each graph and predicate, sorted columns of subjects and objects in both
//! directions ([`quads`]). A query is parsed by a library ([`syntax`]), translated into an algebra of ids ([`algebra`]), planned as a tree of
//! operators (`plan`), and executed on columns ([`exec`]): a basic graph pattern variable by variable, each from the intersection of the sorted lists that constrain it.
//! Updates return a changed copy ([`update()`]), and so do loads of files ([`parse`]).

#![allow(
    clippy::many_single_char_names,
    reason = "s, p, o and g are what the places of a quad are called"
)]
#![allow(
    clippy::single_match_else,
    reason = "what is found and what is not stand side by side"
)]

pub mod algebra;
pub mod algorithm;
mod codec;
pub mod dictionary;
mod error;
pub mod exec;
mod expr;
pub mod format;
mod guard;
pub mod id;
pub mod infer;
mod input_bindings;
pub mod log;
mod nesting;
pub mod parse;
mod plan;
pub mod quads;
mod query;
mod remote;
mod results;
mod solutions;
pub mod syntax;
mod template;
mod update;
mod xml;

pub use dictionary::triple::term as triple_term;
pub use error::{Error, Result, SyntaxError};
pub use exec::{Options, services_of};
pub use expr::Expr;
pub use format::{DocumentWriter, JsonLdProfileSet, Quads, RdfFormat};
pub use guard::Guard;
pub use infer::Inference;
pub use input_bindings::InputBindings;
pub use oxrdf::{Literal, NamedNode, NamedOrBlankNode, Term, Triple};
pub use oxsdatatypes::DateTime;
pub use parse::Part;
pub use plan::{PlanNode, PlanRun};
pub use quads::Dataset;
pub use query::{Answer, Found, Graphs, answer, query, query_parsed};
pub use remote::{ACCEPT, Remote, read_solutions};
pub use results::{Format, dump};
pub use solutions::{Results, Solutions, read_results};
pub use spargebra::{self, GraphUpdateOperation as UpdateOperation, Query, Update};
pub use update::{Fetch, Load, Updated, loads_of, replace, update, update_in_place, update_parsed};

/// Resolves an IRI reference against an absolute IRI.
pub fn resolve_iri(base: &str, reference: &str) -> std::result::Result<String, String> {
    let base = oxiri::Iri::parse(base).map_err(|e| e.to_string())?;
    let resolved = base.resolve(reference).map_err(|e| e.to_string())?;
    Ok(resolved.into_inner())
}

/// Returns an error unless a text is an absolute IRI.
pub fn check_iri(text: &str) -> std::result::Result<(), String> {
    oxiri::Iri::parse(text).map(drop).map_err(|e| e.to_string())
}
