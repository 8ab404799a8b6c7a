//! Who a process is, so that another can tell whether it still lives.

use std::path::Path;

/// A process, as told apart from all others: host, boot, process-id namespace, id and start time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    /// The host's name.
    pub(crate) host: String,
    /// Installation of the operating system, empty if unknown.
    pub(crate) machine: String,
    /// Which boot of it.
    pub(crate) boot: String,
    /// The namespace in which `pid` counts.
    pub(crate) namespace: String,
    /// Process id.
    pub(crate) pid: u32,
    /// Clock ticks from boot to the process's start: tells it from a later one with the same id.
    pub(crate) start: u64,
}

/// Whether a process lives, as far as this one can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// It runs.
    Alive,
    /// It does not, for sure.
    Dead,
    /// It ran where this process cannot look: another host or another container.
    Elsewhere,
}

fn line(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // Fields of the record are one word.
    text.split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}

impl Process {
    /// The present process.
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

    /// Whether `other` lives, seen from `self`.
    pub(crate) fn life_of(&self, other: &Self) -> Life {
        if !self.boot.is_empty() && self.boot == other.boot {
            if self.namespace != other.namespace {
                return Life::Elsewhere;
            }
            return match stat(other.pid) {
                Some((state, start)) if start == other.start => {
                    let zombie = matches!(state, 'Z' | 'X') && threads(other.pid) <= 1;
                    if zombie { Life::Dead } else { Life::Alive }
                }
                _ => Life::Dead,
            };
        }
        let same_machine =
            !self.machine.is_empty() && self.machine == other.machine && self.host == other.host;
        // The same machine has booted since.
        if same_machine && !self.boot.is_empty() && !other.boot.is_empty() {
            Life::Dead
        } else {
            Life::Elsewhere
        }
    }
}

/// State letter and start time of a process.
fn stat(pid: u32) -> Option<(char, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may hold anything.
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
        assert_eq!(me.life_of(&me), Life::Alive);
        assert_eq!(
            me.life_of(&Process {
                start: me.start + 1,
                ..me.clone()
            }),
            Life::Dead
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
        assert_eq!(me.life_of(&it), Life::Alive);
        child.kill().unwrap();
        esker_testkit::wait::wait_until("it lives", || me.life_of(&it) == Life::Dead);
        child.wait().unwrap();
        assert_eq!(me.life_of(&it), Life::Dead);
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
        assert_eq!(me.life_of(&far), Life::Elsewhere);
        let contained = Process {
            namespace: "pid:[1]".into(),
            ..me.clone()
        };
        assert_eq!(me.life_of(&contained), Life::Elsewhere);
        let rebooted = Process {
            boot: "b".into(),
            ..me.clone()
        };
        assert_eq!(me.life_of(&rebooted), Life::Dead);
    }
}
