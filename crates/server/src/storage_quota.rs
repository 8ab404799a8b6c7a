//! Quotas on what users, groups and projects own: the number of files and objects, and the bytes of their metadata.
//!
//! The sums of files are counters of the namespace. Objects are counted by a pass over all of them, every few seconds. What is created
//! between two passes is added when it is admitted, so that a limit is not exceeded; what is removed is subtracted at the next pass. What is
//! created during a pass may count twice until the next one.

use crate::client::{Client, Limit, LimitsByKind, QuotaTable};
use crate::settings::QuotaKind;
use esker::Database;
use esker_model::namespace::{Change, Changes, Item, Namespace as _, NewFile, SpaceBy};
use esker_model::object::Identity;
use esker_model::{Batch, Op, Result};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of metadata that a file counts, whatever its name and attributes.
const FILE_BYTES: u64 = 256;
/// Bytes of an object's row besides its attributes and tags.
const OBJECT_BYTES: u64 = 64;
/// Shortest time between two passes.
const INTERVAL: Duration = Duration::from_secs(5);
/// Time between two passes relative to that of the pass itself, which bounds its share of a processor.
const INTERVAL_FACTOR: u32 = 20;

/// The owner of entries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// A user id.
    User(i64),
    /// The group of files.
    Group(i64),
    /// The application of objects.
    Project(String),
}

impl Owner {
    fn text(&self) -> String {
        match self {
            Self::User(id) => format!("user {id}"),
            Self::Group(id) => format!("group {id}"),
            Self::Project(name) => format!("project {name}"),
        }
    }

    /// Limits of the owner.
    fn limits(&self, table: &QuotaTable) -> Option<LimitsByKind> {
        match self {
            Self::User(id) => Some(table.of_user(Some(*id), &[])),
            Self::Group(id) => table.of_group(*id).cloned(),
            Self::Project(name) => table.of_project(name).cloned(),
        }
    }
}

/// Number of entries and bytes of their metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Owned {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

impl Owned {
    fn add(&mut self, other: Self) {
        self.entries = self.entries.saturating_add(other.entries);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    pub(crate) fn of(self, kind: QuotaKind) -> Option<u64> {
        match kind {
            QuotaKind::Entries => Some(self.entries),
            QuotaKind::Bytes => Some(self.bytes),
            QuotaKind::Queries | QuotaKind::QueryTime | QuotaKind::QueryMemory => None,
        }
    }
}

/// Entries and their bytes by owner.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Holdings(BTreeMap<Owner, Owned>);

impl Holdings {
    fn add(&mut self, owner: Owner, owned: Owned) {
        self.0.entry(owner).or_default().add(owned);
    }

    fn add_file(&mut self, file: &NewFile) {
        let owned = Owned {
            entries: 1,
            bytes: FILE_BYTES,
        };
        self.add(Owner::User(file.uid.into()), owned);
        self.add(Owner::Group(file.gid.into()), owned);
    }

    fn add_object(&mut self, identity: &Identity, owned: Owned) {
        self.add(Owner::User(identity.owner), owned);
        if !identity.app.is_empty() {
            self.add(Owner::Project(identity.app.clone()), owned);
        }
    }

    /// Returns the entries that a batch creates.
    pub(crate) fn of_batch(batch: &Batch) -> Self {
        let mut new = Self::default();
        for mutation in &batch.mutations {
            match &mutation.op {
                Op::CreateObject {
                    identity,
                    attributes,
                    tags,
                } => {
                    let mut row = Vec::new();
                    attributes.encode(&mut row);
                    tags.encode(&mut row);
                    let text = identity.name.len() + identity.app.len() + row.len();
                    let owned = Owned {
                        entries: 1,
                        bytes: OBJECT_BYTES + text as u64,
                    };
                    new.add_object(identity, owned);
                }
                // The size of the object is known at the next pass.
                Op::MoveObject { from, to, .. } if from.owner != to.owner => {
                    let owned = Owned {
                        entries: 1,
                        bytes: OBJECT_BYTES,
                    };
                    new.add(Owner::User(to.owner), owned);
                }
                _ => {}
            }
        }
        new
    }

    /// Returns the entries that changes to files create.
    pub(crate) fn of_changes(changes: &Changes) -> Self {
        let mut new = Self::default();
        for change in &changes.changes {
            match change {
                Change::Create(_, file) => new.add_file(file),
                Change::Merge(subtree) => {
                    for item in subtree.items().flatten() {
                        if let Item::Entry(_, file, _) = item {
                            new.add_file(&file);
                        }
                    }
                }
                _ => {}
            }
        }
        new
    }

    /// Counts everything in a database that this process owns.
    fn count(database: &Database) -> Result<Self> {
        let mut all = Self::default();
        for (by, owner) in [
            (SpaceBy::User, Owner::User as fn(i64) -> Owner),
            (SpaceBy::Group, Owner::Group),
        ] {
            for space in database.space(by)? {
                let entries = space.usage.files + space.usage.directories;
                if let Ok(id) = space.key.parse() {
                    let bytes = entries.saturating_mul(FILE_BYTES);
                    all.add(owner(id), Owned { entries, bytes });
                }
            }
        }
        for ((owner, app), usage) in database.engine()?.0.object_usage() {
            let owned = Owned {
                entries: usage.objects,
                bytes: usage.bytes,
            };
            all.add(Owner::User(owner), owned);
            if !app.is_empty() {
                all.add(Owner::Project(app.to_string()), owned);
            }
        }
        Ok(all)
    }
}

/// A limit that a request would exceed.
#[derive(Debug)]
pub(crate) struct Exceeded {
    pub(crate) kind: QuotaKind,
    pub(crate) message: String,
}

/// Entries of all owners, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct StorageUse {
    state: Mutex<StorageState>,
}

#[derive(Debug, Default)]
struct StorageState {
    /// Result of the last pass, and what was admitted since it began; empty before the first.
    counted: Holdings,
    /// Entries that were admitted since the pass in progress began.
    admitted: Holdings,
}

impl StorageUse {
    fn state(&self) -> MutexGuard<'_, StorageState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts everything; returns the time after which to count again.
    pub(crate) fn recount(&self, database: &Database) -> Result<Duration> {
        let began = std::time::Instant::now();
        self.state().admitted = Holdings::default();
        let counted = Holdings::count(database)?;
        self.replace(counted);
        Ok(INTERVAL.max(began.elapsed().saturating_mul(INTERVAL_FACTOR)))
    }

    fn replace(&self, counted: Holdings) {
        let mut state = self.state();
        state.counted = counted;
        let admitted = std::mem::take(&mut state.admitted);
        for (owner, owned) in admitted.0 {
            state.counted.add(owner, owned);
        }
    }

    /// Adds what a request creates, unless an owner would exceed a limit. Administrators may exceed all limits.
    pub(crate) fn admit(
        &self,
        new: Holdings,
        table: &QuotaTable,
        client: &Client,
    ) -> std::result::Result<(), Exceeded> {
        let mut state = self.state();
        if !client.is_admin {
            for (owner, more) in &new.0 {
                let Some(limits) = owner.limits(table) else {
                    continue;
                };
                let used = state.counted.0.get(owner).copied().unwrap_or_default();
                for (kind, limit) in QuotaKind::ALL.into_iter().zip(&limits) {
                    let (Some(used), Some(more), Some(limit)) =
                        (used.of(kind), more.of(kind), limit)
                    else {
                        continue;
                    };
                    if used.saturating_add(more) > limit.most {
                        let message = message(owner, kind, (used, more), limit, table.contact());
                        return Err(Exceeded { kind, message });
                    }
                }
            }
        }
        for (owner, owned) in new.0 {
            state.admitted.add(owner.clone(), owned);
            state.counted.add(owner, owned);
        }
        Ok(())
    }

    /// Entries of an owner.
    pub(crate) fn of(&self, owner: &Owner) -> Owned {
        let state = self.state();
        state.counted.0.get(owner).copied().unwrap_or_default()
    }

    /// Entries of each owner, with its limits.
    pub(crate) fn all(&self, table: &QuotaTable) -> Vec<(String, Owned, LimitsByKind)> {
        let state = self.state();
        let each = state.counted.0.iter();
        each.filter_map(|(owner, owned)| Some((owner.text(), *owned, owner.limits(table)?)))
            .collect()
    }
}

fn message(
    owner: &Owner,
    kind: QuotaKind,
    (used, more): (u64, u64),
    limit: &Limit,
    contact: &str,
) -> String {
    let what = match kind {
        QuotaKind::Bytes => "bytes of metadata",
        _ => "files and objects",
    };
    format!(
        "{} owns {used} {what}, this request adds {more}, and {} allows {}: remove some, or ask {contact}",
        owner.text(),
        limit.key,
        limit.most
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ClientTable;
    use crate::settings::Settings;
    use esker_model::Properties;

    fn object(owner: i64, app: &str, text: &str) -> Op {
        Op::CreateObject {
            identity: Identity {
                name: "x".into(),
                app: app.into(),
                owner,
                step: 0,
            },
            attributes: Properties::new(),
            tags: Properties::new().with("text", text),
        }
    }

    fn batch(ops: Vec<Op>) -> Holdings {
        let mut batch = Batch::new();
        ops.into_iter().for_each(|op| batch.push(op));
        Holdings::of_batch(&batch)
    }

    #[test]
    fn what_exceeds_a_limit_is_refused_and_counts_nothing() {
        let text = "[quotas]\ncontact = \"storage@example.org\"\n[quotas.default]\nentries = 3\n\
            [quotas.groups.7]\nentries = 2\n[quotas.projects.vpic]\nbytes = 200\n";
        let settings = Settings::from_toml(std::path::Path::new("server.toml"), text).unwrap();
        let clients = ClientTable::new(&settings);
        let client = clients.client("key x".into(), None, None, false);
        let admin = clients.client("user 0".into(), None, None, true);
        let storage = StorageUse::default();
        let admit = |new: Holdings| storage.admit(new, clients.quotas(), &client);
        admit(batch(vec![object(1, "", ""), object(1, "", "")])).unwrap();
        let refused = admit(batch(vec![object(1, "", ""), object(1, "", "")])).unwrap_err();
        assert_eq!(refused.kind, QuotaKind::Entries);
        assert_eq!(
            refused.message,
            "user 1 owns 2 files and objects, this request adds 2, and quotas.default.entries allows 3: remove some, or ask storage@example.org"
        );
        // Another user is not affected, nor an administrator.
        admit(batch(vec![object(2, "", "")])).unwrap();
        let more = batch(vec![object(1, "", ""), object(1, "", "")]);
        storage.admit(more, clients.quotas(), &admin).unwrap();
        assert_eq!(storage.of(&Owner::User(1)).entries, 4);
        // Removed entries count no more after a pass.
        storage.state().admitted = Holdings::default();
        storage.replace(Holdings::default());
        admit(batch(vec![object(1, "", "")])).unwrap();

        let mut files = Holdings::default();
        files.add_file(&NewFile::new(0o644, 3, 7));
        files.add_file(&NewFile::new(0o644, 4, 7));
        admit(files.clone()).unwrap();
        let refused = admit(files).unwrap_err();
        assert!(
            refused.message.starts_with("group 7 owns 2 files and objects, this request adds 2, and quotas.groups.7.entries allows 2"),
            "{}",
            refused.message
        );
        let refused = admit(batch(vec![object(5, "vpic", &"x".repeat(200))])).unwrap_err();
        assert_eq!(refused.kind, QuotaKind::Bytes);
        assert!(
            refused
                .message
                .starts_with("project vpic owns 0 bytes of metadata, this request adds 2")
                && refused
                    .message
                    .contains("quotas.projects.vpic.bytes allows 200"),
            "{}",
            refused.message
        );
        // Changes that create nothing pass.
        admit(Holdings::default()).unwrap();
    }
}
