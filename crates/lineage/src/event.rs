//! Times at which executions wrote and read data, and the writes that a read can have seen.
//!
//! Every version of a `write` or `read` edge is one event. It lasts from its `start` to its `end` property if
//! they are timestamps, as importers of I/O logs set them; an edge without them is a point at its version.
//! A read sees what a *regular register* may return (Lamport, 1986): the newest write that had ended, and every
//! write that neither ended before a later one began nor began after the read ended.
//!
//! Clocks of some sources are coarse: an edge with `time_resolution_ms` may have happened later than it says by up to that amount,
//! all edges of one execution by the same amount. Between executions "before" then means before in any case.

use esker_model::{Edge, Value, Version, VertexId};

/// A point in time: nanoseconds since 1970, then the order within one millisecond that versions have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TimePoint {
    nanos: i64,
    logical: u16,
}

impl TimePoint {
    /// Later than all other times.
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

/// Time span of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// Start of the event.
    pub(super) start: TimePoint,
    /// End of the event.
    pub(super) end: TimePoint,
    /// Latest possible end by the clocks of others: later than `end` if the event's own clock was coarse.
    pub(super) late: TimePoint,
    /// Whether the edge has both times; otherwise the order inside one execution is unknown.
    pub(super) explicit: bool,
}

impl Span {
    /// A span after all events: for the final state.
    pub(super) const LAST: Self = Self {
        start: TimePoint::MAX,
        end: TimePoint::MAX,
        late: TimePoint::MAX,
        explicit: false,
    };

    /// Returns the span of the event that this version of an edge records.
    pub(super) fn of(edge: &Edge) -> Self {
        let timestamp = |name| match edge.properties.get(name) {
            Some(Value::Timestamp(nanos)) => Some(TimePoint::of_nanos(*nanos)),
            _ => None,
        };
        let (start, end) = (timestamp("start"), timestamp("end"));
        let explicit = start.is_some() && end.is_some();
        let end = end.unwrap_or_else(|| TimePoint::of_version(edge.version));
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

    /// Whether the event may have lasted to that version or beyond.
    pub(super) fn reaches(&self, version: Version) -> bool {
        self.late >= TimePoint::of_version(version)
    }

    /// Whether a write with this span can depend on a read by the same execution: false if the read began after the
    /// write ended. Only edges with both times can tell.
    pub(super) fn may_depend_on(&self, read: &Self) -> bool {
        !(self.explicit && read.explicit) || read.start <= self.end
    }
}

/// One write or read of a data object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    /// The execution that wrote or read.
    pub(super) execution: VertexId,
    /// Time of the event.
    pub(super) span: Span,
    /// The version of the edge that records it.
    pub(super) version: Version,
    /// Index of that edge among the loaded edges.
    pub(super) edge: u32,
}

/// All writes of one data object, by their ends.
#[derive(Debug, Default)]
pub(super) struct Writes {
    /// Sorted by (end, version, edge).
    events: Vec<Event>,
    /// `ahead[i]`: the earliest start of `events[i..]`.
    ahead: Vec<TimePoint>,
    /// Sorted by the latest possible end.
    over: Vec<EndedWrite>,
    /// Coarsest clock resolution of all events: the latest possible end minus the end.
    coarse_millis: i64,
}

/// A write with its latest possible end.
#[derive(Debug, Clone, Copy)]
struct EndedWrite {
    late: TimePoint,
    /// Index into [`Writes::events`].
    write: usize,
    /// The latest start, and the latest end among those, of this one and all before it.
    begun: (TimePoint, TimePoint),
}

/// A write that a read can have seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VisibleWrite {
    /// Index into [`Writes::events`].
    pub(super) write: usize,
    /// False for the newest write that had ended when the read ended; true for one that overlapped it or the read.
    pub(super) concurrent: bool,
}

impl Writes {
    pub(super) fn new(mut events: Vec<Event>) -> Self {
        events.sort_by_key(|e| (e.span.end, e.version, e.edge));
        let mut ahead = vec![TimePoint::MAX; events.len()];
        let mut earliest = TimePoint::MAX;
        for (slot, e) in ahead.iter_mut().zip(&events).rev() {
            earliest = earliest.min(e.span.start);
            *slot = earliest;
        }
        let mut over: Vec<EndedWrite> = (events.iter().enumerate())
            .map(|(write, e)| EndedWrite {
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

    /// The writes in the order of their ends.
    pub(super) fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the writes that a read over that span can have seen, newest first. The reader's own are excluded, but those that
    /// ended before the read began still hide older writes.
    ///
    /// Costs two binary searches and the writes returned, except for writes that lie between overlapping ones.
    pub(super) fn visible_to(&self, read: Span, reader: Option<VertexId>) -> Vec<VisibleWrite> {
        let own = |e: &Event| Some(e.execution) == reader;
        let mut seen = Vec::new();

        // Ended after the read: seen if they may have begun before its end.
        let ended = self.events.partition_point(|e| e.span.end <= read.end);
        let mut later = ended;
        while later < self.events.len() && self.ahead[later] <= read.late {
            if self.events[later].span.start <= read.late && !own(&self.events[later]) {
                seen.push(VisibleWrite {
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
            seen.push(VisibleWrite {
                write: i,
                concurrent: e.span.end < newest,
            });
        }
        seen
    }

    /// Returns the latest start (and end) of a write that ended before a read began: it hides all writes that ended before it
    /// began. The reader's own writes use the same clock as the read, so they hide what precedes them for certain.
    fn hides(&self, read: Span, reader: Option<VertexId>) -> Option<(TimePoint, TimePoint)> {
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
