//! Meaning of the arguments of each call: names, values, filters, counts, times.

use super::call::{Argument, ArgumentValue, ChainCall, FILTERS, too_deep, usage};
use super::error::{Span, TraversalErrorKind as Kind, TraversalFault, excerpt};
use super::{Filter, Predicate, Start};
use crate::filter::Expr;
use crate::id::VertexName;
use crate::limits::{LIST_DEPTH_MAX, NAME_BYTES_MAX, VALUE_BYTES_MAX};
use crate::schema::{check_attribute_name, nearest};
use crate::value::Value;
use crate::version::{Version, VersionRange};
use std::cmp::Ordering;

/// Builds the error for a wrong number of arguments: at the first one too many, or where one is missing.
pub(super) fn count_fault(call: &ChainCall, most: usize) -> TraversalFault {
    let got = call.arguments.len();
    let span = match (call.arguments.get(most), call.arguments.last()) {
        (Some(first), Some(last)) => first.span.to(last.span),
        _ => call.close,
    };
    let arguments = match got {
        0 => "no arguments".to_owned(),
        1 => "1 argument".to_owned(),
        n => format!("{n} arguments"),
    };
    TraversalFault::new(
        span,
        Kind::ArgumentCount,
        format!("`{}` was given {arguments}", call.name),
        usage(call.name),
    )
}

pub(super) fn no_arguments(call: &ChainCall) -> Result<(), TraversalFault> {
    if call.arguments.is_empty() {
        Ok(())
    } else {
        Err(count_fault(call, 0))
    }
}

/// Returns the arguments if their number is exactly `N`.
pub(super) fn exactly<const N: usize>(call: ChainCall) -> Result<[Argument; N], TraversalFault> {
    if call.arguments.len() != N {
        return Err(count_fault(&call, N));
    }
    let close = call.close;
    let call_name = call.name;
    call.arguments.try_into().map_err(|_| {
        TraversalFault::new(
            close,
            Kind::ArgumentCount,
            "wrong number of arguments",
            usage(call_name),
        )
    })
}

pub(super) fn wrong_kind(
    argument: &Argument,
    message: String,
    expected: impl Into<String>,
) -> TraversalFault {
    TraversalFault::new(argument.span, Kind::ArgumentKind, message, expected)
}

/// Refuses `name=` where arguments have no names.
pub(super) fn unnamed(argument: &Argument, expected: &str) -> Result<(), TraversalFault> {
    match &argument.name {
        None => Ok(()),
        Some(name) => Err(wrong_kind(
            argument,
            format!("unexpected `{}=`", excerpt(name)),
            expected,
        )),
    }
}

pub(super) fn start_of(call: ChainCall) -> Result<Start, TraversalFault> {
    let Some(first) = call.arguments.first() else {
        return Err(TraversalFault::new(
            call.close,
            Kind::ArgumentCount,
            "the first `v` was given no arguments",
            "v(\"type:key\", …) or, to start from all vertices of a type, v(type=\"File\")",
        ));
    };
    if let Some(name) = &first.name {
        if name != "type" {
            let close = nearest(name, ["type"].into_iter());
            return Err(wrong_kind(
                first,
                format!("`v` has no parameter `{}`", excerpt(name)),
                "v(type=\"File\")",
            )
            .suggest(close));
        }
        if let Some(second) = call.arguments.get(1) {
            return Err(TraversalFault::new(
                second.span,
                Kind::ArgumentCount,
                "`v(type=…)` takes nothing else",
                "either v(type=\"File\") or v(\"type:key\", …)",
            ));
        }
        let [argument] = exactly(call)?;
        return name_of(argument, "a vertex type").map(Start::Type);
    }
    call.arguments
        .into_iter()
        .map(vertex_name)
        .collect::<Result<_, _>>()
        .map(Start::Vertices)
}

pub(super) fn vertex_name(argument: Argument) -> Result<VertexName, TraversalFault> {
    unnamed(&argument, "either v(type=\"File\") or v(\"type:key\", …)")?;
    let text = match argument.what {
        ArgumentValue::Text(text) => text,
        ArgumentValue::Word(word) => {
            return Err(TraversalFault::new(
                argument.span,
                Kind::ArgumentKind,
                format!("`{}` is not a vertex name", excerpt(&word)),
                "names in quotes, as in v(\"file:/scratch/a.h5\"); v(type=\"File\") starts from all files",
            ));
        }
        ref what => {
            return Err(wrong_kind(
                &argument,
                format!("a vertex name cannot be {}", what.described()),
                "a name in quotes, as in v(\"user:1001\")",
            ));
        }
    };
    let fault = |reason: &str| {
        TraversalFault::new(
            argument.span,
            Kind::VertexName,
            format!("\"{}\" names no vertex: {reason}", excerpt(&text)),
            "TYPE:KEY, as in \"file:/scratch/a.h5\" or \"user:1001\"",
        )
    };
    let name = VertexName::parse(&text).map_err(|e| fault(e.reason))?;
    if name.type_name.len() > NAME_BYTES_MAX {
        return Err(fault("the type before the colon is longer than 255 bytes"));
    }
    Ok(name)
}

/// Reads the name of a type or an attribute: a word or a string.
pub(super) fn name_of(argument: Argument, what: &'static str) -> Result<String, TraversalFault> {
    let span = argument.span;
    let name = match argument.what {
        ArgumentValue::Word(name) | ArgumentValue::Text(name) => name,
        other => {
            return Err(TraversalFault::new(
                span,
                Kind::ArgumentKind,
                format!("the name of {what} cannot be {}", other.described()),
                format!("the name of {what}: a word or a string"),
            ));
        }
    };
    let bad = |message: String| {
        Err(TraversalFault::new(
            span,
            Kind::Name,
            message,
            format!(
                "the name of {what}: 1 to {NAME_BYTES_MAX} bytes without `=` and control characters"
            ),
        ))
    };
    if name.is_empty() {
        return bad(format!("the name of {what} is empty"));
    }
    if name.len() > NAME_BYTES_MAX {
        return bad(format!("the name of {what} is {} bytes long", name.len()));
    }
    if check_attribute_name(&name).is_err() {
        return bad(format!(
            "\"{}\" cannot be the name of {what}",
            excerpt(&name)
        ));
    }
    Ok(name)
}

pub(super) fn names_of(call: ChainCall) -> Result<Vec<String>, TraversalFault> {
    call.arguments
        .into_iter()
        .map(|argument| {
            unnamed(&argument, usage("e"))?;
            name_of(argument, "an edge type")
        })
        .collect()
}

/// Reads the arguments of `va(…)` or `ea(…)`. Relative times are relative to `now`.
pub(super) fn filter_of(call: ChainCall, now: Option<i64>) -> Result<Filter, TraversalFault> {
    let name = call.name;
    let count = call.arguments.len();
    if let [
        Argument {
            span,
            name: None,
            what: ArgumentValue::Text(text),
        },
    ] = call.arguments.as_slice()
    {
        return where_of(text, *span, now);
    }
    for argument in &call.arguments {
        unnamed(argument, usage(name))?;
    }
    let fewest = match call.arguments.get(1).map(|a| &a.what) {
        Some(ArgumentValue::Word(word)) => match word.to_ascii_uppercase().as_str() {
            "EQ" => 3..=3,
            "IN" => 3..=usize::MAX,
            "RANGE" => 4..=4,
            _ => 2..=usize::MAX,
        },
        _ => 2..=usize::MAX,
    };
    if !fewest.contains(&count) {
        return Err(count_fault(&call, *fewest.end()));
    }
    let span = call.span.to(call.close);
    let close = call.close;
    let mut arguments = call.arguments.into_iter();
    let missing = || {
        TraversalFault::new(
            close,
            Kind::ArgumentCount,
            "an argument is missing",
            usage(name),
        )
    };
    let attribute = name_of(arguments.next().ok_or_else(missing)?, "an attribute")?;
    let operator = operator_of(&arguments.next().ok_or_else(missing)?)?;
    let first = arguments.next().ok_or_else(missing)?;
    let predicate = match operator {
        "EQ" => Predicate::Eq(value_of(first)?),
        "IN" => {
            let alternatives = match first.what {
                ArgumentValue::List(items) if count == 3 => items,
                _ => std::iter::once(first).chain(arguments).collect(),
            };
            if alternatives.is_empty() {
                return Err(TraversalFault::new(
                    span,
                    Kind::ArgumentCount,
                    "`IN` has nothing to choose from",
                    "at least one value after IN",
                ));
            }
            Predicate::In(
                alternatives
                    .into_iter()
                    .map(value_of)
                    .collect::<Result<_, _>>()?,
            )
        }
        _ => {
            let second = arguments.next().ok_or_else(missing)?;
            let both = first.span.to(second.span);
            let (low, high) = (value_of(first)?, value_of(second)?);
            check_range(&low, &high, both)?;
            Predicate::Range(low, high)
        }
    };
    Ok(Filter::Attribute {
        attribute,
        predicate,
    })
}

/// Reads a condition in the filter language. Its errors are shown at their position in the chain; if escapes make the
/// string longer than its value, at the whole string.
fn where_of(text: &str, span: Span, now: Option<i64>) -> Result<Filter, TraversalFault> {
    match Expr::parse(text, now) {
        Ok(Expr::All) => Err(TraversalFault::new(
            span,
            Kind::Filter,
            "the filter matches everything",
            "a condition, as in \"size > 1GiB\"",
        )),
        Ok(expr) => Ok(Filter::Where(expr)),
        Err(e) => {
            let as_written = span.len == text.len() + 2;
            let place = if as_written {
                Span::new(span.at + 1 + e.at, e.len)
            } else {
                span
            };
            Err(
                TraversalFault::new(place, Kind::Filter, e.message, e.expected)
                    .suggest(e.suggestion),
            )
        }
    }
}

pub(super) fn operator_of(argument: &Argument) -> Result<&'static str, TraversalFault> {
    let expected = "a filter type after the attribute: EQ, IN or RANGE";
    let find = |word: &str| FILTERS.into_iter().find(|f| f.eq_ignore_ascii_case(word));
    match &argument.what {
        ArgumentValue::Word(word) => find(word).ok_or_else(|| {
            TraversalFault::new(
                argument.span,
                Kind::UnknownFilter,
                format!("unknown filter type `{}`", excerpt(word)),
                expected,
            )
            .suggest(nearest(word, FILTERS.into_iter()))
        }),
        ArgumentValue::Text(text) if find(text).is_some() => Err(wrong_kind(
            argument,
            format!("\"{}\" is a string", excerpt(text)),
            "the filter type without quotes: EQ, IN or RANGE",
        )),
        what => Err(TraversalFault::new(
            argument.span,
            Kind::ArgumentKind,
            format!("a filter type cannot be {}", what.described()),
            expected,
        )),
    }
}

pub(super) fn check_range(low: &Value, high: &Value, span: Span) -> Result<(), TraversalFault> {
    if *low == Value::Null || *high == Value::Null {
        return Ok(());
    }
    match low.compare(high) {
        Some(Ordering::Less | Ordering::Equal) => Ok(()),
        Some(Ordering::Greater) => Err(TraversalFault::new(
            span,
            Kind::EmptyRange,
            "this range is empty: its low end is above its high end",
            "RANGE, low, high",
        )),
        None => Err(TraversalFault::new(
            span,
            Kind::ArgumentKind,
            format!(
                "a range from {} to {} has no order",
                low.kind_name(),
                high.kind_name()
            ),
            "two ends of one kind, or null for an open end",
        )),
    }
}

pub(super) fn value_of(argument: Argument) -> Result<Value, TraversalFault> {
    let span = argument.span;
    let value = raw_value(argument)?;
    if value.depth() > LIST_DEPTH_MAX {
        return Err(too_deep(span));
    }
    // No encoded value is more than ten times as long as its text.
    if span.len > VALUE_BYTES_MAX / 10 {
        let mut encoded = Vec::new();
        value.encode(&mut encoded);
        if encoded.len() > VALUE_BYTES_MAX {
            return Err(TraversalFault::new(
                span,
                Kind::Limit,
                format!("the value takes {} bytes", encoded.len()),
                format!("a value of at most {VALUE_BYTES_MAX} bytes"),
            ));
        }
    }
    Ok(value)
}

pub(super) fn raw_value(argument: Argument) -> Result<Value, TraversalFault> {
    unnamed(&argument, "a value without a name")?;
    match argument.what {
        ArgumentValue::Text(text) => Ok(Value::String(text)),
        ArgumentValue::Literal(value) => Ok(value),
        ArgumentValue::List(items) => items
            .into_iter()
            .map(raw_value)
            .collect::<Result<_, _>>()
            .map(Value::List),
        ArgumentValue::Word(word) => match word.as_str() {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            "null" => Ok(Value::Null),
            "inf" => Ok(Value::F64(f64::INFINITY)),
            _ => Err(TraversalFault::new(
                argument.span,
                Kind::ArgumentKind,
                format!("`{}` is not a value", excerpt(&word)),
                "a number, true, false, null, t\"…\", a list or a string in quotes",
            )
            .suggest(Some(format!("\"{}\"", excerpt(&word))))),
        },
    }
}

/// Reads a count of at least one.
pub(super) fn count_of(argument: &Argument, what: &str) -> Result<u64, TraversalFault> {
    let expected = format!("{what}: a whole number, at least 1");
    match &argument.what {
        ArgumentValue::Literal(Value::I64(n)) => match u64::try_from(*n) {
            Ok(n) if n > 0 => Ok(n),
            _ => Err(TraversalFault::new(
                argument.span,
                Kind::ArgumentKind,
                format!("{n} is too small"),
                expected,
            )),
        },
        other => Err(wrong_kind(
            argument,
            format!("{what} cannot be {}", other.described()),
            expected,
        )),
    }
}

pub(super) fn max_of(call: ChainCall) -> Result<Option<u32>, TraversalFault> {
    if call.arguments.is_empty() {
        return Ok(None);
    }
    let [argument] = exactly(call)?;
    match argument.name.as_deref() {
        Some("max") => {}
        Some(name) => {
            let close = nearest(name, ["max"].into_iter());
            return Err(wrong_kind(
                &argument,
                format!("`repeat` has no parameter `{}`", excerpt(name)),
                usage("repeat"),
            )
            .suggest(close));
        }
        None => {
            return Err(wrong_kind(
                &argument,
                "the number of rounds needs its name".to_owned(),
                usage("repeat"),
            ));
        }
    }
    let span = argument.span;
    let max = count_of(&argument, "the number of rounds")?;
    u32::try_from(max).map(Some).map_err(|_| {
        TraversalFault::new(
            span,
            Kind::Limit,
            format!("{max} rounds are too many"),
            format!("at most {}, or repeat() without a bound", u32::MAX),
        )
    })
}

pub(super) fn limit(call: ChainCall) -> Result<u64, TraversalFault> {
    let [argument] = exactly(call)?;
    unnamed(&argument, usage("limit"))?;
    count_of(&argument, "a limit")
}

pub(super) fn time_text(
    argument: Argument,
    call: &'static str,
) -> Result<(String, Span), TraversalFault> {
    unnamed(&argument, usage(call))?;
    match argument.what {
        ArgumentValue::Text(text) => Ok((text, argument.span)),
        ArgumentValue::Literal(Value::Timestamp(_)) => Err(TraversalFault::new(
            argument.span,
            Kind::ArgumentKind,
            format!("`{call}` takes a time as a plain string"),
            format!("no `t` before the quotes: {}", usage(call)),
        )),
        ref what => Err(wrong_kind(
            &argument,
            format!("a time cannot be {}", what.described()),
            format!("a time in quotes: {}", usage(call)),
        )),
    }
}

pub(super) fn time_fault(text: &str, span: Span) -> TraversalFault {
    TraversalFault::new(
        span,
        Kind::Time,
        format!("\"{}\" is not a time", excerpt(text)),
        "a date (2026-03-01), RFC 3339 (2026-03-01T12:00:00Z), @SECONDS or #VERSION",
    )
}

pub(super) fn as_of(call: ChainCall) -> Result<Version, TraversalFault> {
    let [argument] = exactly(call)?;
    let (text, span) = time_text(argument, "as_of")?;
    Version::parse_as_of(&text).map_err(|_| time_fault(&text, span))
}

pub(super) fn versions(call: ChainCall) -> Result<VersionRange, TraversalFault> {
    let [first, second] = exactly(call)?;
    let both = first.span.to(second.span);
    let open =
        |argument: &Argument| matches!(&argument.what, ArgumentValue::Word(w) if w == "null");
    let from = if open(&first) {
        Version::ZERO
    } else {
        let (text, span) = time_text(first, "versions")?;
        Version::parse_since(&text).map_err(|_| time_fault(&text, span))?
    };
    let until = if open(&second) {
        Version::MAX
    } else {
        let (text, span) = time_text(second, "versions")?;
        Version::parse_as_of(&text)
            .map_err(|_| time_fault(&text, span))?
            .next()
    };
    if from >= until {
        return Err(TraversalFault::new(
            both,
            Kind::EmptyRange,
            "this range is empty: it begins after its end",
            "versions(first moment, last moment)",
        ));
    }
    Ok(VersionRange { from, until })
}
