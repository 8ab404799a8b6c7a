//! The grammar of a chain: calls, and their arguments as written.
//!
//! What they mean is for [`super::argument`] (each by itself) and [`super::parse`] (in its place of the chain).

use super::error::{Fault, ParseErrorKind as Kind, Span, excerpt};
use super::lexer::{Lexer, Token};
use crate::limits::{LIST_DEPTH_MAX, TRAVERSAL_TEXT_BYTES_MAX};
use crate::schema::nearest;
use crate::value::Value;

pub(super) const CALLS: [&str; 10] = [
    "e",
    "ea",
    "v",
    "va",
    "rtn",
    "return_fp",
    "repeat",
    "as_of",
    "versions",
    "limit",
];
pub(super) const FILTERS: [&str; 3] = ["EQ", "IN", "RANGE"];
pub(super) const START: &str = "v(\"type:key\", …) or v(type=\"Type\") at the start";

/// How each call is written, for messages.
pub(super) fn usage(call: &str) -> &'static str {
    match call {
        "e" => "e(\"edge type\", …), or e() for all types",
        "ea" => {
            "ea(attribute, EQ, value), ea(attribute, IN, value, …), ea(attribute, RANGE, low, high) or ea(\"condition\")"
        }
        "va" => {
            "va(attribute, EQ, value), va(attribute, IN, value, …), va(attribute, RANGE, low, high) or va(\"condition\")"
        }
        "v" => "v() without arguments after e(…); filter with va(key, EQ, …) or va(type, EQ, …)",
        "rtn" => "rtn() without arguments",
        "return_fp" => "return_fp() without arguments",
        "repeat" => "repeat() or repeat(max=8)",
        "as_of" => "as_of(\"2026-03-01T12:00:00Z\")",
        "versions" => "versions(\"2026-03-01\", \"2026-03-31\"), null for an open end",
        _ => "limit(100)",
    }
}

/// An argument as written.
#[derive(Debug)]
pub(super) struct Argument {
    pub(super) span: Span,
    /// `name=` before it.
    pub(super) name: Option<String>,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Word(String),
    Text(String),
    Literal(Value),
    List(Vec<Argument>),
}

impl What {
    /// What it is, with an article, for messages.
    pub(super) fn described(&self) -> String {
        let kind = match self {
            Self::Word(word) => match word.as_str() {
                "true" | "false" => "bool",
                "null" => return "null".to_owned(),
                "inf" => "f64",
                _ => "plain word",
            },
            Self::Text(_) => "string",
            Self::Literal(value) => value.kind_name(),
            Self::List(_) => "list",
        };
        let article = if kind == "i64" || kind == "f64" {
            "an"
        } else {
            "a"
        };
        format!("{article} {kind}")
    }
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) span: Span,
    pub(super) arguments: Vec<Argument>,
    /// The closing parenthesis, or nothing behind a bare `v`.
    pub(super) close: Span,
}

pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    pub(super) token: Token,
    pub(super) span: Span,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self, Fault> {
        if text.len() > TRAVERSAL_TEXT_BYTES_MAX {
            return Err(Fault::new(
                Span::new(0, 0),
                Kind::Limit,
                format!("the traversal is {} bytes long", text.len()),
                format!("at most {TRAVERSAL_TEXT_BYTES_MAX} bytes"),
            ));
        }
        let mut lexer = Lexer::new(text);
        let (token, span) = lexer.next()?;
        Ok(Self { lexer, token, span })
    }

    /// Takes the current token and reads the next.
    fn take(&mut self) -> Result<(Token, Span), Fault> {
        let (token, span) = self.lexer.next()?;
        Ok((
            std::mem::replace(&mut self.token, token),
            std::mem::replace(&mut self.span, span),
        ))
    }

    fn found(&self) -> String {
        match &self.token {
            Token::Word(word) => format!("`{}`", excerpt(word)),
            Token::Text(text) => format!("string \"{}\"", excerpt(text)),
            Token::Literal(value) => format!("value ({})", value.kind_name()),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::End => "end of the text".to_owned(),
        }
    }

    pub(super) fn unexpected(&self, expected: impl Into<String>) -> Fault {
        Fault::new(
            self.span,
            Kind::Unexpected,
            format!("unexpected {}", self.found()),
            expected,
        )
    }

    /// `GTravel.`, `g.` or nothing, then `v(…)`.
    pub(super) fn start(&mut self) -> Result<Call, Fault> {
        if self.token == Token::End {
            return Err(Fault::new(
                Span::new(0, 0),
                Kind::Empty,
                "the traversal is empty",
                START,
            ));
        }
        if matches!(&self.token, Token::Word(w) if w == "GTravel" || w == "g") {
            self.take()?;
            if self.token != Token::Sign('.') {
                return Err(self.unexpected("`.` and v(…) behind it"));
            }
            self.take()?;
        }
        let Token::Word(word) = &self.token else {
            return Err(self.unexpected(START));
        };
        if word != "v" {
            let (kind, message) = if CALLS.contains(&word.as_str()) || word == "rtm" {
                let message = format!("a chain cannot begin with `{word}`");
                (Kind::Order, message)
            } else {
                let message = format!("unknown call `{}`", excerpt(word));
                (Kind::UnknownCall, message)
            };
            let close = nearest(word, ["GTravel", "v"].into_iter());
            return Err(Fault::new(self.span, kind, message, START).suggest(close));
        }
        let (_, span) = self.take()?;
        self.arguments("v", span)
    }

    /// `.name(…)`.
    pub(super) fn next_call(&mut self) -> Result<Call, Fault> {
        match &self.token {
            Token::Sign('.') => self.take()?,
            Token::Sign(')' | ']') => {
                return Err(Fault::new(
                    self.span,
                    Kind::Unbalanced,
                    format!("{} closes nothing", self.found()),
                    "`.` and a call, or the end",
                ));
            }
            Token::Word(word) => {
                return Err(Fault::new(
                    Span::new(self.span.at, 0),
                    Kind::MissingDot,
                    format!("missing `.` before `{}`", excerpt(word)),
                    "`.` between calls",
                ));
            }
            _ => return Err(self.unexpected("`.` and a call, or the end")),
        };
        let expected = || format!("one of: {}", CALLS.join(", "));
        let Token::Word(word) = &self.token else {
            return Err(self.unexpected(format!("a call behind `.`, {}", expected())));
        };
        let word = if word == "rtm" { "rtn" } else { word.as_str() };
        let Some(name) = CALLS.into_iter().find(|call| *call == word) else {
            return Err(Fault::new(
                self.span,
                Kind::UnknownCall,
                format!("unknown call `{}`", excerpt(word)),
                expected(),
            )
            .suggest(nearest(word, CALLS.into_iter())));
        };
        let (_, span) = self.take()?;
        if name == "v" && self.token != Token::Sign('(') {
            return Ok(Call {
                name,
                span,
                arguments: Vec::new(),
                close: Span::new(span.end(), 0),
            });
        }
        self.arguments(name, span)
    }

    /// `(…)` behind a call's name.
    fn arguments(&mut self, name: &'static str, span: Span) -> Result<Call, Fault> {
        if self.token != Token::Sign('(') {
            return Err(self.unexpected(format!("`(` behind `{name}`")));
        }
        let (_, open) = self.take()?;
        let arguments = self.list(open, name)?;
        let (_, close) = self.take()?;
        Ok(Call {
            name,
            span,
            arguments,
            close,
        })
    }

    /// Arguments up to the closing parenthesis, which stays the current token.
    fn list(&mut self, open: Span, call: &str) -> Result<Vec<Argument>, Fault> {
        let unclosed = || {
            Fault::new(
                open,
                Kind::Unbalanced,
                "`(` is never closed",
                format!("`,` or `)` behind the last argument of {call}"),
            )
        };
        let mut items = Vec::new();
        if self.token == Token::Sign(')') {
            return Ok(items);
        }
        loop {
            if self.token == Token::End {
                return Err(unclosed());
            }
            items.push(self.argument(call)?);
            match self.token {
                Token::Sign(',') => {
                    self.take()?;
                }
                Token::Sign(')') => return Ok(items),
                Token::End => return Err(unclosed()),
                _ => return Err(self.not_separated(items.last(), call)),
            }
        }
    }

    /// An argument that neither `,` nor `)` follows.
    fn not_separated(&self, last: Option<&Argument>, call: &str) -> Fault {
        match last {
            // `v("file:/C).e("read")`: the string ends where the next one was to begin.
            Some(Argument {
                span,
                what: What::Text(_),
                ..
            }) if span.end() == self.span.at && matches!(self.token, Token::Word(_)) => Fault::new(
                *span,
                Kind::UnclosedString,
                format!("{} follows this string directly", self.found()),
                "a quote where the string ends, and `,` or `)` behind it",
            ),
            _ => self.unexpected(format!("`,` or `)`: the `(` of {call} is still open")),
        }
    }

    pub(super) fn argument(&mut self, what: &str) -> Result<Argument, Fault> {
        self.argument_nested(what, 0)
    }

    /// An argument with or without `name=` before it. A second `=` is refused here and not followed: a long row of
    /// them must not become deep recursion.
    fn argument_nested(&mut self, call: &str, depth: usize) -> Result<Argument, Fault> {
        let first = self.bare_argument(call, depth)?;
        if self.token != Token::Sign('=') {
            return Ok(first);
        }
        let What::Word(name) = first.what else {
            return Err(self.unexpected("a plain word before `=`"));
        };
        self.take()?;
        let value = self.bare_argument(call, depth)?;
        if self.token == Token::Sign('=') {
            return Err(self.unexpected("one `=` in an argument"));
        }
        Ok(Argument {
            span: first.span.to(value.span),
            name: Some(name),
            what: value.what,
        })
    }

    fn bare_argument(&mut self, call: &str, depth: usize) -> Result<Argument, Fault> {
        let what = match &self.token {
            Token::Sign('[') => return self.bracketed(call, depth),
            Token::Word(_) if self.lexer.at_name_sign() => return Err(self.unquoted_name()),
            Token::Word(word) => What::Word(word.clone()),
            Token::Text(text) => What::Text(text.clone()),
            Token::Literal(value) => What::Literal(value.clone()),
            Token::Sign(_) | Token::End => {
                return Err(self.unexpected(format!("an argument of {call}")));
            }
        };
        let (_, span) = self.take()?;
        Ok(Argument {
            span,
            name: None,
            what,
        })
    }

    fn bracketed(&mut self, what: &str, depth: usize) -> Result<Argument, Fault> {
        let (_, open) = self.take()?;
        // One level more than values may have: the brackets around the alternatives of IN.
        if depth > LIST_DEPTH_MAX {
            return Err(too_deep(open));
        }
        let mut items = Vec::new();
        if self.token != Token::Sign(']') {
            loop {
                if self.token == Token::End {
                    break;
                }
                items.push(self.argument_nested(what, depth + 1)?);
                if self.token != Token::Sign(',') {
                    break;
                }
                self.take()?;
            }
        }
        match self.token {
            Token::Sign(']') => {
                let (_, close) = self.take()?;
                Ok(Argument {
                    span: open.to(close),
                    name: None,
                    what: What::List(items),
                })
            }
            Token::End => Err(Fault::new(
                open,
                Kind::Unbalanced,
                "`[` is never closed",
                "`,` or `]` behind the last item of the list",
            )),
            _ => Err(self.unexpected("`,` or `]` in the list")),
        }
    }

    /// `file:/C` without quotes around it.
    fn unquoted_name(&self) -> Fault {
        let run = self.lexer.run_from(self.span.at);
        Fault::new(
            Span::new(self.span.at, run.len()),
            Kind::ArgumentKind,
            format!("`{}` stands without quotes", excerpt(run)),
            format!("quotes around names and strings: \"{}\"", excerpt(run)),
        )
    }
}

pub(super) fn too_deep(span: Span) -> Fault {
    Fault::new(
        span,
        Kind::Limit,
        format!("the list is nested deeper than {LIST_DEPTH_MAX}"),
        format!("lists at most {LIST_DEPTH_MAX} deep"),
    )
}
