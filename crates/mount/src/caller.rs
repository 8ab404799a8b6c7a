//! Identity of the caller: the user and group of a request, and the supplementary groups of its process.
//!
//! The kernel has already checked mode bits (`default_permissions`) against attributes that it has cached; the
//! namespace checks again against the current ones. Groups are read from `/proc` and cached for a moment, for that
//! process alone: a later process with the same number has another folder of `/proc`, with another inode.

use esker_model::object::Principal;
use fuser::Request;
use parking_lot::Mutex;
use rustix::fs::{CWD, Mode, OFlags};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

const GROUPS_TTL: Duration = Duration::from_secs(1);
const CACHED_PROCESSES_MAX: usize = 1_024;
/// Largest number of bytes read of `/proc/PID/status`: 65,536 groups of ten digits each, and the rest.
const STATUS_BYTES_MAX: u64 = 1 << 20;

/// Principal of the mount itself, for publishing what permitted users did: their rights were checked when they opened
/// the file.
pub(crate) const MOUNT: Principal = Principal {
    uid: 0,
    gids: Vec::new(),
};

/// Cache of the groups of recent processes, by process number, user and group.
#[derive(Debug, Default)]
pub(crate) struct Groups(Mutex<HashMap<(u32, u32, u32), CachedGroups>>);

/// Cached groups of a process.
#[derive(Debug)]
struct CachedGroups {
    /// Inode of the process's folder in `/proc`.
    process: u64,
    when: Instant,
    gids: Vec<i64>,
}

impl Groups {
    /// Returns the principal of a request.
    pub(crate) fn principal(&self, request: &Request) -> Principal {
        let (uid, gid, pid) = (request.uid(), request.gid(), request.pid());
        if uid == 0 {
            // The superuser's groups make no difference.
            return Principal {
                uid: 0,
                gids: vec![i64::from(gid)],
            };
        }
        Principal {
            uid: i64::from(uid),
            gids: self.gids(pid, uid, gid),
        }
    }

    /// Returns the groups of a process that acts as this user and group: the group, and the process's supplementary
    /// groups.
    fn gids(&self, pid: u32, uid: u32, gid: u32) -> Vec<i64> {
        let key = (pid, uid, gid);
        let mut known = self.0.lock();
        if let Some(found) = known.get(&key)
            && found.when.elapsed() < GROUPS_TTL
            && inode_of(pid) == Some(found.process)
        {
            return found.gids.clone();
        }
        let mut gids = vec![i64::from(gid)];
        if let Some((process, more)) = supplementary(pid, uid) {
            gids.extend(more);
            if known.len() >= CACHED_PROCESSES_MAX {
                known.clear();
            }
            let when = Instant::now();
            let gids = gids.clone();
            known.insert(
                key,
                CachedGroups {
                    process,
                    when,
                    gids,
                },
            );
        }
        gids
    }
}

/// Returns the inode of a process's folder in `/proc`.
fn inode_of(pid: u32) -> Option<u64> {
    let found = rustix::fs::stat(format!("/proc/{pid}")).ok()?;
    Some(found.st_ino)
}

/// Returns the inode of a process's folder in `/proc`, and its supplementary groups. `None` for a process that is not
/// visible here, or that does not act as this user: another process has its number.
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

/// Parses the groups in `/proc/PID/status`, if the process's file system user is `uid`.
fn groups_in(status: &str, uid: u32) -> Option<Vec<i64>> {
    let line = |name: &str| status.lines().find_map(|l| l.strip_prefix(name));
    // The fields are real, effective, saved and file system user.
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

    /// The calling process has ended, and another user's process has its number.
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

    /// Groups cached for a process are not used for the next process with its number.
    #[test]
    fn not_of_the_next_process_with_that_number() {
        let own = rustix::process::geteuid().as_raw();
        let known = Groups::default();
        let pid = std::process::id();
        let expected: Vec<i64> = [77].into_iter().chain(own_groups()).collect();
        assert_eq!(known.gids(pid, own, 77), expected);
        // Simulates that this process has got the number of one that was in groups 0 and 4.
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
            CachedGroups {
                process,
                when,
                gids,
            },
        );
        drop(all);
        assert_eq!(known.gids(ended, own, 77), [77]);
    }
}
