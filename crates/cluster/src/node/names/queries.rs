//! Namespace queries of clients, answered by the receiving server with rows of other servers.

use crate::node::Node;
use crate::node::peers::unexpected;
use crate::peer::{NamesCall, NamesReply};
use esker_engine::{NamesReader, UsageTree, sums_of};
use esker_model::key::Counter;
use esker_model::namespace::{
    Answer, Call, Change, NamePath, Partition as Portion, Space, SpaceBy, Usage,
};
use esker_model::object::Principal;
use esker_model::{Error, Result, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Node {
    /// Handles one call of a client that has seen version `seen`.
    pub async fn names(self: &Arc<Self>, call: Call, seen: Version) -> Result<Answer> {
        self.check_serving()?;
        self.observe_client_version(seen);
        Ok(match call {
            Call::Stat {
                principal,
                path,
                follow,
            } => {
                let stat = self.read_names(principal.as_ref(), |names| names.stat(&path, follow));
                Answer::Inode(stat.await?)
            }
            Call::List {
                principal,
                path,
                after,
                limit,
            } => {
                let page = |names: &NamesReader<'_>| names.page(&path, after, limit);
                let (entries, more) = self.read_names(principal.as_ref(), page).await?;
                Answer::Page { entries, more }
            }
            Call::Change(changes) => Answer::Changed(match changes.changes.as_slice() {
                [Change::Merge(subtree)] => match self.earlier_results(&changes).await? {
                    Some(answers) => answers,
                    None => vec![self.merge_names(&changes, subtree).await],
                },
                _ => self.change_names(changes).await?,
            }),
            Call::Look {
                principal,
                path,
                how,
            } => {
                let look = |names: &NamesReader<'_>| names.resolve_open(&path, how);
                Answer::OpenLookup(self.read_names(principal.as_ref(), look).await?)
            }
            Call::Usage { principal, path } => {
                let usage = self.read_names(principal.as_ref(), |names| names.usage(&path));
                Answer::Usage(usage.await?)
            }
            Call::Space(by) => Answer::Space(self.space_by(by).await?),
            Call::Ids { principal, paths } => {
                Answer::Ids(self.ids_of(principal.as_ref(), &paths).await?)
            }
            Call::Partitions(path) => Answer::Partitions(self.partitions_of(&path).await?),
        })
    }

    /// Returns the space used by each directory, as [`esker_model::namespace::Namespace::usages`], ordered by path.
    pub async fn usages_of(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<(NamePath, Usage)>> {
        self.check_serving()?;
        let id = self.read_names(principal, |names| names.listable(path));
        let mut tree = UsageTree::new(path, id.await?);
        loop {
            let next = tree.next_ids();
            if next.is_empty() {
                return Ok(tree.finish());
            }
            if cancel() {
                return Err(Error::Interrupted);
            }
            let usages = self.read_names(principal, |names| names.usages(&next));
            tree.add(usages.await?);
        }
    }

    /// Returns sums over all files, as [`esker_model::namespace::Namespace::space`].
    pub async fn space_by(self: &Arc<Self>, by: SpaceBy) -> Result<Vec<Space>> {
        self.check_serving()?;
        let mut sums = BTreeMap::<Counter, i64>::new();
        for (server, reply) in self.request_names_of_all(&NamesCall::Space { by }).await? {
            let NamesReply::Space(shares) = reply else {
                return Err(unexpected(server));
            };
            for (counter, n) in shares {
                let sum = sums.entry(counter).or_default();
                *sum = sum.wrapping_add(n);
            }
        }
        Ok(sums_of(sums))
    }

    /// Returns the partitions of a directory's entries, by hash range.
    pub async fn partitions_of(self: &Arc<Self>, path: &NamePath) -> Result<Vec<Portion>> {
        let id = self.read_names(None, |names| names.directory(path)).await?;
        let splits = self.splits_of_entries(id).await?;
        let mut all = Vec::new();
        let mut next = Some(0);
        while let Some(first) = next {
            let (partition, (first, last)) = self.entries_in(id, &splits, first);
            let server = self.server_of(crate::peer::entries_vertex(id), partition);
            let call = NamesCall::Count {
                directory: id,
                first,
                last,
            };
            let NamesReply::Count(entries) = self.request_names(server, call).await? else {
                return Err(unexpected(server));
            };
            all.push(Portion {
                index: partition.0,
                depth: (last ^ first).leading_zeros(),
                server: server.0,
                entries,
            });
            next = last.checked_add(1);
        }
        Ok(all)
    }
}
