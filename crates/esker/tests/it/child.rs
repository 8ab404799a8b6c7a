//! A child process: this test binary again, which reads commands from its standard input, one per line, and answers
//! each with a
//! line.

#![allow(
    clippy::print_stdout,
    reason = "a child speaks to its parent over standard output"
)]

use crate::graph;
use esker::model::GraphRead;
use esker::{Database, Durability, OpenOptions, Role};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child as Process, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

const MARK: &str = "#esker ";
const VARIABLE: &str = "ESKER_TEST_CHILD";
/// User and group ids unused on the machine. (65534 is reported by the kernel for unmapped users and identifies nobody.)
pub(crate) const OTHER_USER: u32 = 60_001;

/// A child process of a test.
pub(crate) struct Child {
    process: Process,
    input: ChildStdin,
    /// Lines of its standard output. A thread reads them at once: a child never waits for a full pipe.
    output: Receiver<String>,
}

impl Child {
    /// Starts a child process.
    pub(crate) fn start() -> Self {
        Self::from_command(Command::new(std::env::current_exe().unwrap()))
    }

    /// Starts a child as [`OTHER_USER`], from a copy of this binary in `folder`, because the build folder may be
    /// inaccessible
    /// to that user (`/root`, for example). Requires root; `None` if that user cannot enter `folder`.
    pub(crate) fn as_other_user(folder: &Path) -> Option<Self> {
        let copy = folder.join("child");
        std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        let reachable = Command::new("test")
            .arg("-x")
            .arg(&copy)
            .uid(OTHER_USER)
            .gid(OTHER_USER)
            .status();
        if !reachable.is_ok_and(|s| s.success()) {
            return None;
        }
        let mut command = Command::new(copy);
        command.uid(OTHER_USER).gid(OTHER_USER);
        // A child whose working folder is unreadable would fail for that reason alone.
        command.current_dir("/");
        Some(Self::from_command(command))
    }

    /// Starts a child after a shell script of mounts, in a separate mount namespace; `None` if that is not permitted.
    pub(crate) fn behind_mounts(script: &str) -> Option<Self> {
        let allowed = Command::new("unshare")
            .args(["-m", "sh", "-c", script])
            .output();
        if !allowed.is_ok_and(|o| o.status.success()) {
            return None;
        }
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &format!("{script} && exec \"$0\" \"$@\"")]);
        command.arg(std::env::current_exe().unwrap());
        Some(Self::from_command(command))
    }

    fn from_command(mut command: Command) -> Self {
        command
            .args([
                "--exact",
                "child::a_child_does_what_it_is_told",
                "--nocapture",
            ])
            .env(VARIABLE, "1");
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            process,
            input,
            output,
        }
    }

    /// Sends a command line.
    pub(crate) fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// The next answer; `None` once the child has ended.
    pub(crate) fn answer(&mut self) -> Option<String> {
        loop {
            let line = self.output.recv().ok()?;
            // The test harness prints its own output first.
            if let Some((_, answer)) = line.split_once(MARK) {
                return Some(answer.to_owned());
            }
        }
    }

    /// Sends a line and waits for its answer.
    pub(crate) fn tell(&mut self, line: &str) -> String {
        self.send(line);
        self.answer()
            .unwrap_or_else(|| panic!("the child died at `{line}`"))
    }

    /// Opens a database; returns `owner`, `attached PID` or an error.
    pub(crate) fn open(&mut self, path: &Path) -> String {
        self.tell(&format!("open {}", path.display()))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Kills the child (SIGKILL).
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// All answers until the child ends.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.answer()).collect()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn say(line: &str) {
    println!("{MARK}{line}");
}

fn role(db: &Database) -> String {
    match db.role() {
        Role::Owner => "owner".into(),
        Role::Attached { pid } => format!("attached {pid}"),
        Role::Client { pid } => format!("client {pid}"),
    }
}

/// 100 kB of text that does not compress well.
fn noise(seed: u64) -> String {
    use std::fmt::Write;
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = String::new();
    while text.len() < 100_000 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let _ = write!(text, "{x:x}");
    }
    text
}

fn outcome<T>(result: esker::Result<T>, say: impl FnOnce(T) -> String) -> String {
    result.map_or_else(|e| format!("error {:?}: {e}", e.kind()), say)
}

/// The program of a child, not a test.
#[test]
fn a_child_does_what_it_is_told() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let mut open: Option<Database> = None;
    let mut held: Option<esker::File> = None;
    let mut raw = Vec::new();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (command, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let answer = match command {
            "open" | "create" | "create-for-group" | "open-sync" => {
                let durability = if command == "open-sync" {
                    Durability::Sync
                } else {
                    Durability::Relaxed
                };
                let options = OpenOptions::new()
                    .create(command.starts_with("create"))
                    .group(command == "create-for-group")
                    .memory_bytes(32 << 20)
                    .durability(durability);
                outcome(options.open(rest), |db| {
                    let role = role(&db);
                    open = Some(db);
                    role
                })
            }
            "umask" => {
                let mask = u32::from_str_radix(rest, 8).unwrap();
                rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask));
                "set".into()
            }
            // All versions but the newest go to the archive.
            "retain" => {
                let db = open.as_ref().unwrap();
                for n in 0..3 {
                    graph::put_file(db, "/many", n).unwrap();
                }
                let newest = db.stats().unwrap().newest;
                let done = db.compact(newest, &esker::model::NeverCancel);
                outcome(done, |report| {
                    if report.archived > 0 {
                        "archived".into()
                    } else {
                        "nothing".into()
                    }
                })
            }
            "rdf" => outcome(crate::modes::change_rdf(open.as_ref().unwrap()), |()| {
                "changed".into()
            }),
            "restore" => {
                let (from, to) = rest.split_once(' ').unwrap();
                let done = Database::restore(Path::new(from), Path::new(to));
                outcome(done, |()| "restored".into())
            }
            "role" => role(open.as_ref().unwrap()),
            "put" => outcome(graph::put_file(open.as_ref().unwrap(), rest, 1), |c| {
                format!("applied {}", c.applied)
            }),
            // Writes until killed or until the file STOP exists, and prints the acknowledged writes: `write NAME STOP`.
            "write" | "objects" | "files" => {
                let (name, stop) = rest.split_once(' ').unwrap();
                let stop = Path::new(stop);
                let db = open.as_ref().unwrap();
                let mut n = 0;
                loop {
                    let key = format!("{name}-{n:06}");
                    if command == "files" {
                        match crate::names::make_and_move(db, &key) {
                            Ok(()) => say(&format!("acked {key} true")),
                            Err(e) => break format!("error {:?}: {e}", e.kind()),
                        }
                        n += 1;
                        if stop.exists() {
                            break "wrote".into();
                        }
                        continue;
                    }
                    let done = if command == "objects" {
                        crate::objects::create_one(db, name, n)
                    } else {
                        graph::link(db, name, &key, n)
                    };
                    match done {
                        Ok(c) => say(&format!("acked {key} {}", c.applied)),
                        Err(e) => break format!("error {:?}: {e}", e.kind()),
                    }
                    n += 1;
                    if stop.exists() {
                        break "wrote".into();
                    }
                }
            }
            // Changes files until it is killed.
            "names" => crate::death_names::run_changes(open.as_ref().unwrap(), rest, &say),
            "file" => {
                let told = crate::open_files::tell(open.as_ref().unwrap(), &mut held, rest);
                outcome(told, |said| said)
            }
            "ls" => outcome(crate::names::list(open.as_ref().unwrap(), rest), |names| {
                names.join(" ")
            }),
            "ls-as-root" => {
                let root = esker::model::object::Principal::default();
                let path = esker::model::namespace::NamePath::parse(rest.as_bytes()).unwrap();
                let stat = esker::model::namespace::Namespace::stat(
                    open.as_ref().unwrap(),
                    Some(&root),
                    &path,
                    false,
                );
                outcome(stat, |_| "seen".into())
            }
            "mkdir" => outcome(
                crate::names::mkdir(open.as_ref().unwrap(), None, rest, 0o755),
                |()| "made".into(),
            ),
            "persist-all" => outcome(open.as_ref().unwrap().stats(), |_| "told".into()),
            "graph" => outcome(open.as_ref().unwrap().counts(), |_| "counted".into()),
            "count" => graph::files(open.as_ref().unwrap()).len().to_string(),
            // Opens, puts one file and closes, a number of times.
            "rounds" => {
                let mut words = rest.split(' ');
                let (path, name, rounds) = (
                    words.next().unwrap(),
                    words.next().unwrap(),
                    words.next().unwrap(),
                );
                let mut owned = 0;
                let mut failed = None;
                for round in 0..rounds.parse::<u32>().unwrap() {
                    let done = OpenOptions::new()
                        .memory_bytes(32 << 20)
                        .open(path)
                        .and_then(|db| {
                            owned += u32::from(db.role() == Role::Owner);
                            graph::put_file(&db, &format!("{name}-{round}"), 1)?;
                            db.close()
                        });
                    failed = failed.or(done.err());
                }
                failed.map_or_else(
                    || format!("owned {owned}"),
                    |e| format!("error {:?}: {e}", e.kind()),
                )
            }
            // Fills the disk.
            "fill" => {
                let db = open.as_ref().unwrap();
                let mut n = 0_u64;
                loop {
                    let mut batch = esker::model::Batch::new();
                    let key = format!("{rest}-{n:06}");
                    let attributes = esker::model::Properties::new().with("name", noise(n));
                    let vertex = graph::vertex(db, &format!("file:{key}"));
                    batch.push(esker::model::Op::PutVertex {
                        vertex,
                        key,
                        attributes,
                    });
                    if let Err(e) = esker::model::GraphWrite::apply(db, batch) {
                        break format!("{n} then {:?}: {e}", e.kind());
                    }
                    n += 1;
                }
            }
            // Connects to an owner until it accepts no more connections, and keeps them.
            "connect" => {
                let connect = |_| std::os::unix::net::UnixStream::connect(rest).unwrap();
                raw = (0..140).map(connect).collect::<Vec<_>>();
                "connected".into()
            }
            "close" => outcome(open.take().unwrap().close(), |()| "closed".into()),
            "backup" => outcome(open.as_ref().unwrap().backup(Path::new(rest)), |_| {
                "backed up".into()
            }),
            "schema" => outcome(open.as_ref().unwrap().schema(), |s| {
                s.vertex_types().count().to_string()
            }),
            other => panic!("no command `{other}`"),
        };
        say(&answer);
    }
    drop(raw);
}
