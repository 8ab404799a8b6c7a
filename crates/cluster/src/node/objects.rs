//! A server's share in what is asked about objects: what it holds itself.

use super::state::State;
use super::tagging::note;
use super::{Node, UNDECIDED_MAX};
use crate::peer::{FindId, FindPage, ObjectAt, ObjectCall, ObjectReply, TxId, stands_for};
use esker_engine::{Beside, once_key};
use esker_model::object::{
    Asker, Find, Found, Identity, ObjectId, ObjectKey, ObjectRead as _, ObjectWrite as _,
    TagReport, TagWhere,
};
use esker_model::once::Numbered;
use esker_model::{Cancel, Error, Flow, Result, Value, Version, VertexId};
use esker_store::Table;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most objects in a page of a search.
const PAGE_OBJECTS: u64 = 4_096;
/// A page ends once it has about so many bytes.
const PAGE_BYTES: usize = 1 << 20;
/// What an object takes in a page beside the names and texts of its attributes.
const FOUND_BYTES: usize = 32;
const VALUE_BYTES: usize = 12;

impl Node {
    /// Answers a question about objects that are here.
    pub(crate) async fn objects_here(self: &Arc<Self>, call: ObjectCall) -> Result<ObjectReply> {
        Ok(match call {
            ObjectCall::Read { keys, asker, at } => {
                ObjectReply::Objects(self.read_objects_here(&keys, asker.as_ref(), at).await?)
            }
            ObjectCall::Find { id, find, at } => {
                let searching = Searching::new(self, id);
                let stopped = Stopped(Arc::clone(&searching.stop));
                ObjectReply::Found(self.page_here(&find, at, &stopped).await?)
            }
            ObjectCall::Stop { id } => {
                if let Some(stop) = self.state().finds.get(&id) {
                    stop.store(true, Ordering::Relaxed);
                }
                ObjectReply::Stopped
            }
            ObjectCall::Tags { asker, at } => {
                self.settle(None, at).await?;
                ObjectReply::Tags(self.engine.tags(asker.as_ref())?)
            }
            ObjectCall::Tag { change, at } => {
                let report = self.tag_here(change, at).await?;
                // No client keeps it.
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
        asker: Option<&Asker>,
        at: Version,
    ) -> Result<Vec<ObjectAt>> {
        let mut touched: Vec<VertexId> = Vec::with_capacity(keys.len());
        for key in keys {
            match key {
                ObjectKey::Id(id) => touched.push(id.vertex()),
                ObjectKey::Identity(identity) => {
                    touched.extend([stands_for(identity), identity.prefix().place()]);
                }
            }
        }
        self.settle(Some(&touched), at).await?;
        let mut found = self.engine.read_objects(keys, asker)?;
        // What ID attributes name is known now; something may be pending of that, too.
        let named: Vec<VertexId> = found.iter().flatten().map(|f| f.id.vertex()).collect();
        if self.state().pending.blocks(Some(&named), at).is_some() {
            self.settle(Some(&named), at).await?;
            found = self.engine.read_objects(keys, asker)?;
        }
        let found = keys.iter().zip(found);
        let place = |(key, found): (&ObjectKey, Option<Found>)| {
            let alias = match (found, key) {
                (Some(found), _) => return Ok(ObjectAt::Here(found)),
                (None, ObjectKey::Id(_)) => None,
                (None, ObjectKey::Identity(identity)) => self.engine.object_alias(identity)?,
            };
            let elsewhere = alias.filter(|id| self.home(id.vertex()) != self.settings.id);
            Ok(elsewhere.map_or(ObjectAt::Nowhere, ObjectAt::Elsewhere))
        };
        found.map(place).collect()
    }

    /// What a search finds here, up to the size of a page.
    pub(crate) async fn page_here(
        &self,
        find: &Find,
        at: Version,
        cancel: &dyn Cancel,
    ) -> Result<FindPage> {
        self.settle(None, at).await?;
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
            bytes += size(&found);
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

    /// Tags what a filter holds of here, in one commit at a version that nobody has read anything of here yet.
    async fn tag_here(&self, change: TagWhere, at: Version) -> Result<TagReport> {
        if change.dry_run {
            self.settle(None, at).await?;
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
        // What may come before it is done first: the filter is to see it.
        let free = |state: &mut State| {
            let other = state.pending.blocks_but(Some(tx), None, version);
            other.is_none().then_some(())
        };
        if self.until(UNDECIDED_MAX, free).await.is_none() {
            return Err(Error::Unavailable(format!(
                "{}: a batch has been undecided for {} s, and what is to be tagged may depend on it; nothing was tagged here, try \
                 again",
                self.settings.id,
                UNDECIDED_MAX / 1000
            )));
        }
        let numbered = change.once.as_deref().map(Numbered::parse);
        let note = numbered.and_then(|n| n.ok().flatten()).map(|numbered| {
            let note = once_key(&note(&numbered, self.settings.id));
            (Table::Meta, note, Some(version.0.to_be_bytes().to_vec()))
        });
        let beside = Beside {
            once: change.once.clone(),
            rows: note.into_iter().collect(),
            ..Beside::default()
        };
        self.engine
            .tag_where_at(&change, version, &esker_model::NeverCancel, beside)
    }

    /// The ID attributes of an object, wherever it is; nothing if it is gone.
    pub(crate) async fn identity_of(
        &self,
        object: ObjectId,
        seen: Version,
    ) -> Result<Option<Identity>> {
        let home = self.home(object.vertex());
        let call = ObjectCall::Read {
            keys: vec![object.into()],
            asker: None,
            at: seen,
        };
        match self.ask(home, crate::peer::Request::Objects(call)).await? {
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

/// About how many bytes of a page an object takes.
fn size(found: &Found) -> usize {
    let all = found.attributes.iter().chain(found.tags.iter());
    let each = |(name, value): (&str, &Value)| name.len() + VALUE_BYTES + value_size(value);
    FOUND_BYTES + all.map(each).sum::<usize>()
}

fn value_size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.iter().map(|v| VALUE_BYTES + value_size(v)).sum(),
        _ => 0,
    }
}

/// A search whose page is being made for another server.
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

/// Stops once it was said.
struct Stopped(Arc<AtomicBool>);

impl Cancel for Stopped {
    fn cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Tags are being written here: reads of that time wait.
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
