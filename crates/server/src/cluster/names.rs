//! The namespace of a whole cluster: where clients' calls about files arrive, and how those that are about many directories
//! are put together from calls about one.

use super::Cluster;
use esker_model::namespace::{
    Answer, Call, Change, Changes, Cookie, Done, Entry, Inode, Kind, Looked, NamePath, Namespace,
    Open, Partition, Space, SpaceBy, Usage, below,
};
use esker_model::object::Asker;
use esker_model::{Cancel, Error, Flow, NeverCancel, Result, Version, VertexId};
use std::ops::ControlFlow;

/// Entries that one call for a page asks for.
const PAGE: usize = 4_096;

impl Cluster {
    /// One call about files, for a client that has seen that version.
    pub(crate) async fn names(&self, call: Call, seen: Version) -> Result<Answer> {
        self.node.names(call, seen).await
    }

    /// A file's attributes, with a promise that they stay so.
    pub(crate) fn stat_promised(
        &self,
        asker: Option<Asker>,
        path: NamePath,
        follow: bool,
        seen: Version,
    ) -> Result<(Inode, u32)> {
        self.wait(self.node.stat_promised(asker, path, follow, seen))
    }
}

/// Files of all servers, for threads that may wait.
pub(crate) struct ClusterNames<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) seen: Version,
}

/// An answer to another call than was asked.
fn stray() -> Error {
    Error::Unavailable("a server answered another question: use the same release on all".into())
}

impl ClusterNames<'_> {
    fn ask(&self, call: Call) -> Result<Answer> {
        self.cluster.wait(self.cluster.names(call, self.seen))
    }

    fn pages(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        let mut after = after;
        loop {
            let call = Call::List {
                asker: asker.cloned(),
                path: path.clone(),
                after,
                limit: PAGE,
                directories: false,
            };
            let Answer::Page { entries, more } = self.ask(call)? else {
                return Err(stray());
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
    fn stat(&self, asker: Option<&Asker>, path: &NamePath, follow: bool) -> Result<Inode> {
        let call = Call::Stat {
            asker: asker.cloned(),
            path: path.clone(),
            follow,
        };
        match self.ask(call)? {
            Answer::Inode(inode) => Ok(inode),
            _ => Err(stray()),
        }
    }

    fn list(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        self.pages(asker, path, after, sink)
    }

    fn walk(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Inode) -> Flow,
    ) -> Result<()> {
        below::walk(self, asker, path, cancel, sink)
    }

    fn change(&self, asker: Option<&Asker>, changes: &[Change]) -> Result<Vec<Result<Done>>> {
        let changes = Changes {
            asker: asker.cloned(),
            changes: changes.to_vec(),
            once: None,
            again: false,
        };
        match self.ask(Call::Change(changes))? {
            Answer::Changed(done) => Ok(done),
            _ => Err(stray()),
        }
    }

    fn usage(&self, asker: Option<&Asker>, path: &NamePath, below: bool) -> Result<Usage> {
        if below && self.stat(asker, path, false)?.is_directory() {
            let mut sum = None;
            self.usages(asker, path, &NeverCancel, &mut |_, usage| {
                sum.get_or_insert(*usage);
                ControlFlow::Break(())
            })?;
            return sum.ok_or_else(stray);
        }
        let call = Call::Usage {
            asker: asker.cloned(),
            path: path.clone(),
        };
        match self.ask(call)? {
            Answer::Usage(usage) => Ok(usage),
            _ => Err(stray()),
        }
    }

    fn usages(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Usage) -> Flow,
    ) -> Result<()> {
        let node = &self.cluster.node;
        let cancelled = || cancel.cancelled();
        let all = self.cluster.wait(node.usages_of(asker, path, &cancelled))?;
        let _ = all.iter().try_for_each(|(path, usage)| sink(path, usage));
        Ok(())
    }

    fn look(&self, asker: Option<&Asker>, path: &NamePath, how: Open) -> Result<Looked> {
        let call = Call::Look {
            asker: asker.cloned(),
            path: path.clone(),
            how,
        };
        match self.ask(call)? {
            Answer::Looked(looked) => Ok(looked),
            _ => Err(stray()),
        }
    }

    fn space(&self, by: SpaceBy) -> Result<Vec<Space>> {
        match self.ask(Call::Space(by))? {
            Answer::Space(space) => Ok(space),
            _ => Err(stray()),
        }
    }

    fn ids(
        &self,
        asker: Option<&Asker>,
        paths: &[NamePath],
    ) -> Result<Vec<Option<(VertexId, Kind)>>> {
        let call = Call::Ids {
            asker: asker.cloned(),
            paths: paths.to_vec(),
        };
        match self.ask(call)? {
            Answer::Ids(ids) => Ok(ids),
            _ => Err(stray()),
        }
    }

    fn partitions(&self, path: &NamePath) -> Result<Vec<Partition>> {
        match self.ask(Call::Partitions(path.clone()))? {
            Answer::Partitions(all) => Ok(all),
            _ => Err(stray()),
        }
    }
}
