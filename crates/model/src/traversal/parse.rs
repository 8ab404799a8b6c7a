//! Parser of the chain syntax: the meaning of each call by its position in the chain.
//!
//! The rules, each with its own message:
//!
//! - A chain begins with `v("type:key", …)` or `v(type="T")`; `GTravel.` or `g.` may precede it.
//! - `e(…)` begins a hop; `ea(…)` follows it before its `v()`; `v()` may be left out, and its parentheses too.
//! - `va(…)` and `ea(…)` take an attribute, a filter type and values, or one string in the filter language ([`crate::filter`]).
//! - `va(…)` and `rtn()` (or `rtm()`, the paper's other spelling) apply to the working set before them.
//! - `repeat()` repeats all hops since the start or the last `repeat(…)`, at least one. It may be followed by a new `e(…)`,
//!   by `rtn()` (the vertices reached in all rounds) or by the end. A `va(…)` there could mean each round or the last one
//!   and is refused. `repeat(max=1)` runs hops once, which separates them from hops that repeat.
//! - `as_of(t)` or `versions(t1, t2)`, one of them, once, anywhere behind the start, applies to every hop. Both ends are
//!   included: `versions("2026-03-01", "2026-03-02")` is two whole days; null is an open end.
//! - `limit(n)` and `return_fp()`, once each, come last. `return_fp()` may be combined with `rtn()`: the result then has
//!   the paths and each returned working set.

use super::argument::{
    as_of, filter_of, limit, max_of, names_of, no_arguments, start_of, value_of, versions,
};
use super::call::{ChainCall, ChainParser, usage};
use super::error::{TraversalErrorKind as Kind, TraversalFault};
use super::lexer::ChainToken;
use super::{Hop, Repeat, Segment, Traversal, TraversalParseError};
use crate::limits::TRAVERSAL_CALLS_MAX;
use crate::value::Value;

impl Traversal {
    /// Parses a chain such as `v("file:/C").e("wasWrittenBy").v().e("read").repeat().return_fp()` (GraphMeta, sections
    /// 2.3 and 4.2). Blanks, line breaks and comments (`#` to the end of the line) may separate tokens. Strings take
    /// either quote and the usual escapes; edge types, attributes and the type of `v(type=…)` may be plain words.
    /// Values are strings, integers (`1_000`, `64MiB`, `10k`), doubles, `true`, `false`, `null`, `inf`, times
    /// (`t"2026-03-01T00:00:00Z"`), bytes (`x"00ff"`) and lists (`[1, 2]`).
    ///
    /// Names are not looked up in a schema. Formatting the result with `Display` and parsing it again gives an equal
    /// traversal.
    ///
    /// Times relative to now (`va("mtime > 30d ago")`) are refused: see [`Self::parse_at`].
    pub fn parse(text: &str) -> Result<Self, TraversalParseError> {
        parse_chain(text, None).map_err(|fault| fault.locate(text))
    }

    /// Parses a chain that may contain relative times; `now` is the current time in nanoseconds since 1970.
    pub fn parse_at(text: &str, now: i64) -> Result<Self, TraversalParseError> {
        parse_chain(text, Some(now)).map_err(|fault| fault.locate(text))
    }
}

/// Parses one value in the chain syntax (see [`Traversal::parse`]), such as the output of
/// [`value_text`](super::value_text).
pub fn parse_value(text: &str) -> Result<Value, TraversalParseError> {
    let read = || {
        let mut parser = ChainParser::new(text)?;
        let argument = parser.argument("a value")?;
        let value = value_of(argument)?;
        match parser.token {
            ChainToken::End => Ok(value),
            _ => Err(parser.unexpected("nothing after the value")),
        }
    };
    read().map_err(|fault: TraversalFault| fault.locate(text))
}

fn parse_chain(text: &str, now: Option<i64>) -> Result<Traversal, TraversalFault> {
    let mut parser = ChainParser::new(text)?;
    let mut chain = Chain::new(parser.start()?, now)?;
    let mut calls = 1;
    while parser.token != ChainToken::End {
        let call = parser.next_call()?;
        // `Display` writes the optional `v()` behind every `e(…)`; not counting it keeps that output within the limit.
        calls += usize::from(call.name != "v");
        if calls > TRAVERSAL_CALLS_MAX {
            return Err(TraversalFault::new(
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

/// Position in the chain of the next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// After `v(…)`, its filters and its `rtn()`.
    Start,
    /// After `e(…)`, before its `v()`.
    Edge,
    /// After a hop's `v()`, filter or `rtn()`.
    Vertex,
    /// After `repeat(…)`.
    Repeated,
}

/// The traversal under construction.
struct Chain {
    traversal: Traversal,
    /// Hops since the start or the last `repeat(…)`.
    hops: Vec<Hop>,
    stage: Stage,
    /// Calls seen so far that may occur only once.
    seen: Vec<&'static str>,
    /// The current time, if the caller knows it.
    now: Option<i64>,
}

impl Chain {
    fn new(call: ChainCall, now: Option<i64>) -> Result<Self, TraversalFault> {
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

    /// Returns the hop to which `va`, `rtn` and the like apply.
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

    fn add(&mut self, call: ChainCall) -> Result<(), TraversalFault> {
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

    fn add_return(&mut self, call: &ChainCall) -> Result<(), TraversalFault> {
        no_arguments(call)?;
        let repeated = self.stage == Stage::Repeated;
        let returned = match self.last_hop() {
            Some(hop) => &mut hop.returned,
            None => &mut self.traversal.start_returned,
        };
        if std::mem::replace(returned, true) {
            return Err(TraversalFault::new(
                call.span,
                Kind::Duplicate,
                "`rtn` is given twice after the same hop",
                "one rtn() for each working set",
            ));
        }
        if !repeated && self.stage == Stage::Edge {
            self.stage = Stage::Vertex;
        }
        Ok(())
    }

    /// Checks that a call is allowed at its position.
    fn check_order(&mut self, call: &ChainCall) -> Result<(), TraversalFault> {
        let name = call.name;
        let order = |message: &str, expected: &str| {
            Err(TraversalFault::new(
                call.span,
                Kind::Order,
                message,
                expected,
            ))
        };
        let whole = matches!(name, "as_of" | "versions" | "limit" | "return_fp");
        if whole {
            if self.seen.contains(&name) {
                return Err(TraversalFault::new(
                    call.span,
                    Kind::Duplicate,
                    format!("`{name}` is given twice"),
                    format!("`{name}` at most once in a chain"),
                ));
            }
            let other = if name == "as_of" { "versions" } else { "as_of" };
            if matches!(name, "as_of" | "versions") && self.seen.contains(&other) {
                return Err(TraversalFault::new(
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
                    &format!("`{last}` after all hops: it applies to the whole chain"),
                );
            }
        }
        match (name, self.stage) {
            ("ea", Stage::Start | Stage::Repeated) => order(
                "`ea` filters edges, but there is no `e(…)` before it",
                "ea(…) directly after e(…)",
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
                "`repeat` directly after `repeat`",
                "at least one e(…) between two repeat(…)",
            ),
            _ => Ok(()),
        }
    }
}
