//! The filter language: conditions on the attributes and tags of objects, vertices and edges, as text and as data.
//!
//! `docs/book/filters.md` has the grammar. [`Expr::parse`] reads it, `Display` writes it back, [`Expr::matches`]
//! evaluates it.
//!
//! ```
//! use esker_model::filter::Expr;
//! use esker_model::Properties;
//!
//! let filter = Expr::parse("energy > 3 AND note LIKE 'run%'", None)?;
//! assert!(filter.matches(&Properties::new().with("energy", 3.5).with("note", "run 12")));
//! assert!(!filter.matches(&Properties::new().with("energy", 3.5)));
//! # Ok::<(), esker_model::filter::FilterParseError>(())
//! ```
//!
//! The logic is two-valued: a term on a name that does not exist is false, and `NOT` inverts that.

mod build;
mod display;
mod error;
mod eval;
mod fields;
mod kinds;
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

pub use error::{FilterErrorKind, FilterParseError};
pub use eval::{Fields, ValueRef};
pub use fields::{EdgeFields, VertexFields};
pub use parse::render_unknown;
pub use pattern::{Pattern, PatternKind};
pub use prepared::{Prepared, PreparedTest};
pub use regex::{Regex, RegexError};
pub use times::time_bounds;

use crate::value::Value;

/// Built-in names, which take precedence over attributes and tags.
///
/// `id` is an object's number, `key` the external key, `type` the name of the type, `created` the time of an object's
/// creation, `modified` and `version` the time of the last change. Edges have `type` and `version` only.
pub const SPECIAL_NAMES: [&str; 6] = ["id", "key", "type", "created", "modified", "version"];

/// A filter: a condition on an item.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// Everything matches: the empty filter.
    All,
    /// All parts must match.
    And(Vec<Expr>),
    /// At least one part must match.
    Or(Vec<Expr>),
    /// The part must not match.
    Not(Box<Expr>),
    /// A condition on the value of one name.
    Term(Term),
}

/// A condition on the value of one name. An item without that name never matches.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Name of an attribute or a tag, or a built-in name.
    pub name: String,
    /// Condition on its value.
    pub test: Test,
}

/// A condition on a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// The name exists, with or without a value.
    Exists,
    /// The value compares with the given one as stated.
    Compare(Comparison, Value),
    /// The value is between the two, both included.
    Between(Value, Value),
    /// The value equals one of these.
    In(Vec<Value>),
    /// The value is a text that matches a pattern.
    Like(Pattern),
    /// The value is a text in which the regular expression occurs.
    Matches(Regex),
    /// The value is a list that contains the item, or a text that contains the text.
    Contains(Value),
    /// The name exists and the inner test is false: `NOT LIKE`, `NOT IN` and the like.
    Not(Box<Test>),
}

/// Comparison operators of the filter language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// Equal: `=` in filters.
    Eq,
    /// Different: `!=` in filters.
    Ne,
    /// Less than: `<` in filters.
    Lt,
    /// Less than or equal: `<=` in filters.
    Le,
    /// Greater than: `>` in filters.
    Gt,
    /// Greater than or equal: `>=` in filters.
    Ge,
}

impl Comparison {
    /// Returns the operator in the syntax of the language.
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

    /// Returns the operator with which `b ? a` is equivalent to `a ? b` with this one.
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
