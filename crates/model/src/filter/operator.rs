//! Parser of operators, which combines them with their operands.

use super::error::{FilterErrorKind as Kind, FilterFault, Span, excerpt};
use super::operand::Operand;
use super::parse::{Parser, comparison};
use super::times::time_bounds;
use super::token::Token;
use super::{Comparison, Expr, Pattern, Regex, Test};
use crate::limits::FILTER_REGEXES_MAX;
use crate::schema::nearest;
use crate::value::Value;

/// Words that may follow a name.
const OPERATORS: [&str; 11] = [
    "BETWEEN",
    "IN",
    "LIKE",
    "ILIKE",
    "GLOB",
    "MATCHES",
    "CONTAINS",
    "STARTS WITH",
    "ENDS WITH",
    "NOT",
    "EXISTS",
];
const EXPECTED: &str = "an operator: =, !=, <, <=, >, >=, ~, BETWEEN, IN, LIKE, ILIKE, GLOB, MATCHES, CONTAINS, STARTS WITH, \
     ENDS WITH; or AND, OR, the end";

/// Tests that an operator requires of a value: mostly one, or several if a list contains days.
pub(super) enum Outcome {
    One(Test),
    AnyOf(Vec<Test>),
    AllOf(Vec<Test>),
}

impl Outcome {
    pub(super) fn negated(self) -> Self {
        let all = |tests: Vec<Test>| tests.into_iter().map(Test::negated).collect();
        match self {
            Self::One(test) => Self::One(test.negated()),
            Self::AnyOf(tests) => Self::AllOf(all(tests)),
            Self::AllOf(tests) => Self::AnyOf(all(tests)),
        }
    }

    pub(super) fn is_several(&self) -> bool {
        !matches!(self, Self::One(_))
    }

    pub(super) fn of(self, name: &str) -> Expr {
        let terms = |tests: Vec<Test>| tests.into_iter().map(|test| Expr::term(name, test));
        match self {
            Self::One(test) => Expr::term(name, test),
            Self::AnyOf(tests) => Expr::any_of(terms(tests)),
            Self::AllOf(tests) => Expr::all_of(terms(tests)),
        }
    }
}

impl Parser<'_> {
    /// Reads an operator and its operands.
    pub(super) fn operator(&mut self) -> Result<Outcome, FilterFault> {
        if let Token::Sign(sign) = self.token {
            return self.sign(sign).map(Outcome::One);
        }
        let Token::Word(word) = &self.token else {
            return Err(self.unexpected(EXPECTED));
        };
        let test = match word.to_ascii_uppercase().as_str() {
            "BETWEEN" => {
                self.take()?;
                self.between()?
            }
            "IN" => {
                self.take()?;
                return self.alternatives_of_in();
            }
            "LIKE" => Test::Like(Pattern::like(&self.pattern()?.0)),
            "ILIKE" => Test::Like(Pattern::like(&self.pattern()?.0).ignoring_case()),
            "GLOB" => Test::Like(Pattern::glob(&self.pattern()?.0)),
            "MATCHES" => self.regex()?,
            "CONTAINS" => {
                self.take()?;
                Test::Contains(self.value(0)?)
            }
            "STARTS" => Test::Like(Pattern::prefix(&self.affix("STARTS WITH")?)),
            "ENDS" => Test::Like(Pattern::suffix(&self.affix("ENDS WITH")?)),
            "IS" => {
                return Err(FilterFault::new(
                    self.span,
                    Kind::Operator,
                    "there is no operator `IS`",
                    "EXISTS tag, NOT EXISTS tag, or tag = null for a tag without a value",
                ));
            }
            "AND" | "OR" => return Err(self.unexpected(EXPECTED)),
            _ => {
                let suggestion = nearest(word, OPERATORS.into_iter());
                let message = format!("unknown operator `{}`", excerpt(word));
                return Err(
                    FilterFault::new(self.span, Kind::Operator, message, EXPECTED)
                        .suggest(suggestion),
                );
            }
        };
        Ok(Outcome::One(test))
    }

    fn sign(&mut self, sign: &str) -> Result<Test, FilterFault> {
        match sign {
            "~" | "=~" => return self.regex(),
            "!~" => return Ok(self.regex()?.negated()),
            _ => {}
        }
        let Some(comparison) = comparison(sign) else {
            return Err(self.unexpected(EXPECTED));
        };
        let (_, operator) = self.take()?;
        // The misspelled operators `=>` and `=<`.
        if let ("=", Token::Sign(second @ (">" | "<"))) = (sign, &self.token)
            && self.span.at == operator.end()
        {
            return Err(FilterFault::new(
                operator.to(self.span),
                Kind::Operator,
                format!("unknown operator `={second}`"),
                EXPECTED,
            )
            .suggest(Some(format!("{second}="))));
        }
        let (operand, span) = self.operand()?;
        self.compared(comparison, operand, span)
    }

    /// Builds the test for a comparison with an operand.
    pub(super) fn compared(
        &self,
        comparison: Comparison,
        operand: Operand,
        span: Span,
    ) -> Result<Test, FilterFault> {
        let ordering = !matches!(comparison, Comparison::Eq | Comparison::Ne);
        if self.strict && ordering && operand == Operand::Value(Value::Null) {
            return Err(FilterFault::new(
                span,
                Kind::Value,
                "nothing is above or below null",
                "a value with an order; tag = null is true of a tag without a value",
            ));
        }
        Ok(compared(comparison, operand))
    }

    /// Reads the operator and the string behind it.
    fn pattern(&mut self) -> Result<(String, Span), FilterFault> {
        self.take_pattern_operator()?;
        self.text("a pattern in quotes, as in 'run%'")
    }

    fn text(&mut self, expected: &str) -> Result<(String, Span), FilterFault> {
        if !matches!(self.token, Token::Quoted('\'' | '"', _)) {
            return Err(self.unexpected(expected));
        }
        match self.take()? {
            (Token::Quoted(_, text), span) => Ok((text, span)),
            _ => Err(self.unexpected(expected)),
        }
    }

    fn regex(&mut self) -> Result<Test, FilterFault> {
        let (_, operator) = self.take_pattern_operator()?;
        self.regexes += 1;
        if self.regexes > FILTER_REGEXES_MAX {
            return Err(FilterFault::new(
                operator,
                Kind::Limit,
                format!("the filter has more than {FILTER_REGEXES_MAX} regular expressions"),
                "fewer, with `|` between alternatives: name ~ 'a|b'",
            ));
        }
        let (text, span) = self.text("a regular expression in quotes, as in '^run[0-9]+$'")?;
        Regex::new(&text).map(Test::Matches).map_err(|e| {
            FilterFault::new(
                span,
                Kind::Regex,
                format!("this is not a regular expression: {}", excerpt_long(&e.0)),
                "the syntax of docs.rs/regex, as in '^run[0-9]+$'",
            )
        })
    }

    /// Reads the rest of `STARTS WITH 'x'` or `ENDS WITH 'x'`.
    fn affix(&mut self, operator: &str) -> Result<String, FilterFault> {
        self.take()?;
        if !self.token.is_word("WITH") {
            return Err(self.unexpected(format!("WITH: {operator} 'text'")));
        }
        self.take()?;
        Ok(self.text("a string in quotes")?.0)
    }

    fn between(&mut self) -> Result<Test, FilterFault> {
        let (low, start) = self.operand()?;
        if !self.token.is_word("AND") {
            return Err(self.unexpected("AND and a second value: BETWEEN low AND high"));
        }
        self.take()?;
        let (high, end) = self.operand()?;
        match (low, high) {
            (Operand::Value(low), Operand::Value(high)) if !self.strict => {
                Ok(Test::Between(low, high))
            }
            (low, high) => between(low, high, start.to(end)),
        }
    }

    fn alternatives_of_in(&mut self) -> Result<Outcome, FilterFault> {
        const LIST: &str = "values in parentheses after IN, as in IN (1, 2, 3)";
        let close = match self.token {
            Token::Sign("(") => ")",
            Token::Sign("[") => "]",
            Token::Word(_) | Token::Quoted(..) => {
                return Err(self.unexpected(format!(
                    "{LIST}; whether a list has an item: name CONTAINS value, or value IN name"
                )));
            }
            _ => return Err(self.unexpected(LIST)),
        };
        let (_, open) = self.take()?;
        let mut values = Vec::new();
        let mut tests = Vec::new();
        if self.token == Token::Sign(close) && !self.strict {
            self.take()?;
            return Ok(Outcome::One(Test::In(values)));
        }
        if self.token == Token::Sign(close) {
            return Err(FilterFault::new(
                open.to(self.span),
                Kind::Value,
                "IN has nothing to choose from",
                "at least one value after IN",
            ));
        }
        loop {
            match self.operand()? {
                (Operand::Value(value), _) => values.push(value),
                (Operand::TimeRange(first, last), _) if first == last => {
                    values.push(Value::Timestamp(first));
                }
                (Operand::TimeRange(first, last), _) => tests.push(time_range(first, last)),
            }
            if self.token != Token::Sign(",") {
                break;
            }
            self.take()?;
        }
        self.close(close, open, "`,` or what closes the list after a value")?;
        if tests.is_empty() {
            return Ok(Outcome::One(Test::In(values)));
        }
        if !values.is_empty() {
            tests.insert(0, Test::In(values));
        }
        if tests.len() == 1 {
            return Ok(Outcome::One(tests.remove(0)));
        }
        Ok(Outcome::AnyOf(tests))
    }
}

/// Shortens a message of the regular expression library.
fn excerpt_long(text: &str) -> String {
    text.split_whitespace()
        .map(excerpt)
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(200)
        .collect()
}

fn time_range(first: i64, last: i64) -> Test {
    Test::Between(Value::Timestamp(first), Value::Timestamp(last))
}

/// Returns the single instant or value of an operand.
pub(super) fn instant(operand: Operand, span: Span) -> Result<Value, FilterFault> {
    match operand {
        Operand::Value(value) => Ok(value),
        Operand::TimeRange(first, last) if first == last => Ok(Value::Timestamp(first)),
        Operand::TimeRange(..) => Err(FilterFault::new(
            span,
            Kind::Value,
            "this time is more than one moment",
            "one moment here, as in t'2026-03-01T00:00:00Z'",
        )),
    }
}

/// Compares with a value or a range of time: before its first instant, after its last one, or inside.
fn compared(comparison: Comparison, operand: Operand) -> Test {
    let at = |moment| Test::Compare(comparison, Value::Timestamp(moment));
    match operand {
        Operand::Value(value) => Test::Compare(comparison, value),
        Operand::TimeRange(first, last) if first == last => at(first),
        Operand::TimeRange(first, last) => match comparison {
            Comparison::Eq => time_range(first, last),
            Comparison::Ne => time_range(first, last).negated(),
            Comparison::Lt | Comparison::Ge => at(first),
            Comparison::Le | Comparison::Gt => at(last),
        },
    }
}

/// Builds a range test. The range may be empty; only ends that cannot be compared are refused.
fn between(low: Operand, high: Operand, span: Span) -> Result<Test, FilterFault> {
    let no_order = |low: &str, high: &str| {
        Err(FilterFault::new(
            span,
            Kind::Value,
            format!("a range from {low} to {high} has no order"),
            "two ends of one kind",
        ))
    };
    // If one end is a time, the other one must be a time too, if it can be read as one.
    match (low, high) {
        (Operand::TimeRange(first, _), Operand::TimeRange(_, last)) => Ok(time_range(first, last)),
        (Operand::TimeRange(first, _), Operand::Value(high)) => match time_of(&high) {
            Some((_, last)) => Ok(time_range(first, last)),
            None => no_order("a time", high.kind_name()),
        },
        (Operand::Value(low), Operand::TimeRange(_, last)) => match time_of(&low) {
            Some((first, _)) => Ok(time_range(first, last)),
            None => no_order(low.kind_name(), "a time"),
        },
        (Operand::Value(low), Operand::Value(high)) => {
            let null = low == Value::Null || high == Value::Null;
            let ordered = low.compare(&high).is_some() && !null;
            if ordered || (time_of(&low).is_some() && time_of(&high).is_some()) {
                Ok(Test::Between(low, high))
            } else {
                no_order(low.kind_name(), high.kind_name())
            }
        }
    }
}

/// Returns the range of time that a value is or denotes.
fn time_of(value: &Value) -> Option<(i64, i64)> {
    match value {
        Value::Timestamp(t) => Some((*t, *t)),
        Value::String(text) => time_bounds(text),
        _ => None,
    }
}
