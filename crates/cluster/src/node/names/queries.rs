//! Namespace queries of clients, answered by the receiving server with rows of other servers.

use super::cluster_flags::VERTICES;
use super::fetch::kept_moving;
use crate::node::Node;
use crate::node::peers::unexpected;
use crate::peer::{NamesCall, NamesReply};
use crate::vnode::ServerId;
use esker_engine::{DirectorySums, RawEntry, show_tags, sums_of};
use esker_model::key::{Counter, Measure};
use esker_model::namespace::{
    Answer, Call, Change, Cookie, Entry, Inode, Name, NamePath, Open, OpenLookup,
    Partition as Portion, Space, SpaceBy, Usage,
};
use esker_model::object::Principal;
use esker_model::{Error, Result, Version, VertexId};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;

const READ: u32 = 4;
const SEARCH: u32 = 1;
/// Number of directories that are read together.
const DIRECTORY_BATCH: usize = 512;
/// Largest number of requests for a page whose entries move meanwhile.
const MOVES_MAX: u32 = 64;

/// Cursor of a listing: a hash, and the number within it if there is one; `None` at the end.
type ListCursor = Option<(u64, Option<u8>)>;

impl Node {
    /// Handles one call of a client that has seen version `seen`.
    pub async fn names(self: &Arc<Self>, call: Call, seen: Version) -> Result<Answer> {
        self.clock.witness(seen);
        Ok(match call {
            Call::Stat {
                principal,
                path,
                follow,
            } => {
                let inode = self.stat_name(principal.as_ref(), &path, follow).await?;
                Answer::Inode(self.with_tags(principal.as_ref(), inode).await?)
            }
            Call::List {
                principal,
                path,
                after,
                limit,
                directories,
            } => {
                let page = self.list_names(principal.as_ref(), &path, after, limit, directories);
                let (entries, more) = page.await?;
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
            } => Answer::OpenLookup(self.lookup_name(principal.as_ref(), &path, how).await?),
            Call::Usage { principal, path } => {
                Answer::Usage(self.usage_of(principal.as_ref(), &path, false).await?)
            }
            Call::Space(by) => Answer::Space(self.space_by(by).await?),
            Call::Ids { principal, paths } => {
                Answer::Ids(self.ids_of(principal.as_ref(), &paths).await?)
            }
            Call::Partitions(path) => Answer::Partitions(self.partitions_of(&path).await?),
        })
    }

    /// Returns attributes of a path, as [`esker_model::namespace::Namespace::stat`].
    pub async fn stat_name(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        path: &NamePath,
        follow: bool,
    ) -> Result<Inode> {
        self.check_serving()?;
        self.run_distributed(|view, fetched| {
            self.engine
                .stat_distributed(principal, (path, follow), view, fetched)
        })
        .await
    }

    /// Looks up a path to be opened, as [`esker_model::namespace::Namespace::look`].
    async fn lookup_name(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        path: &NamePath,
        how: Open,
    ) -> Result<OpenLookup> {
        self.check_serving()?;
        let looked = self
            .run_distributed(|view, fetched| {
                self.engine
                    .look_distributed(principal, (path, how), view, fetched)
            })
            .await?;
        Ok(match looked {
            OpenLookup::Found(path, inode) => {
                let inode = self.with_tags(principal, *inode).await?;
                OpenLookup::Found(path, Box::new(inode))
            }
            missing @ OpenLookup::Missing { .. } => missing,
        })
    }

    /// Adds the tags of the vertex as extended attributes, if the principal may read it.
    async fn with_tags(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        mut inode: Inode,
    ) -> Result<Inode> {
        if self.has_flag(VERTICES) && inode.allows(principal, READ) {
            let now = self.read_version(Version::MAX, Version::ZERO);
            let found = self.stored_vertices(&[inode.id], now).await?;
            if let Some(vertex) = found.into_iter().flatten().find(|v| !v.deleted) {
                show_tags(&mut inode, &vertex.user);
            }
        }
        Ok(inode)
    }

    /// Returns a page of [`esker_model::namespace::Namespace::list`] with up to `limit` entries, of directories alone
    /// if `directories`, and whether there are more.
    pub async fn list_names(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        path: &NamePath,
        after: Option<Cookie>,
        limit: usize,
        directories: bool,
    ) -> Result<(Vec<(Cookie, Entry)>, bool)> {
        self.check_serving()?;
        let directory = self.directory_named(principal, path, READ | SEARCH).await?;
        let mut next = Some(after.map_or((0, None), |c| (c.hash, Some(c.n))));
        let mut entries = Vec::new();
        while let (Some(from), true) = (next, entries.len() < limit) {
            let left = limit - entries.len();
            let (page, after) = self.page_of(principal, directory, from, left).await?;
            let wanted = |(_, e): &(Cookie, Entry)| !directories || e.inode.is_directory();
            entries.extend(page.into_iter().filter(wanted));
            next = after;
        }
        Ok((entries, next.is_some()))
    }

    async fn directory_named(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        path: &NamePath,
        rights: u32,
    ) -> Result<VertexId> {
        self.run_distributed(|view, fetched| {
            self.engine
                .directory_distributed(principal, (path, rights), view, fetched)
        })
        .await
    }

    /// Returns entries of a directory from a hash on, as the principal sees them.
    async fn page_of(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        directory: VertexId,
        from: (u64, Option<u8>),
        limit: usize,
    ) -> Result<(Vec<(Cookie, Entry)>, ListCursor)> {
        let (raw, next) = self.raw_page(directory, from, limit).await?;
        let entries = self
            .run_distributed(|_, fetched| self.engine.entries_distributed(principal, &raw, fetched))
            .await?;
        Ok((entries, next))
    }

    async fn raw_page(
        self: &Arc<Self>,
        directory: VertexId,
        from: (u64, Option<u8>),
        limit: usize,
    ) -> Result<(Vec<RawEntry>, ListCursor)> {
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

    /// Returns the space used by a path, as [`esker_model::namespace::Namespace::usage`].
    pub async fn usage_of(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        path: &NamePath,
        below: bool,
    ) -> Result<Usage> {
        let inode = self.stat_name(principal, path, false).await?;
        if !inode.is_directory() {
            return Ok(Usage {
                files: 1,
                directories: 0,
                bytes: inode.size,
                blocks: inode.blocks,
            });
        }
        if below {
            let all = self.usages_below(principal, path, &never).await?;
            let sum = all.into_iter().map(|(_, usage, _)| usage);
            return Ok(sum.fold(Usage::default(), |mut sum, usage| {
                sum += usage;
                sum
            }));
        }
        let id = self.directory_named(principal, path, READ | SEARCH).await?;
        let sums = self.sums_of(&[id]).await?;
        Ok(sums.first().map(|(_, s)| usage(s)).unwrap_or_default())
    }

    /// Returns the space used by each directory, as [`esker_model::namespace::Namespace::usages`].
    pub async fn usages_of(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<(NamePath, Usage)>> {
        self.check_serving()?;
        path.demand_path()?;
        let mut all = self.usages_below(principal, path, cancel).await?;
        for index in (0..all.len()).rev() {
            let Some((_, usage, Some(parent))) = all.get(index) else {
                continue;
            };
            let (usage, parent) = (*usage, *parent);
            if let Some((_, sum, _)) = all.get_mut(parent) {
                *sum += usage;
            }
        }
        Ok(all
            .into_iter()
            .map(|(path, usage, _)| (path, usage))
            .collect())
    }

    /// Returns what each directory below a path contains itself, with the index of its parent directory, which comes before.
    async fn usages_below(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<(NamePath, Usage, Option<usize>)>> {
        let id = self.directory_named(principal, path, READ | SEARCH).await?;
        let mut all = Vec::new();
        let mut left = vec![(path.clone(), id, None)];
        while !left.is_empty() {
            if cancel() {
                return Err(Error::Interrupted);
            }
            let now: Vec<(NamePath, VertexId, Option<usize>)> =
                left.drain(..left.len().min(DIRECTORY_BATCH)).collect();
            let ids: Vec<VertexId> = now.iter().map(|(_, id, _)| *id).collect();
            let sums: BTreeMap<_, _> = self.sums_of(&ids).await?.into_iter().collect();
            let children = self.children_of(&ids).await?;
            for ((path, id, parent), children) in now.into_iter().zip(children) {
                let mut own = sums.get(&id).map(usage).unwrap_or_default();
                // The directory counts itself, and so do its subdirectories.
                own.directories = 1;
                let index = all.len();
                let open = self.open_children_of(principal, id, children).await?;
                left.extend(
                    open.into_iter()
                        .map(|(name, id)| (path.join(&name), id, Some(index))),
                );
                all.push((path, own, parent));
            }
        }
        Ok(all)
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

    /// Returns the subdirectories that the principal may search, by their entries.
    async fn open_children_of(
        self: &Arc<Self>,
        principal: Option<&Principal>,
        directory: VertexId,
        children: Vec<(VertexId, Name)>,
    ) -> Result<Vec<(Name, VertexId)>> {
        if principal.is_none_or(|a| a.uid == 0) {
            return Ok(children.into_iter().map(|(id, name)| (name, id)).collect());
        }
        let keys = children.iter().map(|(_, name)| {
            let hash = esker_model::namespace::hash_of(name);
            esker_model::namespace::record::dentry_key(directory, hash, 0).to_vec()
        });
        let rows = self.rows_of(keys.collect()).await?;
        let raw: Vec<RawEntry> = rows
            .into_iter()
            .filter_map(|(key, row)| Some((key, row?)))
            .collect();
        let open = self.engine.open_directories(principal, &raw)?;
        let is_child = |id: &VertexId| children.iter().any(|(child, _)| child == id);
        Ok(open.into_iter().filter(|(_, id)| is_child(id)).collect())
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
        self.check_serving()?;
        let id = self.directory_named(None, path, 0).await?;
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

/// A cancellation check that never cancels.
fn never() -> bool {
    false
}

fn usage(sums: &DirectorySums) -> Usage {
    let of = |measure| sums.of(measure).max(0).cast_unsigned();
    Usage {
        files: of(Measure::Files),
        directories: of(Measure::Directories),
        bytes: of(Measure::Bytes),
        blocks: of(Measure::Blocks),
    }
}
