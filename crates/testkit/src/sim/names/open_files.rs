//! Open files of a cluster and of one engine: both must behave equally through them, whatever their paths lead to by then.

use super::{ChangeError, NamespaceResponse, Newest, VisibleInode};
use crate::names::random_path;
use crate::rng::Rng;
use crate::sim::blocking_client::BlockingClient;
use crate::sim::request::{ClientRequest, ClientResponse};
use esker_engine::Engine;
use esker_model::namespace::{
    Call, Change, Changes, Errno, Handle, Inode, Name, NamePath, Namespace as _, NewFile, Open,
    OpenFile, OpenLookup, SetAttributes, XattrMode,
};
use esker_model::object::Principal;
use esker_model::{Error, Result, VertexId};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Largest number of open files.
const OPEN_MAX: usize = 6;

/// Access to a cluster's files, as far as open files need it.
struct Files<'f>(&'f BlockingClient);

impl Files<'_> {
    fn call(&self, call: Call) -> Result<NamespaceResponse> {
        match self.0.call(&ClientRequest::Names(Box::new(call)))? {
            ClientResponse::Names(response) => Ok(response),
            _ => Err(unexpected()),
        }
    }

    fn stat(&self, principal: &Principal, path: &NamePath) -> Result<Inode> {
        let call = Call::Stat {
            principal: Some(principal.clone()),
            path: path.clone(),
            follow: false,
        };
        match self.call(call)? {
            NamespaceResponse::Inode(inode) => Ok(*inode),
            _ => Err(unexpected()),
        }
    }

    fn list(&self, principal: &Principal, path: &NamePath) -> Result<BTreeSet<Name>> {
        let call = Call::List {
            principal: Some(principal.clone()),
            path: path.clone(),
            after: None,
            limit: 1_000,
        };
        match self.call(call)? {
            NamespaceResponse::Page(entries, false) => {
                Ok(entries.into_iter().map(|(_, entry)| entry.name).collect())
            }
            _ => Err(unexpected()),
        }
    }

    /// Applies a change; returns the id that was changed.
    fn change(&self, principal: &Principal, change: Change) -> Result<VertexId> {
        let call = Call::Change(Changes {
            principal: Some(principal.clone()),
            changes: vec![change],
            idempotency_key: None,
            is_retry: false,
        });
        let NamespaceResponse::Changed(mut outcomes, Newest(_, last)) = self.call(call)? else {
            return Err(unexpected());
        };
        match outcomes.pop() {
            Some(Ok(())) => last.ok_or_else(unexpected),
            Some(Err(ChangeError::File(errno))) => Err(errno.at("a change").into()),
            Some(Err(ChangeError::Unavailable(why))) => Err(Error::Unavailable(why)),
            Some(Err(ChangeError::Other(why))) => Err(Error::Invalid(why)),
            None => Err(unexpected()),
        }
    }

    fn resolve_open(
        &self,
        principal: &Principal,
        path: &NamePath,
        how: Open,
    ) -> Result<OpenLookup> {
        let call = Call::Look {
            principal: Some(principal.clone()),
            path: path.clone(),
            how,
        };
        match self.call(call)? {
            NamespaceResponse::OpenLookup(looked) => Ok(looked),
            _ => Err(unexpected()),
        }
    }

    /// Opens a file as `OpenFile::open` does if there are no other clients.
    fn open(
        &self,
        principal: &Principal,
        path: &NamePath,
        how: Open,
        make: &NewFile,
    ) -> Result<(NamePath, Inode)> {
        let (directory, missing) = match self.resolve_open(principal, path, how)? {
            OpenLookup::Found(path, inode) if !how.truncate => return Ok((path, *inode)),
            OpenLookup::Found(path, _) => {
                let set = SetAttributes {
                    size: Some(0),
                    ..SetAttributes::default()
                };
                self.change(principal, set_of(&path, set))?;
                let inode = self.stat(principal, &path)?;
                return Ok((path, inode));
            }
            OpenLookup::Missing { directory, path } => (directory, path),
        };
        let Some((_, name)) = missing.split() else {
            return Err(unexpected());
        };
        let id = self.change(principal, Change::Create(missing, make.clone()))?;
        let handle = Handle {
            id,
            directory,
            name,
            born: 0,
            read: how.read,
            write: how.write,
            seal: Default::default(),
        };
        let how = Open {
            create: false,
            exclusive: false,
            truncate: false,
            ..how
        };
        match self.resolve_open(principal, &handle.path(), how)? {
            OpenLookup::Found(path, inode) => Ok((path, *inode)),
            OpenLookup::Missing { .. } => Err(unexpected()),
        }
    }
}

fn unexpected() -> Error {
    Error::Unavailable("a response of another kind than the request's".into())
}

fn set_of(path: &NamePath, set: SetAttributes) -> Change {
    Change::Set {
        path: path.clone(),
        follow: false,
        set,
    }
}

/// A file that is open in both.
struct Pair {
    principal: Principal,
    cluster: NamePath,
    model: OpenFile,
}

/// All files that are open in both.
#[derive(Default)]
pub(super) struct OpenPairs(Vec<Pair>);

/// A result as text that can be compared.
fn outcome<T>(result: Result<T>) -> Result<T, String> {
    result.map_err(|e| match e {
        Error::File(e) => e.errno.name().to_owned(),
        e => e.to_string(),
    })
}

fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    got: Result<T>,
    expected: Result<T>,
) -> Result<(), String> {
    let (got, expected) = (outcome(got), outcome(expected));
    if got == expected {
        return Ok(());
    }
    Err(format!("{what}: {got:?}, expected {expected:?}"))
}

impl OpenPairs {
    /// Opens, closes or uses one file.
    pub(super) fn step(
        &mut self,
        rng: &mut Rng,
        (client_view, model): (&BlockingClient, &Engine),
        principal: &Principal,
        names: &[&str],
    ) -> Result<(), String> {
        let files = Files(client_view);
        if self.0.is_empty() || self.0.len() < OPEN_MAX && rng.percent(35) {
            return self.open(rng, (&files, model), principal, names);
        }
        let which = rng.number_below(self.0.len());
        if rng.percent(10) {
            self.0.remove(which);
            return Ok(());
        }
        let pair = &self.0[which];
        pair.change(rng, (&files, model))?;
        pair.compare((&files, model))
    }

    fn open(
        &mut self,
        rng: &mut Rng,
        (files, model): (&Files<'_>, &Engine),
        principal: &Principal,
        names: &[&str],
    ) -> Result<(), String> {
        let at = random_path(rng, names);
        let create = rng.percent(50);
        let how = Open {
            create,
            exclusive: create && rng.percent(20),
            no_follow: rng.percent(20),
            ..*rng.pick(&[Open::READ, Open::WRITE, Open::BOTH, Open::BOTH])
        };
        let how = Open {
            truncate: how.write && rng.percent(20),
            ..how
        };
        let gid = principal.gids.first().map_or(0, |gid| *gid as u32);
        let mode = 0o10_0000 | *rng.pick(&[0o666, 0o600, 0o444, 0]);
        let make = NewFile::new(mode, principal.uid as u32, gid);
        let got = files.open(principal, &at, how, &make);
        let expected = OpenFile::open(model, Some(principal), &at, how, Some(&make));
        let what = format!("user {} opens {at} ({how:?})", principal.uid);
        match (got, expected) {
            (Ok((cluster, got)), Ok((model, expected))) => {
                let principal = principal.clone();
                self.0.push(Pair {
                    principal,
                    cluster,
                    model,
                });
                same(
                    &what,
                    Ok(VisibleInode::from(&got)),
                    Ok(VisibleInode::from(&expected)),
                )
            }
            (got, expected) => same(&what, got.map(|_| ()), expected.map(|_| ())),
        }
    }

    /// Compares all open files.
    pub(super) fn compare(
        &self,
        client_view: &BlockingClient,
        model: &Engine,
    ) -> Result<(), String> {
        let files = Files(client_view);
        self.0.iter().try_for_each(|p| p.compare((&files, model)))
    }
}

impl Pair {
    fn change(&self, rng: &mut Rng, (files, model): (&Files<'_>, &Engine)) -> Result<(), String> {
        let path = self.cluster.clone();
        let change = match rng.number_below(8) {
            0..=3 => Change::Write {
                path,
                at: rng.percent(50).then(|| rng.number_below(100) as u64),
                data: vec![b'a' + rng.number_below(26) as u8; rng.number_below(20)],
            },
            4 => {
                let size = Some(rng.number_below(60) as u64);
                let set = SetAttributes {
                    size,
                    ..SetAttributes::default()
                };
                set_of(&path, set)
            }
            5 => {
                let mode = Some(*rng.pick(&[0o777, 0, 0o600, 0o4755]));
                let set = SetAttributes {
                    mode,
                    ..SetAttributes::default()
                };
                set_of(&path, set)
            }
            6 => {
                let gid = Some(*rng.pick(&[1001, 2000, 1002]));
                let set = SetAttributes {
                    gid,
                    ..SetAttributes::default()
                };
                set_of(&path, set)
            }
            _ => Change::Xattr {
                path,
                name: rng
                    .pick(&[b"user.a".to_vec(), b"user.esker.n".to_vec()])
                    .clone(),
                value: rng.percent(70).then(|| b"7".to_vec()),
                mode: XattrMode::Any,
            },
        };
        let what = format!("{change:?}");
        let expected = self.of_model(change.clone());
        let got = files.change(&self.principal, change).map(|_| ());
        let expected = model.change(Some(&self.principal), &[expected]);
        let expected = expected.and_then(|mut all| all.remove(0).map(|_| ()));
        same(&what, got, expected)
    }

    /// The change for the model's file.
    fn of_model(&self, mut change: Change) -> Change {
        match &mut change {
            Change::Write { path, .. } | Change::Set { path, .. } | Change::Xattr { path, .. } => {
                path.clone_from(self.model.path());
            }
            _ => {}
        }
        change
    }

    fn compare(&self, (files, model): (&Files<'_>, &Engine)) -> Result<(), String> {
        let what = format!("user {}, {:?}", self.principal.uid, self.cluster);
        let expected = self.model.stat(model);
        let directory = expected.as_ref().is_ok_and(Inode::is_directory);
        let seen = |inode: Result<Inode>| inode.map(|i| VisibleInode::from(&i));
        same(
            &what,
            seen(files.stat(&self.principal, &self.cluster)),
            seen(expected),
        )?;
        if directory {
            let mut all = BTreeSet::new();
            let listed = self.model.list(model, None, &mut |_, entry| {
                all.insert(entry.name);
                ControlFlow::Continue(())
            });
            let got = files.list(&self.principal, &self.cluster);
            same(&what, got, listed.map(|()| all))?;
        }
        Ok(())
    }
}

/// A file that a client has open: at least `least` and at most `most` bytes were appended.
#[derive(Debug, Clone)]
pub(super) struct OpenFileState {
    pub(super) path: NamePath,
    pub(super) least: u64,
    pub(super) most: u64,
}

impl OpenFileState {
    /// Creates the state of a file that is empty.
    pub(super) fn new(path: NamePath) -> Self {
        Self {
            path,
            least: 0,
            most: 0,
        }
    }

    /// Returns a change that appends one byte.
    pub(super) fn append(&self) -> Change {
        Change::Write {
            path: self.path.clone(),
            at: None,
            data: b"x".to_vec(),
        }
    }

    /// Records the result of an append.
    pub(super) fn appended(&mut self, outcome: &super::Outcome) -> Result<(), Errno> {
        match outcome {
            Ok(()) => self.least += 1,
            Err(ChangeError::File(errno)) => return Err(*errno),
            Err(_) => {}
        }
        self.most += 1;
        Ok(())
    }

    /// Returns a description of the error if a response about the file is impossible.
    pub(super) fn wrong(&self, response: &Result<ClientResponse>) -> Option<String> {
        match response {
            Ok(ClientResponse::Names(NamespaceResponse::Inode(inode))) => {
                let same = self.path.handle().is_some_and(|h| h.id == inode.id);
                let size = (self.least..=self.most).contains(&inode.size);
                (!same || !size).then(|| format!("{self:?} is {inode:?}"))
            }
            Err(e) if !matches!(e, Error::File(_)) => None,
            other => Some(format!("{self:?}: {other:?}")),
        }
    }
}
