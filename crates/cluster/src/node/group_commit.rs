//! Group commit of parts: those that arrive while a commit is in progress share the next one, with one wait for the disk.
//!
//! The first part that finds no commit in progress starts one as blocking work of the host ([`super::Host::run_blocking`]);
//! that work takes all waiting parts, repeatedly, until no part waits. So the node's futures never wait for the disk. Parts
//! that change how a vertex has split have a commit of their own ([`Node::apply_with_splits`]).

use super::Node;
use super::codec::split_key;
use super::commit_queue::{CommitQueue, DecidedPart, WaitingPart};
use super::participate::created_entries;
use crate::peer::{Adopt, Change, Part, PartOp};
use crate::placement::SplitState;
use esker_model::{Commit, Error, Result, VertexId};
use esker_store::Table;
use futures_channel::oneshot;
use std::sync::Arc;

/// Number of groups that one piece of blocking work commits: it may run on the thread of a future that waits.
const GROUPS_MAX: usize = 16;

/// Commits that a thread makes. After a panic, the parts that wait get an error, and later ones begin new commits.
struct CommitsInProgress<'a> {
    queue: &'a CommitQueue,
    panics: bool,
}

impl Drop for CommitsInProgress<'_> {
    fn drop(&mut self) {
        if self.panics {
            self.queue.abandon();
        }
    }
}

impl Node {
    /// Commits a part of a decided transaction, together with rows of this node, and starts what follows from it. The part
    /// stays pending; the caller ends that. If the call is cancelled, the part may be committed nevertheless.
    pub(super) async fn commit_part(self: &Arc<Self>, decided: DecidedPart) -> Result<Commit> {
        self.clock.witness(decided.version);
        let part = Arc::clone(&decided.part);
        let adopts = |op: &PartOp| matches!(op.change, Change::Adopt(_));
        let commit = if part.ops.iter().any(adopts) {
            self.blocking(move |node| node.apply_with_splits(decided, None))
                .await??
        } else {
            self.commit_in_group(decided).await?
        };
        self.note_growth(&part);
        self.note_entries(&created_entries(&part));
        Ok(commit)
    }

    async fn commit_in_group(self: &Arc<Self>, decided: DecidedPart) -> Result<Commit> {
        let (answer, committed) = oneshot::channel();
        if self.commits.add((decided, answer)) {
            self.start_commits();
        }
        committed.await.unwrap_or_else(|_| Err(self.stopping()))
    }

    fn start_commits(self: &Arc<Self>) {
        let node = Arc::clone(self);
        self.host.run_blocking(Box::new(move || {
            if node.commit_groups() {
                return;
            }
            node.spawn(|node| async move { node.start_commits() });
        }));
    }

    /// Commits groups until no part waits, or [`GROUPS_MAX`] groups; returns whether no part waits.
    fn commit_groups(self: &Arc<Self>) -> bool {
        let mut commits = CommitsInProgress {
            queue: &self.commits,
            panics: true,
        };
        let mut groups = std::iter::from_fn(|| self.commits.take()).take(GROUPS_MAX);
        let done = groups
            .by_ref()
            .map(|group| self.commit_group(group))
            .count();
        commits.panics = false;
        done < GROUPS_MAX
    }

    /// Commits parts together and answers them.
    fn commit_group(self: &Arc<Self>, mut group: Vec<WaitingPart>) {
        let parts: Vec<Arc<Part>> = group.iter().map(|(d, _)| Arc::clone(&d.part)).collect();
        let commits = parts.iter().zip(&mut group);
        let commits = commits.map(|(part, (decided, _))| DecidedPart::commit(part, decided));
        let commits = self.engine.apply_parts(commits.collect());
        let mut hardening = Vec::new();
        for ((decided, answer), commit) in group.into_iter().zip(commits) {
            if decided.published && self.window.is_some() && commit.is_ok() {
                hardening.push((answer, commit));
            } else {
                // A call that was cancelled waits for no answer.
                let _ = answer.send(commit);
            }
        }
        if hardening.is_empty() {
            return;
        }
        // Commits continue while a checkpoint is written.
        let node = Arc::clone(self);
        self.host.run_blocking(Box::new(move || {
            let failure = node.harden().err().map(|e| e.to_string());
            for (answer, commit) in hardening {
                let failure = failure.clone().map(Error::Unavailable);
                let _ = answer.send(failure.map_or(commit, Err));
            }
        }));
    }

    /// Commits a part that changes how vertices have split here: by the rows that it brings, or by `splits`, those of a
    /// vertex that splits.
    pub(super) fn apply_with_splits(
        &self,
        mut decided: DecidedPart,
        splits: Option<(VertexId, SplitState)>,
    ) -> Result<Commit> {
        let part = Arc::clone(&decided.part);
        let _writing = self.writing_splits();
        let splits = splits.map(|(id, splits)| (id, self.merge_stored_splits(id, splits)));
        if let Some((id, splits)) = &splits {
            let row = (Table::Meta, split_key(*id), Some(splits.encode()));
            decided.side_writes.rows.push(row);
        }
        let mut adopted: Vec<(&Adopt, SplitState)> = Vec::new();
        for op in &part.ops {
            if let Change::Adopt(adopt) = &op.change
                && let Some(splits) = self.adopt(adopt, &mut decided.side_writes)?
            {
                adopted.push((adopt, splits));
            }
        }
        let published = decided.published;
        let commit = DecidedPart::commit(&part, &mut decided);
        let commit = self.engine.apply_parts(vec![commit]).pop();
        let commit = commit.unwrap_or_else(|| Err(self.stopping()))?;
        for (adopt, splits) in adopted {
            self.state().set_splits(adopt.vertex, splits);
            self.note_adopted(adopt);
        }
        if published {
            self.harden()?;
        }
        if part.ops.iter().any(|op| op.change.is_table()) {
            self.engine.persist()?;
        }
        // Reads of a vertex that splits wait until its splits are on disk.
        if let Some((id, splits)) = splits {
            self.state().set_splits(id, splits);
        }
        Ok(commit)
    }

    /// Runs work that waits for the disk while the node's futures continue.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> T + Send + 'static,
    ) -> Result<T> {
        let (answer, done) = oneshot::channel();
        let node = Arc::clone(self);
        self.host.run_blocking(Box::new(move || {
            // A call that was cancelled waits for no answer.
            let _ = answer.send(work(&node));
        }));
        done.await.map_err(|_| self.stopping())
    }

    fn stopping(&self) -> Error {
        Error::Undecided(format!(
            "{} is stopping, and the outcome of the write is unknown; try again",
            self.settings.id
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BoxFuture, Host, PAGE_ROWS, Settings};
    use super::*;
    use crate::peer::{PeerRequest, PeerResponse, Response, TxId};
    use crate::vnode::ServerId;
    use crate::{Clock, Engine, Kind};
    use esker_engine::NoArchive;
    use esker_model::{Batch, Op, Schema, Version, VertexName};
    use esker_store::Durability;
    use esker_store::fault::{FaultStore, Operation};
    use esker_store::memory::MemoryStore;
    use futures_util::FutureExt as _;
    use std::future::pending;
    use std::sync::Mutex;
    use std::task::{Context, Poll, Waker};

    type Work = Box<dyn FnOnce() + Send>;

    /// A host whose blocking work waits until the test runs it.
    #[derive(Default)]
    struct SlowDisk(Mutex<Vec<Work>>);

    impl SlowDisk {
        /// Runs the work in progress; returns the number of its pieces.
        fn run(&self) -> usize {
            let work = std::mem::take(&mut *self.0.lock().unwrap());
            work.into_iter().map(|work| work()).count()
        }
    }

    impl Host for SlowDisk {
        fn call(&self, to: ServerId, _: PeerRequest) -> BoxFuture<'static, Result<PeerResponse>> {
            Box::pin(async move { Err(Error::Unavailable(to.to_string())) })
        }

        fn sleep(&self, _millis: u64) -> BoxFuture<'static, ()> {
            Box::pin(pending())
        }

        fn spawn(&self, _task: BoxFuture<'static, ()>) {}

        fn run_blocking(&self, work: Work) {
            self.0.lock().unwrap().push(work);
        }
    }

    struct StoppedClock;

    impl Clock for StoppedClock {
        fn now_millis(&self) -> u64 {
            1_000_000
        }

        fn monotonic_micros(&self) -> u64 {
            0
        }
    }

    fn node(store: &Arc<FaultStore<MemoryStore>>, host: &Arc<SlowDisk>) -> Arc<Node> {
        let settings = esker_engine::Settings {
            durability: Durability::Sync,
            ..esker_engine::Settings::default()
        };
        let store = Arc::clone(store) as Arc<dyn esker_store::Store>;
        let clock = Arc::new(StoppedClock) as Arc<dyn Clock>;
        let engine = Engine::open(store, Arc::clone(&clock), Arc::new(NoArchive), settings);
        let settings = Settings {
            id: ServerId(0),
            servers: vec![ServerId(0)],
            vnodes: 16,
            placement: Kind::Dido,
            threshold: 128,
            directory_threshold: 128,
            page_rows: PAGE_ROWS,
            table_min_rows: 0,
            replay_millis: 0,
            epoch: 0,
        };
        let host = Arc::clone(host) as Arc<dyn Host>;
        Node::open(Arc::new(engine.unwrap()), clock, host, settings).unwrap()
    }

    fn batch(number: usize) -> Batch {
        let name = VertexName::parse(&format!("job:{number}")).unwrap();
        let mut batch = Batch::new();
        batch.push(Op::EnsureVertex {
            vertex: name.resolve(&Schema::default()).unwrap(),
            key: name.key,
        });
        batch
    }

    #[test]
    fn batches_that_arrive_during_a_commit_share_the_next_one() {
        let store = Arc::new(FaultStore::new(MemoryStore::new()).unwrap());
        let host = Arc::new(SlowDisk::default());
        let node = node(&store, &host);
        let context = &mut Context::from_waker(Waker::noop());
        let before = store.count(Operation::Commit);
        for (clients, commits) in [(5, 1), (1, 2)] {
            let calls = (0..clients).map(|n| {
                let node = Arc::clone(&node);
                let number = 10 * commits as usize + n;
                Box::pin(async move { node.apply(batch(number), Version::ZERO).await })
            });
            let mut calls: Vec<_> = calls.collect();
            for call in &mut calls {
                assert!(call.as_mut().poll(context).is_pending());
            }
            assert_eq!(host.run(), 1, "one piece of work commits all");
            assert_eq!(store.count(Operation::Commit), before + commits);
            assert_eq!(store.unsynced(), 0);
            for call in &mut calls {
                let Poll::Ready(Ok(commit)) = call.as_mut().poll(context) else {
                    panic!("the part is not committed");
                };
                assert!(commit.applied && commit.vertices_created == 1);
            }
        }
        assert_eq!(host.run(), 0);
    }

    /// A part that is prepared while the disk is full could wait, decided and not applied, until there is room.
    #[test]
    fn a_failed_store_prepares_no_part() {
        let store = Arc::new(FaultStore::new(MemoryStore::new()).unwrap());
        let host = Arc::new(SlowDisk::default());
        let node = node(&store, &host);
        let tx = |number| TxId {
            server: ServerId(1),
            incarnation: 1,
            number,
        };
        let prepare = |number| {
            let part = Arc::new(Part { ops: Vec::new() });
            let prepared = node.prepare(tx(number), 0, Version::ZERO, part);
            prepared.now_or_never().expect("nothing to wait for")
        };
        assert!(matches!(prepare(1), Ok(Response::Prepared(_))));
        store.fail_always(Operation::Commit, 0, || Error::Unavailable("full".into()));
        assert_eq!(prepare(2).unwrap_err().to_string(), "full");
        assert!(node.state().pending.part(tx(2)).is_none());
        store.heal();
        assert!(matches!(prepare(3), Ok(Response::Prepared(_))));
    }

    /// A call that is cancelled while its part waits does not hold up the others, and its part is committed.
    #[test]
    fn a_cancelled_call_holds_up_nobody() {
        let store = Arc::new(FaultStore::new(MemoryStore::new()).unwrap());
        let host = Arc::new(SlowDisk::default());
        let node = node(&store, &host);
        let context = &mut Context::from_waker(Waker::noop());
        for round in 0..2 {
            let (first, second) = (2 * round, 2 * round + 1);
            let mut cancelled = Box::pin(node.apply(batch(first), Version::ZERO));
            let mut other = Box::pin(node.apply(batch(second), Version::ZERO));
            assert!(cancelled.as_mut().poll(context).is_pending());
            assert!(other.as_mut().poll(context).is_pending());
            drop(cancelled);
            assert_eq!(host.run(), 1);
            assert!(other.as_mut().poll(context).is_ready());
        }
        let counts = esker_model::GraphRead::counts(&**node.engine()).unwrap();
        let vertices: u64 = counts.vertices.iter().map(|(_, n)| n).sum();
        assert_eq!(vertices, 4);
    }
}
