//! Who asks: the user and group of a request, with the groups that its process is in besides.
//!
//! The kernel has let them do it by mode bits already (`default_permissions`), by what it remembers of them; the namespace looks
//! again, by what they are now. Groups are read from `/proc` and remembered for a moment, for that process alone: another process that has got its
//! number by then is another folder of `/proc`, with an inode of its own.

use esker_model::object::Asker;
use fuser::Request;
use parking_lot::Mutex;
use rustix::fs::{CWD, Mode, OFlags};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

const REMEMBERED: Duration = Duration::from_secs(1);
const REMEMBERED_MAX: usize = 1_024;
/// Bytes of `/proc/PID/status` that are read: 65,536 groups of ten digits each, and the rest.
const STATUS_BYTES_MAX: u64 = 1 << 20;

/// Processes whose groups were read lately, by number, user and group.
#[derive(Debug, Default)]
pub(crate) struct Groups(Mutex<HashMap<(u32, u32, u32), Known>>);

/// What is remembered of a process.
#[derive(Debug)]
struct Known {
    /// The inode of its folder in `/proc`.
    process: u64,
    when: Instant,
    gids: Vec<i64>,
}

impl Groups {
    /// Who asks.
    pub(crate) fn asker(&self, request: &Request) -> Asker {
        let (uid, gid, pid) = (request.uid(), request.gid(), request.pid());
        if uid == 0 {
            // Nothing depends on the superuser's groups.
            return Asker {
                uid: 0,
                gids: vec![i64::from(gid)],
            };
        }
        Asker {
            uid: i64::from(uid),
            gids: self.gids(pid, uid, gid),
        }
    }

    /// The groups of a process that asks as that user and group: the group, and those that the process is in besides.
    fn gids(&self, pid: u32, uid: u32, gid: u32) -> Vec<i64> {
        let key = (pid, uid, gid);
        let mut known = self.0.lock();
        if let Some(found) = known.get(&key)
            && found.when.elapsed() < REMEMBERED
            && inode_of(pid) == Some(found.process)
        {
            return found.gids.clone();
        }
        let mut gids = vec![i64::from(gid)];
        if let Some((process, more)) = supplementary(pid, uid) {
            gids.extend(more);
            if known.len() >= REMEMBERED_MAX {
                known.clear();
            }
            let when = Instant::now();
            let gids = gids.clone();
            known.insert(
                key,
                Known {
                    process,
                    when,
                    gids,
                },
            );
        }
        gids
    }
}

/// The inode of a process's folder in `/proc`.
fn inode_of(pid: u32) -> Option<u64> {
    let found = rustix::fs::stat(format!("/proc/{pid}")).ok()?;
    Some(found.st_ino)
}

/// The inode of a process's folder in `/proc`, and the groups that the process is in besides its own. `None` of one that cannot be seen from
/// here, or does not act as that user: it has another process's number.
fn supplementary(pid: u32, uid: u32) -> Option<(u64, Vec<i64>)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder: OwnedFd =
        rustix::fs::openat(CWD, format!("/proc/{pid}"), flags, Mode::empty()).ok()?;
    let process = rustix::fs::fstat(&folder).ok()?.st_ino;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&folder, "status", flags, Mode::empty()).ok()?;
    let mut status = String::new();
    let mut file = File::from(file).take(STATUS_BYTES_MAX);
    file.read_to_string(&mut status).ok()?;
    Some((process, groups_in(&status, uid)?))
}

/// The groups that a text of `/proc/PID/status` names, if it is of a process whose user, where files are concerned, is that one.
fn groups_in(status: &str, uid: u32) -> Option<Vec<i64>> {
    let line = |name: &str| status.lines().find_map(|l| l.strip_prefix(name));
    // Real, effective, saved, of the file system.
    let user = line("Uid:")?.split_ascii_whitespace().nth(3)?;
    if user.parse() != Ok(uid) {
        return None;
    }
    let groups = line("Groups:").unwrap_or_default();
    let groups = groups.split_ascii_whitespace();
    Some(groups.filter_map(|n| n.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn own_groups() -> Vec<i64> {
        let all = rustix::process::getgroups().unwrap();
        all.into_iter().map(|g| i64::from(g.as_raw())).collect()
    }

    #[test]
    fn of_this_process() {
        let own = rustix::process::geteuid().as_raw();
        let (process, groups) = supplementary(std::process::id(), own).unwrap();
        assert_eq!(groups, own_groups());
        assert_eq!(inode_of(std::process::id()), Some(process));
        assert_eq!(supplementary(u32::MAX, own), None);
    }

    /// The process that asked has ended, and another user's has its number.
    #[test]
    fn not_of_another_users_process() {
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(supplementary(std::process::id(), own + 1), None);
        let known = Groups::default();
        assert_eq!(known.gids(std::process::id(), own + 1, 77), [77]);
        assert!(known.0.lock().is_empty());
        let status = "Name:\tx\nUid:\t1\t2\t3\t1001\nGroups:\t7 8 \n";
        assert_eq!(groups_in(status, 1001), Some(vec![7, 8]));
        for other in [1, 2, 3] {
            assert_eq!(groups_in(status, other), None);
        }
    }

    /// What is remembered of a process is not believed of the next one that has its number.
    #[test]
    fn not_of_the_next_process_with_that_number() {
        let own = rustix::process::geteuid().as_raw();
        let known = Groups::default();
        let pid = std::process::id();
        let expected: Vec<i64> = [77].into_iter().chain(own_groups()).collect();
        assert_eq!(known.gids(pid, own, 77), expected);
        // As if this process had got the number of one that was in group 0 and 4.
        let mut all = known.0.lock();
        let entry = all.get_mut(&(pid, own, 77)).unwrap();
        (entry.process, entry.gids) = (entry.process + 1, vec![77, 0, 4]);
        drop(all);
        assert_eq!(known.gids(pid, own, 77), expected);
        // A process that has ended is in no groups.
        let mut child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
        child.wait().unwrap();
        let ended = child.id();
        let mut all = known.0.lock();
        let (process, when) = (1, Instant::now());
        let gids = vec![77, 0, 4];
        all.insert(
            (ended, own, 77),
            Known {
                process,
                when,
                gids,
            },
        );
        drop(all);
        assert_eq!(known.gids(ended, own, 77), [77]);
    }
}
