//! Identity of a process, by which another process can tell whether it is still alive.

use std::path::Path;

/// A unique process: host, boot, process-id namespace, id and start time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    /// Host name of the machine.
    pub(crate) host: String,
    /// Machine id of the operating system's installation, empty if unknown.
    pub(crate) machine: String,
    /// Boot id of the host.
    pub(crate) boot: String,
    /// Process-id namespace of `pid`.
    pub(crate) namespace: String,
    /// Process id in its namespace.
    pub(crate) pid: u32,
    /// Start time in clock ticks since boot, which distinguishes later processes with the same id.
    pub(crate) start: u64,
}

/// Liveness of a process, as far as this process can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// The process is running.
    Alive,
    /// The process has certainly ended.
    Dead,
    /// Unknown: the process is on another host or in another container.
    Unknown,
}

fn line(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // Fields of the record are single words.
    text.split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}

impl Process {
    /// The process that calls this function.
    pub(crate) fn current() -> Self {
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let namespace = namespace.to_string_lossy().split_whitespace().collect();
        let pid = std::process::id();
        Self {
            host: line("/proc/sys/kernel/hostname"),
            machine: line("/etc/machine-id"),
            boot: line("/proc/sys/kernel/random/boot_id"),
            namespace,
            pid,
            start: stat(pid).map_or(0, |(_, start)| start),
        }
    }

    /// Liveness of `other` as seen from `self`.
    pub(crate) fn liveness_of(&self, other: &Self) -> Liveness {
        if !self.boot.is_empty() && self.boot == other.boot {
            if self.namespace != other.namespace {
                return Liveness::Unknown;
            }
            return match stat(other.pid) {
                Some((state, start)) if start == other.start => {
                    let zombie = matches!(state, 'Z' | 'X') && threads(other.pid) <= 1;
                    if zombie {
                        Liveness::Dead
                    } else {
                        Liveness::Alive
                    }
                }
                _ => Liveness::Dead,
            };
        }
        let same_machine =
            !self.machine.is_empty() && self.machine == other.machine && self.host == other.host;
        // This machine has been rebooted since.
        if same_machine && !self.boot.is_empty() && !other.boot.is_empty() {
            Liveness::Dead
        } else {
            Liveness::Unknown
        }
    }
}

/// State letter and start time of a process.
fn stat(pid: u32) -> Option<(char, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may contain any character.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

fn threads(pid: u32) -> usize {
    std::fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task"))
        .map_or(0, Iterator::count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_a_later_one_with_its_id_is_not_it() {
        let me = Process::current();
        assert!(me.start > 0);
        assert_eq!(me.liveness_of(&me), Liveness::Alive);
        assert_eq!(
            me.liveness_of(&Process {
                start: me.start + 1,
                ..me.clone()
            }),
            Liveness::Dead
        );
    }

    #[test]
    fn a_killed_child_is_dead_before_it_is_reaped() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let me = Process::current();
        let (_, start) = stat(child.id()).unwrap();
        let it = Process {
            pid: child.id(),
            start,
            ..me.clone()
        };
        assert_eq!(me.liveness_of(&it), Liveness::Alive);
        child.kill().unwrap();
        esker_testkit::wait::wait_until("it lives", || me.liveness_of(&it) == Liveness::Dead);
        child.wait().unwrap();
        assert_eq!(me.liveness_of(&it), Liveness::Dead);
    }

    #[test]
    fn other_hosts_and_containers_cannot_be_judged_but_a_reboot_can() {
        let me = Process {
            machine: "m".into(),
            ..Process::current()
        };
        let far = Process {
            host: "far".into(),
            boot: "b".into(),
            ..me.clone()
        };
        assert_eq!(me.liveness_of(&far), Liveness::Unknown);
        let contained = Process {
            namespace: "pid:[1]".into(),
            ..me.clone()
        };
        assert_eq!(me.liveness_of(&contained), Liveness::Unknown);
        let rebooted = Process {
            boot: "b".into(),
            ..me.clone()
        };
        assert_eq!(me.liveness_of(&rebooted), Liveness::Dead);
    }
}
