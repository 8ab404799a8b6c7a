//! Open files of a cluster and of one engine beside each other: both do the same through them, whatever their paths lead to by then.

use super::{NamesTold, Newest, Refusal, Seen};
use crate::names::some_path;
use crate::rng::Rng;
use crate::sim::ask::{Ask, Told};
use crate::sim::facade::Facade;
use esker_engine::Engine;
use esker_model::namespace::{
    Call, Change, Changes, Errno, Handle, Inode, Looked, Make, Name, NamePath, Namespace as _,
    Open, OpenFile, SetAttributes, XattrMode,
};
use esker_model::object::Asker;
use esker_model::{Error, Result, VertexId};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// So many are open at most.
const OPEN_MAX: usize = 6;

/// What a program sees of a cluster's files: as much as open files need.
struct Files<'f>(&'f Facade);

impl Files<'_> {
    fn told(&self, call: Call) -> Result<NamesTold> {
        match self.0.ask(&Ask::Names(Box::new(call)))? {
            Told::Names(told) => Ok(told),
            _ => Err(stray()),
        }
    }

    fn stat(&self, asker: &Asker, path: &NamePath) -> Result<Inode> {
        let call = Call::Stat {
            asker: Some(asker.clone()),
            path: path.clone(),
            follow: false,
        };
        match self.told(call)? {
            NamesTold::Inode(inode) => Ok(*inode),
            _ => Err(stray()),
        }
    }

    fn list(&self, asker: &Asker, path: &NamePath) -> Result<BTreeSet<Name>> {
        let call = Call::List {
            asker: Some(asker.clone()),
            path: path.clone(),
            after: None,
            limit: 1_000,
            directories: false,
        };
        match self.told(call)? {
            NamesTold::Page(entries, false) => {
                Ok(entries.into_iter().map(|(_, entry)| entry.name).collect())
            }
            _ => Err(stray()),
        }
    }

    /// What it was done to.
    fn change(&self, asker: &Asker, change: Change) -> Result<VertexId> {
        let call = Call::Change(Changes {
            asker: Some(asker.clone()),
            changes: vec![change],
            once: None,
            again: false,
        });
        let NamesTold::Changed(mut outcomes, Newest(_, last)) = self.told(call)? else {
            return Err(stray());
        };
        match outcomes.pop() {
            Some(Ok(())) => last.ok_or_else(stray),
            Some(Err(Refusal::File(errno))) => Err(errno.at("a change").into()),
            Some(Err(Refusal::Unavailable(why))) => Err(Error::Unavailable(why)),
            Some(Err(Refusal::Other(why))) => Err(Error::Invalid(why)),
            None => Err(stray()),
        }
    }

    fn look(&self, asker: &Asker, path: &NamePath, how: Open) -> Result<Looked> {
        let call = Call::Look {
            asker: Some(asker.clone()),
            path: path.clone(),
            how,
        };
        match self.told(call)? {
            NamesTold::Looked(looked) => Ok(looked),
            _ => Err(stray()),
        }
    }

    /// As `OpenFile::open` does it where nobody else is about.
    fn open(
        &self,
        asker: &Asker,
        path: &NamePath,
        how: Open,
        make: &Make,
    ) -> Result<(NamePath, Inode)> {
        let (directory, place) = match self.look(asker, path, how)? {
            Looked::Found(path, inode) if !how.truncate => return Ok((path, *inode)),
            Looked::Found(path, _) => {
                let set = SetAttributes {
                    size: Some(0),
                    ..SetAttributes::default()
                };
                self.change(asker, set_of(&path, set))?;
                let inode = self.stat(asker, &path)?;
                return Ok((path, inode));
            }
            Looked::Missing { directory, path } => (directory, path),
        };
        let Some((_, name)) = place.split() else {
            return Err(stray());
        };
        let id = self.change(asker, Change::Make(place, make.clone()))?;
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
        match self.look(asker, &handle.path(), how)? {
            Looked::Found(path, inode) => Ok((path, *inode)),
            Looked::Missing { .. } => Err(stray()),
        }
    }
}

fn stray() -> Error {
    Error::Unavailable("an answer to something else".into())
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
    asker: Asker,
    cluster: NamePath,
    model: OpenFile,
}

/// All that are open.
#[derive(Default)]
pub(super) struct Pairs(Vec<Pair>);

/// What came of something, in words that can be compared.
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

impl Pairs {
    /// Opens, closes or uses one.
    pub(super) fn step(
        &mut self,
        rng: &mut Rng,
        (facade, model): (&Facade, &Engine),
        asker: &Asker,
        names: &[&str],
    ) -> Result<(), String> {
        let files = Files(facade);
        if self.0.is_empty() || self.0.len() < OPEN_MAX && rng.percent(35) {
            return self.open(rng, (&files, model), asker, names);
        }
        let which = rng.below(self.0.len());
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
        asker: &Asker,
        names: &[&str],
    ) -> Result<(), String> {
        let at = some_path(rng, names);
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
        let gid = asker.gids.first().map_or(0, |gid| *gid as u32);
        let mode = 0o10_0000 | *rng.pick(&[0o666, 0o600, 0o444, 0]);
        let make = Make::new(mode, asker.uid as u32, gid);
        let got = files.open(asker, &at, how, &make);
        let expected = OpenFile::open(model, Some(asker), &at, how, Some(&make));
        let what = format!("user {} opens {at} ({how:?})", asker.uid);
        match (got, expected) {
            (Ok((cluster, got)), Ok((model, expected))) => {
                let asker = asker.clone();
                self.0.push(Pair {
                    asker,
                    cluster,
                    model,
                });
                same(&what, Ok(Seen::from(&got)), Ok(Seen::from(&expected)))
            }
            (got, expected) => same(&what, got.map(|_| ()), expected.map(|_| ())),
        }
    }

    /// What is open is the same in both.
    pub(super) fn compare(&self, facade: &Facade, model: &Engine) -> Result<(), String> {
        let files = Files(facade);
        self.0.iter().try_for_each(|p| p.compare((&files, model)))
    }
}

impl Pair {
    fn change(&self, rng: &mut Rng, (files, model): (&Files<'_>, &Engine)) -> Result<(), String> {
        let path = self.cluster.clone();
        let change = match rng.below(8) {
            0..=3 => Change::Write {
                path,
                at: rng.percent(50).then(|| rng.below(100) as u64),
                data: vec![b'a' + rng.below(26) as u8; rng.below(20)],
            },
            4 => {
                let size = Some(rng.below(60) as u64);
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
        let got = files.change(&self.asker, change).map(|_| ());
        let expected = model.change(Some(&self.asker), &[expected]);
        let expected = expected.and_then(|mut all| all.remove(0).map(|_| ()));
        same(&what, got, expected)
    }

    /// The same change of the model's file.
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
        let what = format!("user {}, {:?}", self.asker.uid, self.cluster);
        let expected = self.model.stat(model);
        let directory = expected.as_ref().is_ok_and(Inode::is_directory);
        let seen = |inode: Result<Inode>| inode.map(|i| Seen::from(&i));
        same(
            &what,
            seen(files.stat(&self.asker, &self.cluster)),
            seen(expected),
        )?;
        if directory {
            let mut all = BTreeSet::new();
            let listed = self.model.list(model, None, &mut |_, entry| {
                all.insert(entry.name);
                ControlFlow::Continue(())
            });
            let got = files.list(&self.asker, &self.cluster);
            same(&what, got, listed.map(|()| all))?;
        }
        Ok(())
    }
}

/// A file that a client has open, as far as it knows: it has appended so many bytes at least, and so many at most.
#[derive(Debug, Clone)]
pub(super) struct Holding {
    pub(super) path: NamePath,
    pub(super) least: u64,
    pub(super) most: u64,
}

impl Holding {
    /// One that nobody has written to.
    pub(super) fn new(path: NamePath) -> Self {
        Self {
            path,
            least: 0,
            most: 0,
        }
    }

    /// One more byte.
    pub(super) fn append(&self) -> Change {
        Change::Write {
            path: self.path.clone(),
            at: None,
            data: b"x".to_vec(),
        }
    }

    /// What became of it.
    pub(super) fn appended(&mut self, outcome: &super::Outcome) -> Result<(), Errno> {
        match outcome {
            Ok(()) => self.least += 1,
            Err(Refusal::File(errno)) => return Err(*errno),
            Err(_) => {}
        }
        self.most += 1;
        Ok(())
    }

    /// Why what a server says of it cannot be.
    pub(super) fn wrong(&self, told: &Result<Told>) -> Option<String> {
        match told {
            Ok(Told::Names(NamesTold::Inode(inode))) => {
                let same = self.path.handle().is_some_and(|h| h.id == inode.id);
                let size = (self.least..=self.most).contains(&inode.size);
                (!same || !size).then(|| format!("{self:?} is {inode:?}"))
            }
            Err(e) if !matches!(e, Error::File(_)) => None,
            other => Some(format!("{self:?}: {other:?}")),
        }
    }
}
