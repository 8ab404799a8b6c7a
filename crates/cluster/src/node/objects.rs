//! Calls about objects that are stored on this server.

use super::page::{PAGE_BYTES, row_size};
use super::state::State;
use super::tagging::note;
use super::{Node, UNDECIDED_MAX};
use crate::peer::{FindId, FindPage, ObjectAt, ObjectCall, ObjectReply, TxId, identity_vertex};
use esker_engine::{SideWrites, idempotency_row_key};
use esker_model::idempotency::ProducerKey;
use esker_model::object::{
    Find, Found, Identity, ObjectId, ObjectKey, ObjectRead as _, ObjectWrite as _, Principal,
    TagReport, TagWhere,
};
use esker_model::{Cancel, Error, Flow, Result, Version, VertexId};
use esker_store::Table;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Largest number of objects in a page of a search.
const PAGE_OBJECTS: u64 = 4_096;

impl Node {
    /// Handles a call about this server's objects.
    pub(crate) async fn objects_here(self: &Arc<Self>, call: ObjectCall) -> Result<ObjectReply> {
        Ok(match call {
            ObjectCall::Read {
                keys,
                principal,
                at,
            } => ObjectReply::Objects(
                self.read_objects_here(&keys, principal.as_ref(), at)
                    .await?,
            ),
            ObjectCall::Find { id, find, at } => {
                let searching = Searching::new(self, id);
                let stopped = StopFlag(Arc::clone(&searching.stop));
                ObjectReply::Found(self.page_here(&find, at, &stopped).await?)
            }
            ObjectCall::Stop { id } => {
                if let Some(stop) = self.state().finds.get(&id) {
                    stop.store(true, Ordering::Relaxed);
                }
                ObjectReply::Stopped
            }
            ObjectCall::Tags { principal, at } => {
                self.wait_for_pending(None, at).await?;
                ObjectReply::Tags(self.engine.tags(principal.as_ref())?)
            }
            ObjectCall::Tag { change, at } => {
                let report = self.tag_here(change, at).await?;
                // No client retains the change, so it must be in a checkpoint.
                self.harden()?;
                ObjectReply::Tagged(report)
            }
            ObjectCall::Index { name, on } => {
                let changed = self.engine.set_index(&name, on)?;
                self.harden()?;
                ObjectReply::Indexed(changed)
            }
        })
    }

    async fn read_objects_here(
        &self,
        keys: &[ObjectKey],
        principal: Option<&Principal>,
        at: Version,
    ) -> Result<Vec<ObjectAt>> {
        let mut touched: Vec<VertexId> = Vec::with_capacity(keys.len());
        for key in keys {
            match key {
                ObjectKey::Id(id) => touched.push(id.vertex()),
                ObjectKey::Identity(identity) => {
                    touched.extend([identity_vertex(identity), identity.prefix().home_vertex()]);
                }
            }
        }
        self.wait_for_pending(Some(&touched), at).await?;
        let mut found = self.engine.read_objects(keys, principal)?;
        // The ID attributes are resolved now; transactions may be pending on their objects, too.
        let named: Vec<VertexId> = found.iter().flatten().map(|f| f.id.vertex()).collect();
        if self.state().pending.blocker(Some(&named), at).is_some() {
            self.wait_for_pending(Some(&named), at).await?;
            found = self.engine.read_objects(keys, principal)?;
        }
        let found = keys.iter().zip(found);
        let locate = |(key, found): (&ObjectKey, Option<Found>)| {
            let alias = match (found, key) {
                (Some(found), _) => return Ok(ObjectAt::Here(found)),
                (None, ObjectKey::Id(_)) => None,
                (None, ObjectKey::Identity(identity)) => self.engine.object_alias(identity)?,
            };
            let elsewhere = alias.filter(|id| self.home(id.vertex()) != self.settings.id);
            Ok(elsewhere.map_or(ObjectAt::Nowhere, ObjectAt::Elsewhere))
        };
        found.map(locate).collect()
    }

    /// Searches this server's objects, up to the size of a page.
    pub(crate) async fn page_here(
        &self,
        find: &Find,
        at: Version,
        cancel: &dyn Cancel,
    ) -> Result<FindPage> {
        self.wait_for_pending(None, at).await?;
        let mut objects = Vec::new();
        if find.count || find.explain {
            let report = self
                .engine
                .find(find, cancel, &mut |_| Flow::Continue(()))?;
            return Ok(FindPage {
                objects,
                more: false,
                report,
            });
        }
        let mut find = find.clone();
        find.limit = Some(find.limit.map_or(PAGE_OBJECTS, |n| n.min(PAGE_OBJECTS)));
        let mut bytes = 0;
        let report = self.engine.find(&find, cancel, &mut |found| {
            bytes += row_size(found.attributes.iter().chain(found.tags.iter()));
            objects.push(found);
            if bytes >= PAGE_BYTES {
                Flow::Break(())
            } else {
                Flow::Continue(())
            }
        })?;
        Ok(FindPage {
            objects,
            more: !report.complete,
            report,
        })
    }

    /// Tags this server's objects that match a filter, in one commit at a version of which no read here has seen anything yet.
    async fn tag_here(self: &Arc<Self>, change: TagWhere, at: Version) -> Result<TagReport> {
        if change.dry_run {
            self.wait_for_pending(None, at).await?;
            return self.engine.tag_where(&change, &esker_model::NeverCancel);
        }
        let _changing = self.begin_change().await?;
        let (tx, version) = {
            let mut state = self.state();
            let tx = TxId {
                server: self.settings.id,
                incarnation: self.incarnation,
                number: state.own.begin(),
            };
            let version = self.clock.tick(self.time.now_millis());
            state.pending.add_all(tx, version);
            (tx, version)
        };
        let _tagging = Tagging { node: self, tx };
        // Transactions that may come before are applied first, so that the filter sees them.
        let free = |state: &mut State| {
            let other = state.pending.blocker_except(Some(tx), None, version);
            other.is_none().then_some(())
        };
        if self.wait_until(UNDECIDED_MAX, free).await.is_none() {
            return Err(Error::Busy(format!(
                "{}: a batch has been undecided for {} s, and the objects to be tagged may depend \
                 on it; nothing was tagged here, try again",
                self.settings.id,
                UNDECIDED_MAX / 1000
            )));
        }
        let numbered = change.idempotency_key.as_deref().map(ProducerKey::parse);
        let note = numbered.and_then(|n| n.ok().flatten()).map(|numbered| {
            let note = idempotency_row_key(&note(&numbered, self.settings.id));
            (Table::Meta, note, Some(version.0.to_be_bytes().to_vec()))
        });
        let side_writes = SideWrites {
            idempotency_key: change.idempotency_key.clone(),
            rows: note.into_iter().collect(),
            ..SideWrites::default()
        };
        self.blocking(move |node| {
            node.engine
                .tag_where_at(&change, version, &esker_model::NeverCancel, side_writes)
        })
        .await?
    }

    /// Returns the ID attributes of an object on any server; `None` if it does not exist.
    pub(crate) async fn identity_of(
        &self,
        object: ObjectId,
        seen: Version,
    ) -> Result<Option<Identity>> {
        let home = self.home(object.vertex());
        let call = ObjectCall::Read {
            keys: vec![object.into()],
            principal: None,
            at: seen,
        };
        match self
            .request(home, crate::peer::Request::Objects(call))
            .await?
        {
            crate::peer::Response::Objects(ObjectReply::Objects(found)) => {
                Ok(match found.into_iter().next() {
                    Some(ObjectAt::Here(found)) => found.identity(),
                    _ => None,
                })
            }
            _ => Err(super::peers::unexpected(home)),
        }
    }
}

/// A search whose page is being computed for another server.
struct Searching<'a> {
    node: &'a Node,
    id: FindId,
    stop: Arc<AtomicBool>,
}

impl<'a> Searching<'a> {
    fn new(node: &'a Node, id: FindId) -> Self {
        let stop = Arc::<AtomicBool>::default();
        node.state().finds.insert(id, Arc::clone(&stop));
        Self { node, id, stop }
    }
}

impl Drop for Searching<'_> {
    fn drop(&mut self) {
        self.node.state().finds.remove(&self.id);
    }
}

/// Cancels once its flag is set.
struct StopFlag(Arc<AtomicBool>);

impl Cancel for StopFlag {
    fn cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A tagging operation in progress: reads at its version wait.
struct Tagging<'a> {
    node: &'a Node,
    tx: TxId,
}

impl Drop for Tagging<'_> {
    fn drop(&mut self) {
        let mut state = self.node.state();
        state.pending.end(self.tx);
        state.own.end(self.tx.number);
        state.wake();
    }
}
