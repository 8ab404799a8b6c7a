//! Changes of the namespace.
//!
//! A change goes to the server that has the entry it is first about. If all its rows lie there it is one commit, as embedded;
//! otherwise that server works out which rows it would write, and what it has read of them, and makes a transaction of it
//! (`transaction`): each server that has some of them sees to it that they are as they were read, and keeps others from them
//! until it is decided. A change that moves or removes a directory or gives it other permissions is a part of all servers: while
//! it is prepared, nobody changes or looks up anything, so what servers remember of directories is never wrong.

use super::fetch::kept_moving;
use super::known::{FILES, VERTICES};
use super::place::View;
use crate::node::Node;
use crate::node::peers::unexpected;
use crate::node::transaction::{Aside, Attempt, Parts};
use crate::peer::{Change, NamesCall, NamesPart, NamesReply, Part, PartOp, entries_of};
use crate::vnode::ServerId;
use esker_engine::{Beside, Plan, Ran, Stopped, path_of};
use esker_model::limits::BATCH_MUTATIONS_MAX;
use esker_model::namespace::tags::TAG_PREFIX;
use esker_model::namespace::{Change as NameChange, Changes, Done, Kind, hash_of, root};
use esker_model::object::Asker;
use esker_model::{Error, GraphRead as _, Op, Result, Version, VertexId};
use futures_util::future::join_all;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// How often a change is tried that meets others.
const ATTEMPTS_MAX: u32 = 200;
/// Longest pause between two attempts, in milliseconds.
const PAUSE_MAX: u64 = 20;

type Splits = Vec<(VertexId, Vec<u8>)>;

/// How often changes are sent to another server before whoever has them sees to them wherever their entries lie.
const REROUTES_MAX: u32 = 8;

/// How changes are sent to a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct How<'a> {
    /// Their client's marker, if these are all of its changes.
    pub(super) once: Option<&'a [u8]>,
    /// All are to be done there, wherever their entries lie.
    pub(super) insist: bool,
}

impl Node {
    /// As [`esker_model::namespace::Namespace::change`]: one after the other, each whole or not at all, on all servers.
    pub async fn change_names(self: &Arc<Self>, changes: Changes) -> Result<Vec<Result<Done>>> {
        self.check_serving()?;
        if let Some(answers) = self.made_before(&changes).await? {
            return Ok(answers);
        }
        let Changes {
            asker,
            changes,
            once,
            again: _,
        } = changes;
        if changes.len() > BATCH_MUTATIONS_MAX {
            return Err(Error::Limit {
                what: "a number of changes".into(),
                got: changes.len() as u64,
                limit: BATCH_MUTATIONS_MAX as u64,
            });
        }
        self.tell_all(FILES).await?;
        let tags = |change: &NameChange| matches!(change, NameChange::Xattr { name, .. } if name.starts_with(TAG_PREFIX));
        if changes.iter().any(tags) {
            self.tell_all(VERTICES).await?;
        }
        let mut answers = Vec::with_capacity(changes.len());
        let mut left = changes.as_slice();
        while !left.is_empty() {
            let root = asker.as_ref().is_none_or(|a| a.uid == 0);
            let (together, rest) = left.split_at(self.independent(left, root));
            // Who made some of several has to remember more than that.
            let once = once.as_deref().filter(|_| together.len() == changes.len());
            answers.extend(self.change_together(asker.as_ref(), together, once).await?);
            left = rest;
        }
        // A server that it needs is away just now. The only change of a call has the call's marker: it may come again, and is done once.
        if changes.len() == 1
            && let Some(Err(Error::Unavailable(_))) = answers.first()
        {
            answers.swap_remove(0)?;
        }
        Ok(answers)
    }

    /// What became of changes that were sent before, if a server has made them. They need not go the way again that they went at
    /// first: a directory may have split since, and a removed link may be what their own path led through.
    pub(super) async fn made_before(
        self: &Arc<Self>,
        sent: &Changes,
    ) -> Result<Option<Vec<Result<Done>>>> {
        let Some(once) = sent.once.as_deref().filter(|_| sent.again) else {
            return Ok(None);
        };
        self.check_serving()?;
        let server = if self.engine.applied(once)? {
            self.settings.id
        } else if let Some(server) = self.who_applied(once).await? {
            server
        } else {
            return Ok(None);
        };
        let how = How {
            once: Some(once),
            insist: true,
        };
        let (asker, changes) = (sent.asker.as_ref(), sent.changes.clone());
        let answers = self.change_at(server, asker, changes, how).await?;
        if answers.len() == sent.changes.len() {
            return Ok(Some(answers));
        }
        Err(Error::Unavailable(format!(
            "{server} was started anew while it was asked what became of changes; try again"
        )))
    }

    /// So many of the first changes do not build on each other, unless they are about the same entry: then they go the same way.
    fn independent(&self, changes: &[NameChange], root: bool) -> usize {
        let (mut about, mut above) = (HashSet::new(), HashSet::new());
        let mut removes = false;
        let first = changes.first().and_then(|c| path_of(c).split());
        let alike = changes.iter().take_while(|change| {
            let path = path_of(change);
            // What is removed may be a symbolic link that others' paths lead through, but for those of the same directory.
            removes |= matches!(change, NameChange::Unlink(_));
            let parent = path.split().map(|(parent, _)| parent);
            // Paths through symbolic links lead to entries that others name otherwise.
            let known = parent.is_some_and(|parent| self.engine.knows_directory(parent));
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

    async fn change_together(
        self: &Arc<Self>,
        asker: Option<&Asker>,
        changes: &[NameChange],
        once: Option<&[u8]>,
    ) -> Result<Vec<Result<Done>>> {
        let mut answers: Vec<Option<Result<Done>>> = changes.iter().map(|_| None).collect();
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
            let asked = by_server.iter().map(|(server, which)| {
                let theirs = which.iter().filter_map(|i| changes.get(*i).cloned());
                let how = How {
                    once: once.filter(|_| which.len() == changes.len()),
                    insist: attempt >= REROUTES_MAX,
                };
                self.change_at(*server, asker, theirs.collect(), how)
            });
            let replies = join_all(asked).await;
            for ((server, which), reply) in by_server.iter().zip(replies) {
                match reply {
                    Ok(done) => {
                        left.extend(which.iter().skip(done.len()));
                        for (i, answer) in which.iter().zip(done) {
                            if let Some(place) = answers.get_mut(*i) {
                                *place = Some(answer);
                            }
                        }
                    }
                    Err(e) if by_server.len() == 1 && answers.iter().all(Option::is_none) => {
                        return Err(e);
                    }
                    // Others' changes are done.
                    Err(e) => {
                        for i in which {
                            if let Some(place) = answers.get_mut(*i) {
                                *place = Some(Err(Error::Unavailable(format!("{server}: {e}"))));
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

    /// Whom a change is sent to.
    async fn server_for<'c>(
        self: &Arc<Self>,
        change: &'c NameChange,
        parents: &mut HashMap<&'c [u8], Option<VertexId>>,
    ) -> Result<ServerId> {
        let Some((parent, name)) = path_of(change).split() else {
            let state = self.state();
            let held = path_of(change).handle().filter(|h| h.id != root());
            return Ok(held.map_or(self.settings.id, |h| {
                self.entry_home(&state, h.directory, hash_of(&h.name))
            }));
        };
        let directory = if let Some(directory) = parents.get(parent) {
            *directory
        } else {
            let target = self
                .run_spread(|view, fetched| self.engine.target_spread(change, view, fetched))
                .await?;
            let directory = target.map(|(directory, _)| directory);
            parents.insert(parent, directory);
            directory
        };
        let hash = hash_of(&name);
        let state = self.state();
        Ok(directory.map_or(self.settings.id, |d| self.entry_home(&state, d, hash)))
    }

    /// Changes on a server. The last ones may be left undone: their entries have moved, and where to is known now.
    async fn change_at(
        self: &Arc<Self>,
        server: ServerId,
        asker: Option<&Asker>,
        changes: Vec<NameChange>,
        how: How<'_>,
    ) -> Result<Vec<Result<Done>>> {
        if server == self.settings.id {
            return Ok(self.change_here(asker, &changes, how).await?.0);
        }
        let count = changes.len();
        let asking = self.begin_call(server);
        let call = NamesCall::Change {
            call: asking.id,
            asker: asker.cloned(),
            changes,
            once: how.once.map(<[u8]>::to_vec),
            insist: how.insist,
        };
        match self.ask_names(server, call).await? {
            NamesReply::Anew => Ok(Vec::new()),
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

    /// Changes whose first entries lie here, as whoever sent them believes. Unless they insist, those from the first one on whose entry
    /// lies elsewhere are left to them, with how its directory has split.
    pub(super) async fn change_here(
        self: &Arc<Self>,
        asker: Option<&Asker>,
        changes: &[NameChange],
        how: How<'_>,
    ) -> Result<(Vec<Result<Done>>, Splits)> {
        let mut answers = Vec::with_capacity(changes.len());
        let mut deadline = self.names_deadline();
        while let Some(left) = changes.get(answers.len()..).filter(|l| !l.is_empty()) {
            let once = how.once.filter(|_| answers.is_empty());
            let changing = self.begin_change().await?;
            let here = self
                .engine
                .change_names_here(asker, left, &View(self), once);
            drop(changing);
            let here = match here {
                // Nothing was done.
                Err(Error::Promised { millis }) => {
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
                Some(Stopped::Busy) => self.wait_for_names(deadline).await?,
                Some(Stopped::Apart) => {
                    let Some(change) = changes.get(answers.len()) else {
                        break;
                    };
                    if !how.insist
                        && let Some(splits) = self.entries_elsewhere(change).await
                    {
                        self.try_harden()?;
                        return Ok((answers, splits));
                    }
                    // What is done is done; whoever asked hears of each.
                    let once = how.once.filter(|_| changes.len() == 1);
                    answers.push(self.change_apart(asker, change, once).await);
                }
            }
        }
        self.try_harden()?;
        Ok((answers, Splits::new()))
    }

    /// How the directory of a change has split, if its entry is not here.
    async fn entries_elsewhere(self: &Arc<Self>, change: &NameChange) -> Option<Splits> {
        let target = self
            .run_spread(|view, fetched| self.engine.target_spread(change, view, fetched))
            .await;
        let (directory, hash) = target.ok()??;
        let state = self.state();
        let here = self.entries_here(&state, directory, hash).is_some();
        (!here).then(|| self.known_splits(&state, &[entries_of(directory)]))
    }

    /// A change that concerns several servers.
    async fn change_apart(
        self: &Arc<Self>,
        asker: Option<&Asker>,
        change: &NameChange,
        once: Option<&[u8]>,
    ) -> Result<Done> {
        let mut fetched = self.nothing_fetched();
        let mut deadline = self.names_deadline();
        let mut pause = 0;
        let mut attempts = 0;
        let mut keep_vertices = false;
        while attempts < ATTEMPTS_MAX {
            let planned = self
                .engine
                .plan_name(asker, change, &View(self), &fetched)?;
            let plan = match planned {
                Ran::Ended(plan) => plan,
                Ran::Needs(needs) => {
                    self.fetch(&mut fetched, needs).await?;
                    continue;
                }
                Ran::Busy => {
                    fetched = self.nothing_fetched();
                    self.wait_for_names(deadline).await?;
                    continue;
                }
            };
            if plan.structure
                && let millis @ 1.. = self.ways_promised().await
            {
                self.host.sleep(millis).await;
                fetched = self.nothing_fetched();
                deadline = self.names_deadline();
                attempts += 1;
                continue;
            }
            let done = plan.done;
            let parts = self.names_parts(plan, keep_vertices);
            let aside = Aside {
                beside: Beside::default(),
                splits: None,
                marker: once,
                seen: Version::ZERO,
            };
            match self.attempt(parts, aside).await {
                Ok(Attempt::Done(commit, _)) => {
                    // Whoever is told sees the graph with it from now on.
                    let version = done.version.max(commit.version);
                    return Ok(Done { version, ..done });
                }
                Ok(Attempt::Again | Attempt::Unread) => {}
                // The graph does not know of the file.
                Err(Error::NoVertex { .. }) if !keep_vertices => keep_vertices = true,
                Err(e) => return Err(e),
            }
            attempts += 1;
            fetched = self.nothing_fetched();
            deadline = self.names_deadline();
            if pause > 0 {
                self.host.sleep(pause).await;
            }
            pause = (2 * pause + 1).min(PAUSE_MAX);
        }
        Err(Error::Unavailable(format!(
            "{}: other changes kept coming between through {ATTEMPTS_MAX} attempts; nothing was done, try again",
            path_of(change)
        )))
    }

    /// Who is to do what of a change.
    fn names_parts(&self, plan: Plan, keep_vertices: bool) -> Parts {
        let mut parts = BTreeMap::<ServerId, NamesPart>::new();
        let me = self.settings.id;
        let mine = parts.entry(me).or_default();
        mine.epoch = Some(plan.epoch);
        // Whoever wants a sum asks everybody.
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
            let home = self.home(crate::peer::vertex_of(&op));
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

/// Whether a change is about one entry that is no directory and no way to others.
fn is_plain(change: &NameChange, root: bool) -> bool {
    match change {
        NameChange::Make(_, make) => !matches!(
            Kind::of_mode(make.mode),
            Some(Kind::Directory | Kind::Symlink) | None
        ),
        NameChange::Unlink(_) => true,
        // It may be what others are allowed by.
        NameChange::Set { follow, .. } => !follow && root,
        NameChange::Rmdir(_)
        | NameChange::Rename { .. }
        | NameChange::Link { .. }
        | NameChange::Xattr { .. }
        | NameChange::Write { .. }
        | NameChange::Merge(_) => false,
    }
}
