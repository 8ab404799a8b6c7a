//! Lookup of the servers of a cluster that move between its members.
//!
//! A member serves all its servers at one port. A client names the server that it wants in the head of the request
//! ([`STORE_KEY`]); a member that does not run it refuses and names the other members ([`MEMBERS_KEY`]). A client
//! remembers all
//! members that it has learned of, and tries them one by one for the server that it used before.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Metadata key for the number of the requested server.
pub const STORE_KEY: &str = "esker-store";
/// Metadata key for the members of the cluster, each `HOST:PORT`, separated by spaces.
pub const MEMBERS_KEY: &str = "esker-members";
/// Maximum of remembered members, more than a cluster ever has.
const MEMBERS_MAX: usize = 256;

/// The known members of a cluster, the last one that responded first.
#[derive(Debug, Default)]
pub struct Members(Mutex<Vec<String>>);

impl Members {
    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds members that a member has named; all others are tried last.
    pub fn learn(&self, members: &[String]) {
        let mut list = self.lock();
        if members.is_empty() {
            return;
        }
        let (mut known, gone): (Vec<_>, Vec<_>) =
            list.drain(..).partition(|member| members.contains(member));
        for member in members {
            if !known.contains(member) {
                known.push(member.clone());
            }
        }
        known.extend(gone);
        known.truncate(MEMBERS_MAX);
        *list = known;
    }

    /// Moves a member that responded to the front.
    pub fn answered(&self, member: &str) {
        let mut list = self.lock();
        if let Some(at) = list.iter().position(|m| m == member) {
            let member = list.remove(at);
            list.insert(0, member);
        }
    }

    /// Moves a member that did not respond to the end.
    pub fn failed(&self, member: &str) {
        let mut list = self.lock();
        if let Some(at) = list.iter().position(|m| m == member) {
            let member = list.remove(at);
            list.push(member);
        }
    }

    /// Whether no member is known.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// All known members, in the order in which to try them.
    pub fn all(&self) -> Vec<String> {
        self.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_member_that_responded_last_is_tried_first() {
        let known = Members::default();
        let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        known.learn(&names("a:1 b:1 c:1"));
        known.answered("b:1");
        assert_eq!(known.all(), names("b:1 a:1 c:1"));
        known.failed("a:1");
        assert_eq!(known.all(), names("b:1 c:1 a:1"));
        known.learn(&names("a:1 d:1"));
        assert_eq!(known.all(), names("a:1 d:1 b:1 c:1"));
        known.learn(&[]);
        known.answered("nobody:1");
        assert_eq!(known.all(), names("a:1 d:1 b:1 c:1"));
    }
}
