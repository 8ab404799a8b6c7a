//! The chain syntax read: what each call means in its place of the chain.
//!
//! The rules, each with its own message:
//!
//! - A chain begins with `v("type:key", …)` or `v(type="T")`; `GTravel.` or `g.` may stand before it.
//! - `e(…)` begins a hop; `ea(…)` follows it before its `v()`; `v()` may be left out, and its parentheses too.
//! - `va(…)` and `ea(…)` take an attribute, a filter type and values, or one string in the filter language ([`crate::filter`]).
//! - `va(…)` and `rtn()` (or `rtm()`, the paper's other spelling) belong to the working set before them.
//! - `repeat()` goes through all hops since the start or the last `repeat(…)` again, at least one. Behind it stand a
//!   new `e(…)`, `rtn()` (what all rounds reached) or the end; a `va(…)` there could mean each round or the last one
//!   and is refused. `repeat(max=1)` goes through hops once: so hops that shall not repeat are kept apart.
//! - `as_of(t)` or `versions(t1, t2)`, one of them, once, anywhere behind the start: it holds for every hop. Both moments
//!   named lie inside: `versions("2026-03-01", "2026-03-02")` is two whole days; null is an open end.
//! - `limit(n)` and `return_fp()`, once each, come last. `return_fp()` beside `rtn()` is allowed: the answer then holds
//!   the paths and each working set asked for.

use super::argument::{
    as_of, filter_of, limit, max_of, names_of, no_arguments, start_of, value_of, versions,
};
use super::call::{Call, Parser, usage};
use super::error::{Fault, ParseErrorKind as Kind};
use super::lexer::Token;
use super::{Hop, ParseError, Repeat, Segment, Traversal};
use crate::limits::TRAVERSAL_CALLS_MAX;
use crate::value::Value;

impl Traversal {
    /// Reads a chain, as in `v("file:/C").e("wasWrittenBy").v().e("read").repeat().return_fp()` (GraphMeta,
    /// sections 2.3 and 4.2). Blanks, line breaks and comments (`#` to the end of the line) may stand anywhere
    /// between words. Strings take either quote and the usual escapes; edge types, attributes and the type of
    /// `v(type=…)` may be plain words. Values: strings, integers (`1_000`, `64MiB`, `10k`), doubles, `true`,
    /// `false`, `null`, `inf`, times (`t"2026-03-01T00:00:00Z"`), bytes (`x"00ff"`), lists (`[1, 2]`).
    ///
    /// Names are not looked up in a schema here. Whatever `Display` writes for a traversal read here is read back as
    /// the same traversal.
    ///
    /// Times relative to now (`va("mtime > 30d ago")`) are refused: see [`Self::parse_at`].
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse_chain(text, None).map_err(|fault| fault.locate(text))
    }

    /// The same for whoever knows what time it is, in nanoseconds since 1970.
    pub fn parse_at(text: &str, now: i64) -> Result<Self, ParseError> {
        parse_chain(text, Some(now)).map_err(|fault| fault.locate(text))
    }
}

/// Reads one value in the chain syntax's own form (see [`Traversal::parse`]); what
/// [`value_text`](super::value_text) writes is read back.
pub fn parse_value(text: &str) -> Result<Value, ParseError> {
    let read = || {
        let mut parser = Parser::new(text)?;
        let argument = parser.argument("a value")?;
        let value = value_of(argument)?;
        match parser.token {
            Token::End => Ok(value),
            _ => Err(parser.unexpected("nothing behind the value")),
        }
    };
    read().map_err(|fault: Fault| fault.locate(text))
}

fn parse_chain(text: &str, now: Option<i64>) -> Result<Traversal, Fault> {
    let mut parser = Parser::new(text)?;
    let mut chain = Chain::new(parser.start()?, now)?;
    let mut calls = 1;
    while parser.token != Token::End {
        let call = parser.next_call()?;
        // `v()` behind `e(…)` may be left out, and is written behind each: that must not make a chain too long.
        calls += usize::from(call.name != "v");
        if calls > TRAVERSAL_CALLS_MAX {
            return Err(Fault::new(
                call.span,
                Kind::Limit,
                format!("the chain has more than {TRAVERSAL_CALLS_MAX} calls"),
                "a shorter chain; repeat() goes through the same hops again",
            ));
        }
        chain.add(call)?;
    }
    Ok(chain.finish())
}

/// Where in the chain the next call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Behind `v(…)`, its filters and its `rtn()`.
    Start,
    /// Behind `e(…)`, before its `v()`.
    Edge,
    /// Behind a hop's `v()`, filter or `rtn()`.
    Vertex,
    /// Behind `repeat(…)`.
    Repeated,
}

/// The traversal under construction.
struct Chain {
    traversal: Traversal,
    /// Hops since the start or the last `repeat(…)`.
    hops: Vec<Hop>,
    stage: Stage,
    /// Calls that may stand once, with their places.
    seen: Vec<&'static str>,
    /// What time it is, if the caller knows.
    now: Option<i64>,
}

impl Chain {
    fn new(call: Call, now: Option<i64>) -> Result<Self, Fault> {
        Ok(Self {
            traversal: Traversal {
                start: start_of(call)?,
                start_filters: Vec::new(),
                start_returned: false,
                segments: Vec::new(),
                return_paths: false,
                as_of: None,
                versions: None,
                limit: None,
            },
            hops: Vec::new(),
            stage: Stage::Start,
            seen: Vec::new(),
            now,
        })
    }

    fn finish(mut self) -> Traversal {
        if !self.hops.is_empty() {
            self.traversal.segments.push(Segment {
                hops: self.hops,
                repeat: None,
            });
        }
        self.traversal
    }

    /// The hop that `va`, `rtn` and the like belong to.
    fn last_hop(&mut self) -> Option<&mut Hop> {
        if self.stage == Stage::Repeated {
            self.traversal
                .segments
                .last_mut()
                .and_then(|s| s.hops.last_mut())
        } else {
            self.hops.last_mut()
        }
    }

    fn add(&mut self, call: Call) -> Result<(), Fault> {
        self.check_order(&call)?;
        match call.name {
            "e" => {
                let edge_types = names_of(call)?;
                self.hops.push(Hop {
                    edge_types,
                    edge_filters: Vec::new(),
                    vertex_filters: Vec::new(),
                    returned: false,
                });
                self.stage = Stage::Edge;
            }
            "ea" => {
                let filter = filter_of(call, self.now)?;
                if let Some(hop) = self.last_hop() {
                    hop.edge_filters.push(filter);
                }
            }
            "v" => {
                no_arguments(&call)?;
                self.stage = Stage::Vertex;
            }
            "va" => {
                let filter = filter_of(call, self.now)?;
                match self.last_hop() {
                    Some(hop) => {
                        hop.vertex_filters.push(filter);
                        self.stage = Stage::Vertex;
                    }
                    None => self.traversal.start_filters.push(filter),
                }
            }
            "rtn" => self.add_return(&call)?,
            "repeat" => {
                let max = max_of(call)?;
                self.traversal.segments.push(Segment {
                    hops: std::mem::take(&mut self.hops),
                    repeat: Some(Repeat { max }),
                });
                self.stage = Stage::Repeated;
            }
            "return_fp" => {
                no_arguments(&call)?;
                self.traversal.return_paths = true;
            }
            "as_of" => self.traversal.as_of = Some(as_of(call)?),
            "versions" => self.traversal.versions = Some(versions(call)?),
            _ => self.traversal.limit = Some(limit(call)?),
        }
        Ok(())
    }

    fn add_return(&mut self, call: &Call) -> Result<(), Fault> {
        no_arguments(call)?;
        let repeated = self.stage == Stage::Repeated;
        let returned = match self.last_hop() {
            Some(hop) => &mut hop.returned,
            None => &mut self.traversal.start_returned,
        };
        if std::mem::replace(returned, true) {
            return Err(Fault::new(
                call.span,
                Kind::Duplicate,
                "`rtn` stands twice behind the same hop",
                "one rtn() for each working set",
            ));
        }
        if !repeated && self.stage == Stage::Edge {
            self.stage = Stage::Vertex;
        }
        Ok(())
    }

    /// Whether a call may stand where it stands.
    fn check_order(&mut self, call: &Call) -> Result<(), Fault> {
        let name = call.name;
        let order = |message: &str, expected: &str| {
            Err(Fault::new(call.span, Kind::Order, message, expected))
        };
        let whole = matches!(name, "as_of" | "versions" | "limit" | "return_fp");
        if whole {
            if self.seen.contains(&name) {
                return Err(Fault::new(
                    call.span,
                    Kind::Duplicate,
                    format!("`{name}` stands twice"),
                    format!("`{name}` at most once in a chain"),
                ));
            }
            let other = if name == "as_of" { "versions" } else { "as_of" };
            if matches!(name, "as_of" | "versions") && self.seen.contains(&other) {
                return Err(Fault::new(
                    call.span,
                    Kind::Conflict,
                    "`as_of` and `versions` exclude each other",
                    "one of them: as_of(t) reads one moment, versions(t1, t2) a range",
                ));
            }
            self.seen.push(name);
            return Ok(());
        }
        for last in ["limit", "return_fp"] {
            if self.seen.contains(&last) {
                return order(
                    &format!("`{name}` cannot follow `{last}`"),
                    &format!("`{last}` behind all hops: it holds for the whole chain"),
                );
            }
        }
        match (name, self.stage) {
            ("ea", Stage::Start | Stage::Repeated) => order(
                "`ea` filters edges, but there is no `e(…)` before it",
                "ea(…) directly behind e(…)",
            ),
            ("ea", Stage::Vertex) => order(
                "`ea` must come before the hop's `v()`",
                "e(…).ea(…).v(): first the edges, then the vertices they lead to",
            ),
            ("v", Stage::Start | Stage::Vertex | Stage::Repeated) if !call.arguments.is_empty() => {
                order("`v` with arguments can only begin a chain", usage("v"))
            }
            ("v", Stage::Start | Stage::Vertex | Stage::Repeated) => order(
                "`v()` has no `e(…)` to lead to it",
                "e(…) before each further v()",
            ),
            ("va", Stage::Repeated) => order(
                "`va` cannot follow `repeat`: it could mean each round or the last",
                "va(…) before repeat(…), where it filters each round",
            ),
            ("repeat", Stage::Start) => order(
                "`repeat` has nothing to go through again",
                "at least one e(…) before repeat(…)",
            ),
            ("repeat", Stage::Repeated) => order(
                "`repeat` directly behind `repeat`",
                "at least one e(…) between two repeat(…)",
            ),
            _ => Ok(()),
        }
    }
}
