//! The filter language: conditions on the attributes and tags of objects, vertices and edges, as text and as data.
//!
//! `docs/book/filters.md` has the grammar. [`Expr::parse`] reads it, `Display` writes it back, [`Expr::holds`] decides.

use crate::value::Value;

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
    Matches(Pattern2),
    /// It is a list with that item, or text with that text in it.
    Contains(Value),
}

/// Replaced by the language's own regular expression type.
pub type Pattern2 = String;

/// How two values compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// Text with wildcards.
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern(pub String);
