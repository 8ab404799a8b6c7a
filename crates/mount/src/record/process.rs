//! Which process asks: what `/proc` says of it, read when it is first seen and when it has become another program.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Processes that are remembered.
const REMEMBERED_MAX: usize = 4_096;
/// Bytes of a command line that are kept.
const COMMAND_BYTES_MAX: usize = 4_096;
/// Ticks of the clock that `/proc` counts by (`USER_HZ`), in a second.
const TICKS: u64 = 100;

/// A process as it is one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// When it began, in ticks since the machine did: with the pid, it is the only one of its machine.
    ticks: u64,
    /// The name of its program, as the kernel cuts it.
    comm: String,
    pub(crate) uid: u32,
    /// When it began, in milliseconds since 1970.
    pub(crate) began: u64,
    pub(crate) command: String,
    pub(crate) executable: Option<PathBuf>,
    pub(crate) job: Option<String>,
    pub(crate) rank: Option<i64>,
}

/// Those that were seen lately, by the number of the thread that asked.
#[derive(Debug)]
pub(crate) struct Processes {
    known: Mutex<HashMap<u32, Arc<Process>>>,
    /// When the machine began, in milliseconds since 1970.
    booted: u64,
}

impl Processes {
    pub(crate) fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |d| d.as_millis() as u64);
        let up = fs::read_to_string("/proc/uptime").unwrap_or_default();
        let up = up.split('.').next().and_then(|s| s.parse::<u64>().ok());
        // To the second: it is a part of keys, and is to be the same the next time.
        let booted = boot_time().unwrap_or_else(|| now / 1_000 - up.unwrap_or(0)) * 1_000;
        Self {
            known: Mutex::default(),
            booted,
        }
    }

    /// The process of a thread, as it is now. `None` of one that is not seen from here: of another machine or container, or gone.
    pub(crate) fn of(&self, thread: u32, uid: u32) -> Option<Arc<Process>> {
        let text = fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
        let (comm, ticks) = stat(&text)?;
        let before = self.known.lock().get(&thread).cloned();
        let before = before.filter(|known| known.ticks == ticks);
        if let Some(known) = &before
            && known.comm == comm
        {
            return Some(Arc::clone(known));
        }
        let mut process = self.look(thread, uid)?;
        if let Some(before) = before
            && process.executable.is_none()
        {
            // It is ending, and has given its memory back: of what was there the name alone is left.
            process.job.clone_from(&before.job);
            process.rank = before.rank;
        }
        let process = Arc::new(process);
        let mut known = self.known.lock();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(thread, Arc::clone(&process));
        Some(process)
    }

    /// The program that a process was seen to be last.
    pub(crate) fn latest(&self, process: &Arc<Process>) -> Arc<Process> {
        let known = self.known.lock();
        let last = known.get(&process.pid);
        let last = last.filter(|last| last.pid == process.pid && last.began == process.began);
        Arc::clone(last.unwrap_or(process))
    }

    fn look(&self, thread: u32, uid: u32) -> Option<Process> {
        let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
        let group = status.lines().find_map(|l| l.strip_prefix("Tgid:"));
        let pid = group.and_then(|n| n.trim().parse().ok()).unwrap_or(thread);
        // All threads of a process are one.
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, ticks) = stat(&text)?;
        let own = fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
        let (comm, own_ticks) = stat(&own)?;
        let mut command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.truncate(COMMAND_BYTES_MAX);
        let words = command.split(|b| *b == 0).filter(|w| !w.is_empty());
        let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let rank = ["SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"];
        let rank = rank.iter().find_map(|name| variable(&environment, name));
        Some(Process {
            pid,
            ticks: own_ticks,
            comm: comm.to_owned(),
            uid,
            began: self.booted + ticks * 1_000 / TICKS,
            command: if words.is_empty() {
                comm.to_owned()
            } else {
                words.join(" ")
            },
            executable: fs::read_link(format!("/proc/{pid}/exe")).ok(),
            job: variable(&environment, "SLURM_JOB_ID").filter(|job| !job.is_empty()),
            rank: rank.and_then(|rank| rank.parse().ok()),
        })
    }
}

fn boot_time() -> Option<u64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

/// Name and beginning, of `/proc/PID/stat` (proc(5)). The name may hold anything, brackets too.
fn stat(text: &str) -> Option<(&str, u64)> {
    let (front, behind) = text.rsplit_once(')')?;
    let (_, comm) = front.split_once('(')?;
    let ticks = behind.split_ascii_whitespace().nth(19)?;
    Some((comm, ticks.parse().ok()?))
}

fn variable(environment: &[u8], name: &str) -> Option<String> {
    let mut all = environment.split(|b| *b == 0);
    let value = all.find_map(|v| v.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets() {
        let line = "42 (a) b) (c) S 1 42 42 0 -1 4194560 100 0 0 0 0 0 0 0 20 0 1 0 12345 0 0";
        assert_eq!(stat(line), Some(("a) b) (c", 12_345)));
        assert_eq!(stat("nothing"), None);
    }

    #[test]
    fn this_process() {
        let processes = Processes::new();
        let me = processes.of(std::process::id(), 7).unwrap();
        assert_eq!((me.pid, me.uid), (std::process::id(), 7));
        assert_eq!(me.executable, std::env::current_exe().ok());
        let again = processes.of(std::process::id(), 7).unwrap();
        assert!(Arc::ptr_eq(&me, &again));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(me.began <= now.as_millis() as u64 + 2_000);
        assert_eq!(processes.of(u32::MAX, 0), None);
    }

    #[test]
    fn variables() {
        let all = b"A=1\0SLURM_JOB_ID=77\0B=";
        assert_eq!(variable(all, "SLURM_JOB_ID").as_deref(), Some("77"));
        assert_eq!(variable(all, "B").as_deref(), Some(""));
        assert_eq!(variable(all, "SLURM"), None);
    }
}
