//! Differences between two versions: pages of all servers, merged in the order of keys.

use super::fan_out::{MOVES_MAX, Moves, kept_moving};
use super::peers::unexpected;
use super::{Caller, Node, Visibility};
use crate::peer::{Read, Request, Response};
use crate::vnode::ServerId;
use esker_model::key::RowKey;
use esker_model::{DiffSelect, Difference, Flow, Result};
use futures_util::future::join_all;
use std::collections::VecDeque;
use std::sync::Arc;

impl Node {
    /// Passes differences between two versions to the sink, as [`esker_model::GraphRead::diff`].
    pub async fn diff(
        self: &Arc<Self>,
        select: &DiffSelect,
        caller: impl Into<Caller<'_>>,
        sink: &mut dyn FnMut(Difference) -> Flow,
    ) -> Result<()> {
        self.check_serving()?;
        let caller = caller.into();
        let mut visibility = Visibility::of(caller.principal);
        let mut select = DiffSelect {
            before: self.read_version(select.before, caller.seen),
            after: self.read_version(select.after, caller.seen),
            start_after: select.start_after,
        };
        let mut attempt = 0;
        while attempt < MOVES_MAX {
            let mut merge = DiffMerge::begin(self, select).await?;
            while merge.fill().await? {
                let Some(page) = merge.take_page() else {
                    return Ok(());
                };
                attempt = 0;
                select.start_after = page.last().and_then(Difference::key);
                for difference in self.visible_differences(&mut visibility, page).await? {
                    if sink(difference).is_break() {
                        return Ok(());
                    }
                }
                visibility.limit_memory();
            }
            // Partitions have moved: servers that were read before and after may both lack an edge, or both have it.
            self.pause_after(attempt).await;
            attempt += 1;
        }
        Err(kept_moving())
    }
}

/// One server's differences, read page by page.
struct DiffSource {
    server: ServerId,
    /// The server's moves before any server was read.
    moves: Moves,
    differences: VecDeque<Difference>,
    start_after: Option<RowKey>,
    more: bool,
}

/// Merges the differences of all servers. An edge that moves while it is read may come from two servers and is
/// returned once.
struct DiffMerge<'a> {
    node: &'a Arc<Node>,
    select: DiffSelect,
    sources: Vec<DiffSource>,
}

impl<'a> DiffMerge<'a> {
    async fn begin(node: &'a Arc<Node>, select: DiffSelect) -> Result<Self> {
        let answers = node.request_all(&Request::Ping).await?;
        let sources = answers.into_iter().map(|(server, (_, moves))| DiffSource {
            server,
            moves,
            differences: VecDeque::new(),
            start_after: select.start_after,
            more: true,
        });
        Ok(Self {
            node,
            select,
            sources: sources.collect(),
        })
    }

    /// Makes sure that the next differences of each server are in memory; returns false if partitions have moved.
    ///
    /// No edge is missing while each page comes from a server on which nothing has moved since the beginning: the
    /// giver's count of moves comes with every page that lacks the edge, and the receiver does not answer before it has it.
    async fn fill(&mut self) -> Result<bool> {
        let (node, select) = (self.node, self.select);
        let limit = node.settings.page_rows;
        if !self
            .sources
            .iter()
            .any(|s| s.differences.is_empty() && s.more)
        {
            return Ok(true);
        }
        // Servers that will be needed soon read at the same time.
        let low = |s: &&mut DiffSource| s.more && s.differences.len() <= limit as usize / 2;
        let reads = self
            .sources
            .iter_mut()
            .filter(low)
            .map(|source| async move {
                let read = Read::Diff {
                    select: DiffSelect {
                        start_after: source.start_after,
                        ..select
                    },
                    limit,
                };
                let answer = node.request_at(source.server, &Request::Read(read)).await;
                (answer, source)
            });
        let mut moved = false;
        for (answer, source) in join_all(reads).await {
            let (Response::Diff { differences, more }, moves) = answer? else {
                return Err(unexpected(source.server));
            };
            moved |= moves != source.moves;
            if let Some(last) = differences.last() {
                source.start_after = last.key();
            } else if more {
                return Err(unexpected(source.server));
            }
            source.more = more;
            source.differences.extend(differences);
        }
        Ok(!moved)
    }

    /// Returns all differences up to the first key at which a server's next page is needed; `None` at the end.
    fn take_page(&mut self) -> Option<Vec<Difference>> {
        let unfinished = self.sources.iter().filter(|s| s.more);
        let end = unfinished.filter_map(|s| s.start_after).min();
        let mut page = Vec::new();
        for source in &mut self.sources {
            let is_after = |d: &Difference| end.is_some_and(|end| d.key() > Some(end));
            let count = source.differences.partition_point(|d| !is_after(d));
            page.extend(source.differences.drain(..count));
        }
        page.sort_by_key(Difference::key);
        page.dedup_by_key(|d| d.key());
        (!page.is_empty()).then_some(page)
    }
}
