//! Calling processes as described by `/proc`, read at their first access and after they execute another program.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Largest number of processes remembered.
const REMEMBERED_MAX: usize = 4_096;
/// Largest number of bytes kept of a command line.
const COMMAND_BYTES_MAX: usize = 4_096;
/// Clock ticks per second in `/proc` (`USER_HZ`).
const TICKS: u64 = 100;

/// A process while it runs one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// Start time in ticks since the boot; with the pid it identifies the process on its machine.
    ticks: u64,
    /// Name of the program, as the kernel truncates it.
    comm: String,
    pub(crate) uid: u32,
    /// Start time in milliseconds since 1970.
    pub(crate) began: u64,
    pub(crate) command: String,
    pub(crate) executable: Option<PathBuf>,
    pub(crate) job: Option<String>,
    pub(crate) rank: Option<i64>,
}

/// Recently seen processes, by the number of the calling thread.
#[derive(Debug)]
pub(crate) struct Processes {
    known: Mutex<HashMap<u32, Arc<Process>>>,
    /// Boot time of the machine, in milliseconds since 1970.
    booted: u64,
}

impl Processes {
    pub(crate) fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |d| d.as_millis() as u64);
        let up = fs::read_to_string("/proc/uptime").unwrap_or_default();
        let up = up.split('.').next().and_then(|s| s.parse::<u64>().ok());
        // Rounded to the second: the time is part of keys and must be the same in the next run.
        let booted = boot_time().unwrap_or_else(|| now / 1_000 - up.unwrap_or(0)) * 1_000;
        Self {
            known: Mutex::default(),
            booted,
        }
    }

    /// Returns the present process of a thread. `None` if it is not visible here: of another machine or container, or
    /// ended.
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
            // The process is ending and has released its memory: only the name is left.
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

    /// Returns the process with the program that it was last seen to run.
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
        // All threads of a process count as the process.
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

/// Parses the name and the start time from `/proc/PID/stat` (proc(5)). The name may contain anything, even parentheses.
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
