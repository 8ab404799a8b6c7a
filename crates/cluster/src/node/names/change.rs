//! Changes of the namespace.
//!
//! A change goes to the server that has the entry it is first about. If that server has all its rows, the change is
//! one commit, as in an embedded database. Otherwise the server plans which rows to write, and what it has read of
//! them, and runs a transaction (`transaction`): each participant checks that its rows are as they were read, and
//! locks them until the decision. A change that moves or removes a directory, or changes its permissions, has a part
//! on all servers: while it is prepared, no server changes or looks up anything, so that cached directories are never
//! wrong.

use super::cluster_flags::{FILES, VERTICES};
use super::fetch::kept_moving;
use super::row_owner::NodeRows;
use crate::node::Node;
use crate::node::peers::unexpected;
use crate::node::transaction::{Attempt, CoordinatorWork, Parts};
use crate::peer::{Change, NamesCall, NamesPart, NamesReply, Part, PartOp, entries_vertex};
use crate::vnode::ServerId;
use esker_engine::{ChangePlan, LocalStop, SideWrites};
use esker_model::limits::BATCH_MUTATIONS_MAX;
use esker_model::namespace::tags::TAG_PREFIX;
use esker_model::namespace::{AppliedChange, Change as NameChange, Changes, Kind, hash_of, root};
use esker_model::object::Principal;
use esker_model::{Error, ErrorKind, GraphRead as _, Op, Result, Version, VertexId};
use futures_util::future::join_all;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Number of attempts for a change that conflicts with others.
const ATTEMPTS_MAX: u32 = 200;
/// Longest pause between two attempts, in milliseconds.
const PAUSE_MAX: u64 = 20;

type EncodedSplits = Vec<(VertexId, Vec<u8>)>;

/// Number of times that changes are sent to another server before the receiver applies them wherever their entries are.
const REROUTES_MAX: u32 = 8;

/// Options for changes that are sent to a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChangeOptions<'a> {
    /// The client's idempotency key, if these are all of its changes.
    pub(super) idempotency_key: Option<&'a [u8]>,
    /// Whether all changes are applied by the receiver, wherever their entries are.
    pub(super) apply_remote: bool,
}

impl Node {
    /// Applies changes one after the other, each atomically on all servers, as [`esker_model::namespace::Namespace::change`].
    pub async fn change_names(
        self: &Arc<Self>,
        changes: Changes,
    ) -> Result<Vec<Result<AppliedChange>>> {
        self.check_serving()?;
        if let Some(answers) = self.earlier_results(&changes).await? {
            return Ok(answers);
        }
        let Changes {
            principal,
            changes,
            idempotency_key,
            is_retry: _,
        } = changes;
        if changes.len() > BATCH_MUTATIONS_MAX {
            return Err(Error::Limit {
                what: "a number of changes".into(),
                got: changes.len() as u64,
                limit: BATCH_MUTATIONS_MAX as u64,
            });
        }
        self.announce_flag(FILES).await?;
        let tags = |change: &NameChange| matches!(change, NameChange::Xattr { name, .. } if name.starts_with(TAG_PREFIX));
        if changes.iter().any(tags) {
            self.announce_flag(VERTICES).await?;
        }
        let mut answers = Vec::with_capacity(changes.len());
        let mut left = changes.as_slice();
        while !left.is_empty() {
            let root = principal.as_ref().is_none_or(|a| a.uid == 0);
            let (together, rest) = left.split_at(self.independent(left, root));
            // A partly applied set cannot be deduplicated by its idempotency key alone.
            let idempotency_key = idempotency_key
                .as_deref()
                .filter(|_| together.len() == changes.len());
            answers.extend(
                self.change_all(principal.as_ref(), together, idempotency_key)
                    .await?,
            );
            left = rest;
        }
        // A required server is temporarily unavailable. The only change of a call has the call's idempotency key, so
        // a repetition is applied once.
        if changes.len() == 1
            && let Some(Err(e)) = answers.first()
            && e.kind() == ErrorKind::Unavailable
        {
            answers.swap_remove(0)?;
        }
        Ok(answers)
    }

    /// Returns the results of changes that were sent before, if a server has applied them. They need not take their
    /// first route again: a directory may have split since, and a removed link may have been part of their own path.
    pub(super) async fn earlier_results(
        self: &Arc<Self>,
        sent: &Changes,
    ) -> Result<Option<Vec<Result<AppliedChange>>>> {
        let Some(idempotency_key) = sent.idempotency_key.as_deref().filter(|_| sent.is_retry)
        else {
            return Ok(None);
        };
        self.check_serving()?;
        let server = if self.engine.applied(idempotency_key)? {
            self.settings.id
        } else if let Some(server) = self.applying_server(idempotency_key).await? {
            server
        } else {
            return Ok(None);
        };
        let how = ChangeOptions {
            idempotency_key: Some(idempotency_key),
            apply_remote: true,
        };
        let (principal, changes) = (sent.principal.as_ref(), sent.changes.clone());
        let answers = self.change_at(server, principal, changes, how).await?;
        if answers.len() == sent.changes.len() {
            return Ok(Some(answers));
        }
        Err(Error::Undecided(format!(
            "{server} was restarted while it was asked for the outcome of changes; try again"
        )))
    }

    /// Returns the number of first changes that do not depend on each other, unless they are about the same entry:
    /// then they take the same route.
    fn independent(&self, changes: &[NameChange], root: bool) -> usize {
        let (mut about, mut above) = (HashSet::new(), HashSet::new());
        let mut removes = false;
        let first = changes.first().and_then(|c| c.path().split());
        let alike = changes.iter().take_while(|change| {
            let path = change.path();
            // A removed item may be a symbolic link on the paths of other changes, except those in the same directory.
            removes |= matches!(change, NameChange::Unlink(_));
            let parent = path.split().map(|(parent, _)| parent);
            // Paths through symbolic links lead to entries that other changes name differently.
            let known =
                parent.is_some_and(|parent| self.own_names().cached_directory(parent).is_some());
            if !is_plain(change, root)
                || !known
                || above.contains(path.as_bytes())
                || removes && parent != first.as_ref().map(|(parent, _)| *parent)
            {
                return false;
            }
            let mut next = parent;
            while let Some(directory) = next {
                if about.contains(directory) {
                    return false;
                }
                above.insert(directory);
                let slash = directory.iter().rposition(|b| *b == b'/');
                next = slash
                    .filter(|at| *at > 0)
                    .and_then(|at| directory.get(..at));
            }
            about.insert(path.as_bytes());
            true
        });
        alike.count().max(1)
    }

    async fn change_all(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        changes: &[NameChange],
        idempotency_key: Option<&[u8]>,
    ) -> Result<Vec<Result<AppliedChange>>> {
        let mut answers: Vec<Option<Result<AppliedChange>>> =
            changes.iter().map(|_| None).collect();
        let mut left: Vec<usize> = (0..changes.len()).collect();
        for attempt in 0..ATTEMPTS_MAX {
            let mut by_server = BTreeMap::<ServerId, Vec<usize>>::new();
            let mut parents = HashMap::new();
            for i in left.drain(..) {
                if let Some(change) = changes.get(i) {
                    let server = self.server_for(change, &mut parents).await?;
                    by_server.entry(server).or_default().push(i);
                }
            }
            let requests = by_server.iter().map(|(server, which)| {
                let theirs = which.iter().filter_map(|i| changes.get(*i).cloned());
                let how = ChangeOptions {
                    idempotency_key: idempotency_key.filter(|_| which.len() == changes.len()),
                    apply_remote: attempt >= REROUTES_MAX,
                };
                self.change_at(*server, principal, theirs.collect(), how)
            });
            let replies = join_all(requests).await;
            for ((server, which), reply) in by_server.iter().zip(replies) {
                match reply {
                    Ok(done) => {
                        left.extend(which.iter().skip(done.len()));
                        for (i, answer) in which.iter().zip(done) {
                            if let Some(index) = answers.get_mut(*i) {
                                *index = Some(answer);
                            }
                        }
                    }
                    Err(e) if by_server.len() == 1 && answers.iter().all(Option::is_none) => {
                        return Err(e);
                    }
                    // Changes on other servers are done.
                    Err(e) => {
                        for i in which {
                            if let Some(index) = answers.get_mut(*i) {
                                *index = Some(Err(Error::Unavailable(format!("{server}: {e}"))));
                            }
                        }
                    }
                }
            }
            if left.is_empty() {
                return Ok(answers.into_iter().flatten().collect());
            }
            left.sort_unstable();
        }
        Err(kept_moving())
    }

    /// Returns the server to which a change is sent.
    async fn server_for<'c>(
        self: &Arc<Self>,
        change: &'c NameChange,
        parents: &mut HashMap<&'c [u8], Option<VertexId>>,
    ) -> Result<ServerId> {
        let Some((parent, name)) = change.path().split() else {
            let state = self.state();
            let held = change.path().handle().filter(|h| h.id != root());
            return Ok(held.map_or(self.settings.id, |h| {
                self.entry_home(&state, h.directory, hash_of(&h.name))
            }));
        };
        let directory = if let Some(directory) = parents.get(parent) {
            *directory
        } else {
            let target = self.read_names(None, |names| names.target(change)).await?;
            let directory = target.map(|(directory, _)| directory);
            parents.insert(parent, directory);
            directory
        };
        let hash = hash_of(&name);
        let state = self.state();
        Ok(directory.map_or(self.settings.id, |d| self.entry_home(&state, d, hash)))
    }

    /// Applies changes on a server. The last ones may be left undone if their entries have moved; their new location
    /// is known then.
    async fn change_at(
        self: &Arc<Self>,
        server: ServerId,
        principal: Option<&Principal>,
        changes: Vec<NameChange>,
        how: ChangeOptions<'_>,
    ) -> Result<Vec<Result<AppliedChange>>> {
        if server == self.settings.id {
            return Ok(self.change_here(principal, &changes, how).await?.0);
        }
        let count = changes.len();
        let asking = self.begin_call(server);
        let call = NamesCall::Change {
            call: asking.id,
            principal: principal.cloned(),
            changes,
            idempotency_key: how.idempotency_key.map(<[u8]>::to_vec),
            apply_remote: how.apply_remote,
        };
        match self.request_names(server, call).await? {
            NamesReply::Restarted => Ok(Vec::new()),
            NamesReply::Changed(answers, splits) if answers.len() <= count => {
                self.learn_splits(server, &splits)?;
                Ok(answers
                    .into_iter()
                    .map(|a| a.map_err(Error::from))
                    .collect())
            }
            _ => Err(unexpected(server)),
        }
    }

    /// Applies changes whose first entries are here, as their sender believes. Unless `apply_remote` is set, the
    /// changes from the first one on whose entry is on another server are left undone, and the splits of its
    /// directory are returned.
    pub(super) async fn change_here(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        changes: &[NameChange],
        how: ChangeOptions<'_>,
    ) -> Result<(Vec<Result<AppliedChange>>, EncodedSplits)> {
        let mut answers = Vec::with_capacity(changes.len());
        let mut deadline = self.names_deadline();
        while let Some(left) = changes.get(answers.len()..).filter(|l| !l.is_empty()) {
            let idempotency_key = how.idempotency_key.filter(|_| answers.is_empty());
            let changing = self.begin_change().await?;
            let here = self
                .own_names()
                .change(principal, left, &NodeRows(self), idempotency_key);
            drop(changing);
            let here = match here {
                // No change was applied.
                Err(Error::Leased { millis }) => {
                    self.host.sleep(millis).await;
                    continue;
                }
                here => here?,
            };
            if !here.answers.is_empty() {
                deadline = self.names_deadline();
            }
            answers.extend(here.answers);
            self.note_entries(&here.made);
            match here.stopped {
                None => break,
                Some(LocalStop::Busy) => self.wait_for_names(deadline).await?,
                Some(LocalStop::Remote) => {
                    let Some(change) = changes.get(answers.len()) else {
                        break;
                    };
                    if !how.apply_remote
                        && let Some(splits) = self.remote_entry_splits(change).await
                    {
                        self.try_harden()?;
                        return Ok((answers, splits));
                    }
                    // Completed changes stay; the sender gets the result of each.
                    let idempotency_key = how.idempotency_key.filter(|_| changes.len() == 1);
                    answers.push(
                        self.change_distributed(principal, change, idempotency_key)
                            .await,
                    );
                }
            }
        }
        self.try_harden()?;
        Ok((answers, EncodedSplits::new()))
    }

    /// Returns how the directory of a change has split, if its entry is not here.
    async fn remote_entry_splits(self: &Arc<Self>, change: &NameChange) -> Option<EncodedSplits> {
        let target = self.read_names(None, |names| names.target(change)).await;
        let (directory, hash) = target.ok()??;
        let state = self.state();
        let here = self.entries_here(&state, directory, hash).is_some();
        (!here).then(|| self.encoded_splits(&state, &[entries_vertex(directory)]))
    }

    /// Applies a change that concerns several servers.
    async fn change_distributed(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        change: &NameChange,
        idempotency_key: Option<&[u8]>,
    ) -> Result<AppliedChange> {
        let mut pause = 0;
        let mut attempts = 0;
        let mut keep_vertices = false;
        while attempts < ATTEMPTS_MAX {
            let plan = self
                .run_distributed(|rows, fetched| {
                    self.own_names().plan(principal, change, rows, fetched)
                })
                .await?;
            if plan.structure
                && let millis @ 1.. = self.directory_lease_millis().await
            {
                self.host.sleep(millis).await;
                attempts += 1;
                continue;
            }
            let done = plan.done;
            let parts = self.names_parts(plan, keep_vertices);
            let aside = CoordinatorWork {
                side_writes: SideWrites::default(),
                splits: None,
                idempotency_key,
                seen: Version::ZERO,
            };
            match self.attempt(parts, aside).await {
                Ok(Attempt::Done(commit, _)) => {
                    // A client that gets this response sees the graph with the change from now on.
                    let version = done.version.max(commit.version);
                    return Ok(AppliedChange { version, ..done });
                }
                Ok(Attempt::Retry | Attempt::Unread) => {}
                // The graph has no vertex of the file.
                Err(Error::NoVertex { .. }) if !keep_vertices => keep_vertices = true,
                Err(e) => return Err(e),
            }
            attempts += 1;
            if pause > 0 {
                self.host.sleep(pause).await;
            }
            pause = (2 * pause + 1).min(PAUSE_MAX);
        }
        Err(Error::Busy(format!(
            "{}: other changes interfered with each of {ATTEMPTS_MAX} attempts; nothing was done, try again",
            change.path()
        )))
    }

    /// Divides a planned change into parts by server.
    fn names_parts(&self, plan: ChangePlan, keep_vertices: bool) -> Parts {
        let mut parts = BTreeMap::<ServerId, NamesPart>::new();
        let me = self.settings.id;
        let mine = parts.entry(me).or_default();
        mine.epoch = Some(plan.epoch);
        // Sums are read from all servers, so any server may have the counters.
        mine.counters = plan.counters;
        {
            let state = self.state();
            for row in plan.rows {
                let home = self.row_home(&state, &row.key);
                parts.entry(home).or_default().rows.push(row);
            }
        }
        if plan.structure {
            for server in self.map.servers() {
                let part = parts.entry(*server).or_default();
                part.structure = true;
                part.empty.clone_from(&plan.empty);
            }
        }
        let mut all: BTreeMap<ServerId, Part> = parts
            .into_iter()
            .map(|(server, part)| {
                let op = PartOp {
                    index: 0,
                    at: None,
                    change: Change::Names(part),
                };
                (server, Part { ops: vec![op] })
            })
            .collect();
        let goes = |op: &Op| matches!(op, Op::DeleteVertex { .. });
        let ops = plan.ops.into_iter();
        for (index, op) in (1..).zip(ops.filter(|op| !(keep_vertices && goes(op)))) {
            let home = self.home(op.home_vertex());
            let op = PartOp {
                index,
                at: None,
                change: Change::Vertex(op),
            };
            all.entry(home).or_default().ops.push(op);
        }
        all.into_iter()
            .map(|(server, part)| (server, Arc::new(part)))
            .collect()
    }
}

/// Whether a change is about one entry that is neither a directory nor a symbolic link.
fn is_plain(change: &NameChange, root: bool) -> bool {
    match change {
        NameChange::Create(_, make) => !matches!(
            Kind::of_mode(make.mode),
            Some(Kind::Directory | Kind::Symlink) | None
        ),
        NameChange::Unlink(_) => true,
        // The change may affect what others are allowed to do.
        NameChange::Set { follow, .. } => !follow && root,
        NameChange::Rmdir(_)
        | NameChange::Rename { .. }
        | NameChange::Exchange { .. }
        | NameChange::Link { .. }
        | NameChange::Xattr { .. }
        | NameChange::Write { .. }
        | NameChange::Merge(_) => false,
    }
}
