//! Namespace rows of other servers.

use super::row_owner::NodeRows;
use crate::node::Node;
use crate::node::peers::unexpected;
use crate::peer::{NamesCall, NamesReply, Request, Response};
use crate::vnode::ServerId;
use esker_engine::{
    DirectorySums, EntriesPage, ListCursor, NamesReader, Need, PartialNamespace, RemoteData,
    RowLocation, RowPlacement as _, RunResult,
};
use esker_model::namespace::Name;
use esker_model::namespace::record::{InodeHistory, decode_inode_history_prefix};
use esker_model::object::Principal;
use esker_model::{Error, Result, Version, VertexId};
use futures_util::future::{join_all, try_join4};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Longest wait for operations in progress, in milliseconds.
const BUSY_MAX: u64 = 10_000;
/// Longest wait between two checks of the state, in milliseconds.
const RECHECK: u64 = 20;
/// Largest number of requests for rows that move meanwhile.
const MOVES_MAX: u32 = 64;

impl Node {
    /// This server's part of the namespace.
    pub(in crate::node) fn own_names(&self) -> PartialNamespace<'_> {
        self.engine.partial_namespace()
    }

    /// Reads the namespace of all servers on behalf of a principal.
    pub(super) async fn read_names<T: Send>(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        read: impl Fn(&NamesReader<'_>) -> Result<T> + Send + Sync,
    ) -> Result<T> {
        self.run_distributed(|rows, fetched| self.own_names().read(principal, rows, fetched, &read))
            .await
    }

    /// Runs a distributed operation: fetches remote rows and repeats `run` until it completes.
    pub(super) async fn run_distributed<T: Send>(
        self: &Arc<Self>,
        run: impl Fn(&NodeRows<'_>, &RemoteData) -> Result<RunResult<T>> + Send,
    ) -> Result<T> {
        self.run_with_rows(&mut self.no_remote_data(), run).await
    }

    /// Runs a distributed operation with rows that were fetched before, as far as they are still valid; keeps newly
    /// fetched rows.
    pub(in crate::node) async fn run_with_rows<T: Send>(
        self: &Arc<Self>,
        fetched: &mut RemoteData,
        run: impl Fn(&NodeRows<'_>, &RemoteData) -> Result<RunResult<T>> + Send,
    ) -> Result<T> {
        let deadline = self.time.now_millis() + BUSY_MAX;
        if fetched.epoch != self.own_names().epoch() {
            *fetched = self.no_remote_data();
        }
        loop {
            let ran = run(&NodeRows(self), fetched)?;
            match ran {
                RunResult::Ended(value) => return Ok(value),
                RunResult::Needs(needs) => self.fetch(fetched, needs).await?,
                RunResult::Busy => {
                    *fetched = self.no_remote_data();
                    self.wait_for_names(deadline).await?;
                }
            }
        }
    }

    pub(super) fn no_remote_data(&self) -> RemoteData {
        RemoteData {
            epoch: self.own_names().epoch(),
            ..RemoteData::default()
        }
    }

    /// Returns the time at which an operation that begins to wait now gives up.
    pub(super) fn names_deadline(&self) -> u64 {
        self.time.now_millis() + BUSY_MAX
    }

    /// Waits until an operation in progress may have ended.
    pub(super) async fn wait_for_names(&self, deadline: u64) -> Result<()> {
        if self.time.now_millis() > deadline {
            return Err(Error::Busy(format!(
                "{}: a change of the namespace has been in progress for {} s; nothing was done, try again",
                self.settings.id,
                BUSY_MAX / 1000
            )));
        }
        // The closure runs twice before it waits.
        let mut looks = 0;
        let again = |_: &mut crate::node::state::State| {
            looks += 1;
            (looks > 2).then_some(())
        };
        self.wait_until(RECHECK, again).await;
        Ok(())
    }

    /// Fetches what is needed, from all servers at once.
    pub(super) async fn fetch(
        self: &Arc<Self>,
        fetched: &mut RemoteData,
        needs: Vec<Need>,
    ) -> Result<()> {
        let (mut rows, mut sums, mut vertices) = (Vec::new(), Vec::new(), Vec::new());
        let mut children = Vec::new();
        for need in needs {
            match need {
                Need::Row(key) => match decode_inode_history_prefix(&key) {
                    Some(id) => {
                        let last = self.last_of(id).await?;
                        fetched.rows.insert(key, last);
                    }
                    None => rows.push(key),
                },
                Need::Sums(id) => sums.push(id),
                Need::Vertex(id) => vertices.push(id),
                Need::Children(id) => children.push(id),
                Need::Entries((directory, cursor), limit) => {
                    let page = self.entries_page(directory, cursor, limit).await?;
                    fetched.entries.insert((directory, cursor), page);
                }
            }
        }
        let now = self.read_version(Version::MAX, Version::ZERO);
        let (found, all_sums, all_children, all_rows) = try_join4(
            self.stored_vertices(&vertices, now),
            self.sums_of(&sums),
            self.children_of(&children),
            self.rows_of(rows),
        )
        .await?;
        fetched.vertices.extend(vertices.into_iter().zip(found));
        fetched.sums.extend(all_sums);
        fetched
            .children
            .extend(children.into_iter().zip(all_children));
        fetched.rows.extend(all_rows);
        Ok(())
    }

    /// Returns the newest state of a file that any server has kept.
    async fn last_of(self: &Arc<Self>, id: VertexId) -> Result<Option<Vec<u8>>> {
        let mut last: Option<(Version, Vec<u8>)> = None;
        for (server, reply) in self.request_names_of_all(&NamesCall::Last { id }).await? {
            let NamesReply::Rows(rows) = reply else {
                return Err(unexpected(server));
            };
            for row in rows.into_iter().flatten() {
                let past = InodeHistory::decode(id, &row);
                let past = past.map_err(|e| Error::corrupt("what a file was", e))?;
                if last.as_ref().is_none_or(|(v, _)| *v < past.inode.version) {
                    last = Some((past.inode.version, row));
                }
            }
        }
        Ok(last.map(|(_, row)| row))
    }

    /// Reads rows from the servers that have them.
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
            let requests = by_server.iter().map(|(server, keys)| async {
                let call = NamesCall::Rows { keys: keys.clone() };
                self.request_names(*server, call).await
            });
            let answers = join_all(requests).await;
            for ((server, requested), answer) in by_server.into_iter().zip(answers) {
                match answer? {
                    NamesReply::Rows(rows) if rows.len() == requested.len() => {
                        found.extend(requested.into_iter().zip(rows));
                    }
                    NamesReply::Moved(splits) => {
                        self.learn_splits(server, &splits)?;
                        keys.extend(requested);
                    }
                    _ => return Err(unexpected(server)),
                }
            }
        }
        Err(kept_moving())
    }

    /// Returns a page of a directory from the server that has the entries at the cursor.
    async fn entries_page(
        self: &Arc<Self>,
        directory: VertexId,
        from: ListCursor,
        limit: usize,
    ) -> Result<EntriesPage> {
        for _ in 0..MOVES_MAX {
            let server = {
                let state = self.state();
                self.entry_home(&state, directory, from.0)
            };
            let call = NamesCall::Page {
                directory,
                from,
                limit: u32::try_from(limit).unwrap_or(u32::MAX),
            };
            match self.request_names(server, call).await? {
                NamesReply::Page { entries, next } => return Ok((entries, next)),
                NamesReply::Moved(splits) => {
                    self.learn_splits(server, &splits)?;
                }
                _ => return Err(unexpected(server)),
            }
        }
        Err(kept_moving())
    }

    /// Returns the subdirectories of directories, as recorded at their homes.
    async fn children_of(self: &Arc<Self>, ids: &[VertexId]) -> Result<Vec<Vec<(VertexId, Name)>>> {
        let mut by_server = BTreeMap::<ServerId, Vec<usize>>::new();
        for (i, id) in ids.iter().enumerate() {
            by_server.entry(self.home(*id)).or_default().push(i);
        }
        let requests = by_server.iter().map(|(server, which)| {
            let of = which.iter().filter_map(|i| ids.get(*i).copied()).collect();
            self.request_names(*server, NamesCall::Children { of })
        });
        let answers = join_all(requests).await;
        let mut all: Vec<Vec<(VertexId, Name)>> = ids.iter().map(|_| Vec::new()).collect();
        for ((server, which), answer) in by_server.into_iter().zip(answers) {
            let NamesReply::Children(lists) = answer? else {
                return Err(unexpected(server));
            };
            for (i, list) in which.into_iter().zip(lists) {
                if let Some(index) = all.get_mut(i) {
                    *index = list;
                }
            }
        }
        Ok(all)
    }

    /// Sums up directories over all servers.
    pub(super) async fn sums_of(
        self: &Arc<Self>,
        of: &[VertexId],
    ) -> Result<Vec<(VertexId, DirectorySums)>> {
        if of.is_empty() {
            return Ok(Vec::new());
        }
        let call = NamesCall::Sums { of: of.to_vec() };
        let mut sums: Vec<(VertexId, DirectorySums)> = of
            .iter()
            .map(|id| (*id, DirectorySums::default()))
            .collect();
        for (server, reply) in self.request_names_of_all(&call).await? {
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

    /// Sends a request to all servers, this one included.
    pub(super) async fn request_names_of_all(
        self: &Arc<Self>,
        call: &NamesCall,
    ) -> Result<Vec<(ServerId, NamesReply)>> {
        let servers = self.map.servers();
        let requests = servers
            .iter()
            .map(|server| self.request_names(*server, call.clone()));
        let answers = join_all(requests).await;
        let all = servers.iter().zip(answers);
        all.map(|(server, answer)| Ok((*server, answer?))).collect()
    }

    /// Sends a request to a server, which may be this one.
    pub(super) async fn request_names(
        self: &Arc<Self>,
        server: ServerId,
        call: NamesCall,
    ) -> Result<NamesReply> {
        if server == self.settings.id {
            // A change requests rows, never changes, so the recursion ends.
            return Box::pin(self.answer_names(server, call)).await;
        }
        match self.request(server, Request::Names(call)).await? {
            Response::Names(reply) => Ok(reply),
            _ => Err(unexpected(server)),
        }
    }

    /// Returns rows that are here; waits for writes in progress.
    pub(super) async fn rows_here(self: &Arc<Self>, keys: &[Vec<u8>]) -> Result<NamesReply> {
        let deadline = self.names_deadline();
        loop {
            let locations = |keys: &[Vec<u8>]| -> Vec<RowLocation> {
                keys.iter().map(|key| NodeRows(self).locate(key)).collect()
            };
            let before = locations(keys);
            if before.contains(&RowLocation::Remote) {
                return Ok(self.moved_entries(keys));
            }
            if !before.contains(&RowLocation::Busy) {
                let rows = self.own_names().rows(keys)?;
                if locations(keys).iter().all(|p| *p == RowLocation::Local) {
                    return Ok(NamesReply::Rows(rows));
                }
            }
            self.wait_for_names(deadline).await?;
        }
    }

    /// Returns how the directories of these rows have split.
    pub(super) fn moved_entries(&self, keys: &[Vec<u8>]) -> NamesReply {
        use esker_model::namespace::record::{RowHome, row_home};
        let mut ids = Vec::new();
        for key in keys {
            if let Ok(RowHome::Entry(directory, _)) = row_home(key) {
                ids.push(crate::peer::entries_vertex(directory));
            }
        }
        ids.sort_unstable();
        ids.dedup();
        NamesReply::Moved(self.encoded_splits(&self.state(), &ids))
    }
}

pub(super) fn kept_moving() -> Error {
    Error::Busy("the entries of a directory kept moving between servers; try again".into())
}
