//! `check`: reads everything once and compares derived data with its recomputation.
//!
//! The primary data is `rows`; inverse edges, the index by type and the counters are derived from it and can be
//! repaired. GraphMeta's rule (section 2.1) that vertices of user-defined types must be connected is checked too.

mod names;
mod reachable;

use crate::Engine;
use crate::counts::{decode_value, encode_value};
use crate::read::{FirstError, corrupt};
use crate::settings::{CheckOptions, CheckReport};
use crate::txn::lock;
use esker_model::key::{
    Counter, EdgeKey, HistoryKey, IndexKey, Measure, RowKey, type_index, vertex as vertex_key,
};
use esker_model::record::{AttributeRecord, EdgeRecord, StaticRecord, VertexRecord};
use esker_model::{Cancel, EdgeTypeId, Flow, Result, Schema, VertexId, VertexTypeId};
use esker_store::{KeyRange, Snapshot, Table, WriteBatch};
use reachable::Reachable;
use std::collections::BTreeMap;

/// Rows between two reports of progress and checks for interruption.
const ROWS_BETWEEN_LOOKS: u64 = 1 << 14;

/// Repairs per commit.
const REPAIRS_AT_ONCE: usize = 1 << 14;

impl Engine {
    /// Reads everything and, if requested, repairs derived data. Writers are blocked meanwhile. `progress` gets the number of
    /// rows read.
    pub fn check(
        &self,
        options: &CheckOptions,
        cancel: &dyn Cancel,
        progress: &mut dyn FnMut(u64),
    ) -> Result<CheckReport> {
        let writer = lock(&self.writer);
        // Merged first, so that the counters' rows are complete.
        self.merge_counters(writer.clock.last())?;
        if !options.repair {
            let (report, _) = self.check_once(Pass::Look, options.part, cancel, progress)?;
            return Ok(report);
        }
        let (mut report, miscounted) =
            self.check_once(Pass::MendRows, options.part, cancel, progress)?;
        if report.complete && (miscounted > 0 || report.problems_total > 0) {
            // Counters are compared after the rows were repaired.
            let (again, miscounted) =
                self.check_once(Pass::MendCounters, options.part, cancel, progress)?;
            report.complete = again.complete;
            report.problems_total += miscounted;
            let counters = again.problems.into_iter().filter(|p| p.what == COUNTER);
            report.problems.extend(counters);
            report.problems.truncate(CheckReport::PROBLEMS_MAX);
        }
        // Lists may have been loaded before an inverse edge was repaired.
        let dirty = self.adjacency.begin_write_everywhere();
        self.adjacency.end_write_everywhere(dirty);
        Ok(report)
    }

    /// Runs one pass; also returns the number of wrong counters. Caller holds the write lock.
    fn check_once(
        &self,
        pass: Pass,
        part: bool,
        cancel: &dyn Cancel,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(CheckReport, u64)> {
        let snapshot = self.store.snapshot()?;
        let schema = self.schema_now();
        let mut check = Check {
            engine: self,
            read: &*snapshot,
            schema: &schema,
            report: CheckReport::default(),
            pass,
            part,
            miscounted: 0,
            repairs: WriteBatch::default(),
            reachable: Reachable::load(&*snapshot, &schema)?,
            vertices: BTreeMap::new(),
            edges: BTreeMap::new(),
            degrees: Vec::new(),
            space: names::Sums::new(),
            cancel,
            progress,
        };
        check.report.complete = check.run()?;
        Ok((check.report, check.miscounted))
    }
}

/// Repairs of a pass. Counters come last: they are derived from rows that may need repair themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    Look,
    MendRows,
    MendCounters,
}

const COUNTER: &str = "counter";

struct Check<'a> {
    engine: &'a Engine,
    read: &'a dyn Snapshot,
    schema: &'a Schema,
    report: CheckReport,
    pass: Pass,
    /// Whether other parts have items that this one refers to.
    part: bool,
    /// Number of wrong counters.
    miscounted: u64,
    repairs: WriteBatch,
    reachable: Reachable,
    vertices: BTreeMap<VertexTypeId, u64>,
    edges: BTreeMap<EdgeTypeId, u64>,
    /// Degrees of the vertex whose rows are being read.
    degrees: Vec<(EdgeTypeId, u64)>,
    /// Space used by files.
    space: names::Sums,
    cancel: &'a dyn Cancel,
    progress: &'a mut dyn FnMut(u64),
}

impl Check<'_> {
    fn run(&mut self) -> Result<bool> {
        let done =
            self.rows()? && self.history()? && self.index()? && self.names()? && self.totals()?;
        if done && !self.part {
            let lost = names::loops(self.read)?;
            if lost > 0 {
                let detail = format!("{lost} directories are not below the root");
                self.report.note("namespace", detail, false);
            }
            for name in self.reachable.unreachable(self.read, self.schema)? {
                self.report.note(
                    "unreachable vertex",
                    format!("{name} has no path to any vertex of a built-in type: link it to one"),
                    false,
                );
            }
        }
        self.write_repairs(0)?;
        Ok(done)
    }

    /// Calls `each` with every row of a table; returns false if interrupted.
    fn each(
        &mut self,
        table: Table,
        each: &mut dyn FnMut(&mut Self, &[u8], &[u8]) -> Result<()>,
    ) -> Result<bool> {
        let mut error = FirstError::default();
        let mut interrupted = false;
        let read = self.read;
        read.scan(table, &KeyRange::ALL, &mut |key, value| {
            self.report.rows += 1;
            if self.report.rows.is_multiple_of(ROWS_BETWEEN_LOOKS) {
                (self.progress)(self.report.rows);
                interrupted = self.cancel.cancelled();
            }
            error.keep(each(self, key, value))?;
            if interrupted {
                Flow::Break(())
            } else {
                Flow::Continue(())
            }
        })?;
        error.into_result()?;
        Ok(!interrupted)
    }

    fn rows(&mut self) -> Result<bool> {
        let mut source = None;
        // Counters are compared in the order of the rows, so that none must be stored.
        let done = self.each(Table::Rows, &mut |check, key, value| {
            let row = match RowKey::decode(key) {
                Ok(row) => row,
                Err(e) => {
                    check.report.note(
                        "row",
                        format!("a key of table `rows` does not decode: {e}"),
                        false,
                    );
                    return Ok(());
                }
            };
            let id = match &row {
                RowKey::Vertex(id) => *id,
                RowKey::Edge(edge) => edge.source,
            };
            if source != Some(id)
                && let Some(before) = source.replace(id)
            {
                check.degrees_of(before)?;
            }
            match row {
                RowKey::Vertex(id) => check.vertex(id, value),
                RowKey::Edge(edge) => check.edge(edge, value),
            }
        })?;
        // After an interruption the last vertex's edges are not all counted.
        if done && let Some(last) = source {
            self.degrees_of(last)?;
        }
        Ok(done)
    }

    fn vertex(&mut self, id: VertexId, value: &[u8]) -> Result<()> {
        self.report.vertices += 1;
        let record = match VertexRecord::decode(value) {
            Ok(record) => record,
            Err(e) => {
                self.report.note(
                    "vertex",
                    format!("the row of {id} does not decode: {e}"),
                    false,
                );
                return Ok(());
            }
        };
        let name = format!("{}:{}", self.schema.prefix(record.type_id), record.key);
        match self.schema.vertex_type(record.type_id) {
            Some(t) if VertexId::of(&t.name, &record.key) == id => {}
            // The file's original path may be recorded on another server.
            Some(_) if self.part && self.is_file(record.type_id) => {}
            Some(_) if self.is_moved_file(id, record.type_id)? => {}
            Some(_) => self.report.note(
                "vertex",
                format!("{name} is stored under the id of another: {id}"),
                false,
            ),
            None => self.report.note(
                "vertex",
                format!(
                    "{name} is of a type (#{}) that the schema lacks",
                    record.type_id.0
                ),
                false,
            ),
        }
        if !record.deleted {
            *self.vertices.entry(record.type_id).or_default() += 1;
        }
        let key = type_index(record.type_id, id);
        if !self.read.get_with(Table::Index, &key, &mut |_| {})? {
            let repaired = self.repair(Pass::MendRows, |batch| {
                batch.put(Table::Index, key, Vec::new());
            })?;
            self.report.note(
                "index",
                format!("{name} is not listed under its type"),
                repaired,
            );
        }
        Ok(())
    }

    fn edge(&mut self, edge: EdgeKey, value: &[u8]) -> Result<()> {
        self.report.edges += 1;
        let (deleted, _) = match EdgeRecord::decode(value) {
            Ok(record) => (record.deleted, record.version),
            Err(e) => {
                self.report.note(
                    "edge",
                    format!("the row of {} does not decode: {e}", self.text(&edge)),
                    false,
                );
                return Ok(());
            }
        };
        if self.schema.edge_type(edge.edge_type).is_none() {
            let detail = format!("{} is of a type that the schema lacks", self.text(&edge));
            self.report.note("edge", detail, false);
            return Ok(());
        }
        if !deleted {
            *self.edges.entry(edge.edge_type).or_default() += 1;
            match self.degrees.last_mut() {
                Some((t, n)) if *t == edge.edge_type => *n += 1,
                _ => self.degrees.push((edge.edge_type, 1)),
            }
            self.reachable.edge(edge.source, edge.destination);
            if !self.part
                && !self
                    .read
                    .get_with(Table::Rows, &vertex_key(edge.destination), &mut |_| {})?
            {
                let detail = format!(
                    "{} leads to a vertex that was never inserted",
                    self.text(&edge)
                );
                self.report.note("dangling edge", detail, false);
            }
        }
        let inverse = edge.reversed(self.schema.inverse(edge.edge_type));
        if self.part {
            self.sum(edge, inverse, value);
            return Ok(());
        }
        let mut same = false;
        let there = self
            .read
            .get_with(Table::Rows, &inverse.encode(), &mut |other| {
                same = other == value;
            })?;
        // If both exist and differ, the correct one is unknown; the defined direction is taken.
        let forward = self
            .schema
            .edge_type(edge.edge_type)
            .is_some_and(|t| t.forward);
        if !there || (!same && forward) {
            let (key, row) = (inverse.encode(), value.to_vec());
            let repaired = self.repair(Pass::MendRows, |batch| batch.put(Table::Rows, key, row))?;
            let what = if there { "differs from" } else { "lacks" };
            self.report.note(
                "inverse edge",
                format!("{} {what} its inverse", self.text(&edge)),
                repaired,
            );
        }
        Ok(())
    }

    /// Adds an edge row to one of two checksums, such that an edge and its inverse add the same value.
    fn sum(&mut self, edge: EdgeKey, inverse: EdgeKey, value: &[u8]) {
        let t = self.schema.edge_type(edge.edge_type);
        // For a type that is its own inverse, the direction from the smaller end counts as the edge.
        let forward = if edge.edge_type == inverse.edge_type {
            edge.source <= inverse.source
        } else {
            t.is_some_and(|t| t.forward)
        };
        let of = if forward { edge } else { inverse };
        // Any hash of key and value suffices.
        let hash = VertexId::of_bytes("edge", &[&of.encode(), value]).0;
        let number = hash.iter().fold(0_u64, |n, byte| {
            n.wrapping_mul(0x0100_0000_01b3) ^ u64::from(*byte)
        });
        let report = &mut self.report;
        if forward {
            report.edges_sum = report.edges_sum.wrapping_add(number);
        }
        // A loop is its own inverse.
        if !forward || edge == inverse {
            report.inverses_sum = report.inverses_sum.wrapping_add(number);
        }
    }

    fn text(&self, edge: &EdgeKey) -> String {
        let name = self
            .schema
            .edge_type(edge.edge_type)
            .map_or("?", |t| t.name.as_str());
        format!(
            "{} -{name}-> {}",
            reachable::name_of(self.read, self.schema, edge.source),
            { reachable::name_of(self.read, self.schema, edge.destination) }
        )
    }

    /// Compares the degrees counted for a vertex with its counters.
    fn degrees_of(&mut self, id: VertexId) -> Result<()> {
        let mut counted: BTreeMap<EdgeTypeId, u64> = BTreeMap::new();
        for (t, n) in self.degrees.drain(..) {
            *counted.entry(t).or_default() += n;
        }
        let mut stored = Vec::new();
        let mut error = FirstError::default();
        let read = self.read;
        read.scan(
            Table::Counts,
            &KeyRange::prefix(&Counter::degrees_prefix(id)),
            &mut |key, value| {
                let counter = error.keep(Counter::decode(key).map_err(|e| corrupt("counts", e)))?;
                if let Counter::Degree(_, t) = counter {
                    stored.push((t, error.keep(decode_value(value))?));
                }
                Flow::Continue(())
            },
        )?;
        error.into_result()?;
        for (t, n) in stored {
            let expected = counted.remove(&t).unwrap_or(0);
            if n != expected {
                self.counter(Counter::Degree(id, t), n, expected)?;
            }
        }
        for (t, expected) in counted {
            self.counter(Counter::Degree(id, t), 0, expected)?;
        }
        Ok(())
    }

    fn counter(&mut self, counter: Counter, stored: u64, expected: u64) -> Result<()> {
        self.miscounted += 1;
        if self.pass == Pass::MendRows {
            return Ok(());
        }
        let key = counter.encode();
        let repaired = self.repair(Pass::MendCounters, |batch| match expected {
            0 => batch.remove(Table::Counts, key),
            n => batch.put(Table::Counts, key, encode_value(n)),
        })?;
        let what = match counter {
            Counter::Degree(id, t) => format!(
                "the number of {} edges of {}",
                self.schema.edge_type(t).map_or("?", |t| t.name.as_str()),
                reachable::name_of(self.read, self.schema, id)
            ),
            Counter::Vertices(t) => format!("the number of {} vertices", self.schema.prefix(t)),
            Counter::Edges(t) => format!(
                "the number of {} edges",
                self.schema.edge_type(t).map_or("?", |t| t.name.as_str())
            ),
            Counter::Space(key, measure) => format!("the sum of {measure:?} of {key:?}"),
        };
        self.report.note(
            COUNTER,
            format!("{what} is stored as {stored}; there are {expected}"),
            repaired,
        );
        Ok(())
    }

    fn history(&mut self) -> Result<bool> {
        self.each(Table::History, &mut |check, key, value| {
            check.report.history += 1;
            let decoded = HistoryKey::decode(key).and_then(|k| {
                match &k {
                    HistoryKey::Static(..) => StaticRecord::decode(value).map(drop),
                    HistoryKey::Attribute(..) => AttributeRecord::decode(value).map(drop),
                    HistoryKey::Edge(..) => EdgeRecord::decode(value).map(drop),
                }
                .map(|()| k)
            });
            let row = match decoded {
                Ok(HistoryKey::Static(id, _) | HistoryKey::Attribute(id, ..)) => {
                    vertex_key(id).to_vec()
                }
                Ok(HistoryKey::Edge(edge, _)) => edge.encode().to_vec(),
                Err(e) => {
                    check.report.note(
                        "history",
                        format!("a row of table `history` does not decode: {e}"),
                        false,
                    );
                    return Ok(());
                }
            };
            if !check.read.get_with(Table::Rows, &row, &mut |_| {})? {
                let detail =
                    format!("a superseded version of {row:02x?} has nothing that superseded it");
                check.report.note("history", detail, false);
            }
            Ok(())
        })
    }

    fn index(&mut self) -> Result<bool> {
        self.each(Table::Index, &mut |check, key, _| {
            let stray = match IndexKey::decode(key) {
                Ok(IndexKey::Type(_, id)) => {
                    !check
                        .read
                        .get_with(Table::Rows, &vertex_key(id), &mut |_| {})?
                }
                Ok(_) => return Ok(()),
                Err(_) => true,
            };
            if stray {
                let repaired =
                    check.repair(Pass::MendRows, |batch| batch.remove(Table::Index, key))?;
                let detail = "a vertex is listed under its type but has no row".to_owned();
                check.report.note("index", detail, repaired);
            }
            Ok(())
        })
    }

    fn totals(&mut self) -> Result<bool> {
        let mut expected = BTreeMap::new();
        for (t, _) in self.schema.vertex_types() {
            expected.insert(
                Counter::Vertices(t),
                self.vertices.get(&t).copied().unwrap_or(0),
            );
        }
        for (t, _) in self.schema.edge_types() {
            expected.insert(Counter::Edges(t), self.edges.get(&t).copied().unwrap_or(0));
        }
        let space = std::mem::take(&mut self.space);
        // If files are on several servers, so are the parts of their sums.
        for (counter, n) in space.into_iter().filter(|_| !self.part) {
            expected.insert(counter, n.max(0).cast_unsigned());
        }
        let done = self.each(Table::Counts, &mut |check, key, value| {
            let counter = Counter::decode(key).map_err(|e| corrupt("counts", e))?;
            let stored = decode_value(value)?;
            match counter {
                // Degrees of vertices with rows were compared above.
                Counter::Degree(id, _) => {
                    let mut any = false;
                    let range = KeyRange::prefix(&id.0);
                    check.read.scan(Table::Rows, &range, &mut |_, _| {
                        any = true;
                        Flow::Break(())
                    })?;
                    if any {
                        Ok(())
                    } else {
                        check.counter(counter, stored, 0)
                    }
                }
                // The time of the last change of entries cannot be recomputed.
                Counter::Space(_, Measure::Changed) => Ok(()),
                Counter::Space(..) if check.part => Ok(()),
                _ => match expected.remove(&counter) {
                    Some(n) if n == stored => Ok(()),
                    n => check.counter(counter, stored, n.unwrap_or(0)),
                },
            }
        })?;
        for (counter, n) in expected {
            if done && n != 0 {
                self.counter(counter, 0, n)?;
            }
        }
        Ok(done)
    }

    /// Adds a repair if this is the pass for it.
    fn repair(&mut self, pass: Pass, change: impl FnOnce(&mut WriteBatch)) -> Result<bool> {
        if self.pass != pass {
            return Ok(false);
        }
        change(&mut self.repairs);
        self.write_repairs(REPAIRS_AT_ONCE)?;
        Ok(true)
    }

    fn write_repairs(&mut self, at_least: usize) -> Result<()> {
        if self.repairs.len() > at_least {
            let batch = std::mem::take(&mut self.repairs);
            self.engine.commit_unlisted(batch)?;
        }
        Ok(())
    }
}
