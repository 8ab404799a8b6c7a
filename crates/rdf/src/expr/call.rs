//! Function calls. Common functions are implemented here, the rest by the `spareval` library.

use super::regex::fragments;
use super::value::{Value, is_literal, lexical, text};
use super::{Expr, Val, boolean};
use crate::error::Error;
use crate::exec::{Context, Row, STRING_BYTES_MAX};
use crate::id::UNBOUND;
use oxrdf::{BaseDirection, BlankNode, Literal, NamedNode, Term, Variable};
use spareval::QueryEvaluator;
use spargebra::algebra::Function;
use sparopt::algebra::Expression;

/// Evaluates a function call. A string above the limit fails the query.
pub(crate) fn call(ctx: &Context<'_>, row: Row<'_>, f: &Function, args: &[Expr]) -> Option<Val> {
    let found = called(ctx, row, f, args)?;
    if let Val::Value(v) = &found {
        let bytes = super::value::text_bytes(v);
        ctx.reserve_text(bytes)?;
        fitting(ctx, bytes)?;
    }
    Some(found)
}

/// Returns `None`, and fails the query, if a string of `bytes` bytes would be too long.
pub(crate) fn fitting(ctx: &Context<'_>, bytes: usize) -> Option<()> {
    ctx.or_fail(if bytes > STRING_BYTES_MAX {
        Err(Error::LongString {
            limit: STRING_BYTES_MAX,
        })
    } else {
        Ok(())
    })
}

fn called(ctx: &Context<'_>, row: Row<'_>, f: &Function, args: &[Expr]) -> Option<Val> {
    let arg = |i: usize| args.get(i)?.eval(ctx, row);
    let value = |i: usize| arg(i)?.value(ctx);
    // Lexical form of a literal.
    let written = |i: usize| -> Option<String> {
        match arg(i)?.value_or_term(ctx)? {
            Term::Literal(l) => Some(l.destruct().0),
            _ => None,
        }
    };
    Some(match f {
        Function::Str => Val::Value(text(match arg(0)?.value_or_term(ctx)? {
            Term::NamedNode(n) => n.into_string(),
            Term::Literal(l) => l.destruct().0,
            Term::BlankNode(_) | Term::Triple(_) => return None,
        })),
        Function::Lang => Val::Value(text(match value(0)? {
            Value::LangStringLiteral { language, .. }
            | Value::DirLangStringLiteral { language, .. } => language,
            other if is_literal(&other) => String::new(),
            _ => return None,
        })),
        Function::Datatype => match arg(0)?.value_or_term(ctx)? {
            Term::Literal(l) => Val::Value(Value::NamedNode(l.datatype().into_owned())),
            _ => return None,
        },
        Function::IsIri => boolean(matches!(value(0)?, Value::NamedNode(_))),
        Function::IsBlank => boolean(matches!(value(0)?, Value::BlankNode(_))),
        Function::IsLiteral => boolean(is_literal(&value(0)?)),
        Function::IsNumeric => boolean(super::value::number(&value(0)?).is_some()),
        Function::Regex => {
            let subject = plain(value(0)?)?;
            let pattern = simple(value(1)?)?;
            let flags = if args.len() > 2 {
                simple(value(2)?)?
            } else {
                String::new()
            };
            boolean(ctx.regex(&pattern, &flags, |r| r.is_match(&subject))?)
        }
        Function::StrLen => Val::Value(Value::IntegerLiteral(
            i64::try_from(plain(value(0)?)?.chars().count())
                .ok()?
                .into(),
        )),
        Function::Contains | Function::StrStarts | Function::StrEnds => {
            let (a, b) = compatible(value(0)?, value(1)?)?;
            boolean(match f {
                Function::Contains => a.contains(&b),
                Function::StrStarts => a.starts_with(&b),
                _ => a.ends_with(&b),
            })
        }
        Function::LangMatches => {
            let (tag, range) = (plain(value(0)?)?, plain(value(1)?)?);
            boolean(lang_matches(&tag, &range))
        }
        Function::Iri => Val::Value(match value(0)? {
            Value::NamedNode(n) => Value::NamedNode(n),
            Value::StringLiteral(s) => Value::NamedNode(match &ctx.base {
                Some(base) => NamedNode::from(base.resolve(&s).ok()?),
                None => NamedNode::new(s).ok()?,
            }),
            _ => return None,
        }),
        Function::BNode => match args {
            [] => Val::Value(Value::BlankNode(BlankNode::new_unchecked(
                ctx.fresh_label(),
            ))),
            _ => {
                let Value::StringLiteral(label) = value(0)? else {
                    return None;
                };
                // Each byte of the label becomes two hexadecimal digits.
                fitting(ctx, label.len() * 2)?;
                Val::Value(Value::BlankNode(ctx.labelled(&label, row)))
            }
        },
        Function::Rand => {
            // 53 bits, so that the result is below 1.
            let n = (ctx.random() >> 11) as f64 / (1u64 << 53) as f64;
            Val::Value(Value::DoubleLiteral(n.into()))
        }
        Function::Now => Val::Value(Value::DateTimeLiteral(ctx.options.now)),
        Function::Uuid => {
            let iri = format!("urn:uuid:{}", uuid(ctx));
            Val::Value(Value::NamedNode(NamedNode::new_unchecked(iri)))
        }
        Function::StrUuid => Val::Value(text(uuid(ctx))),
        Function::StrDt => {
            let Value::StringLiteral(s) = value(0)? else {
                return None;
            };
            let Value::NamedNode(datatype) = value(1)? else {
                return None;
            };
            Val::Value(Term::from(Literal::new_typed_literal(s, datatype)).into())
        }
        Function::UCase | Function::LCase => {
            let change = |s: &str| {
                if matches!(f, Function::UCase) {
                    s.to_uppercase()
                } else {
                    s.to_lowercase()
                }
            };
            let (string, tag) = string(value(0)?)?;
            Val::Value(tagged(change(&string), tag))
        }
        Function::Custom(name) if name.as_str() == "http://www.w3.org/2001/XMLSchema#string" => {
            Val::Value(text(match arg(0)?.value_or_term(ctx)? {
                Term::NamedNode(n) => n.into_string(),
                Term::Literal(_) => match value(0)? {
                    v @ (Value::IntegerLiteral(_)
                    | Value::DecimalLiteral(_)
                    | Value::FloatLiteral(_)
                    | Value::DoubleLiteral(_)
                    | Value::BooleanLiteral(_)) => lexical(&v)?,
                    _ => written(0)?,
                },
                Term::BlankNode(_) | Term::Triple(_) => return None,
            }))
        }
        Function::Replace => replace(ctx, row, args)?,
        Function::Triple => {
            let part = |i: usize| Some(arg(i)?.id(ctx));
            match ctx.number_triple([part(0)?, part(1)?, part(2)?]) {
                UNBOUND => return None,
                id => Val::Id(id),
            }
        }
        Function::Subject | Function::Predicate | Function::Object | Function::IsTriple => {
            let parts = match arg(0)? {
                Val::Id(id) => ctx.triple(id),
                Val::Value(_) => None,
            };
            match f {
                Function::Subject => Val::Id(parts?[0]),
                Function::Predicate => Val::Id(parts?[1]),
                Function::Object => Val::Id(parts?[2]),
                _ => boolean(parts.is_some()),
            }
        }
        _ => {
            let mut bytes = 0;
            let terms: Option<Vec<Term>> = args
                .iter()
                .map(|a| {
                    let term = a.eval(ctx, row)?.value_or_term(ctx)?;
                    bytes += term_bytes(&term);
                    // Checked before the concatenated string is built.
                    if matches!(f, Function::Concat) {
                        fitting(ctx, bytes)?;
                    }
                    Some(term)
                })
                .collect();
            Val::Value(library(
                &Expression::FunctionCall(f.clone(), names(args.len())),
                terms?,
            )?)
        }
    })
}

impl Val {
    /// Returns the term, with its original lexical form if it has one.
    pub(crate) fn value_or_term(self, ctx: &Context<'_>) -> Option<Term> {
        let term = match self {
            Self::Id(id) => ctx.term(id)?,
            Self::Value(v) => v.into(),
        };
        ctx.reserve_text(term_bytes(&term))?;
        Some(term)
    }
}

/// Returns the length of a term's text in bytes.
fn term_bytes(term: &Term) -> usize {
    match term {
        Term::NamedNode(n) => n.as_str().len(),
        Term::BlankNode(n) => n.as_str().len(),
        Term::Literal(l) => l.value().len(),
        Term::Triple(t) => {
            term_bytes(&t.subject.clone().into())
                + t.predicate.as_str().len()
                + term_bytes(&t.object)
        }
    }
}

/// `REPLACE`: replaces each match of a pattern by a text in which `$1` is a group of it. The result can grow without bound, so it is measured
/// while it is built.
fn replace(ctx: &Context<'_>, row: Row<'_>, args: &[Expr]) -> Option<Val> {
    let value = |i: usize| args.get(i)?.eval(ctx, row)?.value(ctx);
    let argument = |i: usize| simple(value(i)?);
    let (subject, tag) = string(value(0)?)?;
    let (pattern, with) = (argument(1)?, argument(2)?);
    let flags = if args.len() > 3 {
        argument(3)?
    } else {
        String::new()
    };
    let done = ctx.regex(&pattern, &flags, |regex| {
        // An error by F&O 7.6.3.
        if regex.is_match("") {
            return None;
        }
        let fragments = || fragments(&with, regex.captures_len() - 1);
        if fragments().any(|p| p.is_none()) {
            return None;
        }
        let mut done = String::new();
        let mut from = 0;
        for groups in regex.captures_iter(&subject) {
            // Each match reads the whole text, which may come to nothing.
            if with.len() > 4096 {
                ctx.or_fail(ctx.check())?;
            }
            let whole = groups.get(0)?;
            let before = subject.get(from..whole.start())?;
            let texts = || fragments().flatten().map(|p| p.of(&groups));
            let bytes = before.len() + texts().map(str::len).sum::<usize>();
            fitting(ctx, done.len() + bytes)?;
            ctx.reserve_text(bytes)?;
            done.push_str(before);
            done.extend(texts());
            from = whole.end();
        }
        done.push_str(subject.get(from..)?);
        Some(done)
    })??;
    Some(Val::Value(tagged(done, tag)))
}

fn variable(i: usize) -> Variable {
    Variable::new_unchecked(format!("a{i}"))
}

fn names(n: usize) -> Vec<Expression> {
    (0..n).map(|i| Expression::Variable(variable(i))).collect()
}

/// Calls a function of the library with these terms.
fn library(expression: &Expression, terms: Vec<Term>) -> Option<Value> {
    let names: Vec<Variable> = (0..terms.len()).map(variable).collect();
    QueryEvaluator::new()
        .evaluate_expression(expression, names.iter().zip(terms))
        .map(Value::from)
}

/// Adds, subtracts, multiplies or divides dates and durations.
pub(crate) fn dates(op: char, a: Value, b: Value) -> Option<Value> {
    let mut args = names(2).into_iter().map(Box::new);
    let (x, y) = (args.next()?, args.next()?);
    let expression = match op {
        '+' => Expression::Add(x, y),
        '-' => Expression::Subtract(x, y),
        '*' => Expression::Multiply(x, y),
        _ => Expression::Divide(x, y),
    };
    library(&expression, vec![a.into(), b.into()])
}

/// Returns the text of a string without language.
fn simple(value: Value) -> Option<String> {
    match value {
        Value::StringLiteral(s) => Some(s),
        _ => None,
    }
}

/// Returns the text of a string, with or without language.
fn plain(value: Value) -> Option<String> {
    Some(string(value)?.0)
}

/// A language tag, and the base direction if there is one.
type Tag = Option<(String, Option<BaseDirection>)>;

/// Returns the text and the tag of a string.
fn string(value: Value) -> Option<(String, Tag)> {
    Some(match value {
        Value::StringLiteral(value) => (value, None),
        Value::LangStringLiteral { value, language } => (value, Some((language, None))),
        Value::DirLangStringLiteral {
            value,
            language,
            direction,
        } => (value, Some((language, Some(direction)))),
        _ => return None,
    })
}

/// Returns a string with a tag.
fn tagged(value: String, tag: Tag) -> Value {
    match tag {
        None => Value::StringLiteral(value),
        Some((language, None)) => Value::LangStringLiteral { value, language },
        Some((language, Some(direction))) => Value::DirLangStringLiteral {
            value,
            language,
            direction,
        },
    }
}

/// Returns the texts of two compatible strings: the second has no language, or the language and direction of the first.
fn compatible(a: Value, b: Value) -> Option<(String, String)> {
    let ((a, x), (b, y)) = (string(a)?, string(b)?);
    (y.is_none() || x == y).then_some((a, b))
}

fn lang_matches(tag: &str, range: &str) -> bool {
    if range == "*" {
        return !tag.is_empty();
    }
    let (tag, range) = (tag.to_ascii_lowercase(), range.to_ascii_lowercase());
    tag == range
        || tag
            .strip_prefix(&range)
            .is_some_and(|rest| rest.starts_with('-'))
}

fn uuid(ctx: &Context<'_>) -> String {
    let (a, b) = (ctx.random(), ctx.random());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        a >> 32,
        a >> 16 & 0xffff,
        a & 0xfff,
        0x8000 | b >> 48 & 0x3fff,
        b & 0xffff_ffff_ffff
    )
}
