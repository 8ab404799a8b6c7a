//! The namespace of a database, for every role of this process.

use crate::database::Database;
use crate::remote::{CallError, Receiver};
use crate::session::Session;
use crate::wire::request::Request;
use esker_model::namespace::{
    AppliedChange, Change, Changes, Cookie, Entry, Inode, Kind, NamePath, Namespace, Open,
    OpenLookup, Partition, Space, SpaceBy, Usage,
};
use esker_model::object::Principal;
use esker_model::wire::Wire as _;
use esker_model::{Cancel, Error, Flow, Result, VertexId};
use esker_process::producer::BatchNumber;
use std::ops::ControlFlow;
use std::time::Duration;

impl Namespace for Database {
    fn stat(&self, principal: Option<&Principal>, path: &NamePath, follow: bool) -> Result<Inode> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.stat(principal, path, follow)?),
            Session::Attached(r) => r.value(
                &Request::Stat(principal.cloned(), path.clone(), follow),
                None,
            ),
            Session::Server(c) => Ok(c.stat(principal, path, follow)?),
        })
    }

    /// If the owner ends during a listing, the listing continues after the last entry with the next owner.
    fn list(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        let mut after = after;
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.list(principal, path, after, sink)?),
            Session::Attached(r) => {
                let request = Request::List(principal.cloned(), path.clone(), after);
                r.stream(&request, &mut |(cookie, entry): (Cookie, Entry)| {
                    after = Some(cookie);
                    sink(cookie, entry)
                })
            }
            Session::Server(c) => Ok(c.list(principal, path, after, sink)?),
        })
    }

    /// If the owner ends during the walk, the walk fails, because its position is unknown.
    fn walk(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Inode) -> Flow,
    ) -> Result<()> {
        let mut given = false;
        self.run(|s| match s {
            _ if given => Err(CallError::Failed(Error::Unavailable(
                "the process that has the database open ended during a traversal: repeat it".into(),
            ))),
            Session::Owner(o) => Ok(o.engine()?.walk(principal, path, cancel, sink)?),
            Session::Attached(r) => {
                let request = Request::Walk(principal.cloned(), path.clone());
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
            Session::Server(c) => Ok(c.walk(principal, path, cancel, sink)?),
        })
    }

    /// Through another process or a server the changes get an idempotency key. They are then applied once, and a repeated
    /// call returns the first result, even if an owner ends in between.
    fn change(
        &self,
        principal: Option<&Principal>,
        changes: &[Change],
    ) -> Result<Vec<Result<AppliedChange>>> {
        let mut numbered: Option<(BatchNumber, Changes)> = None;
        let answer = self.run(|s| match s {
            Session::Owner(o) => {
                let core = o.operations()?;
                Ok(match &numbered {
                    // The previous owner may have applied them already.
                    Some((_, changes)) => core.change_once(changes)?,
                    None => core.change_names(principal, changes)?,
                })
            }
            Session::Attached(r) => {
                if numbered.is_none() {
                    let number = self.next_number()?;
                    let changes = Changes {
                        principal: principal.cloned(),
                        changes: changes.to_vec(),
                        idempotency_key: Some(number.idempotency_key()),
                        is_retry: false,
                    };
                    numbered = Some((number, changes));
                }
                let request = match &numbered {
                    Some((_, changes)) => Request::Change(changes.clone()),
                    None => return Err(CallError::Lost),
                };
                self.durable(r, r.list(&request))
            }
            Session::Server(c) => Ok(c.change_with(principal, changes, self.is_sync())?),
        });
        // A caller that gets an error may repeat the changes; these must not be applied later as well.
        if let Some((number, _)) = numbered {
            number.settle();
        }
        answer
    }

    fn usage(&self, principal: Option<&Principal>, path: &NamePath, below: bool) -> Result<Usage> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.usage(principal, path, below)?),
            Session::Attached(r) => r.value(
                &Request::Usage(principal.cloned(), path.clone(), below),
                None,
            ),
            Session::Server(c) => Ok(c.usage(principal, path, below)?),
        })
    }

    fn usages(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Usage) -> Flow,
    ) -> Result<()> {
        let mut all: Vec<(NamePath, Usage)> = Vec::new();
        self.run(|s| match s {
            Session::Owner(o) => {
                all.clear();
                Ok(o.engine()?
                    .usages(principal, path, cancel, &mut |path, usage| {
                        all.push((path.clone(), *usage));
                        ControlFlow::Continue(())
                    })?)
            }
            Session::Attached(r) => {
                all = r.list(&Request::Usages(principal.cloned(), path.clone()))?;
                Ok(())
            }
            Session::Server(c) => {
                all.clear();
                Ok(c.usages(principal, path, cancel, &mut |path, usage| {
                    all.push((path.clone(), *usage));
                    ControlFlow::Continue(())
                })?)
            }
        })?;
        let _ = all.iter().try_for_each(|(path, usage)| sink(path, usage));
        Ok(())
    }

    fn resolve_open(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        how: Open,
    ) -> Result<OpenLookup> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.resolve_open(principal, path, how)?),
            Session::Attached(r) => {
                r.value(&Request::Look(principal.cloned(), path.clone(), how), None)
            }
            Session::Server(c) => Ok(c.resolve_open(principal, path, how)?),
        })
    }

    fn ids(
        &self,
        principal: Option<&Principal>,
        paths: &[NamePath],
    ) -> Result<Vec<Option<(VertexId, Kind)>>> {
        self.run(|s| match s {
            Session::Owner(o) => Ok(o.engine()?.ids(principal, paths)?),
            Session::Attached(r) => r.list(&Request::FileIds(principal.cloned(), paths.to_vec())),
            Session::Server(c) => Ok(c.ids(principal, paths)?),
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
    /// Whether the files are distributed over several servers.
    pub fn is_cluster(&self) -> Result<bool> {
        self.run(|s| match s {
            Session::Owner(_) | Session::Attached(_) => Ok(false),
            Session::Server(c) => Ok(c.is_cluster()?),
        })
    }

    /// Changes files without blocking: only if this process owns the database, no other write is in progress and the
    /// durability is relaxed. Returns `None` otherwise.
    pub fn try_change(&self, changes: &Changes) -> Option<Result<Vec<Result<AppliedChange>>>> {
        match self.session().as_deref() {
            Ok(Session::Owner(owner)) if !self.is_sync() => {
                owner.operations().ok()?.try_change(changes)
            }
            _ => None,
        }
    }

    /// Starts granting leases of at most `length` on files that are read ([`Self::stat_with_lease`]). Only if this
    /// process owns
    /// the database. Closing the database then waits until the last lease has ended.
    pub fn enable_leases(&self, length: Duration) -> Result<()> {
        let millis = u32::try_from(length.as_millis()).unwrap_or(u32::MAX);
        match self.session().as_deref() {
            Ok(Session::Owner(owner)) => owner.engine()?.enable_leases(millis),
            _ => Ok(()),
        }
    }

    /// Attributes of a file, and the milliseconds for which they are leased: nobody changes them before.
    pub fn stat_with_lease(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        follow: bool,
    ) -> Result<(Inode, u32)> {
        match self.session().as_deref() {
            Ok(Session::Owner(owner)) => owner.engine()?.stat_with_lease(principal, path, follow),
            _ => Ok((self.stat(principal, path, follow)?, 0)),
        }
    }

    /// Makes the changes of several callers, in one commit if this process owns the database. Results are in the order of
    /// the callers.
    pub fn change_all(&self, all: &[Changes]) -> Vec<Result<Vec<Result<AppliedChange>>>> {
        if let Ok(Session::Owner(owner)) = self.session().as_deref()
            && let Ok(core) = owner.operations()
        {
            return core.change_all(all);
        }
        let one = |changes: &Changes| self.change(changes.principal.as_ref(), &changes.changes);
        all.iter().map(one).collect()
    }
}
