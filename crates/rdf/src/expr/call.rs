//! Function calls. Common functions are implemented here, the rest by the `spareval` library.

use super::value::{Value, is_literal, lexical, text};
use super::{Expr, Val, boolean, cast, string};
use crate::dictionary::{Head, Parts};
use crate::exec::{Context, Row};
use crate::id::{UNBOUND, XSD};
use oxrdf::{BlankNode, Literal, NamedNode, Term, Variable};
use spareval::QueryEvaluator;
use spargebra::algebra::Function;
use sparopt::algebra::Expression;

/// Evaluates a function call. A string above the limit fails the query.
pub(crate) fn call(ctx: &Context<'_>, row: Row<'_>, f: &Function, args: &[Expr]) -> Option<Val> {
    let found = called(ctx, row, f, args)?;
    if let Val::Value(v) = &found {
        let bytes = super::value::text_bytes(v);
        ctx.reserve_text(bytes)?;
        ctx.fits_string(bytes)?;
    }
    Some(found)
}

fn called(ctx: &Context<'_>, row: Row<'_>, f: &Function, args: &[Expr]) -> Option<Val> {
    let arg = |i: usize| args.get(i)?.eval(ctx, row);
    let value = |i: usize| arg(i)?.value(ctx);
    Some(match f {
        Function::StrLen
        | Function::Contains
        | Function::StrStarts
        | Function::StrEnds
        | Function::StrBefore
        | Function::StrAfter
        | Function::UCase
        | Function::LCase
        | Function::EncodeForUri
        | Function::Concat
        | Function::SubStr
        | Function::LangMatches
        | Function::Regex
        | Function::Replace => string::call(ctx, row, f, args)?,
        Function::Abs | Function::Ceil | Function::Floor | Function::Round => {
            Val::Value(cast::numeric(f, value(0)?)?)
        }
        Function::Year
        | Function::Month
        | Function::Day
        | Function::Hours
        | Function::Minutes
        | Function::Seconds
        | Function::Timezone
        | Function::Tz => Val::Value(cast::date_part(f, &value(0)?)?),
        Function::Str => lexical_form(ctx, arg(0)?)?,
        Function::Lang => Val::Value(text(match value(0)? {
            Value::LangStringLiteral { language, .. }
            | Value::DirLangStringLiteral { language, .. } => language,
            other if is_literal(&other) => String::new(),
            _ => return None,
        })),
        Function::Datatype => Val::Value(Value::NamedNode(datatype(ctx, arg(0)?)?)),
        Function::IsIri => boolean(matches!(value(0)?, Value::NamedNode(_))),
        Function::IsBlank => boolean(matches!(value(0)?, Value::BlankNode(_))),
        Function::IsLiteral => boolean(is_literal(&value(0)?)),
        Function::IsNumeric => boolean(super::value::number(&value(0)?).is_some()),
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
                ctx.fits_string(label.len() * 2)?;
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
        Function::StrLang => {
            let (Value::StringLiteral(text), Value::StringLiteral(tag)) = (value(0)?, value(1)?)
            else {
                return None;
            };
            let literal = Literal::new_language_tagged_literal(text, tag).ok()?;
            Val::Value(Term::from(literal).into())
        }
        Function::StrDt => {
            let Value::StringLiteral(s) = value(0)? else {
                return None;
            };
            let Value::NamedNode(datatype) = value(1)? else {
                return None;
            };
            Val::Value(Term::from(Literal::new_typed_literal(s, datatype)).into())
        }
        Function::Custom(name) if name.as_str().strip_prefix(XSD) == Some("string") => {
            let value = arg(0)?;
            // Numbers and booleans become their canonical form.
            match value.clone().value(ctx)? {
                v @ (Value::IntegerLiteral(_)
                | Value::DecimalLiteral(_)
                | Value::FloatLiteral(_)
                | Value::DoubleLiteral(_)
                | Value::BooleanLiteral(_)) => Val::Value(text(lexical(&v)?)),
                _ => lexical_form(ctx, value)?,
            }
        }
        Function::Custom(name) if cast::is_constructor(name.as_str()) && args.len() == 1 => {
            Val::Value(cast::constructed(name.as_str(), &value(0)?)?)
        }
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
            let terms: Option<Vec<Term>> = args
                .iter()
                .map(|a| a.eval(ctx, row)?.value_or_term(ctx))
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

/// Returns a literal's lexical form, or the text of an IRI, as a string; `None` for other terms.
fn lexical_form(ctx: &Context<'_>, val: Val) -> Option<Val> {
    if let Val::Id(id) = val {
        let stored = ctx.with_parts(id, |parts| match parts {
            Parts::Stored(Head::Plain, _) => Some(val.clone()),
            Parts::Stored(Head::Iri(prefix), rest) => {
                Some(Val::Value(text(format!("{prefix}{rest}"))))
            }
            Parts::Stored(Head::Lang(_) | Head::Typed(_), form) => Some(Val::Value(text(form))),
            Parts::Stored(Head::Blank | Head::Triple, _) => None,
            Parts::Inline(value) => Some(Val::Value(text(value.text()))),
        });
        return stored?;
    }
    Some(Val::Value(text(match val.value_or_term(ctx)? {
        Term::NamedNode(n) => n.into_string(),
        Term::Literal(l) => l.destruct().0,
        Term::BlankNode(_) | Term::Triple(_) => return None,
    })))
}

/// Returns the datatype of a literal; `None` for other terms.
fn datatype(ctx: &Context<'_>, val: Val) -> Option<NamedNode> {
    let stored = match val {
        Val::Id(id) => ctx.with_parts(id, |parts| match parts {
            Parts::Stored(Head::Typed(datatype), _) => {
                Some(NamedNode::new_unchecked(datatype.as_ref()))
            }
            Parts::Inline(value) => Some(NamedNode::new_unchecked(format!(
                "{XSD}{}",
                value.datatype()
            ))),
            Parts::Stored(..) => None,
        })?,
        Val::Value(_) => None,
    };
    stored.or_else(|| match val.value_or_term(ctx)? {
        Term::Literal(l) => Some(l.datatype().into_owned()),
        _ => None,
    })
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
    if let ('-', Value::DateTimeLiteral(a), Value::DateTimeLiteral(b)) = (op, &a, &b) {
        return Some(Value::DayTimeDurationLiteral(a.checked_sub(*b)?));
    }
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

#[cfg(test)]
mod tests {
    use super::{Expression, Function, Value, call, library, names};
    use crate::exec::{Context, Options, Table};
    use crate::expr::{Expr, Val, of_id};
    use crate::id::XSD;
    use crate::{Dataset, DateTime};
    use oxrdf::{BaseDirection, BlankNode, Literal, NamedNode, Term};

    /// Literals of each kind, in canonical and other lexical forms, and ill-typed ones.
    fn terms() -> Vec<Term> {
        let typed = |text: &str, name: &str| {
            let datatype = NamedNode::new_unchecked(format!("{XSD}{name}"));
            Term::from(Literal::new_typed_literal(text, datatype))
        };
        let mut terms = vec![
            Term::from(NamedNode::new_unchecked("http://example.org/a%20b")),
            Term::from(BlankNode::new_unchecked("b")),
        ];
        for text in [
            "",
            "a",
            "abc",
            "h\u{e9}h\u{e9}",
            "A b/c",
            "1",
            "true",
            "2.50",
            "1e3",
            "en",
            "INF",
        ] {
            terms.push(Literal::new_simple_literal(text).into());
            for tag in ["en", "fr-be"] {
                terms.push(Literal::new_language_tagged_literal_unchecked(text, tag).into());
            }
            let directed = Literal::new_directional_language_tagged_literal_unchecked;
            terms.push(directed(text, "ar", BaseDirection::Rtl).into());
        }
        terms.extend(
            ["0", "7", "-3", "01", "+4", "123456789012", "x", ""].map(|t| typed(t, "integer")),
        );
        terms.extend(
            ["0.0", "2.5", "-2.5", "1", "99999999999.123", "x"].map(|t| typed(t, "decimal")),
        );
        for name in ["double", "float"] {
            terms
                .extend(["0", "2.5", "-2.5E0", "1e30", "NaN", "-INF", "x"].map(|t| typed(t, name)));
        }
        terms.extend(["true", "false", "1", "0", "maybe"].map(|t| typed(t, "boolean")));
        let times = [
            "2026-02-03T04:05:06.75Z",
            "2026-02-03T04:05:06",
            "1999-12-31T23:59:59-05:00",
            "x",
        ];
        terms.extend(times.map(|t| typed(t, "dateTime")));
        terms.extend(
            ["2026-02-03", "2026-02-03Z", "2026-02-03+14:00", "x"].map(|t| typed(t, "date")),
        );
        terms.extend(["04:05:06Z", "04:05:06.5"].map(|t| typed(t, "time")));
        terms.push(typed("P1DT2H", "dayTimeDuration"));
        terms.push(typed("7", "byte"));
        terms.push(typed("a", "other"));
        terms
    }

    /// A term of the text if there is a value.
    fn text_of(found: Option<Value>) -> Option<String> {
        found.map(|value| Term::from(value).to_string())
    }

    /// Other functions keep lexical forms and datatypes that the library's values lack.
    #[test]
    fn functions_agree_with_the_library() {
        let data = Dataset::default();
        let options = Options::new(DateTime::MAX, 1);
        let ctx = Context::new(&data, &options, None);
        let table = Table::empty(Vec::new());
        let terms = terms();
        let check = |f: &Function, args: &[&Term]| {
            let expected = library(
                &Expression::FunctionCall(f.clone(), names(args.len())),
                args.iter().map(|t| (*t).clone()).collect(),
            );
            let exprs: Vec<Expr> = args.iter().map(|t| Expr::Const(ctx.number(t))).collect();
            let found = call(&ctx, table.row(0), f, &exprs).and_then(|v| v.value(&ctx));
            assert_eq!(text_of(found), text_of(expected), "{f} of {args:?}");
        };
        let custom = |name| Function::Custom(NamedNode::new_unchecked(format!("{XSD}{name}")));
        let casts = [
            "boolean", "double", "float", "integer", "decimal", "dateTime", "date",
        ];
        let mut of_one = vec![
            Function::Abs,
            Function::Ceil,
            Function::Floor,
            Function::Round,
            Function::Year,
            Function::Month,
            Function::Day,
            Function::Hours,
            Function::Minutes,
            Function::Seconds,
            Function::Timezone,
            Function::Tz,
            Function::Lang,
            Function::StrLen,
            Function::UCase,
            Function::LCase,
            Function::EncodeForUri,
            Function::Concat,
        ];
        of_one.extend(casts.map(custom));
        for f in &of_one {
            for term in &terms {
                check(f, &[term]);
            }
        }
        let of_two = [
            Function::Contains,
            Function::StrStarts,
            Function::StrEnds,
            Function::StrBefore,
            Function::StrAfter,
            Function::Concat,
            Function::SubStr,
            Function::LangMatches,
            Function::StrLang,
            Function::StrDt,
        ];
        for f in &of_two {
            for a in &terms {
                for b in &terms {
                    check(f, &[a, b]);
                }
            }
        }
        for a in &terms {
            for (start, length) in [(-1, 3), (0, 2), (1, 1), (2, 9), (3, -1), (9, 9)] {
                let number = |n: i64| Term::from(Literal::from(n));
                check(&Function::SubStr, &[a, &number(start), &number(length)]);
            }
            check(&Function::Concat, &[a, a, a]);
        }
    }

    #[test]
    fn a_term_and_its_value_have_one_id() {
        let data = Dataset::default();
        let options = Options::new(DateTime::MAX, 1);
        let ctx = Context::new(&data, &options, None);
        for term in terms() {
            let id = ctx.number(&term);
            let value = of_id(&ctx, id);
            assert_eq!(
                text_of(value.clone()),
                text_of(Some(Value::from(term.clone()))),
                "{term}"
            );
            let expected = value.clone().map(|v| ctx.number(&v.into()));
            assert_eq!(value.map(|v| Val::Value(v).id(&ctx)), expected, "{term}");
        }
    }
}
