//! Traces of requests: three input formats, one output format.
//!
//! NDJSON is Esker's own format; HDFS audit logs and the output of strace are read unchanged. Broken lines are errors, or counted
//! and skipped on request. Traces are kept in memory: 32 bytes per request, and each path once.

mod hdfs;
mod ndjson;
mod strace;
pub mod yahoo;

use crate::entry::Time;
use crate::error::{Error, Result};
use crate::path::{PathId, Paths, lexical};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::fmt;
use std::io::BufRead;
use std::str::FromStr;

/// Maximum length of a line, in bytes.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// Operation of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Reads a directory.
    List,
    /// Reads attributes.
    Stat,
    /// Opens a file, which reads attributes first.
    Open,
    /// Creates or overwrites a file or directory.
    Create,
    /// Deletes a path with its subtree.
    Delete,
    /// Renames a path.
    Rename,
    /// Changes attributes.
    Set,
}

impl Op {
    /// All operations, in declaration order.
    pub const ALL: [Self; 7] = [
        Self::List,
        Self::Stat,
        Self::Open,
        Self::Create,
        Self::Delete,
        Self::Rename,
        Self::Set,
    ];

    /// Returns the name in NDJSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Stat => "stat",
            Self::Open => "open",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Rename => "rename",
            Self::Set => "set",
        }
    }

    /// Whether the operation changes nothing.
    pub fn reads(self) -> bool {
        matches!(self, Self::List | Self::Stat | Self::Open)
    }
}

/// A request of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Time of the request, in microseconds.
    pub t: Time,
    /// Number of the client, see [`Traces::client_name`].
    pub client: u32,
    /// Operation of the client.
    pub op: Op,
    /// Path of the operation.
    pub path: PathId,
    /// New path of a rename.
    pub to: Option<PathId>,
    /// Whether the path existed, if the trace says so.
    pub found: Option<bool>,
    /// Whether the path is a directory, as far as the trace says.
    pub directory: bool,
}

/// Format of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One object per line: `{"t": seconds, "client": …, "op": …, "path": …, "to": …}`; `"found": false` if the path was
    /// missing, `"kind": "directory"`.
    Ndjson,
    /// Audit log of an HDFS `NameNode`.
    Hdfs,
    /// Output of `strace -f -ttt -y`.
    Strace,
}

impl Format {
    /// Guesses the format from a line.
    pub fn guess(line: &[u8]) -> Self {
        let has = |text: &[u8]| line.windows(text.len()).any(|w| w == text);
        if line.trim_ascii_start().first() == Some(&b'{') {
            Self::Ndjson
        } else if has(b"cmd=") && (has(b"ugi=") || has(b"src=")) {
            Self::Hdfs
        } else {
            Self::Strace
        }
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "ndjson" => Ok(Self::Ndjson),
            "hdfs" => Ok(Self::Hdfs),
            "strace" => Ok(Self::Strace),
            _ => Err(Error::Setting(format!(
                "`{text}` is not a format of traces: expected ndjson, hdfs or strace"
            ))),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ndjson => "ndjson",
            Self::Hdfs => "hdfs",
            Self::Strace => "strace",
        })
    }
}

/// Events of a parsed trace.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Events in the order of time.
    pub events: Vec<Event>,
    /// Number of broken lines that were skipped.
    pub skipped: u64,
    /// Error of the first skipped line.
    pub first_skipped: Option<Error>,
}

/// A parsed line, before paths and clients are interned.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    /// Time of the request, in microseconds.
    t: Time,
    client: String,
    op: Op,
    path: Vec<u8>,
    to: Option<Vec<u8>>,
    found: Option<bool>,
    directory: bool,
}

/// Interned paths and clients of traces that are used together.
#[derive(Debug)]
pub struct Traces {
    /// All paths of the traces.
    pub paths: Paths,
    /// Root of the single origin of all traces.
    pub root: PathId,
    clients: Vec<String>,
    by_name: HashMap<String, u32, FixedState>,
}

impl Default for Traces {
    fn default() -> Self {
        let mut paths = Paths::new();
        let root = paths.origin("trace:");
        Self {
            paths,
            root,
            clients: Vec::new(),
            by_name: HashMap::with_hasher(FixedState::with_seed(4)),
        }
    }
}

impl Traces {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the name of a client.
    pub fn client_name(&self, client: u32) -> &str {
        self.clients.get(client as usize).map_or("", String::as_str)
    }

    /// Returns the number of clients.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Interns the name of a client.
    pub fn client(&mut self, name: &str) -> u32 {
        if let Some(found) = self.by_name.get(name) {
            return *found;
        }
        let number = self.clients.len() as u32;
        self.clients.push(name.to_owned());
        self.by_name.insert(name.to_owned(), number);
        number
    }

    /// Reads a trace. Without a format, its first non-empty line decides. With `lenient`, broken lines are counted and skipped;
    /// otherwise the first one is an error. `directory` is the initial working directory for relative paths of strace.
    pub fn read(
        &mut self,
        mut from: impl BufRead,
        format: Option<Format>,
        lenient: bool,
        directory: Option<&[u8]>,
    ) -> std::io::Result<Result<Trace>> {
        let mut trace = Trace::default();
        let mut format = format;
        let mut strace = strace::Strace::new(directory);
        let mut line = Vec::new();
        let mut number = 0;
        loop {
            line.clear();
            let read = read_line(&mut from, &mut line)?;
            if read == 0 {
                break;
            }
            number += 1;
            while matches!(line.last(), Some(b'\n' | b'\r')) {
                line.pop();
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let format = *format.get_or_insert_with(|| Format::guess(&line));
            let parsed = if read > LINE_BYTES_MAX {
                Err("it is longer than 1 MiB".into())
            } else {
                match format {
                    Format::Ndjson => ndjson::parse(&line).map(Some),
                    Format::Hdfs => hdfs::parse(&line),
                    Format::Strace => strace.parse(&line),
                }
            };
            let added = parsed.and_then(|line| match line {
                Some(line) => self.add(&line).map(|event| trace.events.push(event)),
                None => Ok(()),
            });
            if let Err(message) = added {
                let error = Error::Trace {
                    line: number,
                    message,
                };
                if !lenient {
                    return Ok(Err(error));
                }
                trace.skipped += 1;
                trace.first_skipped.get_or_insert(error);
            }
        }
        trace.events.sort_by_key(|event| event.t);
        Ok(Ok(trace))
    }

    fn add(&mut self, line: &Line) -> std::result::Result<Event, String> {
        let root = self.root;
        let mut number = |path: &[u8]| {
            let path = lexical(b"/", path);
            self.paths.intern(root, &path).map_err(|e| e.to_string())
        };
        let path = number(&line.path)?;
        let to = line.to.as_deref().map(&mut number).transpose()?;
        if line.op == Op::Rename && to.is_none() {
            return Err("a rename says where to: expected \"to\"".into());
        }
        Ok(Event {
            t: line.t,
            client: self.client(&line.client),
            op: line.op,
            path,
            to,
            found: line.found,
            directory: line.directory,
        })
    }

    /// Appends an event as an NDJSON line, with its line break.
    pub fn write(&self, event: &Event, out: &mut String) {
        use fmt::Write as _;
        let quoted = |text: String| serde_json::Value::String(text).to_string();
        let client = quoted(self.client_name(event.client).to_owned());
        let path = quoted(self.paths.text(event.path));
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "{{\"t\":{}.{:06},\"client\":{client},\"op\":\"{}\",\"path\":{path}",
            event.t / 1_000_000,
            event.t % 1_000_000,
            event.op.name(),
        );
        if let Some(to) = event.to {
            let _ = write!(out, ",\"to\":{}", quoted(self.paths.text(to)));
        }
        if let Some(found) = event.found {
            let _ = write!(out, ",\"found\":{found}");
        }
        if event.directory {
            out.push_str(",\"kind\":\"directory\"");
        }
        out.push_str("}\n");
    }
}

/// Reads a line with its line break; a line that is too long is truncated.
fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<usize> {
    let mut read = 0;
    loop {
        let some = from.fill_buf()?;
        if some.is_empty() {
            return Ok(read);
        }
        let end = some.iter().position(|b| *b == b'\n');
        let take = end.map_or(some.len(), |at| at + 1);
        let room = (LINE_BYTES_MAX + 1).saturating_sub(line.len());
        line.extend_from_slice(&some[..take.min(room)]);
        from.consume(take);
        read += take;
        if end.is_some() {
            return Ok(read);
        }
    }
}

/// Parses one line, for fuzz targets and tests. Returns whether it contains an event, or the error.
pub fn check_line(format: Format, line: &[u8]) -> std::result::Result<bool, String> {
    match format {
        Format::Ndjson => ndjson::parse(line).map(|_| true),
        Format::Hdfs => hdfs::parse(line).map(|l| l.is_some()),
        Format::Strace => strace::Strace::new(Some(b"/"))
            .parse(line)
            .map(|l| l.is_some()),
    }
}
