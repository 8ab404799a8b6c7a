//! The grammar of a chain: calls and their arguments as written.
//!
//! [`super::argument`] interprets each argument by itself, [`super::parse`] each call by its position in the chain.

use super::error::{Span, TraversalErrorKind as Kind, TraversalFault, excerpt};
use super::lexer::{ChainLexer, ChainToken};
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

/// Returns the syntax of a call, for messages.
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
    /// The name before `=`, if there is one.
    pub(super) name: Option<String>,
    pub(super) what: ArgumentValue,
}

#[derive(Debug)]
pub(super) enum ArgumentValue {
    Word(String),
    Text(String),
    Literal(Value),
    List(Vec<Argument>),
}

impl ArgumentValue {
    /// Returns the kind of the argument with an article, for messages.
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
pub(super) struct ChainCall {
    pub(super) name: &'static str,
    pub(super) span: Span,
    pub(super) arguments: Vec<Argument>,
    /// The closing parenthesis, or an empty span behind a bare `v`.
    pub(super) close: Span,
}

pub(super) struct ChainParser<'a> {
    lexer: ChainLexer<'a>,
    pub(super) token: ChainToken,
    pub(super) span: Span,
}

impl<'a> ChainParser<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self, TraversalFault> {
        if text.len() > TRAVERSAL_TEXT_BYTES_MAX {
            return Err(TraversalFault::new(
                Span::new(0, 0),
                Kind::Limit,
                format!("the traversal is {} bytes long", text.len()),
                format!("at most {TRAVERSAL_TEXT_BYTES_MAX} bytes"),
            ));
        }
        let mut lexer = ChainLexer::new(text);
        let (token, span) = lexer.next()?;
        Ok(Self { lexer, token, span })
    }

    /// Consumes the current token and reads the next.
    fn take(&mut self) -> Result<(ChainToken, Span), TraversalFault> {
        let (token, span) = self.lexer.next()?;
        Ok((
            std::mem::replace(&mut self.token, token),
            std::mem::replace(&mut self.span, span),
        ))
    }

    fn found(&self) -> String {
        match &self.token {
            ChainToken::Word(word) => format!("`{}`", excerpt(word)),
            ChainToken::Text(text) => format!("string \"{}\"", excerpt(text)),
            ChainToken::Literal(value) => format!("value ({})", value.kind_name()),
            ChainToken::Sign(sign) => format!("`{sign}`"),
            ChainToken::End => "end of the text".to_owned(),
        }
    }

    pub(super) fn unexpected(&self, expected: impl Into<String>) -> TraversalFault {
        TraversalFault::new(
            self.span,
            Kind::Unexpected,
            format!("unexpected {}", self.found()),
            expected,
        )
    }

    /// Reads `GTravel.`, `g.` or nothing, then `v(…)`.
    pub(super) fn start(&mut self) -> Result<ChainCall, TraversalFault> {
        if self.token == ChainToken::End {
            return Err(TraversalFault::new(
                Span::new(0, 0),
                Kind::Empty,
                "the traversal is empty",
                START,
            ));
        }
        if matches!(&self.token, ChainToken::Word(w) if w == "GTravel" || w == "g") {
            self.take()?;
            if self.token != ChainToken::Sign('.') {
                return Err(self.unexpected("`.` and v(…) after it"));
            }
            self.take()?;
        }
        let ChainToken::Word(word) = &self.token else {
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
            return Err(TraversalFault::new(self.span, kind, message, START).suggest(close));
        }
        let (_, span) = self.take()?;
        self.arguments("v", span)
    }

    /// Reads a call behind a dot: `.name(…)`.
    pub(super) fn next_call(&mut self) -> Result<ChainCall, TraversalFault> {
        match &self.token {
            ChainToken::Sign('.') => self.take()?,
            ChainToken::Sign(')' | ']') => {
                return Err(TraversalFault::new(
                    self.span,
                    Kind::Unbalanced,
                    format!("{} closes nothing", self.found()),
                    "`.` and a call, or the end",
                ));
            }
            ChainToken::Word(word) => {
                return Err(TraversalFault::new(
                    Span::new(self.span.at, 0),
                    Kind::MissingDot,
                    format!("missing `.` before `{}`", excerpt(word)),
                    "`.` between calls",
                ));
            }
            _ => return Err(self.unexpected("`.` and a call, or the end")),
        };
        let expected = || format!("one of: {}", CALLS.join(", "));
        let ChainToken::Word(word) = &self.token else {
            return Err(self.unexpected(format!("a call after `.`, {}", expected())));
        };
        let word = if word == "rtm" { "rtn" } else { word.as_str() };
        let Some(name) = CALLS.into_iter().find(|call| *call == word) else {
            return Err(TraversalFault::new(
                self.span,
                Kind::UnknownCall,
                format!("unknown call `{}`", excerpt(word)),
                expected(),
            )
            .suggest(nearest(word, CALLS.into_iter())));
        };
        let (_, span) = self.take()?;
        if name == "v" && self.token != ChainToken::Sign('(') {
            return Ok(ChainCall {
                name,
                span,
                arguments: Vec::new(),
                close: Span::new(span.end(), 0),
            });
        }
        self.arguments(name, span)
    }

    /// Reads `(…)` behind a call's name.
    fn arguments(&mut self, name: &'static str, span: Span) -> Result<ChainCall, TraversalFault> {
        if self.token != ChainToken::Sign('(') {
            return Err(self.unexpected(format!("`(` after `{name}`")));
        }
        let (_, open) = self.take()?;
        let arguments = self.list(open, name)?;
        let (_, close) = self.take()?;
        Ok(ChainCall {
            name,
            span,
            arguments,
            close,
        })
    }

    /// Reads arguments up to the closing parenthesis, which stays the current token.
    fn list(&mut self, open: Span, call: &str) -> Result<Vec<Argument>, TraversalFault> {
        let unclosed = || {
            TraversalFault::new(
                open,
                Kind::Unbalanced,
                "`(` is never closed",
                format!("`,` or `)` after the last argument of {call}"),
            )
        };
        let mut items = Vec::new();
        if self.token == ChainToken::Sign(')') {
            return Ok(items);
        }
        loop {
            if self.token == ChainToken::End {
                return Err(unclosed());
            }
            items.push(self.argument(call)?);
            match self.token {
                ChainToken::Sign(',') => {
                    self.take()?;
                }
                ChainToken::Sign(')') => return Ok(items),
                ChainToken::End => return Err(unclosed()),
                _ => return Err(self.not_separated(items.last(), call)),
            }
        }
    }

    /// Builds the error for an argument that neither `,` nor `)` follows.
    fn not_separated(&self, last: Option<&Argument>, call: &str) -> TraversalFault {
        match last {
            // In `v("file:/C).e("read")` the string ends where the next one was to begin.
            Some(Argument {
                span,
                what: ArgumentValue::Text(_),
                ..
            }) if span.end() == self.span.at && matches!(self.token, ChainToken::Word(_)) => {
                TraversalFault::new(
                    *span,
                    Kind::UnclosedString,
                    format!("{} follows this string directly", self.found()),
                    "a quote where the string ends, and `,` or `)` after it",
                )
            }
            _ => self.unexpected(format!("`,` or `)`: the `(` of {call} is still open")),
        }
    }

    pub(super) fn argument(&mut self, what: &str) -> Result<Argument, TraversalFault> {
        self.argument_nested(what, 0)
    }

    /// Reads an argument with or without `name=` before it. A second `=` is refused here and not followed, so that a
    /// long row of `=` does not cause deep recursion.
    fn argument_nested(&mut self, call: &str, depth: usize) -> Result<Argument, TraversalFault> {
        let first = self.bare_argument(call, depth)?;
        if self.token != ChainToken::Sign('=') {
            return Ok(first);
        }
        let ArgumentValue::Word(name) = first.what else {
            return Err(self.unexpected("a plain word before `=`"));
        };
        self.take()?;
        let value = self.bare_argument(call, depth)?;
        if self.token == ChainToken::Sign('=') {
            return Err(self.unexpected("one `=` in an argument"));
        }
        Ok(Argument {
            span: first.span.to(value.span),
            name: Some(name),
            what: value.what,
        })
    }

    fn bare_argument(&mut self, call: &str, depth: usize) -> Result<Argument, TraversalFault> {
        let what = match &self.token {
            ChainToken::Sign('[') => return self.bracketed(call, depth),
            ChainToken::Word(_) if self.lexer.at_name_sign() => return Err(self.unquoted_name()),
            ChainToken::Word(word) => ArgumentValue::Word(word.clone()),
            ChainToken::Text(text) => ArgumentValue::Text(text.clone()),
            ChainToken::Literal(value) => ArgumentValue::Literal(value.clone()),
            ChainToken::Sign(_) | ChainToken::End => {
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

    fn bracketed(&mut self, what: &str, depth: usize) -> Result<Argument, TraversalFault> {
        let (_, open) = self.take()?;
        // One level more than values may have: the brackets around the alternatives of IN.
        if depth > LIST_DEPTH_MAX {
            return Err(too_deep(open));
        }
        let mut items = Vec::new();
        if self.token != ChainToken::Sign(']') {
            loop {
                if self.token == ChainToken::End {
                    break;
                }
                items.push(self.argument_nested(what, depth + 1)?);
                if self.token != ChainToken::Sign(',') {
                    break;
                }
                self.take()?;
            }
        }
        match self.token {
            ChainToken::Sign(']') => {
                let (_, close) = self.take()?;
                Ok(Argument {
                    span: open.to(close),
                    name: None,
                    what: ArgumentValue::List(items),
                })
            }
            ChainToken::End => Err(TraversalFault::new(
                open,
                Kind::Unbalanced,
                "`[` is never closed",
                "`,` or `]` after the last item of the list",
            )),
            _ => Err(self.unexpected("`,` or `]` in the list")),
        }
    }

    /// Builds the error for a name such as `file:/C` without quotes.
    fn unquoted_name(&self) -> TraversalFault {
        let run = self.lexer.run_from(self.span.at);
        TraversalFault::new(
            Span::new(self.span.at, run.len()),
            Kind::ArgumentKind,
            format!("`{}` has no quotes", excerpt(run)),
            format!("quotes around names and strings: \"{}\"", excerpt(run)),
        )
    }
}

pub(super) fn too_deep(span: Span) -> TraversalFault {
    TraversalFault::new(
        span,
        Kind::Limit,
        format!("the list is nested deeper than {LIST_DEPTH_MAX}"),
        format!("lists at most {LIST_DEPTH_MAX} deep"),
    )
}
