//! A reader process: Python with the program in `worker.py`. A process that dies or exceeds its time is replaced.

use super::find::Kind;
use anyhow::Context as _;
use esker_model::Value;
use serde_json::{Value as Json, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

const PROGRAM: &str = include_str!("worker.py");
/// Time for the start of Python and of one library, which is long on a shared file system.
const START_TIMEOUT: Duration = Duration::from_mins(2);
/// Interval between checks for a stop while waiting.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// Limits of a reader process.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReaderLimits<'a> {
    pub(super) python: &'a Path,
    pub(super) tags: u32,
    pub(super) value: u64,
    pub(super) memory: u64,
    pub(super) time: Duration,
}

/// Result of reading a file.
#[derive(Debug)]
pub(super) enum WorkerAnswer {
    /// The header was read.
    Read(Header),
    /// The file cannot be read, for this reason.
    Failed(String),
    /// The library for the format is missing.
    Missing(String),
    /// The command is stopping.
    Stopped,
}

/// The header of a file.
#[derive(Debug)]
pub(super) struct Header {
    /// Format of the file as the reader names it.
    pub(super) format: String,
    /// Tags in the order of the file.
    pub(super) tags: Vec<(String, Value)>,
}

/// A running reader process.
pub(super) struct Worker {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

/// Reason why no line was received.
enum NoLine {
    TimedOut,
    Ended,
    Stopped,
}

impl Worker {
    /// Starts a reader process.
    pub(super) fn start(
        limits: &ReaderLimits<'_>,
        stop: &dyn Fn() -> bool,
    ) -> anyhow::Result<Self> {
        let python = limits.python;
        let starting = || format!("starting {}: give another with --python", python.display());
        let mut child = Command::new(python)
            .args(["-I", "-c", PROGRAM])
            .args([limits.tags.to_string(), limits.value.to_string()])
            .args([
                limits.memory.to_string(),
                limits.time.as_secs().max(1).to_string(),
            ])
            // The libraries compute nothing, and each of their threads would take address space.
            .env("OPENBLAS_NUM_THREADS", "1")
            .env("OMP_NUM_THREADS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(starting)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            anyhow::bail!("a reader has no pipes");
        };
        let (send, lines) = mpsc::channel();
        // The thread ends with the process, which closes the pipe.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let mut worker = Self {
            child,
            stdin,
            lines,
        };
        match worker.line(START_TIMEOUT, stop) {
            Ok(_) | Err(NoLine::Stopped) => Ok(worker),
            Err(_) => {
                let status = worker.end();
                anyhow::bail!(
                    "{} ({}) does not read files: give a Python of 3.9 or later with --python",
                    python.display(),
                    ended(status)
                )
            }
        }
    }

    /// Reads a file; also returns whether the process can be used again.
    pub(super) fn read(
        &mut self,
        kind: Kind,
        path: &str,
        limits: &ReaderLimits<'_>,
        stop: &dyn Fn() -> bool,
    ) -> (WorkerAnswer, bool) {
        let mut asked = json!({ "path": path, "kind": kind.name() }).to_string();
        asked.push('\n');
        // If the process has died, reading the answer fails.
        let _ = self.stdin.write_all(asked.as_bytes());
        let answer = self.document(START_TIMEOUT, stop).and_then(|first| {
            if first["begin"] == true {
                self.document(limits.time, stop)
            } else {
                Ok(first)
            }
        });
        match answer {
            Ok(answer) => (parse_answer(&answer), answer["last"] != true),
            Err(NoLine::Stopped) => {
                self.end();
                (WorkerAnswer::Stopped, false)
            }
            Err(NoLine::TimedOut) => {
                self.end();
                let text = format!(
                    "reading its header takes more than {}: skipped",
                    esker_terminal::units::elapsed(limits.time)
                );
                (WorkerAnswer::Failed(text), false)
            }
            Err(NoLine::Ended) => {
                let text = format!("the library crashed on it ({})", ended(self.end()));
                (WorkerAnswer::Failed(text), false)
            }
        }
    }

    fn document(&mut self, time: Duration, stop: &dyn Fn() -> bool) -> Result<Json, NoLine> {
        let line = self.line(time, stop)?;
        serde_json::from_str(&line).map_err(|_| NoLine::Ended)
    }

    fn line(&mut self, time: Duration, stop: &dyn Fn() -> bool) -> Result<String, NoLine> {
        let began = Instant::now();
        loop {
            match self.lines.recv_timeout(STOP_INTERVAL.min(time)) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(NoLine::Ended),
                Err(RecvTimeoutError::Timeout) if stop() => return Err(NoLine::Stopped),
                Err(RecvTimeoutError::Timeout) if began.elapsed() >= time => {
                    return Err(NoLine::TimedOut);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn end(&mut self) -> Option<ExitStatus> {
        // A process that has closed its pipe is about to exit; its status explains the failure.
        for _ in 0..20 {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if self.lines.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        self.child.wait().ok()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ended(status: Option<ExitStatus>) -> String {
    match status.map(|s| (s.code(), s.signal())) {
        Some((Some(code), _)) => format!("it ended with exit code {code}"),
        Some((None, Some(signal))) => format!("signal {signal}"),
        Some((None, None)) | None => "it ended".to_owned(),
    }
}

fn parse_answer(answer: &Json) -> WorkerAnswer {
    if let Some(error) = answer["error"].as_str() {
        return WorkerAnswer::Failed(error.to_owned());
    }
    if let Some(library) = answer["missing"].as_str() {
        let why = match answer["why"].as_str() {
            Some(why) if !why.is_empty() => format!("Python's {library} does not start: {why}"),
            _ => format!("Python has no {library}"),
        };
        return WorkerAnswer::Missing(why);
    }
    let Some(tags) = answer["tags"].as_array() else {
        return WorkerAnswer::Failed("its reader gave no usable answer".to_owned());
    };
    let tags = tags.iter().filter_map(|pair| {
        let name = pair[0].as_str()?;
        Some((name.to_owned(), value(&pair[1])))
    });
    let mut tags: Vec<_> = tags.collect();
    for (field, name) in [
        ("truncated", "esker.harvest.truncated"),
        ("unread", "esker.harvest.unread"),
        ("warning", "esker.harvest.warning"),
    ] {
        if let Some(text) = answer[field].as_str() {
            tags.push((name.to_owned(), Value::String(text.to_owned())));
        }
    }
    WorkerAnswer::Read(Header {
        format: answer["format"].as_str().unwrap_or_default().to_owned(),
        tags,
    })
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Value::I64(whole),
            None => Value::F64(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::String(text.clone()),
        Json::Array(items) => Value::List(items.iter().map(value).collect()),
        Json::Object(special) => {
            if let Some(hex) = special.get("x").and_then(Json::as_str) {
                return Value::Bytes(bytes(hex));
            }
            let double = special.get("f").and_then(Json::as_str);
            Value::F64(double.and_then(|d| d.parse().ok()).unwrap_or(f64::NAN))
        }
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(text, 16).ok()
    };
    digits.filter_map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_json_lacks_come_through() {
        assert_eq!(value(&json!({"f": "-inf"})), Value::F64(f64::NEG_INFINITY));
        assert!(matches!(value(&json!({"f": "nan"})), Value::F64(x) if x.is_nan()));
        assert_eq!(value(&json!({"f": "1e-05"})), Value::F64(1e-5));
        assert_eq!(value(&json!({"x": "00fF"})), Value::Bytes(vec![0, 255]));
        assert_eq!(
            value(&json!([1, 2.0, "a"])),
            Value::List(vec![
                Value::I64(1),
                Value::F64(2.0),
                Value::String("a".into())
            ])
        );
    }
}
