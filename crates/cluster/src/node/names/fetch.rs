//! Rows of the namespace that lie elsewhere.

use super::place::View;
use crate::node::Node;
use crate::node::peers::unexpected;
use crate::peer::{NamesCall, NamesReply, Request, Response};
use crate::vnode::ServerId;
use esker_engine::{DirectorySums, Fetched, Need, Placed as _, Ran, RowPlace};
use esker_model::namespace::record::{Past, of_past};
use esker_model::{Error, Result, Version, VertexId};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long something that is under way is waited for, in milliseconds.
const BUSY_MAX: u64 = 10_000;
/// How long one change of what a server knows is waited for: it looks again then, in milliseconds.
const LOOK_AGAIN: u64 = 20;
/// How often rows are asked for again that moved meanwhile.
const MOVES_MAX: u32 = 64;

impl Node {
    /// Runs something that may need rows of others until it ends.
    pub(super) async fn run_spread<T: Send>(
        self: &Arc<Self>,
        run: impl Fn(&View<'_>, &Fetched) -> Result<Ran<T>> + Send,
    ) -> Result<T> {
        self.run_with(&mut self.nothing_fetched(), run).await
    }

    /// The same with rows that were fetched before, as far as they still count; keeps those that it fetches.
    pub(in crate::node) async fn run_with<T: Send>(
        self: &Arc<Self>,
        fetched: &mut Fetched,
        run: impl Fn(&View<'_>, &Fetched) -> Result<Ran<T>> + Send,
    ) -> Result<T> {
        let deadline = self.time.now_millis() + BUSY_MAX;
        if fetched.epoch != self.engine.names_epoch() {
            *fetched = self.nothing_fetched();
        }
        loop {
            let ran = run(&View(self), fetched)?;
            match ran {
                Ran::Ended(value) => return Ok(value),
                Ran::Needs(needs) => self.fetch(fetched, needs).await?,
                Ran::Busy => {
                    *fetched = self.nothing_fetched();
                    self.wait_for_names(deadline).await?;
                }
            }
        }
    }

    pub(super) fn nothing_fetched(&self) -> Fetched {
        Fetched {
            epoch: self.engine.names_epoch(),
            ..Fetched::default()
        }
    }

    /// When whoever waits from now on gives up.
    pub(super) fn names_deadline(&self) -> u64 {
        self.time.now_millis() + BUSY_MAX
    }

    /// Something under way has to end: waits until something has.
    pub(super) async fn wait_for_names(&self, deadline: u64) -> Result<()> {
        if self.time.now_millis() > deadline {
            return Err(Error::Unavailable(format!(
                "{}: a change of the namespace has been under way for {} s; nothing was done, try again",
                self.settings.id,
                BUSY_MAX / 1000
            )));
        }
        // It looks twice before it waits.
        let mut looks = 0;
        let again = |_: &mut crate::node::state::State| {
            looks += 1;
            (looks > 2).then_some(())
        };
        self.until(LOOK_AGAIN, again).await;
        Ok(())
    }

    /// Fetches what is needed, from all at once.
    pub(super) async fn fetch(
        self: &Arc<Self>,
        fetched: &mut Fetched,
        needs: Vec<Need>,
    ) -> Result<()> {
        let (mut rows, mut sums, mut vertices) = (Vec::new(), Vec::new(), Vec::new());
        for need in needs {
            match need {
                Need::Row(key) => match of_past(&key) {
                    Some(id) => {
                        let last = self.last_of(id).await?;
                        fetched.rows.insert(key, last);
                    }
                    None => rows.push(key),
                },
                Need::Sums(id) => sums.push(id),
                Need::Vertex(id) => vertices.push(id),
            }
        }
        if !vertices.is_empty() {
            let now = self.moment(Version::MAX, Version::ZERO);
            let found = self.stored_vertices(&vertices, now).await?;
            fetched.vertices.extend(vertices.into_iter().zip(found));
        }
        if !sums.is_empty() {
            fetched.sums.extend(self.sums_of(&sums).await?);
        }
        for (key, row) in self.rows_of(rows).await? {
            fetched.rows.insert(key, row);
        }
        Ok(())
    }

    /// The newest state of a file that any server has kept.
    async fn last_of(self: &Arc<Self>, id: VertexId) -> Result<Option<Vec<u8>>> {
        let mut last: Option<(Version, Vec<u8>)> = None;
        for (server, reply) in self.ask_names_of_all(&NamesCall::Last { id }).await? {
            let NamesReply::Rows(rows) = reply else {
                return Err(unexpected(server));
            };
            for row in rows.into_iter().flatten() {
                let past = Past::decode(id, &row);
                let past = past.map_err(|e| Error::corrupt("what a file was", e))?;
                if last.as_ref().is_none_or(|(v, _)| *v < past.inode.version) {
                    last = Some((past.inode.version, row));
                }
            }
        }
        Ok(last.map(|(_, row)| row))
    }

    /// Rows, wherever they lie.
    pub(super) async fn rows_of(
        self: &Arc<Self>,
        mut keys: Vec<Vec<u8>>,
    ) -> Result<Vec<(Vec<u8>, Option<Vec<u8>>)>> {
        let mut found = Vec::with_capacity(keys.len());
        for _ in 0..MOVES_MAX {
            if keys.is_empty() {
                return Ok(found);
            }
            let mut by_server = BTreeMap::<ServerId, Vec<Vec<u8>>>::new();
            {
                let state = self.state();
                for key in keys.drain(..) {
                    let home = self.row_home(&state, &key);
                    by_server.entry(home).or_default().push(key);
                }
            }
            let asked = by_server.iter().map(|(server, keys)| async {
                let call = NamesCall::Rows { keys: keys.clone() };
                self.ask_names(*server, call).await
            });
            let answers = join_all(asked).await;
            for ((server, asked), answer) in by_server.into_iter().zip(answers) {
                match answer? {
                    NamesReply::Rows(rows) if rows.len() == asked.len() => {
                        found.extend(asked.into_iter().zip(rows));
                    }
                    NamesReply::Moved(splits) => {
                        self.learn_splits(server, &splits)?;
                        keys.extend(asked);
                    }
                    _ => return Err(unexpected(server)),
                }
            }
        }
        Err(kept_moving())
    }

    /// Sums of directories over all servers.
    pub(super) async fn sums_of(
        self: &Arc<Self>,
        of: &[VertexId],
    ) -> Result<Vec<(VertexId, DirectorySums)>> {
        let call = NamesCall::Sums { of: of.to_vec() };
        let mut sums: Vec<(VertexId, DirectorySums)> = of
            .iter()
            .map(|id| (*id, DirectorySums::default()))
            .collect();
        for (server, reply) in self.ask_names_of_all(&call).await? {
            match reply {
                NamesReply::Sums(shares) if shares.len() == sums.len() => {
                    for ((_, sum), share) in sums.iter_mut().zip(shares) {
                        sum.add(&share);
                    }
                }
                _ => return Err(unexpected(server)),
            }
        }
        Ok(sums)
    }

    /// Asks all servers, this one included.
    pub(super) async fn ask_names_of_all(
        self: &Arc<Self>,
        call: &NamesCall,
    ) -> Result<Vec<(ServerId, NamesReply)>> {
        let servers = self.map.servers();
        let asked = servers
            .iter()
            .map(|server| self.ask_names(*server, call.clone()));
        let answers = join_all(asked).await;
        let all = servers.iter().zip(answers);
        all.map(|(server, answer)| Ok((*server, answer?))).collect()
    }

    /// Asks a server, which may be this one.
    pub(super) async fn ask_names(
        self: &Arc<Self>,
        server: ServerId,
        call: NamesCall,
    ) -> Result<NamesReply> {
        if server == self.settings.id {
            // A change asks for rows, never for changes: this ends.
            return Box::pin(self.answer_names(server, call)).await;
        }
        match self.ask(server, Request::Names(call)).await? {
            Response::Names(reply) => Ok(reply),
            _ => Err(unexpected(server)),
        }
    }

    /// Rows that lie here. Waits for what is being written.
    pub(super) async fn rows_here(self: &Arc<Self>, keys: &[Vec<u8>]) -> Result<NamesReply> {
        let deadline = self.names_deadline();
        loop {
            let places = |keys: &[Vec<u8>]| -> Vec<RowPlace> {
                keys.iter().map(|key| View(self).place(key)).collect()
            };
            let before = places(keys);
            if before.contains(&RowPlace::Elsewhere) {
                return Ok(self.moved_entries(keys));
            }
            if !before.contains(&RowPlace::Busy) {
                let rows = self.engine.names_rows(keys)?;
                if places(keys).iter().all(|p| *p == RowPlace::Here) {
                    return Ok(NamesReply::Rows(rows));
                }
            }
            self.wait_for_names(deadline).await?;
        }
    }

    /// How the directories of these rows have split.
    pub(super) fn moved_entries(&self, keys: &[Vec<u8>]) -> NamesReply {
        use esker_model::namespace::record::{Lies, lies};
        let mut ids = Vec::new();
        for key in keys {
            if let Ok(Lies::Entry(directory, _)) = lies(key) {
                ids.push(crate::peer::entries_of(directory));
            }
        }
        ids.sort_unstable();
        ids.dedup();
        NamesReply::Moved(self.known_splits(&self.state(), &ids))
    }
}

pub(super) fn kept_moving() -> Error {
    Error::Unavailable("the entries of a directory kept moving between servers; try again".into())
}
