//! Parser of operands: values, sizes, durations, times.

use super::error::{FilterErrorKind as Kind, FilterFault, Span, excerpt};
use super::operator::instant;
use super::parse::Parser;
use super::times::time_bounds;
use super::token::{Part, Token};
use super::units::{self, Unit};
use crate::limits::LIST_DEPTH_MAX;
use crate::value::Value;

const NANOS: i128 = 1_000_000_000;

pub(super) const VALUE: &str = "a value: a string in quotes ('text'), a number, a time (2026-03-01, 30d ago, now), true, false, null or a list";

/// A value, or the first and last instant of a range of time.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operand {
    Value(Value),
    TimeRange(i64, i64),
}

enum Quantity {
    Number(Value),
    /// A duration in nanoseconds.
    Duration(i128),
}

impl Parser<'_> {
    /// Reads a value or a time, and its position.
    pub(super) fn operand(&mut self) -> Result<(Operand, Span), FilterFault> {
        self.operand_nested(0)
    }

    /// Reads a single value; a range of time is refused.
    pub(super) fn value(&mut self, depth: usize) -> Result<Value, FilterFault> {
        let (operand, span) = self.operand_nested(depth)?;
        instant(operand, span)
    }

    fn operand_nested(&mut self, depth: usize) -> Result<(Operand, Span), FilterFault> {
        let start = self.span;
        let operand = match &self.token {
            Token::Quoted('`', name) => {
                let message = format!("`{}` in backticks is a name", excerpt(name));
                return Err(FilterFault::new(start, Kind::Value, message, VALUE)
                    .suggest(Some(format!("'{}'", excerpt(name)))));
            }
            Token::Quoted(_, text) => {
                let value = Value::String(text.clone());
                self.take()?;
                Operand::Value(value)
            }
            Token::Literal(value) => {
                let value = value.clone();
                self.take()?;
                Operand::Value(value)
            }
            Token::Time(_) => self.time()?,
            Token::Number(_) => self.number(false)?,
            Token::Sign(sign @ ("-" | "+")) => {
                let negative = *sign == "-";
                self.take()?;
                self.signed(negative)?
            }
            Token::Sign("[") => Operand::Value(self.list(depth)?),
            Token::Word(word) => match word.to_ascii_lowercase().as_str() {
                "true" => self.constant(Value::Bool(true))?,
                "false" => self.constant(Value::Bool(false))?,
                "null" => self.constant(Value::Null)?,
                "inf" => self.constant(Value::F64(f64::INFINITY))?,
                "nan" => self.constant(Value::F64(f64::NAN))?,
                "now" => {
                    let now = self.now("`now`", start)?;
                    self.take()?;
                    self.shifted(now, now, start)?
                }
                _ => return Err(self.no_value(word)),
            },
            Token::Sign(_) | Token::End => return Err(self.unexpected(VALUE)),
        };
        let end = self.last_end;
        Ok((operand, Span::new(start.at, end.saturating_sub(start.at))))
    }

    fn no_value(&self, word: &str) -> FilterFault {
        let fault = FilterFault::new(
            self.span,
            Kind::Value,
            format!("`{}` is not a value", excerpt(word)),
            VALUE,
        );
        if super::token::is_reserved(word) {
            return fault;
        }
        fault.suggest(Some(format!("'{}'", excerpt(word))))
    }

    fn constant(&mut self, value: Value) -> Result<Operand, FilterFault> {
        self.take()?;
        Ok(Operand::Value(value))
    }

    fn signed(&mut self, negative: bool) -> Result<Operand, FilterFault> {
        if matches!(self.token, Token::Number(_)) {
            return self.number(negative);
        }
        if self.token.is_word("inf") {
            let sign = if negative { -1.0 } else { 1.0 };
            return self.constant(Value::F64(sign * f64::INFINITY));
        }
        Err(self.unexpected("a number after the sign"))
    }

    fn list(&mut self, depth: usize) -> Result<Value, FilterFault> {
        let (_, open) = self.take()?;
        if depth >= LIST_DEPTH_MAX {
            return Err(FilterFault::new(
                open,
                Kind::Limit,
                format!("the list is nested deeper than {LIST_DEPTH_MAX}"),
                format!("lists at most {LIST_DEPTH_MAX} deep"),
            ));
        }
        let mut items = Vec::new();
        if self.token != Token::Sign("]") {
            loop {
                items.push(self.value(depth + 1)?);
                if self.token != Token::Sign(",") {
                    break;
                }
                self.take()?;
            }
        }
        self.close("]", open, "`,` or `]` after an item of the list")?;
        Ok(Value::List(items))
    }

    /// Returns the current time as the host gave it.
    fn now(&self, what: &str, span: Span) -> Result<i64, FilterFault> {
        self.now.ok_or_else(|| {
            FilterFault::new(
                span,
                Kind::NoClock,
                format!("{what} has no meaning here: the current time is not given"),
                "a time of its own, as in 2026-03-01 or 2026-03-01T12:00:00Z",
            )
        })
    }

    /// Reads a time such as `2026-03-01`, with durations added or subtracted.
    fn time(&mut self) -> Result<Operand, FilterFault> {
        let (token, span) = self.take()?;
        let Token::Time(text) = token else {
            return Err(self.unexpected(VALUE));
        };
        let Some((first, last)) = time_bounds(&text) else {
            return Err(FilterFault::new(
                span,
                Kind::Time,
                format!("`{}` is not a time", excerpt(&text)),
                "a date (2026-03-01), RFC 3339 (2026-03-01T12:00:00Z) or @SECONDS, from 1677-09-22 to 2262-04-11",
            ));
        };
        self.shifted(first, last, span)
    }

    /// Applies the durations that are added to or subtracted from a time.
    fn shifted(&mut self, first: i64, last: i64, span: Span) -> Result<Operand, FilterFault> {
        let (mut first, mut last) = (first, last);
        while let Token::Sign(sign @ ("-" | "+")) = self.token {
            self.take()?;
            let (quantity, at) = self.quantity(false)?;
            let Quantity::Duration(nanos) = quantity else {
                return Err(FilterFault::new(
                    at,
                    Kind::Unit,
                    "only a duration can be added to a time",
                    "a number with a unit of time, as in 2h or 30d",
                ));
            };
            let by = if sign == "-" { -nanos } else { nanos };
            first = moved(first, by, span.to(at))?;
            last = moved(last, by, span.to(at))?;
        }
        Ok(Operand::TimeRange(first, last))
    }

    fn number(&mut self, negative: bool) -> Result<Operand, FilterFault> {
        let (quantity, span) = self.quantity(negative)?;
        match quantity {
            Quantity::Duration(nanos) if self.token.is_word("ago") => {
                let (_, ago) = self.take()?;
                let span = span.to(ago);
                let now = self.now("`ago`", span)?;
                let instant = moved(now, -nanos, span)?;
                Ok(Operand::TimeRange(instant, instant))
            }
            Quantity::Number(_) if self.token.is_word("ago") => Err(FilterFault::new(
                span,
                Kind::Unit,
                "a number before `ago` needs a unit of time",
                "ns, us, ms, s, m, h, d, w, mo or y after the number, as in 30d ago",
            )),
            Quantity::Duration(nanos) if nanos % NANOS == 0 => {
                let seconds = i64::try_from(nanos / NANOS).map_err(|_| too_long(span))?;
                Ok(Operand::Value(Value::I64(seconds)))
            }
            Quantity::Duration(nanos) => {
                Ok(Operand::Value(Value::F64(nanos as f64 / NANOS as f64)))
            }
            Quantity::Number(value) => Ok(Operand::Value(value)),
        }
    }

    /// Reads a number with its unit, or several numbers with units of time.
    fn quantity(&mut self, negative: bool) -> Result<(Quantity, Span), FilterFault> {
        let start = self.span;
        let mut duration: Option<i128> = None;
        loop {
            let (token, span) = self.take()?;
            let Token::Number(mut parts) = token else {
                return Err(FilterFault::new(
                    span,
                    Kind::Unexpected,
                    "something other than a duration follows the sign",
                    "a duration: a number with a unit of time, as in 2h",
                ));
            };
            self.unit_behind(&mut parts)?;
            for part in &parts {
                match (part_of(part, negative)?, duration) {
                    (Quantity::Duration(nanos), so_far) => {
                        let sum = so_far.unwrap_or(0).checked_add(nanos);
                        duration = Some(sum.ok_or_else(|| too_long(part.span))?);
                    }
                    (number @ Quantity::Number(_), None) if parts.len() == 1 => {
                        return Ok((number, start.to(part.span)));
                    }
                    _ => {
                        return Err(FilterFault::new(
                            part.span,
                            Kind::Unit,
                            "several numbers follow each other",
                            "one number, or durations, as in 2h30m",
                        ));
                    }
                }
            }
            if !matches!(self.token, Token::Number(_)) {
                let end = Span::new(self.last_end, 0);
                return Ok((Quantity::Duration(duration.unwrap_or(0)), start.to(end)));
            }
        }
    }

    /// Reads a unit that is separated from its number: `10 MB`.
    fn unit_behind(&mut self, parts: &mut [Part]) -> Result<(), FilterFault> {
        let Some(last) = parts.last_mut().filter(|last| last.unit.is_empty()) else {
            return Ok(());
        };
        if let Token::Word(word) = &self.token
            && units::unit(word).is_some()
        {
            last.unit.clone_from(word);
            last.span = last.span.to(self.span);
            self.take()?;
        }
        Ok(())
    }
}

fn moved(instant: i64, by: i128, span: Span) -> Result<i64, FilterFault> {
    let instant = i128::from(instant).checked_add(by);
    instant
        .and_then(|m| i64::try_from(m).ok())
        .ok_or_else(|| too_long(span))
}

fn too_long(span: Span) -> FilterFault {
    FilterFault::new(
        span,
        Kind::Time,
        "this is too far away",
        "a time from 1677-09-22 to 2262-04-11",
    )
}

/// Converts one number with its unit.
fn part_of(part: &Part, negative: bool) -> Result<Quantity, FilterFault> {
    let shown = excerpt(&format!("{}{}", part.digits, part.unit));
    let fault = |kind, message: String, expected: &str| {
        Err(FilterFault::new(part.span, kind, message, expected))
    };
    let unit = match part.unit.as_str() {
        "" => None,
        name => match units::unit(name) {
            Some(unit) => Some(unit),
            None => {
                return Err(FilterFault::new(
                    part.span,
                    Kind::Unit,
                    format!("`{shown}` has an unknown unit, `{}`", excerpt(name)),
                    units::EXPECTED,
                )
                .suggest(units::near(name).map(|near| format!("{}{near}", part.digits))));
            }
        },
    };
    let digits = part.digits.replace('_', "");
    let hex = digits.strip_prefix("0x").or(digits.strip_prefix("0X"));
    let whole = match hex {
        Some(hex) => i128::from_str_radix(hex, 16).ok(),
        None => digits.parse::<i128>().ok(),
    };
    let sign = if negative { -1 } else { 1 };
    let factor = match unit {
        Some(Unit::Size(factor) | Unit::Time(factor)) => factor,
        None => 1,
    };
    let is_time = matches!(unit, Some(Unit::Time(_)));
    if let Some(whole) = whole {
        let scaled = whole.checked_mul(i128::from(factor)).map(|n| n * sign);
        if let (true, Some(nanos)) = (is_time, scaled) {
            return Ok(Quantity::Duration(nanos));
        }
        if let Some(n) = scaled.and_then(|n| i64::try_from(n).ok()) {
            return Ok(Quantity::Number(Value::I64(n)));
        }
    }
    let all_digits = digits.bytes().all(|b| b.is_ascii_digit());
    if whole.is_some() || hex.is_some() || all_digits {
        return fault(
            Kind::Number,
            format!("`{shown}` does not fit 64 bits"),
            "an integer from -9223372036854775808 to 9223372036854775807, or a double as in 1e20",
        );
    }
    let value = digits.parse::<f64>().unwrap_or(f64::INFINITY) * factor as f64;
    if !value.is_finite() {
        return fault(
            Kind::Number,
            format!("`{shown}` does not fit a double"),
            "a number up to about 1.8e308 (`inf` stands for infinity)",
        );
    }
    let signed = value * sign as f64;
    if is_time {
        // 1e19 nanoseconds are over three hundred years, more than any time has.
        return if signed.abs() < 1e19 {
            Ok(Quantity::Duration(signed.round() as i128))
        } else {
            Err(too_long(part.span))
        };
    }
    // Up to 2^53 a double represents every integer exactly.
    let exact = unit.is_some() && signed.fract() == 0.0 && signed.abs() < 9_007_199_254_740_992.0;
    Ok(Quantity::Number(if exact {
        Value::I64(signed as i64)
    } else {
        Value::F64(signed)
    }))
}
