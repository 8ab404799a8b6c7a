//! The namespace of a cluster: clients' calls about files, with calls on several directories built from calls on one.

use super::Cluster;
use esker_model::namespace::{
    Answer, AppliedChange, Call, Change, Changes, Cookie, Entry, Inode, Kind, NamePath, Namespace,
    Open, OpenLookup, Partition, Space, SpaceBy, Usage, tree_walk,
};
use esker_model::object::Principal;
use esker_model::{Cancel, Error, Flow, NeverCancel, Result, Version, VertexId};

/// Entries that one call for a page asks for.
const PAGE: usize = 4_096;

impl Cluster {
    /// Makes one call about files, for a client that has seen a version.
    pub(crate) async fn names(&self, call: Call, seen: Version) -> Result<Answer> {
        self.node.names(call, seen).await
    }

    /// Reads a file's attributes with a lease on them.
    pub(crate) fn stat_with_lease(
        &self,
        principal: Option<Principal>,
        path: NamePath,
        follow: bool,
        seen: Version,
    ) -> Result<(Inode, u32)> {
        self.wait(self.node.stat_with_lease(principal, path, follow, seen))
    }
}

/// The files of all servers, for threads that may block.
pub(crate) struct ClusterNames<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) seen: Version,
}

/// Error for an answer to another call.
fn wrong_answer() -> Error {
    Error::OtherRelease("a server answered another request: use the same release on all".into())
}

impl ClusterNames<'_> {
    fn request(&self, call: Call) -> Result<Answer> {
        self.cluster.wait(self.cluster.names(call, self.seen))
    }

    fn usages_of(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
    ) -> Result<Vec<(NamePath, Usage)>> {
        let cancelled = || cancel.cancelled();
        let node = &self.cluster.node;
        self.cluster
            .wait(node.usages_of(principal, path, &cancelled))
    }

    fn pages(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        let mut after = after;
        loop {
            let call = Call::List {
                principal: principal.cloned(),
                path: path.clone(),
                after,
                limit: PAGE,
            };
            let Answer::Page { entries, more } = self.request(call)? else {
                return Err(wrong_answer());
            };
            let before = after;
            for (cookie, entry) in entries {
                after = Some(cookie);
                if sink(cookie, entry).is_break() {
                    return Ok(());
                }
            }
            if !more || after == before {
                return Ok(());
            }
        }
    }
}

impl Namespace for ClusterNames<'_> {
    fn stat(&self, principal: Option<&Principal>, path: &NamePath, follow: bool) -> Result<Inode> {
        let call = Call::Stat {
            principal: principal.cloned(),
            path: path.clone(),
            follow,
        };
        match self.request(call)? {
            Answer::Inode(inode) => Ok(inode),
            _ => Err(wrong_answer()),
        }
    }

    fn list(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        self.pages(principal, path, after, sink)
    }

    fn walk(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Inode) -> Flow,
    ) -> Result<()> {
        tree_walk::walk(self, principal, path, cancel, sink)
    }

    fn change(
        &self,
        principal: Option<&Principal>,
        changes: &[Change],
    ) -> Result<Vec<Result<AppliedChange>>> {
        let changes = Changes {
            principal: principal.cloned(),
            changes: changes.to_vec(),
            idempotency_key: None,
            is_retry: false,
        };
        match self.request(Call::Change(changes))? {
            Answer::Changed(done) => Ok(done),
            _ => Err(wrong_answer()),
        }
    }

    fn usage(&self, principal: Option<&Principal>, path: &NamePath, below: bool) -> Result<Usage> {
        if below && self.stat(principal, path, false)?.is_directory() {
            let all = self.usages_of(principal, path, &NeverCancel)?;
            return Ok(all.first().map(|(_, usage)| *usage).unwrap_or_default());
        }
        let call = Call::Usage {
            principal: principal.cloned(),
            path: path.clone(),
        };
        match self.request(call)? {
            Answer::Usage(usage) => Ok(usage),
            _ => Err(wrong_answer()),
        }
    }

    fn usages(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Usage) -> Flow,
    ) -> Result<()> {
        path.demand_path()?;
        let all = self.usages_of(principal, path, cancel)?;
        let _ = all.iter().try_for_each(|(path, usage)| sink(path, usage));
        Ok(())
    }

    fn resolve_open(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        how: Open,
    ) -> Result<OpenLookup> {
        let call = Call::Look {
            principal: principal.cloned(),
            path: path.clone(),
            how,
        };
        match self.request(call)? {
            Answer::OpenLookup(looked) => Ok(looked),
            _ => Err(wrong_answer()),
        }
    }

    fn space(&self, by: SpaceBy) -> Result<Vec<Space>> {
        match self.request(Call::Space(by))? {
            Answer::Space(space) => Ok(space),
            _ => Err(wrong_answer()),
        }
    }

    fn ids(
        &self,
        principal: Option<&Principal>,
        paths: &[NamePath],
    ) -> Result<Vec<Option<(VertexId, Kind)>>> {
        let call = Call::Ids {
            principal: principal.cloned(),
            paths: paths.to_vec(),
        };
        match self.request(call)? {
            Answer::Ids(ids) => Ok(ids),
            _ => Err(wrong_answer()),
        }
    }

    fn partitions(&self, path: &NamePath) -> Result<Vec<Partition>> {
        match self.request(Call::Partitions(path.clone()))? {
            Answer::Partitions(all) => Ok(all),
            _ => Err(wrong_answer()),
        }
    }
}
