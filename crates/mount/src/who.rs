//! Who asks: the user and group of a request, with the groups that its process is in besides.
//!
//! The kernel has let them do it by mode bits already (`default_permissions`), by what it remembers of them; the namespace looks
//! again, by what they are now. Groups are read from `/proc` and remembered for a moment.

use esker_model::object::Asker;
use fuser::Request;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

const REMEMBERED: Duration = Duration::from_secs(1);
const REMEMBERED_MAX: usize = 1_024;

/// Processes whose groups were read lately.
#[derive(Debug, Default)]
pub(crate) struct Groups(Mutex<HashMap<(u32, u32, u32), (Instant, Vec<i64>)>>);

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
        let key = (pid, uid, gid);
        let mut known = self.0.lock();
        if let Some((when, gids)) = known.get(&key)
            && when.elapsed() < REMEMBERED
        {
            return Asker {
                uid: i64::from(uid),
                gids: gids.clone(),
            };
        }
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        let mut gids = vec![i64::from(gid)];
        gids.extend(supplementary(pid));
        known.insert(key, (Instant::now(), gids.clone()));
        Asker {
            uid: i64::from(uid),
            gids,
        }
    }
}

/// The groups that a process is in besides its own. None of one that cannot be seen from here.
fn supplementary(pid: u32) -> Vec<i64> {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else {
        return Vec::new();
    };
    let line = status.lines().find_map(|l| l.strip_prefix("Groups:"));
    line.unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_this_process() {
        let expected: Vec<i64> = rustix::process::getgroups()
            .unwrap()
            .into_iter()
            .map(|g| i64::from(g.as_raw()))
            .collect();
        assert_eq!(supplementary(std::process::id()), expected);
        assert_eq!(supplementary(u32::MAX), Vec::<i64>::new());
    }
}
