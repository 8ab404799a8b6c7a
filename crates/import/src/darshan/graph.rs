//! A log as vertices and edges: users, jobs, and the files that these read and wrote.
//!
//! ```text
//!  user:1000 ──run──► job:71326-1596152058-5b2c90aa ──exe──► executable:./app_readAB_writeC
//!                           │   └──belongs──► job:71326
//!                           ├──read───► file:/…/A     bytes_read, reads, opens, start, end, ranks, posix_bytes_read, …
//!                           └──write──► file:/…/C     bytes_written, writes, …, mpiio_bytes_written, …
//! ```
//!
//! **Keys.** A user is the numeric uid. What a log describes is a part of a batch job, `JOBID-START-HASH`: the scheduler's number, the start
//! in seconds since 1970, and 8 digits of the log's identity. Every step of a batch job writes a log under the same number; all of them
//! belong to the scheduler's job, `job:71326` ([`job_link`]). Without a scheduler the number is a process id, and 1.x logs have none. A file is its path; in 1.x and 2.x logs, which have only the hash of the
//! path, `darshan2:HASH`, with the end of the name in the attribute `name_suffix`. A file whose name Darshan had no memory for is
//! `darshan3:HASH`. A file of a DAOS container is `daos:PATH`. An executable is the first word of the command line as typed: logs do not contain its folder, so `executable:./a.out`
//! is many programs.
//!
//! **Times.** Every mutation has a version from the log's own clock, so logs may be imported in any order: the job at its start, a write
//! edge (and a version of the file) at the end of the last write, a read edge at the end of the last read. The low 16 bits are a hash of
//! the log, so that two jobs in one millisecond are two versions, and a second import of a log makes identical mutations.
//!
//! Logs before 3.41 truncate the start of the job to whole seconds: all events were up to 999 ms later than recorded. Times of one job
//! still compare exactly, those of two jobs do not, so read and write edges of such logs have `time_resolution_ms` = 999: a write may be
//! what a read saw even if it began up to that much after the read ended.

use esker_model::{
    Batch, EdgeTypeId, Op, Properties, Schema, SchemaError, Value, Version, VertexId, VertexRef,
    VertexTypeId, limits::VERTEX_KEY_BYTES_MAX,
};

use crate::jobs::job_key;

use super::access::{FileAccess, file_accesses, rank_accesses};
use super::clock::Clock;
use super::helpers::helper;
use super::job::Mount;
use super::log::Log;
use super::record::Module;

/// Schema types required for logs, looked up once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphTypes {
    user: VertexTypeId,
    job: VertexTypeId,
    process: VertexTypeId,
    executable: VertexTypeId,
    file: VertexTypeId,
    run: EdgeTypeId,
    exe: EdgeTypeId,
    read: EdgeTypeId,
    write: EdgeTypeId,
    belongs: EdgeTypeId,
}

impl GraphTypes {
    /// Looks up the types in a schema.
    ///
    /// # Errors
    /// Fails if the schema lacks one of them; the default schema has them all.
    pub fn resolve(schema: &Schema) -> Result<Self, SchemaError> {
        Ok(Self {
            user: schema.vertex_type_id("User")?,
            job: schema.vertex_type_id("Job")?,
            process: schema.vertex_type_id("Process")?,
            executable: schema.vertex_type_id("Executable")?,
            file: schema.vertex_type_id("File")?,
            run: schema.edge_type_id("run")?,
            exe: schema.edge_type_id("exe")?,
            read: schema.edge_type_id("read")?,
            write: schema.edge_type_id("write")?,
            belongs: schema.edge_type_id("belongs")?,
        })
    }
}

/// Identity of a log: BLAKE3 hash of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogIdentity(pub [u8; 32]);

impl LogIdentity {
    /// Returns the identity of a log file's content.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    fn logical(&self) -> u16 {
        let [high, low, ..] = self.0;
        u16::from_be_bytes([high, low])
    }

    fn short(&self) -> u32 {
        let [_, _, a, b, c, d, ..] = self.0;
        u32::from_be_bytes([a, b, c, d])
    }
}

/// Options for converting a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphOptions {
    /// Whether to keep the files that [`helper`] identifies.
    pub keep_helpers: bool,
    /// Whether to make a vertex for each process that has records of its own, which `belongs` to the job and has its own edges.
    pub processes: bool,
    /// Value of the job's attribute `log`: location of the log, as the host wants it recorded.
    pub log_name: Option<String>,
    /// Limit of mutations in one batch, not counting those of the last file in it.
    pub batch_mutations_max: usize,
}

impl Default for GraphOptions {
    fn default() -> Self {
        Self {
            keep_helpers: false,
            processes: false,
            log_name: None,
            batch_mutations_max: 1 << 16,
        }
    }
}

/// Statistics of a converted log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GraphCounts {
    /// Number of files that the job read.
    pub files_read: u64,
    /// Number of files that the job wrote.
    pub files_written: u64,
    /// Number of files that were only opened, examined or mapped: these make no edge.
    pub files_untouched: u64,
    /// Number of files skipped as helpers.
    pub helpers_skipped: u64,
    /// Number of processes that have a vertex.
    pub processes: u64,
    /// Number of mutations in all batches.
    pub mutations: u64,
}

/// Returns the key of a log's vertex: `JOBID-START-HASH`.
pub fn log_key(log: &Log, identity: &LogIdentity) -> String {
    format!(
        "{}-{}-{:08x}",
        log.job.job_id,
        log.job.start.seconds,
        identity.short()
    )
}

/// Makes the batches of a log and passes each to `sink`. Each has an idempotency key ([`Batch::idempotency_key`]) derived from the log's identity, the
/// options that affect the result, and the number of the batch; the first one contains the job.
pub fn graph(
    log: &Log,
    identity: &LogIdentity,
    types: &GraphTypes,
    options: &GraphOptions,
    sink: &mut dyn FnMut(Batch),
) -> GraphCounts {
    let mut writer = JobWriter::new(log, identity, types, options, sink);
    writer.job();
    for access in file_accesses(&log.records) {
        writer.file(&access);
    }
    if options.processes {
        let accesses = rank_accesses(&log.records);
        for group in accesses.chunk_by(|a, b| a.0 == b.0) {
            writer.process(group);
        }
    }
    writer.flush();
    writer.counts
}

/// Makes the batch that links the vertex of a log to the scheduler's job ([`crate::jobs`]), of this cluster if one is given. A log without a
/// number is not linked.
pub fn job_link(
    log: &Log,
    identity: &LogIdentity,
    types: &GraphTypes,
    cluster: Option<&str>,
) -> Batch {
    let at = Clock::new(log, identity.logical()).start();
    let mut batch = Batch::new();
    let mut ensure = |vertex: &NamedVertex| {
        batch.push_at(
            at,
            Op::EnsureVertex {
                vertex: vertex.vertex,
                key: vertex.key.clone(),
            },
        );
    };
    let run = named(types.job, "Job", log_key(log, identity));
    ensure(&run);
    if log.job.job_id > 0 {
        let number = log.job.job_id.to_string();
        let job = named(types.job, "Job", job_key(cluster, &number));
        ensure(&job);
        batch.push_at(
            at,
            Op::PutEdge {
                source: run.vertex,
                edge_type: types.belongs,
                destination: job.vertex,
                properties: Properties::new().with("evidence", "observed"),
            },
        );
    }
    batch
}

/// A vertex with its key.
#[derive(Clone)]
struct NamedVertex {
    vertex: VertexRef,
    key: String,
}

fn named(type_id: VertexTypeId, type_name: &str, key: String) -> NamedVertex {
    NamedVertex {
        vertex: VertexRef {
            id: VertexId::of(type_name, &key),
            type_id,
        },
        key,
    }
}

struct JobWriter<'a> {
    log: &'a Log,
    identity: &'a LogIdentity,
    types: &'a GraphTypes,
    options: &'a GraphOptions,
    sink: &'a mut dyn FnMut(Batch),
    batch: Batch,
    part: u32,
    counts: GraphCounts,
    clock: Clock,
    job: NamedVertex,
}

impl<'a> JobWriter<'a> {
    fn new(
        log: &'a Log,
        identity: &'a LogIdentity,
        types: &'a GraphTypes,
        options: &'a GraphOptions,
        sink: &'a mut dyn FnMut(Batch),
    ) -> Self {
        Self {
            log,
            identity,
            types,
            options,
            sink,
            batch: Batch::new(),
            part: 0,
            counts: GraphCounts::default(),
            clock: Clock::new(log, identity.logical()),
            job: named(types.job, "Job", log_key(log, identity)),
        }
    }

    fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let mut batch = std::mem::take(&mut self.batch);
        let mut marker = b"darshan".to_vec();
        marker.push(u8::from(self.options.keep_helpers) | u8::from(self.options.processes) << 1);
        marker.extend(self.identity.0);
        marker.extend(self.part.to_be_bytes());
        batch.idempotency_key = Some(marker);
        self.part += 1;
        self.counts.mutations += batch.len() as u64;
        (self.sink)(batch);
    }

    fn push(&mut self, version: Version, op: Op) {
        self.batch.push_at(version, op);
    }

    fn ensure(&mut self, version: Version, vertex: &NamedVertex) {
        self.push(
            version,
            Op::EnsureVertex {
                vertex: vertex.vertex,
                key: vertex.key.clone(),
            },
        );
    }

    fn edge(
        &mut self,
        version: Version,
        source: VertexRef,
        edge_type: EdgeTypeId,
        destination: VertexRef,
        properties: Properties,
    ) {
        self.push(
            version,
            Op::PutEdge {
                source,
                edge_type,
                destination,
                properties: properties.with("evidence", "observed"),
            },
        );
    }

    /// Writes the user, the job and the executable.
    fn job(&mut self) {
        let job = &self.log.job;
        let at = self.clock.start();
        let user = named(self.types.user, "User", job.uid.to_string());
        self.ensure(at, &user);

        let mut attributes = Properties::new()
            .with("jobid", job.job_id.to_string())
            .with("nprocs", job.processes)
            .with("start", Value::Timestamp(self.clock.start_ns))
            .with("end", Value::Timestamp(self.clock.end_ns))
            .with("partial", self.is_partial());
        if let Some(executable) = job.executable() {
            let name = executable.rsplit('/').next().unwrap_or(executable);
            attributes.set("name", name);
            attributes.set("command", job.command.trim());
        }
        if !job.metadata.is_empty() {
            let settings = job
                .metadata
                .iter()
                .map(|(k, v)| Value::String(format!("{k}={v}")));
            attributes.set("settings", Value::List(settings.collect()));
        }
        if let Some(name) = &self.options.log_name {
            attributes.set("log", name.as_str());
        }
        let vertex = self.job.vertex;
        self.push(
            at,
            Op::PutVertex {
                vertex,
                key: self.job.key.clone(),
                attributes,
            },
        );
        self.edge(at, user.vertex, self.types.run, vertex, Properties::new());
        if let Some(executable) = job.executable() {
            let executable = named(self.types.executable, "Executable", executable.to_owned());
            self.ensure(at, &executable);
            let arguments = job.arguments();
            let mut properties = Properties::new();
            if !arguments.is_empty() {
                properties.set("arguments", arguments);
            }
            self.edge(at, vertex, self.types.exe, executable.vertex, properties);
        }
    }

    /// Returns whether the log lacks some of the job's operations.
    fn is_partial(&self) -> bool {
        !self.log.damages.is_empty()
            || self
                .log
                .modules
                .iter()
                .any(|module| module.partial && module.records.is_some())
    }

    /// Writes one file of the whole job.
    fn file(&mut self, access: &FileAccess) {
        let path = self.log.names.get(access.record);
        if !self.options.keep_helpers && helper(access.record, path.unwrap_or_default()).is_some() {
            self.counts.helpers_skipped += 1;
            return;
        }
        let (was_read, was_written) = (access.was_read(), access.was_written());
        self.counts.files_read += u64::from(was_read);
        self.counts.files_written += u64::from(was_written);
        if !was_read && !was_written {
            self.counts.files_untouched += 1;
            return;
        }
        let file = self.accessed_file(access);
        let start = self.clock.start();
        if was_read || !self.log.has_whole_names() {
            self.ensure(start, &file);
        }
        if !self.log.has_whole_names()
            && let Some(suffix) = path
        {
            let set = Properties::new().with("name_suffix", suffix);
            self.push(
                start,
                Op::SetAttributes {
                    vertex: file.vertex,
                    set,
                    remove: Vec::new(),
                },
            );
        }
        if was_written {
            let (_, end) = self.clock.interval(&access.write, &access.any);
            let mut attributes = Properties::new().with("mtime", Value::Timestamp(end));
            if let Some(path) = path {
                attributes.set("name", path.rsplit('/').next().unwrap_or(path));
                if self.log.has_whole_names()
                    && let Some(mount) = mount_of(&self.log.job.mounts, path)
                {
                    attributes.set("mount", mount.path.as_str());
                    attributes.set("filesystem", mount.kind.as_str());
                }
            }
            let at = self.clock.version(end);
            self.push(
                at,
                Op::PutVertex {
                    vertex: file.vertex,
                    key: file.key.clone(),
                    attributes,
                },
            );
        }
        self.accesses(self.job.vertex, &file, access);
        if self.batch.len() >= self.options.batch_mutations_max {
            self.flush();
        }
    }

    /// Writes the files of one process.
    fn process(&mut self, group: &[(i64, FileAccess)]) {
        let Some((rank, _)) = group.first() else {
            return;
        };
        let key = format!("{}/{rank}", self.job.key);
        let process = named(self.types.process, "Process", key);
        let start = self.clock.start();
        let attributes = Properties::new().with("rank", *rank);
        self.push(
            start,
            Op::PutVertex {
                vertex: process.vertex,
                key: process.key,
                attributes,
            },
        );
        let (types, job) = (self.types, self.job.vertex);
        self.edge(start, process.vertex, types.belongs, job, Properties::new());
        self.counts.processes += 1;
        for (_, access) in group {
            let path = self.log.names.get(access.record).unwrap_or_default();
            let left_out = !self.options.keep_helpers && helper(access.record, path).is_some();
            // The pass over the job has made every file's vertex.
            if !left_out && (access.was_read() || access.was_written()) {
                let file = self.accessed_file(access);
                self.accesses(process.vertex, &file, access);
            }
            if self.batch.len() >= self.options.batch_mutations_max {
                self.flush();
            }
        }
    }

    /// Writes the read and the write edge from a job or process to a file.
    fn accesses(&mut self, source: VertexRef, file: &NamedVertex, access: &FileAccess) {
        let write = access
            .was_written()
            .then(|| self.clock.interval(&access.write, &access.any));
        if access.was_read() {
            let (start, end) = self.clock.interval(&access.read, &access.any);
            let properties = self.properties(access, &READ, start, end);
            let at = self.clock.version(end);
            self.edge(at, source, self.types.read, file.vertex, properties);
        }
        if let Some((start, end)) = write {
            let mut properties = self.properties(access, &WRITE, start, end);
            if access.renamed_from != 0 {
                let from = self.file_vertex(access.renamed_from);
                properties.set("renamed_from", format!("file:{}", from.key));
            }
            let at = self.clock.version(end);
            self.edge(at, source, self.types.write, file.vertex, properties);
        }
    }

    fn properties(
        &self,
        access: &FileAccess,
        names: &Direction,
        start: i64,
        end: i64,
    ) -> Properties {
        let ranks = if access.shared {
            self.log.job.processes
        } else {
            i64::try_from(access.ranks).unwrap_or(i64::MAX)
        };
        let mut properties = Properties::new()
            .with(names.bytes, (names.merged_bytes)(access))
            .with(names.operations, (names.merged_operations)(access))
            .with("opens", access.opens())
            .with("ranks", ranks)
            .with("start", Value::Timestamp(start))
            .with("end", Value::Timestamp(end));
        if self.log.job.resolution_ms > 0 {
            properties.set("time_resolution_ms", self.log.job.resolution_ms);
        }
        let max = (names.max_byte)(access);
        if max >= 0 {
            properties.set("max_offset", max);
        }
        for (module, name) in Module::ALL.into_iter().zip(names.module_bytes) {
            let sums = access.module(module);
            if sums.records > 0 {
                properties.set(name, (names.bytes_of)(sums));
            }
        }
        properties
    }

    fn accessed_file(&self, access: &FileAccess) -> NamedVertex {
        let mut file = self.file_vertex(access.record);
        if access.module(Module::Dfs).records > 0 && file.key.starts_with('/') {
            // The path begins in a container, which is no folder of this machine.
            file = named(self.types.file, "File", format!("daos:{}", file.key));
        }
        file
    }

    fn file_vertex(&self, record: u64) -> NamedVertex {
        let path = self
            .log
            .names
            .get(record)
            .filter(|path| path.len() <= VERTEX_KEY_BYTES_MAX);
        let key = match path {
            _ if !self.log.has_whole_names() => format!("darshan2:{record:016x}"),
            Some(path) => path.to_owned(),
            None => format!("darshan3:{record:016x}"),
        };
        named(self.types.file, "File", key)
    }
}

/// Names and sums that differ between reading and writing.
struct Direction {
    bytes: &'static str,
    operations: &'static str,
    module_bytes: [&'static str; Module::COUNT],
    merged_bytes: fn(&FileAccess) -> i64,
    merged_operations: fn(&FileAccess) -> i64,
    bytes_of: fn(&super::access::ModuleSums) -> i64,
    max_byte: fn(&FileAccess) -> i64,
}

const READ: Direction = Direction {
    bytes: "bytes_read",
    operations: "reads",
    module_bytes: [
        "posix_bytes_read",
        "mpiio_bytes_read",
        "stdio_bytes_read",
        "dfs_bytes_read",
    ],
    merged_bytes: FileAccess::bytes_read,
    merged_operations: FileAccess::reads,
    bytes_of: |sums| sums.bytes_read,
    max_byte: |access| access.max_byte_read,
};

const WRITE: Direction = Direction {
    bytes: "bytes_written",
    operations: "writes",
    module_bytes: [
        "posix_bytes_written",
        "mpiio_bytes_written",
        "stdio_bytes_written",
        "dfs_bytes_written",
    ],
    merged_bytes: FileAccess::bytes_written,
    merged_operations: FileAccess::writes,
    bytes_of: |sums| sums.bytes_written,
    max_byte: |access| access.max_byte_written,
};

/// Returns the mount of a path: the longest mount point that is a prefix of the path, by whole components.
fn mount_of<'a>(mounts: &'a [Mount], path: &str) -> Option<&'a Mount> {
    mounts.iter().find(|mount| {
        path.strip_prefix(mount.path.as_str()).is_some_and(|rest| {
            mount.path.ends_with('/') || rest.is_empty() || rest.starts_with('/')
        })
    })
}
