//! What etcd holds about a cluster, as keys and short texts, and as data.
//!
//! ```text
//!  /esker/lab/id               9f3c…                    which cluster this is; the storage says the same
//!  /esker/lab/members/H:P      pid 7 host n1 version …  a member, under its lease
//!  /esker/lab/seen/H:P         412                      it heeds all claims up to that revision, under its lease
//!  /esker/lab/stores/5         3 H:P                    who has a store, at which epoch, under the holder's lease
//!  /esker/lab/epochs/5         3                        the newest epoch of a store, for ever
//!  /esker/lab/drained/H:P                               a member that is to have nothing
//!  /esker/lab/rebalance                                 somebody asked for balance
//! ```
//!
//! The lease under which a key lies tells lives of a member apart.

use std::collections::{BTreeMap, BTreeSet};

/// `HOST:PORT` where a member answers.
pub type MemberId = String;

/// A member that has a lease.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Member {
    /// Its lease.
    pub lease: u64,
    /// The revision at which it came.
    pub since: u64,
    /// It heeds all claims up to that revision.
    pub seen: u64,
    /// It takes no more stores: it is about to end.
    pub leaving: bool,
    /// Its process.
    pub pid: u32,
    /// Its machine.
    pub host: String,
    /// Its release.
    pub version: String,
}

/// Who has a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The member.
    pub member: MemberId,
    /// The lease under which it has it.
    pub lease: u64,
    /// How often the store was claimed, this time included.
    pub epoch: u64,
}

/// All of it, at one revision.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    /// Which state of etcd.
    pub revision: u64,
    /// Which cluster it is.
    pub id: Option<String>,
    /// By name.
    pub members: BTreeMap<MemberId, Member>,
    /// By store.
    pub claims: BTreeMap<u32, Claim>,
    /// By store.
    pub epochs: BTreeMap<u32, u64>,
    /// Members that are to have nothing.
    pub drained: BTreeSet<MemberId>,
    /// Somebody asked for balance.
    pub rebalance: bool,
}

/// A key with its value, as etcd gives it.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// Below the cluster's own prefix.
    pub key: &'a str,
    /// The text.
    pub value: &'a str,
    /// The lease that it lies under; 0 for none.
    pub lease: u64,
    /// The revision at which it was made.
    pub created: u64,
}

/// What a cluster's keys begin with.
pub fn prefix(cluster: &str) -> String {
    format!("/esker/{cluster}/")
}

impl Member {
    /// What its key holds.
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
    /// What its key holds.
    pub fn text(&self) -> String {
        format!("{} {}", self.epoch, self.member)
    }
}

impl View {
    /// What those keys say. What is not understood is passed over: a newer release may have written it.
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
            // What an earlier life of it had seen says nothing.
            if let Some(member) = view.members.get_mut(member).filter(|m| m.lease == lease) {
                member.seen = revision;
            }
        }
        view
    }

    /// The member that has a store and lives.
    pub fn holder(&self, store: u32) -> Option<&MemberId> {
        let claim = self.claims.get(&store)?;
        let lives = self.members.get(&claim.member)?.lease == claim.lease;
        lives.then_some(&claim.member)
    }

    /// Members that may be given stores.
    pub fn takers(&self) -> impl Iterator<Item = &MemberId> {
        self.staying().filter(|m| !self.drained.contains(*m))
    }

    /// Members that are not about to end.
    pub fn staying(&self) -> impl Iterator<Item = &MemberId> {
        let staying = self.members.iter().filter(|(_, m)| !m.leaving);
        staying.map(|(id, _)| id)
    }

    /// Where each store is.
    pub fn places(&self, stores: u32) -> Vec<Option<MemberId>> {
        let place = |store| self.holder(store).cloned();
        (0..stores).map(place).collect()
    }

    /// Members that do not heed yet what was claimed at that revision.
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
        /// Whatever somebody put there, it is read, and no key makes more than one entry.
        #[test]
        fn any_keys_are_read(pairs in prop::collection::vec(("[a-z]{0,3}|(members|seen|stores|epochs|drained)/\\PC{0,6}", "\\PC{0,20}", 0_u64..3), 0..20)) {
            let read = pairs.iter().map(|(k, v, l)| pair(k, v, *l));
            let view = View::read(1, read);
            prop_assert!(view.members.len() + view.claims.len() + view.epochs.len() <= pairs.len());
        }
    }
}
