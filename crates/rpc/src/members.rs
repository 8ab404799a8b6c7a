//! How clients and servers find the stores of a cluster that move between its members.
//!
//! A member answers for all stores that it has at one port. Who wants a certain one says so in the head of the request
//! ([`STORE_KEY`]); a member that does not have it refuses and says who else there is ([`MEMBERS_KEY`]). A client remembers all
//! members that it has heard of, and asks one after the other for the store that it talked to before.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which store is meant, a number.
pub const STORE_KEY: &str = "esker-store";
/// The members of the cluster, `HOST:PORT` each, with blanks between.
pub const MEMBERS_KEY: &str = "esker-members";
/// More than a cluster ever has.
const MEMBERS_MAX: usize = 256;

/// The members that a client has heard of, whoever answered last first.
#[derive(Debug, Default)]
pub struct Members(Mutex<Vec<String>>);

impl Members {
    fn held(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that a member named; who is not among them is tried last.
    pub fn learn(&self, members: &[String]) {
        let mut held = self.held();
        if members.is_empty() {
            return;
        }
        let (mut known, gone): (Vec<_>, Vec<_>) =
            held.drain(..).partition(|member| members.contains(member));
        for member in members {
            if !known.contains(member) {
                known.push(member.clone());
            }
        }
        known.extend(gone);
        known.truncate(MEMBERS_MAX);
        *held = known;
    }

    /// This one answered: it is asked first.
    pub fn answered(&self, member: &str) {
        let mut held = self.held();
        if let Some(at) = held.iter().position(|m| m == member) {
            let member = held.remove(at);
            held.insert(0, member);
        }
    }

    /// This one did not: it is asked last.
    pub fn failed(&self, member: &str) {
        let mut held = self.held();
        if let Some(at) = held.iter().position(|m| m == member) {
            let member = held.remove(at);
            held.push(member);
        }
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.held().is_empty()
    }

    /// In the order in which to ask.
    pub fn all(&self) -> Vec<String> {
        self.held().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answered_last_is_asked_first() {
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
