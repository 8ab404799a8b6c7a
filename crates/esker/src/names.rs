//! The namespace, whoever owns the database.

use crate::database::Database;
use crate::remote::{Broken, Receiver};
use crate::session::Session;
use crate::wire::encoding::Wire;
use crate::wire::namespace::Outcome;
use crate::wire::request::Request;
use esker_model::namespace::{
    Change, Cookie, Done, Entry, Inode, Kind, NamePath, Namespace, Partition, Space, SpaceBy, Usage,
};
use esker_model::object::Asker;
use esker_model::{Cancel, Error, Flow, Result, VertexId};
use std::ops::ControlFlow;

fn not_served() -> Broken {
    Broken::Failed(Error::Unavailable(
        "the namespace is not served over the network yet: use the folder on the server's machine"
            .into(),
    ))
}

impl Namespace for Database {
    fn stat(&self, asker: Option<&Asker>, path: &NamePath, follow: bool) -> Result<Inode> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.stat(asker, path, follow)?),
            Session::Attached(r) => {
                r.value(&Request::Stat(asker.cloned(), path.clone(), follow), None)
            }
            Session::Server(_) => Err(not_served()),
        })
    }

    /// If the owner goes away in the middle, the listing goes on behind the last entry, with the next one.
    fn list(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        let mut after = after;
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.list(asker, path, after, sink)?),
            Session::Attached(r) => {
                let request = Request::List(asker.cloned(), path.clone(), after);
                r.stream(&request, &mut |(cookie, entry): (Cookie, Entry)| {
                    after = Some(cookie);
                    sink(cookie, entry)
                })
            }
            Session::Server(_) => Err(not_served()),
        })
    }

    /// If the owner goes away in the middle, that is an error: where the walk was cannot be told.
    fn walk(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Inode) -> Flow,
    ) -> Result<()> {
        let mut given = false;
        self.run(|s| match s {
            _ if given => Err(Broken::Failed(Error::Unavailable(
                "the process that has the database open ended in the middle of a walk: repeat"
                    .into(),
            ))),
            Session::Owner(o) => Ok(o.engine()?.walk(asker, path, cancel, sink)?),
            Session::Attached(r) => {
                let request = Request::Walk(asker.cloned(), path.clone());
                let receiver = Receiver {
                    item: &mut |r| {
                        let (path, inode) = <(NamePath, Inode)>::take(r)?;
                        given = true;
                        Ok(sink(&path, &inode))
                    },
                    progress: &mut |_| {},
                    cancel: Some(cancel),
                };
                let _: Option<()> = r.call(&request, receiver)?;
                Ok(())
            }
            Session::Server(_) => Err(not_served()),
        })
    }

    /// Through another process that goes away before it answers, it is not known which changes were made, and the error says
    /// so.
    fn change(&self, asker: Option<&Asker>, changes: &[Change]) -> Result<Vec<Result<Done>>> {
        let mut sent = false;
        self.run(|s| match s {
            _ if sent => Err(Broken::Failed(Error::Unavailable(
                "the process that has the database open ended before it answered: look which of the changes are there, and \
                 repeat the others"
                    .into(),
            ))),
            Session::Owner(o) => Ok(o.operations()?.change_names(asker, changes)?),
            Session::Attached(r) => {
                sent = true;
                let request = Request::Change(asker.cloned(), changes.to_vec());
                let done = r.list(&request);
                let done: Vec<Outcome> = self.durable(r, done)?;
                Ok(done.into_iter().map(|Outcome(o)| o).collect())
            }
            Session::Server(_) => Err(not_served()),
        })
    }

    fn usage(&self, asker: Option<&Asker>, path: &NamePath, below: bool) -> Result<Usage> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.usage(asker, path, below)?),
            Session::Attached(r) => {
                r.value(&Request::Usage(asker.cloned(), path.clone(), below), None)
            }
            Session::Server(_) => Err(not_served()),
        })
    }

    fn usages(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Usage) -> Flow,
    ) -> Result<()> {
        let mut all: Vec<(NamePath, Usage)> = Vec::new();
        self.run(|s| match s {
            Session::Owner(o) => {
                all.clear();
                Ok(o.engine()?
                    .usages(asker, path, cancel, &mut |path, usage| {
                        all.push((path.clone(), *usage));
                        ControlFlow::Continue(())
                    })?)
            }
            Session::Attached(r) => {
                all = r.list(&Request::Usages(asker.cloned(), path.clone()))?;
                Ok(())
            }
            Session::Server(_) => Err(not_served()),
        })?;
        let _ = all.iter().try_for_each(|(path, usage)| sink(path, usage));
        Ok(())
    }

    /// Over the network, where the namespace is not served, no path is a file's.
    fn ids(
        &self,
        asker: Option<&Asker>,
        paths: &[NamePath],
    ) -> Result<Vec<Option<(VertexId, Kind)>>> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.ids(asker, paths)?),
            Session::Attached(r) => r.list(&Request::FileIds(asker.cloned(), paths.to_vec())),
            Session::Server(_) => Ok(vec![None; paths.len()]),
        })
    }

    fn partitions(&self, path: &NamePath) -> Result<Vec<Partition>> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.partitions(path)?),
            Session::Attached(r) => r.list(&Request::Partitions(path.clone())),
            Session::Server(_) => Err(not_served()),
        })
    }

    fn space(&self, by: SpaceBy) -> Result<Vec<Space>> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.space(by)?),
            Session::Attached(r) => r.list(&Request::Space(by)),
            Session::Server(_) => Err(not_served()),
        })
    }
}
