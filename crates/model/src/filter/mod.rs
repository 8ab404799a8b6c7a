//! The filter language: conditions on the attributes and tags of objects, vertices and edges, as text and as data.
//!
//! `docs/book/filters.md` has the grammar. [`Expr::parse`] reads it, `Display` writes it back, [`Expr::holds`] decides.
//!
//! ```
//! use esker_model::filter::Expr;
//! use esker_model::Properties;
//!
//! let filter = Expr::parse("energy > 3 AND note LIKE 'run%'", None)?;
//! assert!(filter.holds(&Properties::new().with("energy", 3.5).with("note", "run 12")));
//! assert!(!filter.holds(&Properties::new().with("energy", 3.5)));
//! # Ok::<(), esker_model::filter::ParseError>(())
//! ```
//!
//! Logic has two values: a term on a name that is not there is false, and `NOT` turns that around.

mod build;
mod display;
mod error;
mod eval;
mod fields;
mod lexer;
mod operand;
mod operator;
mod parse;
mod pattern;
mod prepared;
mod regex;
mod times;
mod token;

mod types;
mod units;

pub use error::{ParseError, ParseErrorKind};
pub use eval::{Fields, ValueRef};
pub use fields::{EdgeFields, VertexFields};
pub use parse::render_unknown;
pub use pattern::{Pattern, PatternKind};
pub use prepared::{Prepared, PreparedTest};
pub use regex::{Regex, RegexError};
pub use times::moments;

use crate::value::Value;

/// Names with a meaning of their own, whatever attributes and tags there are.
///
/// `id` is an object's number, `key` the external key, `type` the name of the type, `created` when an object was
/// created, `modified` and `version` when anything changed last. Edges have `type` and `version` only.
pub const SPECIAL_NAMES: [&str; 6] = ["id", "key", "type", "created", "modified", "version"];

/// A condition.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// Holds of everything: the empty filter.
    All,
    /// All of them hold.
    And(Vec<Expr>),
    /// At least one holds.
    Or(Vec<Expr>),
    /// It does not hold.
    Not(Box<Expr>),
    /// One name and what must be true of its value.
    Term(Term),
}

/// A name and what must be true of its value. Something that lacks the name never fulfils it.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// An attribute, a tag, or a name with a meaning of its own.
    pub name: String,
    /// What must be true.
    pub test: Test,
}

/// What must be true of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// It is there, with a value or without.
    Exists,
    /// It compares so.
    Compare(Comparison, Value),
    /// It lies between two, both inside.
    Between(Value, Value),
    /// It equals one of them.
    In(Vec<Value>),
    /// It is text of that form.
    Like(Pattern),
    /// It is text in which the regular expression is found.
    Matches(Regex),
    /// It is a list with that item, or text with that text in it.
    Contains(Value),
    /// It is there, and that is not true of it: `NOT LIKE`, `NOT IN` and the like.
    Not(Box<Test>),
}

/// How two values compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `=`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

impl Comparison {
    /// As the language writes it.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Eq => "=",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
        }
    }

    /// What `b ? a` says where `a ? b` says this.
    #[must_use]
    pub const fn flipped(self) -> Self {
        match self {
            Self::Lt => Self::Gt,
            Self::Le => Self::Ge,
            Self::Gt => Self::Lt,
            Self::Ge => Self::Le,
            same => same,
        }
    }
}

#[cfg(test)]
mod tests;
