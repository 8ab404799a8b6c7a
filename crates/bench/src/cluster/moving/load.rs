//! Clients that read and write continuously while servers join and fail, and check each answer.
//!
//! The written data says what may be read: a **register** is a pair of vertices with an edge between them, written by one client
//! only, always together; its n-th write sets both to the number n, but every fourth write deletes them. So
//!
//! - a client whose write of n was acknowledged reads n until it writes n + 1: no acknowledged write is lost, and no
//!   deletion undone;
//! - a reader of another client's register finds both vertices at the same number (batches are atomic, a read has one
//!   snapshot), never a
//!   number below one that it has read before (sessions are monotonic), and none that was not written;
//! - as of the version of write n, a register has the number n, at any later time;
//! - at the end, the register's history has each number once ([`super::verify`]).
//!
//! Each writer also creates objects and deletes some, creates files and removes some, and searches for both.

use esker::Database;
use esker_model::key::EdgeKey;
use esker_model::namespace::{Change, Errno, NamePath, Namespace as _, NewFile};
use esker_model::object::{Identity, ObjectKey, ObjectRead as _, object_ref};
use esker_model::schema::AttributeDefinition;
use esker_model::{
    Batch, EdgeTypeId, Error, GraphRead as _, GraphWrite as _, Op, Properties, Result, Schema,
    SchemaChange, Value, ValueKind, Version, Vertex, VertexId, VertexRef, VertexTypeId,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const VERTEX_TYPE: &str = "Register";
const EDGE_TYPE: &str = "pairs";
const INVERSE: &str = "isPairedBy";
const NUMBER: &str = "n";
/// Period of deletions: every write of a register whose number is a multiple of this deletes it.
const DELETES: u64 = 4;
/// Number of registers of each writer.
const REGISTERS: usize = 8;
/// Number of objects created together; the first of them is then deleted.
pub(super) const OBJECTS: u64 = 4;
/// Period of the writes of a register that are later read as of their version.
const REMEMBERED: u64 = 8;
/// Maximum number of such writes that each writer remembers.
const MEMORIES: usize = 256;
/// Latency above which a call is reported.
const SLOW: Duration = Duration::from_secs(8);
/// Maximum number of messages kept.
const TEXTS: usize = 20;

/// Returns the content of a register after write `n`: the number, or nothing after a deletion.
pub(super) fn expected_number(n: u64) -> Option<u64> {
    (!n.is_multiple_of(DELETES)).then_some(n)
}

/// A pair of vertices that is written together.
pub(super) struct Register {
    pub(super) keys: [String; 2],
    pub(super) vertices: [VertexRef; 2],
    pub(super) edge: EdgeKey,
    /// The last number sent.
    issued: AtomicU64,
    /// The last number acknowledged.
    pub(super) acknowledged: AtomicU64,
}

/// Progress of a writer besides its registers.
#[derive(Default)]
pub(super) struct WriterProgress {
    /// Number of completely acknowledged rounds, each with [`OBJECTS`] objects and a file.
    pub(super) rounds: AtomicU64,
    /// Whether a call failed: its effect is unknown, and the writer has stopped.
    pub(super) failed: AtomicBool,
}

impl WriterProgress {
    fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Acquire)
    }
}

/// The latency of a write.
#[derive(Debug, Clone, Copy)]
pub(super) struct WriteLatency {
    /// Time of the acknowledgement since the load began.
    pub(super) at: Duration,
    pub(super) took: Duration,
}

/// State shared by all clients.
pub(super) struct ClientLoad {
    pub(super) schema: std::sync::Arc<Schema>,
    pub(super) registers: Vec<Register>,
    pub(super) writers: Vec<WriterProgress>,
    /// Pause of a client between rounds.
    rest: Duration,
    /// Whether objects and files are also written.
    broad: bool,
    stop: AtomicBool,
    began: Instant,
    samples: Mutex<Vec<WriteLatency>>,
    /// Longest call since the last query, in microseconds.
    longest: AtomicU64,
    reads: AtomicU64,
    errors: Mutex<Texts>,
    /// Slow calls, for diagnosis.
    slow: Mutex<Texts>,
    violations: Mutex<Texts>,
}

/// A count of messages and the first of them.
#[derive(Default, Clone)]
pub(super) struct Texts {
    pub(super) count: u64,
    pub(super) first: Vec<String>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Texts {
    fn push(&mut self, text: String) {
        self.count += 1;
        if self.first.len() < TEXTS {
            self.first.push(text);
        }
    }
}

fn types() -> [SchemaChange; 2] {
    [
        SchemaChange::VertexType {
            name: VERTEX_TYPE.to_owned(),
            parent: None,
            attributes: vec![AttributeDefinition {
                name: NUMBER.to_owned(),
                kind: ValueKind::I64,
            }],
        },
        SchemaChange::EdgeType {
            name: EDGE_TYPE.to_owned(),
            inverse: INVERSE.to_owned(),
            source: VERTEX_TYPE.to_owned(),
            destination: VERTEX_TYPE.to_owned(),
        },
    ]
}

fn register(writer: usize, n: usize, node: VertexTypeId, edge_type: EdgeTypeId) -> Register {
    let keys = ["a", "b"].map(|side| format!("{writer}/{n}/{side}"));
    let vertices = [&keys[0], &keys[1]].map(|key| VertexRef {
        id: VertexId::of(VERTEX_TYPE, key),
        type_id: node,
    });
    Register {
        edge: EdgeKey {
            source: vertices[0].id,
            edge_type,
            destination: vertices[1].id,
        },
        keys,
        vertices,
        issued: AtomicU64::new(0),
        acknowledged: AtomicU64::new(0),
    }
}

/// Returns the ID attributes of a writer's object.
pub(super) fn identity(writer: usize, n: u64) -> Identity {
    Identity {
        name: format!("run{writer}"),
        app: "soak".into(),
        owner: 1001,
        step: n as i64,
    }
}

/// Returns the folder of a writer.
pub(super) fn folder(writer: usize) -> Result<NamePath> {
    Ok(NamePath::parse(format!("/w{writer}").as_bytes())?)
}

fn file(writer: usize, n: u64) -> Result<NamePath> {
    Ok(NamePath::parse(format!("/w{writer}/f{n}").as_bytes())?)
}

/// Whether a writer has removed its file of round `n` after completing `rounds` rounds.
pub(super) fn removed(n: u64, rounds: u64) -> bool {
    n % DELETES == 2 && n + 1 < rounds
}

/// Returns the number in a pair of vertices, `None` if deleted, or a description of the inconsistency.
fn read_as(pair: &[Option<Vertex>]) -> std::result::Result<Option<u64>, String> {
    let number = |vertex: &Option<Vertex>| match vertex {
        Some(v) if !v.deleted => match v.attribute(NUMBER) {
            Some(Value::I64(n)) => Ok(u64::try_from(*n).ok()),
            other => Err(format!("a vertex without its number: {other:?}")),
        },
        _ => Ok(None),
    };
    match pair {
        [a, b] => {
            let (a, b) = (number(a)?, number(b)?);
            if a == b {
                Ok(a)
            } else {
                Err(format!("half of a batch: {a:?} beside {b:?}"))
            }
        }
        _ => Err(format!("{} vertices for two", pair.len())),
    }
}

impl ClientLoad {
    /// Defines the schema and creates the writers' folders.
    pub(super) fn new(
        database: &Database,
        writers: usize,
        rest: Duration,
        broad: bool,
    ) -> anyhow::Result<Self> {
        let schema = database.define(&types())?;
        let node = schema.vertex_type_id(VERTEX_TYPE)?;
        let edge_type = schema.edge_type_id(EDGE_TYPE)?;
        for writer in 0..writers {
            let made = Change::Create(folder(writer)?, NewFile::new(0o040_755, 0, 0));
            for done in database.change(None, &[made])? {
                done?;
            }
        }
        let all = (0..writers * REGISTERS)
            .map(|n| register(n / REGISTERS, n % REGISTERS, node, edge_type));
        Ok(Self {
            schema,
            registers: all.collect(),
            writers: (0..writers).map(|_| WriterProgress::default()).collect(),
            rest,
            broad,
            stop: AtomicBool::new(false),
            began: Instant::now(),
            samples: Mutex::default(),
            longest: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            errors: Mutex::default(),
            slow: Mutex::default(),
            violations: Mutex::default(),
        })
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Whether objects and files are also written.
    pub(super) fn writes_objects(&self) -> bool {
        self.broad
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Time since the load began.
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Waits until each writer has completed `rounds` more rounds; a failed writer is not waited for.
    pub(super) fn wait_for_rounds(&self, rounds: u64, most: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + most;
        let before: Vec<u64> = self.writers.iter().map(WriterProgress::rounds).collect();
        for (writer, before) in self.writers.iter().zip(before) {
            while writer.rounds() < before + rounds && !writer.failed.load(Ordering::Acquire) {
                anyhow::ensure!(
                    Instant::now() < until && !self.stopped(),
                    "a client does not go on though all stores are served"
                );
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }

    /// Returns the latencies of all acknowledged writes.
    pub(super) fn samples(&self) -> Vec<WriteLatency> {
        locked(&self.samples).clone()
    }

    /// Number of acknowledged writes.
    pub(super) fn writes(&self) -> u64 {
        locked(&self.samples).len() as u64
    }

    /// Returns the longest call since the last query.
    pub(super) fn longest(&self) -> Duration {
        Duration::from_micros(self.longest.swap(0, Ordering::AcqRel))
    }

    pub(super) fn errors(&self) -> Texts {
        locked(&self.errors).clone()
    }

    pub(super) fn violations(&self) -> Texts {
        locked(&self.violations).clone()
    }

    pub(super) fn slow(&self) -> Texts {
        locked(&self.slow).clone()
    }

    pub(super) fn violation(&self, text: String) {
        tracing::error!(text, "a history that cannot be");
        locked(&self.violations).push(text);
    }

    /// Makes a call; records a failure and returns `None`.
    fn call<T>(&self, write: bool, what: &str, call: impl FnOnce() -> Result<T>) -> Option<T> {
        let began = Instant::now();
        let answer = call();
        let took = began.elapsed();
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.longest.fetch_max(micros, Ordering::AcqRel);
        if took > SLOW {
            let at = self.now().as_secs_f64();
            let took = took.as_secs_f64();
            locked(&self.slow).push(format!("{what} took {took:.1} s, until {at:.1} s"));
        }
        match answer {
            Ok(answer) => {
                if write {
                    let at = self.now();
                    locked(&self.samples).push(WriteLatency { at, took });
                } else {
                    self.reads.fetch_add(1, Ordering::Relaxed);
                }
                Some(answer)
            }
            Err(e) => {
                let at = self.now().as_secs_f64();
                locked(&self.errors).push(format!("{at:.1} s: {what}: {e}"));
                None
            }
        }
    }

    /// Writes and checks until stopped or until a call fails.
    pub(super) fn write(&self, writer: usize, database: &Database) {
        let Some(done) = self.writers.get(writer) else {
            return;
        };
        let mut memories: Vec<(usize, u64, Version)> = Vec::new();
        let mut round = 0_u64;
        while !self.stopped() {
            let n = writer * REGISTERS + (round % REGISTERS as u64) as usize;
            let whole = self.write_register(n, database, &mut memories).is_some()
                && (!self.broad || self.write_broad(writer, round, database).is_some());
            if !whole {
                done.failed.store(true, Ordering::Release);
                return;
            }
            round += 1;
            done.rounds.store(round, Ordering::Release);
            std::thread::sleep(self.rest);
        }
        for (n, number, version) in memories {
            self.check_remembered(n, number, version, database);
        }
    }

    fn write_register(
        &self,
        n: usize,
        database: &Database,
        memories: &mut Vec<(usize, u64, Version)>,
    ) -> Option<()> {
        let register = self.registers.get(n)?;
        let number = register.issued.load(Ordering::Acquire) + 1;
        let mut batch = Batch::new();
        let [a, b] = register.vertices;
        if expected_number(number).is_some() {
            for (vertex, key) in register.vertices.iter().zip(&register.keys) {
                batch.push(Op::PutVertex {
                    vertex: *vertex,
                    key: key.clone(),
                    attributes: Properties::new().with(NUMBER, number as i64),
                });
            }
            batch.push(Op::PutEdge {
                source: a,
                edge_type: register.edge.edge_type,
                destination: b,
                properties: Properties::new().with(NUMBER, number as i64),
            });
        } else {
            batch.push(Op::DeleteEdge {
                source: a,
                edge_type: register.edge.edge_type,
                destination: b,
            });
            for vertex in register.vertices {
                batch.push(Op::DeleteVertex { vertex });
            }
        }
        register.issued.store(number, Ordering::Release);
        let commit = self.call(true, "writing a register", || database.apply(batch))?;
        register.acknowledged.store(number, Ordering::Release);
        if !commit.applied {
            self.violation(format!(
                "register {n}: write {number} was told as done before"
            ));
        }
        self.check_own_register(n, number, Version::MAX, database)?;
        if number.is_multiple_of(REMEMBERED) {
            let version = commit.version;
            self.check_own_register(n, number, version, database)?;
            if memories.len() < MEMORIES {
                memories.push((n, number, version));
            } else {
                // The first quarter of the remembered writes stays until the end.
                let at = (number / REMEMBERED) as usize % MEMORIES;
                if let Some(memory) = memories.get_mut(at).filter(|_| at >= MEMORIES / 4) {
                    let (n, number, version) = std::mem::replace(memory, (n, number, version));
                    self.check_remembered(n, number, version, database);
                }
            }
        }
        Some(())
    }

    /// Reads a register that only the reader writes.
    fn check_own_register(
        &self,
        n: usize,
        number: u64,
        as_of: Version,
        database: &Database,
    ) -> Option<()> {
        let register = self.registers.get(n)?;
        let ids = register.vertices.map(|v| v.id);
        let pair = self.call(false, "reading a register", || {
            database.read_vertices(&ids, as_of)
        })?;
        let keys = [register.edge];
        let edge = self.call(false, "reading an edge", || {
            database.read_edges(&keys, as_of)
        })?;
        let edge = edge.into_iter().next().flatten().filter(|e| !e.deleted);
        let edge = edge.map(|e| e.properties.get(NUMBER).cloned());
        let expected = expected_number(number);
        match read_as(&pair) {
            Ok(read) if read == expected => {}
            Ok(read) => self.violation(format!(
                "register {n}: after write {number} (as of {as_of}) its writer reads {read:?}, not {expected:?}"
            )),
            Err(why) => self.violation(format!("register {n}: after write {number}: {why}")),
        }
        let wanted = expected.map(|n| Some(Value::I64(n as i64)));
        if edge != wanted {
            self.violation(format!(
                "register {n}: after write {number} (as of {as_of}) its edge has {edge:?}, not {wanted:?}"
            ));
        }
        Some(())
    }

    /// Checks a remembered write by a read as of its version.
    fn check_remembered(&self, n: usize, number: u64, version: Version, database: &Database) {
        // Failures are recorded by `call`.
        let _ = self.check_own_register(n, number, version, database);
    }

    fn write_broad(&self, writer: usize, round: u64, database: &Database) -> Option<()> {
        let ids = (round * OBJECTS..(round + 1) * OBJECTS).map(|n| identity(writer, n));
        let mut batch = Batch::new();
        for identity in ids.clone() {
            batch.push(Op::CreateObject {
                identity,
                attributes: Properties::new(),
                tags: Properties::new().with("writer", writer as i64),
            });
        }
        self.call(true, "creating objects", || database.apply(batch))?;
        let keys: Vec<ObjectKey> = ids.map(ObjectKey::from).collect();
        let read = || database.read_objects(&keys, None);
        let found = self.call(false, "reading objects", read)?;
        if found.iter().any(Option::is_none) {
            self.violation(format!(
                "writer {writer} does not find its objects of round {round}"
            ));
        }
        let first = found.first().and_then(Option::as_ref).map(|f| f.id);
        if let Some(vertex) = first.and_then(|id| object_ref(&self.schema, id)) {
            let mut batch = Batch::new();
            batch.push(Op::DeleteVertex { vertex });
            self.call(true, "deleting an object", || database.apply(batch))?;
            let found = self.call(false, "reading objects", read)?;
            let there: Vec<bool> = found.iter().map(Option::is_some).collect();
            if there != [false, true, true, true] {
                self.violation(format!(
                    "writer {writer} finds of its objects of round {round}, the first deleted, {there:?}"
                ));
            }
        }
        let path = file(writer, round).ok()?;
        self.change(
            Change::Create(path.clone(), NewFile::new(0o100_644, 0, 0)),
            Errno::Exists,
            database,
        )?;
        self.call(false, "asking for a file", || {
            database.stat(None, &path, false)
        })?;
        if round % DELETES == 3 {
            let old = file(writer, round - 1).ok()?;
            self.change(Change::Unlink(old.clone()), Errno::NotFound, database)?;
            let gone = self.call(false, "asking for a file", || {
                match database.stat(None, &old, false) {
                    Err(Error::File(e)) if e.errno == Errno::NotFound => Ok(true),
                    other => other.map(|_| false),
                }
            })?;
            if !gone {
                self.violation(format!("writer {writer} sees {old}, which it has removed"));
            }
        }
        Some(())
    }

    /// Changes a file. After a lost answer, a retry may report the effect of the first attempt (docs/book/cluster.md).
    fn change(&self, change: Change, own_doing: Errno, database: &Database) -> Option<()> {
        self.call(true, "changing a file", || {
            let done = database.change(None, &[change])?;
            for done in done {
                match done {
                    Err(Error::File(e)) if e.errno == own_doing => {}
                    other => drop(other?),
                }
            }
            Ok(())
        })
    }

    /// Reads other clients' registers in one session until stopped.
    pub(super) fn read(&self, reader: usize, database: &Database) {
        let mut seen = vec![0_u64; self.registers.len()];
        let mut turn = reader;
        while !self.stopped() {
            turn += 1;
            let n = turn % self.registers.len().max(1);
            let (Some(register), Some(low)) = (self.registers.get(n), seen.get_mut(n)) else {
                return;
            };
            let ids = register.vertices.map(|v| v.id);
            let Some(pair) = self.call(false, "reading a register", || {
                database.read_vertices(&ids, Version::MAX)
            }) else {
                // Readers never have an unknown outcome.
                continue;
            };
            let issued = register.issued.load(Ordering::Acquire);
            match read_as(&pair) {
                Ok(Some(number)) if (*low..=issued).contains(&number) => *low = number,
                Ok(None) => {
                    // The register is absent after a deletion or before the first write.
                    let deleted = low.next_multiple_of(DELETES);
                    if deleted <= issued {
                        *low = deleted;
                    } else {
                        self.violation(format!(
                            "reader {reader}: register {n} is gone after {low} was read, and no deletion was sent ({issued} writes were)"
                        ));
                    }
                }
                Ok(Some(number)) => self.violation(format!(
                    "reader {reader}: register {n} is at {number} after {low} was read, of {issued} writes sent"
                )),
                Err(why) => self.violation(format!("reader {reader}: register {n}: {why}")),
            }
            std::thread::sleep(self.rest);
        }
    }
}

/// Runs the clients, distributed over the servers in turn, while `doing` acts on the servers; returns its result.
pub(super) fn run_under_load<T>(
    load: &ClientLoad,
    writers: &[Database],
    readers: &[Database],
    doing: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    std::thread::scope(|scope| {
        for (n, database) in writers.iter().enumerate() {
            scope.spawn(move || load.write(n, database));
        }
        for (n, database) in readers.iter().enumerate() {
            scope.spawn(move || load.read(n, database));
        }
        let done = doing();
        load.stop();
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fourth_write_deletes() {
        let all: Vec<Option<u64>> = (0..6).map(expected_number).collect();
        assert_eq!(all, [None, Some(1), Some(2), Some(3), None, Some(5)]);
        assert_eq!(7_u64.next_multiple_of(DELETES), 8);
        assert_eq!(8_u64.next_multiple_of(DELETES), 8);
    }

    #[test]
    fn a_file_is_removed_by_the_round_behind_it() {
        let left: Vec<u64> = (0..8).filter(|n| !removed(*n, 8)).collect();
        assert_eq!(left, [0, 1, 3, 4, 5, 7]);
        assert!(!removed(6, 7));
    }
}
