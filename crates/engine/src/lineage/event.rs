//! When executions wrote and read data, and which writes a read can have seen.
//!
//! Every version of a `write` or `read` edge is one event. It lasts from its `start` to its `end` property where
//! they are timestamps, as importers of I/O logs know them; an edge without them is a point at its version.
//! A read sees what a *regular register* may return (Lamport, 1986): the newest write that had ended, and every
//! write that neither ended before a later one began nor began after the read was over.
//!
//! Clocks of some sources are coarse: an edge with `time_resolution_ms` happened up to so much later than it says, all
//! edges of one execution by the same amount. Between executions "before" then means before in any case.

use esker_model::{Edge, Value, Version, VertexId};

/// A point in time: nanoseconds since 1970, then the order within one millisecond that versions keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Moment {
    nanos: i64,
    logical: u16,
}

impl Moment {
    /// After everything.
    pub(super) const MAX: Self = Self {
        nanos: i64::MAX,
        logical: u16::MAX,
    };

    fn of_version(version: Version) -> Self {
        Self {
            nanos: version.nanos(),
            logical: version.logical(),
        }
    }

    fn of_nanos(nanos: i64) -> Self {
        Self { nanos, logical: 0 }
    }

    fn plus_millis(self, millis: i64) -> Self {
        Self {
            nanos: self.nanos.saturating_add(millis.saturating_mul(1_000_000)),
            ..self
        }
    }
}

/// How long an event lasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// When it began.
    pub(super) start: Moment,
    /// When it was over.
    pub(super) end: Moment,
    /// When it was over at the latest, by the clocks of others: later than `end` if its own clock was coarse.
    pub(super) late: Moment,
    /// Whether the edge says both; otherwise nothing is known about what came first inside one execution.
    pub(super) explicit: bool,
}

impl Span {
    /// The span of a question about what is there in the end.
    pub(super) const LAST: Self = Self {
        start: Moment::MAX,
        end: Moment::MAX,
        late: Moment::MAX,
        explicit: false,
    };

    /// The span of the event that this version of an edge records.
    pub(super) fn of(edge: &Edge) -> Self {
        let timestamp = |name| match edge.properties.get(name) {
            Some(Value::Timestamp(nanos)) => Some(Moment::of_nanos(*nanos)),
            _ => None,
        };
        let (start, end) = (timestamp("start"), timestamp("end"));
        let explicit = start.is_some() && end.is_some();
        let end = end.unwrap_or_else(|| Moment::of_version(edge.version));
        let start = if explicit {
            start.unwrap_or(end).min(end)
        } else {
            end
        };
        let late = match edge.properties.get("time_resolution_ms") {
            Some(Value::I64(millis)) if *millis > 0 => end.plus_millis(*millis),
            _ => end,
        };
        Self {
            start,
            end,
            late,
            explicit,
        }
    }

    /// Whether it may have lasted to that version or beyond.
    pub(super) fn reaches(&self, version: Version) -> bool {
        self.late >= Moment::of_version(version)
    }

    /// Whether a write with this span can depend on a read by the same execution: not if the read began after the
    /// write was over. Only edges that carry both times can tell.
    pub(super) fn may_depend_on(&self, read: &Self) -> bool {
        !(self.explicit && read.explicit) || read.start <= self.end
    }
}

/// One write or read of a data object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    /// The execution that did it.
    pub(super) execution: VertexId,
    /// When.
    pub(super) span: Span,
    /// The version of the edge that records it.
    pub(super) version: Version,
    /// Where that edge lies among the edges of the walk.
    pub(super) edge: u32,
}

/// All writes of one data object, by when they ended.
#[derive(Debug, Default)]
pub(super) struct Writes {
    /// By (end, version, edge).
    events: Vec<Event>,
    /// `ahead[i]`: the earliest start of `events[i..]`.
    ahead: Vec<Moment>,
    /// By when they were over at the latest.
    over: Vec<Over>,
    /// The coarsest clock: at the latest so long after its end each event was over.
    coarse_millis: i64,
}

/// A write that was over at the latest by then.
#[derive(Debug, Clone, Copy)]
struct Over {
    late: Moment,
    /// Index into [`Writes::events`].
    write: usize,
    /// The latest start, and the latest end among those, of this one and all before it.
    begun: (Moment, Moment),
}

/// A write that a read can have seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// Index into [`Writes::events`].
    pub(super) write: usize,
    /// False for the newest write that had ended when the read was over; true for one that overlapped it or the read.
    pub(super) concurrent: bool,
}

impl Writes {
    pub(super) fn new(mut events: Vec<Event>) -> Self {
        events.sort_by_key(|e| (e.span.end, e.version, e.edge));
        let mut ahead = vec![Moment::MAX; events.len()];
        let mut earliest = Moment::MAX;
        for (slot, e) in ahead.iter_mut().zip(&events).rev() {
            earliest = earliest.min(e.span.start);
            *slot = earliest;
        }
        let mut over: Vec<Over> = (events.iter().enumerate())
            .map(|(write, e)| Over {
                late: e.span.late,
                write,
                begun: (e.span.start, e.span.end),
            })
            .collect();
        over.sort_by_key(|o| o.late);
        for i in 1..over.len() {
            over[i].begun = over[i].begun.max(over[i - 1].begun);
        }
        let coarse = |e: &Event| e.span.late.nanos.saturating_sub(e.span.end.nanos) / 1_000_000;
        Self {
            coarse_millis: events.iter().map(coarse).max().unwrap_or(0),
            events,
            ahead,
            over,
        }
    }

    /// In the order of their ends.
    pub(super) fn events(&self) -> &[Event] {
        &self.events
    }

    /// The writes that a read over that span can have seen, newest first. The reader's own are left out; those that
    /// were over before the read began hide what was there before them all the same.
    ///
    /// Costs two binary searches and the writes returned, but for writes that lie between overlapping ones.
    pub(super) fn seen(&self, read: Span, reader: Option<VertexId>) -> Vec<Seen> {
        let own = |e: &Event| Some(e.execution) == reader;
        let mut seen = Vec::new();

        // Ended after the read was over: seen if they may have begun by then.
        let ended = self.events.partition_point(|e| e.span.end <= read.end);
        let mut later = ended;
        while later < self.events.len() && self.ahead[later] <= read.late {
            if self.events[later].span.start <= read.late && !own(&self.events[later]) {
                seen.push(Seen {
                    write: later,
                    concurrent: true,
                });
            }
            later += 1;
        }
        seen.reverse();

        let hides = self.hides(read, reader);
        let hidden = |e: &Event| {
            hides.is_some_and(|(start, end)| {
                e.span.late < start || (e.span.late == start && e.span.end < end)
            })
        };
        let mut newest = None;
        for (i, e) in self.events[..ended].iter().enumerate().rev() {
            if hides.is_some_and(|h| e.span.end.plus_millis(self.coarse_millis) < h.0) {
                break;
            }
            if hidden(e) || own(e) {
                continue;
            }
            let newest = *newest.get_or_insert(e.span.end);
            seen.push(Seen {
                write: i,
                concurrent: e.span.end < newest,
            });
        }
        seen
    }

    /// The latest start (and end) of a write that was over before a read began: it hides all that was over before it
    /// began itself. The reader's own writes, by the same clock as the read, hide what they precede for certain.
    fn hides(&self, read: Span, reader: Option<VertexId>) -> Option<(Moment, Moment)> {
        let own = |e: &Event| Some(e.execution) == reader;
        let before = self.over.partition_point(|o| o.late < read.start);
        let mut hides = before.checked_sub(1).map(|i| self.over[i].begun);
        let just_over = self.over[before..]
            .iter()
            .take_while(|o| o.late == read.start);
        for e in just_over.map(|o| &self.events[o.write]).filter(|e| !own(e)) {
            hides = hides.max(Some((e.span.start, e.span.end)));
        }
        let ended = self.events.partition_point(|e| e.span.end < read.start);
        for e in self.events[..ended].iter().rev() {
            if e.span.end.plus_millis(self.coarse_millis) < read.start {
                break;
            }
            if own(e) {
                hides = hides.max(Some((e.span.start, e.span.end)));
            }
        }
        hides
    }
}
