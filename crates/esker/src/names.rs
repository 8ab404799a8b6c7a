//! The namespace, whoever owns the database.

use crate::database::Database;
use crate::remote::{Broken, Receiver};
use crate::session::Session;
use crate::wire::encoding::Wire;
use crate::wire::namespace::Outcome;
use crate::wire::request::Request;
use esker_model::namespace::{
    Change, Changes, Cookie, Done, Entry, Inode, Kind, Looked, NamePath, Namespace, Open,
    Partition, Space, SpaceBy, Usage,
};
use esker_model::object::Asker;
use esker_model::{Cancel, Error, Flow, Result, VertexId};
use esker_rpc::marker::Number;
use std::ops::ControlFlow;
use std::time::Duration;

impl Namespace for Database {
    fn stat(&self, asker: Option<&Asker>, path: &NamePath, follow: bool) -> Result<Inode> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.stat(asker, path, follow)?),
            Session::Attached(r) => {
                r.value(&Request::Stat(asker.cloned(), path.clone(), follow), None)
            }
            Session::Server(c) => Ok(c.stat(asker, path, follow)?),
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
            Session::Server(c) => Ok(c.list(asker, path, after, sink)?),
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
            Session::Server(c) => Ok(c.walk(asker, path, cancel, sink)?),
        })
    }

    /// Through another process or a server they get a marker, so that they are made once and answered as the first time,
    /// whoever goes away meanwhile.
    fn change(&self, asker: Option<&Asker>, changes: &[Change]) -> Result<Vec<Result<Done>>> {
        let mut numbered: Option<(Number, Changes)> = None;
        let answer = self.run(|s| match s {
            Session::Owner(o) => {
                let core = o.operations()?;
                Ok(match &numbered {
                    // They may have been made by the owner before.
                    Some((_, changes)) => core.change_once(changes)?,
                    None => core.change_names(asker, changes)?,
                })
            }
            Session::Attached(r) => {
                if numbered.is_none() {
                    let number = self.next_number()?;
                    let changes = Changes {
                        asker: asker.cloned(),
                        changes: changes.to_vec(),
                        once: Some(number.marker()),
                        again: false,
                    };
                    numbered = Some((number, changes));
                }
                let request = match &numbered {
                    Some((_, changes)) => Request::Change(changes.clone()),
                    None => return Err(Broken::Lost),
                };
                let done: Vec<Outcome> = self.durable(r, r.list(&request))?;
                Ok(done.into_iter().map(|Outcome(o)| o).collect())
            }
            Session::Server(c) => Ok(c.change_with(asker, changes, self.is_sync())?),
        });
        // Whoever is told that it failed may do it anew, and must not find these done too later.
        if let Some((number, _)) = numbered {
            number.settle();
        }
        answer
    }

    fn usage(&self, asker: Option<&Asker>, path: &NamePath, below: bool) -> Result<Usage> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.usage(asker, path, below)?),
            Session::Attached(r) => {
                r.value(&Request::Usage(asker.cloned(), path.clone(), below), None)
            }
            Session::Server(c) => Ok(c.usage(asker, path, below)?),
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
            Session::Server(c) => {
                all.clear();
                Ok(c.usages(asker, path, cancel, &mut |path, usage| {
                    all.push((path.clone(), *usage));
                    ControlFlow::Continue(())
                })?)
            }
        })?;
        let _ = all.iter().try_for_each(|(path, usage)| sink(path, usage));
        Ok(())
    }

    fn look(&self, asker: Option<&Asker>, path: &NamePath, how: Open) -> Result<Looked> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.look(asker, path, how)?),
            Session::Attached(r) => {
                r.value(&Request::Look(asker.cloned(), path.clone(), how), None)
            }
            Session::Server(c) => Ok(c.look(asker, path, how)?),
        })
    }

    fn ids(
        &self,
        asker: Option<&Asker>,
        paths: &[NamePath],
    ) -> Result<Vec<Option<(VertexId, Kind)>>> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.ids(asker, paths)?),
            Session::Attached(r) => r.list(&Request::FileIds(asker.cloned(), paths.to_vec())),
            Session::Server(c) => Ok(c.ids(asker, paths)?),
        })
    }

    fn partitions(&self, path: &NamePath) -> Result<Vec<Partition>> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.partitions(path)?),
            Session::Attached(r) => r.list(&Request::Partitions(path.clone())),
            Session::Server(c) => Ok(c.partitions(path)?),
        })
    }

    fn space(&self, by: SpaceBy) -> Result<Vec<Space>> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.space(by)?),
            Session::Attached(r) => r.list(&Request::Space(by)),
            Session::Server(c) => Ok(c.space(by)?),
        })
    }
}

impl Database {
    /// Whether files lie on several servers.
    pub fn is_cluster(&self) -> Result<bool> {
        self.run(|s| match s {
            Session::Owner(_) | Session::Attached(_) => Ok(false),
            Session::Server(c) => Ok(!c.cluster()?.servers.is_empty()),
        })
    }

    /// Changes files if this process owns the database and nobody writes just now, and does not wait for the disk; `None`
    /// otherwise. For threads that must not wait.
    pub fn change_now(&self, changes: &Changes) -> Option<Result<Vec<Result<Done>>>> {
        match self.session().as_deref() {
            Ok(Session::Owner(owner)) if !self.is_sync() => {
                owner.operations().ok()?.change_now(changes)
            }
            _ => None,
        }
    }

    /// Makes promises from now on that files which are asked for stay as they are for so long at most ([`Self::stat_promised`]).
    /// Only if this process owns the database, and until it is closed, which then takes as long.
    pub fn make_promises(&self, length: Duration) -> Result<()> {
        let millis = u32::try_from(length.as_millis()).unwrap_or(u32::MAX);
        match self.session().as_deref() {
            Ok(Session::Owner(owner)) => owner.engine()?.make_promises(millis),
            _ => Ok(()),
        }
    }

    /// A file's attributes, and for how many milliseconds they stay so: nobody changes them before.
    pub fn stat_promised(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        follow: bool,
    ) -> Result<(Inode, u32)> {
        match self.session().as_deref() {
            Ok(Session::Owner(owner)) => owner.engine()?.stat_promised(asker, path, follow),
            _ => Ok((self.stat(asker, path, follow)?, 0)),
        }
    }

    /// Makes the changes of several callers, in one commit where this process owns the database. The answers are in their
    /// order.
    pub fn change_together(&self, all: &[Changes]) -> Vec<Result<Vec<Result<Done>>>> {
        if let Ok(Session::Owner(owner)) = self.session().as_deref()
            && let Ok(core) = owner.operations()
        {
            return core.change_together(all);
        }
        let one = |changes: &Changes| self.change(changes.asker.as_ref(), &changes.changes);
        all.iter().map(one).collect()
    }
}
