//! State of a cluster in etcd, as keys and short texts, and as data.
//!
//! ```text
//!  /esker/lab/id               9f3c…                    id of the cluster; the storage has it, too
//!  /esker/lab/members/H:P      pid 7 host n1 version …  a member, under its lease
//!  /esker/lab/seen/H:P         412                      it acknowledges claims up to that revision, under its lease
//!  /esker/lab/stores/5         3 H:P                    holder of a store and the epoch, under the holder's lease
//!  /esker/lab/epochs/5         3                        newest epoch of a store, for ever
//!  /esker/lab/drained/H:P                               a member that is to have no stores
//!  /esker/lab/rebalance                                 an operator requested balance
//! ```
//!
//! The lease of a key distinguishes different lives of a member.

use std::collections::{BTreeMap, BTreeSet};

/// Address of a member as `HOST:PORT`.
pub type MemberId = String;

/// A member that has a lease.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Member {
    /// Lease of the member.
    pub lease: u64,
    /// Revision at which the member joined.
    pub since: u64,
    /// Revision up to which the member acknowledges all claims.
    pub seen: u64,
    /// Whether the member takes no more stores because it is about to end.
    pub leaving: bool,
    /// Process id of the member.
    pub pid: u32,
    /// Host name of the member.
    pub host: String,
    /// Software release of the member.
    pub version: String,
}

/// A member's claim of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Member that holds the store.
    pub member: MemberId,
    /// Lease under which the claim was made.
    pub lease: u64,
    /// Number of times the store was claimed, this time included.
    pub epoch: u64,
}

/// State of a cluster in etcd at one revision.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    /// Revision of etcd's state.
    pub revision: u64,
    /// Id of the cluster.
    pub id: Option<String>,
    /// Living members by address.
    pub members: BTreeMap<MemberId, Member>,
    /// Claims by store number.
    pub claims: BTreeMap<u32, Claim>,
    /// Newest epochs by store number.
    pub epochs: BTreeMap<u32, u64>,
    /// Members that are to have no stores.
    pub drained: BTreeSet<MemberId>,
    /// Whether an operator has requested balance.
    pub rebalance: bool,
}

/// A key with its value, as etcd returns it.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// Key without the cluster's prefix.
    pub key: &'a str,
    /// Value of the key as text.
    pub value: &'a str,
    /// Lease of the key; 0 for none.
    pub lease: u64,
    /// Revision at which the key was created.
    pub created: u64,
}

/// Returns the prefix of a cluster's keys.
pub fn prefix(cluster: &str) -> String {
    format!("/esker/{cluster}/")
}

impl Member {
    /// Encodes the value of the member's key.
    pub fn text(&self) -> String {
        let leaving = if self.leaving { " leaving" } else { "" };
        let word = |text: &str| text.split_whitespace().collect::<Vec<_>>().join("-");
        format!(
            "pid {} host {} version {}{leaving}",
            self.pid,
            word(&self.host),
            word(&self.version)
        )
    }

    fn parse(text: &str) -> Self {
        let mut member = Self::default();
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "pid" => member.pid = words.next().and_then(|w| w.parse().ok()).unwrap_or(0),
                "host" => words
                    .next()
                    .unwrap_or_default()
                    .clone_into(&mut member.host),
                "version" => words
                    .next()
                    .unwrap_or_default()
                    .clone_into(&mut member.version),
                "leaving" => member.leaving = true,
                _ => {}
            }
        }
        member
    }
}

impl Claim {
    /// Encodes the value of the claim's key.
    pub fn text(&self) -> String {
        format!("{} {}", self.epoch, self.member)
    }
}

impl View {
    /// Parses keys into a view. Unknown keys are skipped, since a newer release may have written them.
    pub fn read<'a>(revision: u64, pairs: impl IntoIterator<Item = Pair<'a>>) -> Self {
        let mut view = Self {
            revision,
            ..Self::default()
        };
        let mut seen = Vec::new();
        for pair in pairs {
            match pair.key.split_once('/') {
                None if pair.key == "id" => view.id = Some(pair.value.to_owned()),
                None if pair.key == "rebalance" => view.rebalance = true,
                Some(("members", member)) => {
                    let known = Member {
                        lease: pair.lease,
                        since: pair.created,
                        ..Member::parse(pair.value)
                    };
                    view.members.insert(member.to_owned(), known);
                }
                Some(("seen", member)) => {
                    if let Ok(revision) = pair.value.parse::<u64>() {
                        seen.push((member, pair.lease, revision));
                    }
                }
                Some(("stores", store)) => {
                    let read = || {
                        let (epoch, member) = pair.value.split_once(' ')?;
                        let claim = Claim {
                            member: member.to_owned(),
                            lease: pair.lease,
                            epoch: epoch.parse().ok()?,
                        };
                        Some((store.parse::<u32>().ok()?, claim))
                    };
                    view.claims.extend(read());
                }
                Some(("epochs", store)) => {
                    let read =
                        || Some((store.parse::<u32>().ok()?, pair.value.parse::<u64>().ok()?));
                    view.epochs.extend(read());
                }
                Some(("drained", member)) => {
                    view.drained.insert(member.to_owned());
                }
                _ => {}
            }
        }
        for (member, lease, revision) in seen {
            // An acknowledgement of an earlier life of the member does not count.
            if let Some(member) = view.members.get_mut(member).filter(|m| m.lease == lease) {
                member.seen = revision;
            }
        }
        view
    }

    /// Returns the living member that has a store.
    pub fn holder(&self, store: u32) -> Option<&MemberId> {
        let claim = self.claims.get(&store)?;
        let lives = self.members.get(&claim.member)?.lease == claim.lease;
        lives.then_some(&claim.member)
    }

    /// Iterates over members that may be given stores.
    pub fn takers(&self) -> impl Iterator<Item = &MemberId> {
        self.staying().filter(|m| !self.drained.contains(*m))
    }

    /// Iterates over members that are not about to end.
    pub fn staying(&self) -> impl Iterator<Item = &MemberId> {
        let staying = self.members.iter().filter(|(_, m)| !m.leaving);
        staying.map(|(id, _)| id)
    }

    /// Returns the holder of each store.
    pub fn holders(&self, stores: u32) -> Vec<Option<MemberId>> {
        let holder_of = |store| self.holder(store).cloned();
        (0..stores).map(holder_of).collect()
    }

    /// Iterates over members that have not acknowledged claims made at that revision.
    pub fn behind(&self, revision: u64) -> impl Iterator<Item = &MemberId> {
        let behind = self
            .members
            .iter()
            .filter(move |(_, m)| m.since <= revision && m.seen < revision);
        behind.map(|(id, _)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair<'a>(key: &'a str, value: &'a str, lease: u64) -> Pair<'a> {
        Pair {
            key,
            value,
            lease,
            created: 3,
        }
    }

    #[test]
    fn keys_are_read_as_they_were_written() {
        let member = Member {
            pid: 7,
            host: "n 1".into(),
            version: "0.1.0".into(),
            leaving: true,
            ..Member::default()
        };
        let claim = Claim {
            member: "[::1]:7400".into(),
            lease: 9,
            epoch: 3,
        };
        let (text, claimed) = (member.text(), claim.text());
        let view = View::read(
            20,
            [
                pair("id", "abc", 0),
                pair("members/[::1]:7400", &text, 9),
                pair("seen/[::1]:7400", "17", 9),
                pair("seen/other:1", "17", 8),
                pair("stores/5", &claimed, 9),
                pair("stores/6", "2 dead:1", 4),
                pair("stores/x", "2 dead:1", 4),
                pair("epochs/5", "3", 0),
                pair("drained/a:1", "", 0),
                pair("rebalance", "", 0),
                pair("news/from/later", "", 0),
            ],
        );
        let known = &view.members["[::1]:7400"];
        assert_eq!((known.pid, known.seen, known.leaving), (7, 17, true));
        assert_eq!((known.host.as_str(), known.lease), ("n-1", 9));
        assert_eq!(view.claims[&5], claim);
        assert_eq!(view.holder(5), Some(&claim.member));
        assert_eq!(view.holder(6), None);
        assert_eq!(view.claims.len(), 2);
        assert_eq!(view.epochs[&5], 3);
        assert!(view.rebalance && view.drained.contains("a:1"));
        assert_eq!(view.id.as_deref(), Some("abc"));
        assert_eq!(view.behind(18).count(), 1);
        assert_eq!(view.behind(17).count(), 0);
        assert_eq!(view.takers().count(), 0);
    }

    proptest! {
        /// Arbitrary keys can be parsed, and no key makes more than one entry.
        #[test]
        fn any_keys_are_read(pairs in prop::collection::vec(("[a-z]{0,3}|(members|seen|stores|epochs|drained)/\\PC{0,6}", "\\PC{0,20}", 0_u64..3), 0..20)) {
            let read = pairs.iter().map(|(k, v, l)| pair(k, v, *l));
            let view = View::read(1, read);
            prop_assert!(view.members.len() + view.claims.len() + view.epochs.len() <= pairs.len());
        }
    }
}
