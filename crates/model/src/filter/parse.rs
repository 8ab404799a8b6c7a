//! Parser of the filter language: conditions and their combinations.
//!
//! `OR` binds loosest, then `AND`, then `NOT`. Nesting is bounded, so that no text overflows the stack.

use super::error::{FilterErrorKind as Kind, FilterFault, FilterParseError, Span, excerpt};
use super::lexer::Lexer;
use super::token::{Token, is_reserved};
use super::{Comparison, Expr, Test};
use crate::caret;
use crate::limits::{FILTER_DEPTH_MAX, FILTER_TEXT_BYTES_MAX, NAME_BYTES_MAX};
use crate::schema::check_attribute_name;

const CONDITION: &str = "a condition, as in energy > 2, Name = 'VPIC', EXISTS tag or (…)";
const JOIN: &str = "AND, OR or the end after a condition";

impl Expr {
    /// Parses a filter such as `Name = 'VPIC' AND step BETWEEN 10 AND 20 AND note LIKE 'run%'`. A text of blanks is the
    /// empty filter, [`Expr::All`].
    ///
    /// `now` is the current time in nanoseconds since 1970, for `30d ago` and `now`; without it, those are refused.
    /// Names are not looked up anywhere. Formatting the result with `Display` and parsing it again, even without `now`,
    /// gives an equal filter.
    pub fn parse(text: &str, now: Option<i64>) -> Result<Self, FilterParseError> {
        let parser = Parser::new(text, now, true);
        parser.and_then(filter).map_err(|fault| fault.locate(text))
    }

    /// Parses the output of `Display` that comes over a wire: the same grammar without `now`, without a limit on the
    /// length of the text, and without errors for conditions that nothing can match, such as `x BETWEEN 2 AND 'a'`,
    /// which programs can build.
    pub fn parse_canonical(text: &str) -> Result<Self, FilterParseError> {
        let parser = Parser::new(text, None, false);
        parser
            .and_then(filter)
            .map(Self::normal)
            .map_err(|fault| fault.locate(text))
    }
}

/// Formats a message in several lines for a terminal about a name that no object has: the line of the filter with
/// carets under the name, and the most similar existing name with the number of objects that have it. `None` if the
/// filter does not contain the name.
///
/// ```text
/// error: unknown tag 'varible'
///   varible = 'T' AND step > 3
///   ^^^^^^^
///   did you mean 'variable' (41,022 objects)?
/// ```
pub fn render_unknown(text: &str, name: &str, nearest: Option<(&str, u64)>) -> Option<String> {
    let mut parser = Parser::new(text, Some(0), true).ok()?;
    parser.alternatives().ok()?;
    let (_, span) = parser.names.iter().find(|(n, _)| n == name)?;
    let (at, line, _) = caret::position(text, span.at);
    let advice = match nearest {
        Some((nearest, 1)) => format!("did you mean '{}' (1 object)?", excerpt(nearest)),
        Some((nearest, objects)) => format!(
            "did you mean '{}' ({} objects)?",
            excerpt(nearest),
            thousands(objects)
        ),
        None => "no object that you may read has it".to_owned(),
    };
    Some(caret::render(
        text,
        &caret::Report {
            at,
            len: span.len,
            line,
            message: &format!("unknown tag '{}'", excerpt(name)),
            advice,
        },
    ))
}

/// Formats a number with thousands separators: `41,022`.
fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn filter(mut parser: Parser<'_>) -> Result<Expr, FilterFault> {
    if parser.token == Token::End {
        return Ok(Expr::All);
    }
    let expr = parser.alternatives()?;
    match parser.token {
        Token::End => Ok(expr),
        Token::Sign(sign @ (")" | "]")) => Err(FilterFault::new(
            parser.span,
            Kind::Unbalanced,
            format!("`{sign}` closes nothing"),
            JOIN,
        )),
        _ => Err(parser.unexpected(JOIN)),
    }
}

pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    pub(super) token: Token,
    pub(super) span: Span,
    /// End of the token before the current one.
    pub(super) last_end: usize,
    pub(super) now: Option<i64>,
    depth: usize,
    /// Whether a user wrote the text, who should be told about conditions that nothing can match.
    pub(super) strict: bool,
    /// Names with their positions.
    names: Vec<(String, Span)>,
    /// Number of regular expressions so far.
    pub(super) regexes: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, now: Option<i64>, strict: bool) -> Result<Self, FilterFault> {
        if strict && text.len() > FILTER_TEXT_BYTES_MAX {
            return Err(FilterFault::new(
                Span::new(0, 0),
                Kind::Limit,
                format!("the filter is {} bytes long", text.len()),
                format!("at most {FILTER_TEXT_BYTES_MAX} bytes"),
            ));
        }
        let mut lexer = Lexer::new(text);
        let (token, span) = lexer.next(false)?;
        Ok(Self {
            lexer,
            token,
            span,
            last_end: 0,
            now,
            depth: 0,
            strict,
            names: Vec::new(),
            regexes: 0,
        })
    }

    /// Consumes the current token and reads the next.
    pub(super) fn take(&mut self) -> Result<(Token, Span), FilterFault> {
        self.take_with(false)
    }

    /// Consumes the current token and reads the next; with `pattern`, a string read next is a pattern.
    fn take_with(&mut self, pattern: bool) -> Result<(Token, Span), FilterFault> {
        let (token, span) = self.lexer.next(pattern)?;
        self.last_end = self.span.end();
        Ok((
            std::mem::replace(&mut self.token, token),
            std::mem::replace(&mut self.span, span),
        ))
    }

    fn found(&self) -> String {
        match &self.token {
            Token::Word(word) => format!("`{}`", excerpt(word)),
            Token::Quoted('\'', text) => format!("string '{}'", excerpt(text)),
            Token::Quoted(quote, text) => format!("{quote}{}{quote}", excerpt(text)),
            Token::Number(_) => "number".to_owned(),
            Token::Time(text) => format!("time {}", excerpt(text)),
            Token::Literal(value) => format!("value ({})", value.kind_name()),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::End => "end of the text".to_owned(),
        }
    }

    pub(super) fn unexpected(&self, expected: impl Into<String>) -> FilterFault {
        let message = format!("unexpected {}", self.found());
        FilterFault::new(self.span, Kind::Unexpected, message, expected)
    }

    /// Consumes the closing parenthesis or bracket.
    pub(super) fn close(
        &mut self,
        sign: &str,
        open: Span,
        expected: &str,
    ) -> Result<(), FilterFault> {
        match &self.token {
            Token::Sign(s) if *s == sign => {
                self.take()?;
                Ok(())
            }
            Token::End => {
                let opening = if sign == ")" { "(" } else { "[" };
                Err(FilterFault::new(
                    open,
                    Kind::Unbalanced,
                    format!("`{opening}` is never closed"),
                    expected,
                ))
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    /// Increments the nesting depth and checks its limit.
    fn enter(&mut self, span: Span) -> Result<(), FilterFault> {
        self.depth += 1;
        if self.depth > FILTER_DEPTH_MAX {
            return Err(FilterFault::new(
                span,
                Kind::Limit,
                format!("the filter is nested deeper than {FILTER_DEPTH_MAX}"),
                format!("parentheses and NOT at most {FILTER_DEPTH_MAX} deep"),
            ));
        }
        Ok(())
    }

    fn at(&self, word: &str, sign: &'static str) -> bool {
        self.token.is_word(word) || self.token == Token::Sign(sign)
    }

    /// Reads conditions with `OR` between them.
    fn alternatives(&mut self) -> Result<Expr, FilterFault> {
        let mut parts = vec![self.conjunction()?];
        while self.at("OR", "||") {
            self.take()?;
            parts.push(self.conjunction()?);
        }
        Ok(Expr::any_of(parts))
    }

    /// Reads conditions with `AND` between them.
    fn conjunction(&mut self) -> Result<Expr, FilterFault> {
        let mut parts = vec![self.condition()?];
        while self.at("AND", "&&") {
            self.take()?;
            parts.push(self.condition()?);
        }
        Ok(Expr::all_of(parts))
    }

    /// Reads a condition with or without a `NOT` before it.
    fn condition(&mut self) -> Result<Expr, FilterFault> {
        let not = self.token.is_word("NOT") || self.token == Token::Sign("!");
        if !not {
            return self.plain_condition();
        }
        let (_, span) = self.take()?;
        self.enter(span)?;
        let inner = self.condition()?;
        self.depth -= 1;
        Ok(inner.negated())
    }

    fn plain_condition(&mut self) -> Result<Expr, FilterFault> {
        match &self.token {
            Token::Sign("(") => {
                let (_, open) = self.take()?;
                self.enter(open)?;
                let inner = self.alternatives()?;
                self.depth -= 1;
                self.close(")", open, "AND, OR or `)` after a condition in parentheses")?;
                Ok(inner)
            }
            Token::Word(word) if is_reserved(word) => match word.to_ascii_uppercase().as_str() {
                "EXISTS" => {
                    self.take()?;
                    self.existence()
                }
                "TRUE" | "FALSE" => {
                    let all = word.eq_ignore_ascii_case("TRUE");
                    self.take()?;
                    Ok(if all { Expr::All } else { Expr::nothing() })
                }
                "NULL" => self.value_first(),
                _ => Err(self.reserved(CONDITION)),
            },
            Token::Word(_) | Token::Quoted('"' | '`', _) => {
                let name = self.name(CONDITION)?;
                self.tests(name)
            }
            Token::Quoted(..) | Token::Number(_) | Token::Time(_) | Token::Literal(_) => {
                self.value_first()
            }
            Token::Sign("-" | "[") => self.value_first(),
            _ => Err(self.unexpected(CONDITION)),
        }
    }

    fn reserved(&self, expected: &str) -> FilterFault {
        let fault = self.unexpected(expected);
        match &self.token {
            Token::Word(word) => FilterFault {
                expected: format!("{expected}; a name like this needs quotes (\"{word}\")"),
                ..fault
            },
            _ => fault,
        }
    }

    /// Reads the name of an attribute or a tag.
    pub(super) fn name(&mut self, expected: &str) -> Result<String, FilterFault> {
        let name = match &self.token {
            Token::Word(word) if is_reserved(word) => return Err(self.reserved(expected)),
            Token::Word(name) | Token::Quoted('"' | '`', name) => name.clone(),
            _ => return Err(self.unexpected(expected)),
        };
        if check_attribute_name(&name).is_err() {
            let message = match name.len() {
                0 => "the name is empty".to_owned(),
                n if n > NAME_BYTES_MAX => format!("the name is {n} bytes long"),
                _ => format!("\"{}\" cannot be a name", excerpt(&name)),
            };
            return Err(FilterFault::new(
                self.span,
                Kind::Name,
                message,
                format!("a name: 1 to {NAME_BYTES_MAX} bytes without `=` and control characters"),
            ));
        }
        let (_, span) = self.take()?;
        if self.strict {
            self.names.push((name.clone(), span));
        }
        Ok(name)
    }

    /// Reads the name behind `EXISTS`, with or without parentheses.
    fn existence(&mut self) -> Result<Expr, FilterFault> {
        const NAME: &str = "the name of an attribute or a tag after EXISTS";
        let name = if self.token == Token::Sign("(") {
            let (_, open) = self.take()?;
            let name = self.name(NAME)?;
            self.close(")", open, "`)` after the name")?;
            name
        } else {
            self.name(NAME)?
        };
        Ok(Expr::term(name, Test::Exists))
    }

    /// Reads a condition that begins with a value: `10 < size`, `'fast' IN modes`.
    fn value_first(&mut self) -> Result<Expr, FilterFault> {
        const OPERATOR: &str = "=, !=, <, <=, >, >= or IN and a name after a value";
        const NAME: &str = "the name of an attribute or a tag";
        if self.token.is_word("NULL") || !matches!(self.token, Token::Word(_)) {
            let (operand, span) = self.operand()?;
            let negated = self.token.is_word("NOT");
            if negated {
                self.take()?;
            }
            if self.token.is_word("IN") {
                self.take()?;
                let test = Test::Contains(super::operator::instant(operand, span)?);
                let name = self.name(NAME)?;
                return Ok(Expr::term(
                    name,
                    if negated { test.negated() } else { test },
                ));
            }
            if negated {
                return Err(self.unexpected("IN and a name after NOT"));
            }
            if let Token::Sign(sign) = self.token
                && let Some(comparison) = comparison(sign)
            {
                self.take()?;
                let name = self.name(NAME)?;
                let test = self.compared(comparison.flipped(), operand, span)?;
                return Ok(Expr::term(name, test));
            }
        }
        Err(self.unexpected(OPERATOR))
    }

    /// Reads the operator and operands behind a name; a name alone tests its existence.
    fn tests(&mut self, name: String) -> Result<Expr, FilterFault> {
        let mut negated = false;
        while self.token.is_word("NOT") {
            negated = !negated;
            self.take()?;
        }
        let ends = match &self.token {
            Token::End | Token::Sign(")" | "&&" | "||") => true,
            token => token.is_word("AND") || token.is_word("OR"),
        };
        if ends && !negated {
            return Ok(Expr::term(name, Test::Exists));
        }
        if self.token.is_word("EXISTS") {
            self.take()?;
            let exists = Expr::term(name, Test::Exists);
            return Ok(if negated { exists.negated() } else { exists });
        }
        let operator = self.span;
        let outcome = self.operator()?;
        let tests = if negated { outcome.negated() } else { outcome };
        // A condition that becomes several is written back in parentheses, so it counts one level.
        if tests.is_several() {
            self.enter(operator)?;
            self.depth -= 1;
        }
        Ok(tests.of(&name))
    }

    /// Consumes an operator that takes a pattern.
    pub(super) fn take_pattern_operator(&mut self) -> Result<(Token, Span), FilterFault> {
        self.take_with(true)
    }
}

/// Returns the comparison for an operator sign.
pub(super) fn comparison(sign: &str) -> Option<Comparison> {
    Some(match sign {
        "=" | "==" => Comparison::Eq,
        "!=" | "<>" => Comparison::Ne,
        "<" => Comparison::Lt,
        "<=" => Comparison::Le,
        ">" => Comparison::Gt,
        ">=" => Comparison::Ge,
        _ => return None,
    })
}
