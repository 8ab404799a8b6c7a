//! The filter language read: conditions, and what joins them.
//!
//! `OR` binds loosest, then `AND`, then `NOT`. Nesting is bounded, so that no text makes the stack overflow.

use super::error::{Fault, ParseError, ParseErrorKind as Kind, Span, excerpt};
use super::lexer::Lexer;
use super::token::{Token, is_reserved};
use super::{Comparison, Expr, Test};
use crate::caret;
use crate::limits::{FILTER_DEPTH_MAX, FILTER_TEXT_BYTES_MAX, NAME_BYTES_MAX};
use crate::schema::check_attribute_name;

const CONDITION: &str = "a condition, as in energy > 2, Name = 'VPIC', EXISTS tag or (…)";
const JOIN: &str = "AND, OR or the end behind a condition";

impl Expr {
    /// Reads a filter, as in `Name = 'VPIC' AND step BETWEEN 10 AND 20 AND note LIKE 'run%'`. Nothing but blanks is the
    /// empty filter, [`Expr::All`].
    ///
    /// `now` is what time it is, in nanoseconds since 1970: what `30d ago` and `now` are relative to. Without it, those
    /// are refused. Names are not looked up anywhere. What `Display` writes for a filter read here is read back as the
    /// same filter, without `now`.
    pub fn parse(text: &str, now: Option<i64>) -> Result<Self, ParseError> {
        let parser = Parser::new(text, now, true);
        parser.and_then(filter).map_err(|fault| fault.locate(text))
    }

    /// Reads what `Display` wrote, from whom it comes over a wire: the same grammar without `now`, without a bound on the
    /// length of the text, and without complaints about what can hold of nothing, such as `x BETWEEN 2 AND 'a'`, which
    /// programs can build.
    pub fn parse_canonical(text: &str) -> Result<Self, ParseError> {
        let parser = Parser::new(text, None, false);
        parser
            .and_then(filter)
            .map(Self::normal)
            .map_err(|fault| fault.locate(text))
    }
}

/// Several lines for a terminal about a name that nothing has: the line of the filter with carets under it, and the nearest
/// name that there is, with how many objects have that. `None` where the filter does not have the name.
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
    let (at, line, _) = caret::place(text, span.at);
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
        &caret::Shown {
            at,
            len: span.len,
            line,
            message: &format!("unknown tag '{}'", excerpt(name)),
            advice,
        },
    ))
}

/// `41,022`
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

fn filter(mut parser: Parser<'_>) -> Result<Expr, Fault> {
    if parser.token == Token::End {
        return Ok(Expr::All);
    }
    let expr = parser.alternatives()?;
    match parser.token {
        Token::End => Ok(expr),
        Token::Sign(sign @ (")" | "]")) => Err(Fault::new(
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
    /// Where the token before the current one ends.
    pub(super) last_end: usize,
    pub(super) now: Option<i64>,
    depth: usize,
    /// Whether a person wrote it, who wants to hear about conditions that can hold of nothing.
    pub(super) strict: bool,
    /// Where names stand.
    names: Vec<(String, Span)>,
    /// Regular expressions so far.
    pub(super) regexes: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, now: Option<i64>, strict: bool) -> Result<Self, Fault> {
        if strict && text.len() > FILTER_TEXT_BYTES_MAX {
            return Err(Fault::new(
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

    /// Takes the current token and reads the next.
    pub(super) fn take(&mut self) -> Result<(Token, Span), Fault> {
        self.take_before(false)
    }

    /// The same; a string that is read next is a pattern.
    fn take_before(&mut self, pattern: bool) -> Result<(Token, Span), Fault> {
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

    pub(super) fn unexpected(&self, expected: impl Into<String>) -> Fault {
        let message = format!("unexpected {}", self.found());
        Fault::new(self.span, Kind::Unexpected, message, expected)
    }

    /// Takes what closes a parenthesis or bracket.
    pub(super) fn close(&mut self, sign: &str, open: Span, expected: &str) -> Result<(), Fault> {
        match &self.token {
            Token::Sign(s) if *s == sign => {
                self.take()?;
                Ok(())
            }
            Token::End => {
                let opening = if sign == ")" { "(" } else { "[" };
                Err(Fault::new(
                    open,
                    Kind::Unbalanced,
                    format!("`{opening}` is never closed"),
                    expected,
                ))
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    /// Goes one level deeper at something.
    fn enter(&mut self, span: Span) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth > FILTER_DEPTH_MAX {
            return Err(Fault::new(
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

    /// Conditions with `OR` between them.
    fn alternatives(&mut self) -> Result<Expr, Fault> {
        let mut parts = vec![self.conjunction()?];
        while self.at("OR", "||") {
            self.take()?;
            parts.push(self.conjunction()?);
        }
        Ok(Expr::any_of(parts))
    }

    /// Conditions with `AND` between them.
    fn conjunction(&mut self) -> Result<Expr, Fault> {
        let mut parts = vec![self.condition()?];
        while self.at("AND", "&&") {
            self.take()?;
            parts.push(self.condition()?);
        }
        Ok(Expr::all_of(parts))
    }

    /// A condition with `NOT` before it or without.
    fn condition(&mut self) -> Result<Expr, Fault> {
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

    fn plain_condition(&mut self) -> Result<Expr, Fault> {
        match &self.token {
            Token::Sign("(") => {
                let (_, open) = self.take()?;
                self.enter(open)?;
                let inner = self.alternatives()?;
                self.depth -= 1;
                self.close(
                    ")",
                    open,
                    "AND, OR or `)` behind a condition in parentheses",
                )?;
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

    fn reserved(&self, expected: &str) -> Fault {
        let fault = self.unexpected(expected);
        match &self.token {
            Token::Word(word) => Fault {
                expected: format!("{expected}; a name like this needs quotes (\"{word}\")"),
                ..fault
            },
            _ => fault,
        }
    }

    /// The name of an attribute or a tag.
    pub(super) fn name(&mut self, expected: &str) -> Result<String, Fault> {
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
            return Err(Fault::new(
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

    /// Behind `EXISTS`: a name, in parentheses or without.
    fn existence(&mut self) -> Result<Expr, Fault> {
        const NAME: &str = "the name of an attribute or a tag behind EXISTS";
        let name = if self.token == Token::Sign("(") {
            let (_, open) = self.take()?;
            let name = self.name(NAME)?;
            self.close(")", open, "`)` behind the name")?;
            name
        } else {
            self.name(NAME)?
        };
        Ok(Expr::term(name, Test::Exists))
    }

    /// `10 < size`, `'fast' IN modes`.
    fn value_first(&mut self) -> Result<Expr, Fault> {
        const OPERATOR: &str = "=, !=, <, <=, >, >= or IN and a name behind a value";
        const NAME: &str = "the name of an attribute or a tag";
        if self.token.is_word("NULL") || !matches!(self.token, Token::Word(_)) {
            let (operand, span) = self.operand()?;
            let negated = self.token.is_word("NOT");
            if negated {
                self.take()?;
            }
            if self.token.is_word("IN") {
                self.take()?;
                let test = Test::Contains(super::operator::moment(operand, span)?);
                let name = self.name(NAME)?;
                return Ok(Expr::term(
                    name,
                    if negated { test.negated() } else { test },
                ));
            }
            if negated {
                return Err(self.unexpected("IN and a name behind NOT"));
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

    /// What a name is asked for; a name alone asks whether it is there.
    fn tests(&mut self, name: String) -> Result<Expr, Fault> {
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
        // What was written as one condition stands in parentheses when it is written back.
        if tests.is_several() {
            self.enter(operator)?;
            self.depth -= 1;
        }
        Ok(tests.of(&name))
    }

    /// Takes an operator that takes a pattern.
    pub(super) fn take_pattern_operator(&mut self) -> Result<(Token, Span), Fault> {
        self.take_before(true)
    }
}

/// The comparison that a sign stands for.
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
