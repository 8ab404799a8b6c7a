//! Who is at the other end of the socket, and what they may ask.
//!
//! Whoever has the database open, and user 0, may ask for everything, also on behalf of others. So may whoever owns the folder
//! if that is another user, except for what this process would do to files by its own rights: backups, and what goes to the
//! archive. If the folder `owner` in it lets others in (`chmod 755`), they may read, and change files, as the permission bits let them: in
//! their own name, which the kernel says, whatever they say.

use super::core::Core;
use crate::limits::{OTHERS_TRAVEL_BYTES_MAX, OTHERS_TRAVEL_MILLIS_MAX};
use crate::wire::request::Request;
use esker_model::namespace::{Change, Errno, Handle, NamePath, SEAL_BYTES};
use esker_model::object::Asker;
use esker_model::traversal::Budget;
use esker_model::{Error, Result};
use esker_rpc::peer::is_mapped;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Identity {
    /// Somebody who may do everything.
    Trusted,
    /// Whoever owns the folder, which this process has open as another user.
    FolderOwner { user: u32 },
    /// Somebody else.
    Other {
        asker: Asker,
        /// Whose the folder is.
        owner: u32,
    },
}

/// What a line of `/proc/PID/status` says.
fn line<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|l| l.strip_prefix(name))
}

/// The groups of a process beside its first, if it is that user's.
fn groups(status: &str, uid: u32) -> Vec<i64> {
    // Real, effective, saved, of the file system.
    let effective = line(status, "Uid:").and_then(|ids| ids.split_whitespace().nth(1));
    // The process may have ended, and another one have its number.
    if effective != Some(uid.to_string().as_str()) {
        return Vec::new();
    }
    let groups = line(status, "Groups:").unwrap_or_default();
    groups
        .split_whitespace()
        .filter_map(|g| g.parse().ok())
        .collect()
}

/// Whether the folder of the socket lets others in, so that the socket is to do so, too.
pub(super) fn lets_others_in(folder: &Path) -> bool {
    std::fs::metadata(folder).is_ok_and(|m| m.mode() & 0o011 != 0)
}

/// Whether a user may ask this process for whatever it can do.
pub(super) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// A budget as somebody else's traversal may have it: it is this process's memory and time.
fn capped(budget: &mut Budget) {
    let least =
        |slot: &mut Option<u64>, most: u64| *slot = Some(slot.map_or(most, |n| n.min(most)));
    least(&mut budget.bytes, OTHERS_TRAVEL_BYTES_MAX);
    least(&mut budget.millis, OTHERS_TRAVEL_MILLIS_MAX);
}

impl Identity {
    /// Who is at the other end.
    pub(super) fn of(stream: &UnixStream, core: &Core) -> Result<Self> {
        let failed = |e: std::io::Error| core.folder.failed("asking who attaches to", e);
        let peer = rustix::net::sockopt::socket_peercred(stream).map_err(|e| failed(e.into()))?;
        let uid = peer.uid.as_raw();
        let own = rustix::process::geteuid().as_raw();
        // A number that several users are shown with says nothing.
        if is_trusted(uid) && is_mapped(uid) {
            return Ok(Self::Trusted);
        }
        if Some(uid) == core.owner && is_mapped(uid) {
            return Ok(Self::FolderOwner { user: uid });
        }
        let owner = core.owner.unwrap_or(own);
        let pid = peer.pid.as_raw_nonzero();
        // Without it, they are in the group that the kernel names.
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let first = i64::from(peer.gid.as_raw());
        let mut gids = vec![first];
        gids.extend(groups(&status, uid).into_iter().filter(|g| *g != first));
        let asker = Asker {
            uid: uid.into(),
            gids,
        };
        Ok(Self::Other { asker, owner })
    }

    /// A request as it is to be answered: in the name of whoever sends it.
    pub(super) fn admit(&self, mut request: Request) -> Result<Request> {
        if *self == Self::Trusted {
            return Ok(request);
        }
        let asked = match &mut request {
            Request::As(_, inner) => &mut **inner,
            other => other,
        };
        if let Request::Travel(_, budget) = asked {
            capped(budget);
        }
        if let Self::FolderOwner { user } = self
            && matches!(asked, Request::Backup | Request::Compact(_))
        {
            return Err(Error::Target(format!(
                "user {user} owns this database's folder, but user {} has it open, by whose rights a backup or an archive would be \
                 written: end that process, open the database yourself, and repeat",
                rustix::process::geteuid().as_raw()
            )));
        }
        let Self::Other { asker, owner } = self else {
            return Ok(request);
        };
        match &mut request {
            Request::ReadObjects(_, slot)
            | Request::Tags(slot)
            | Request::FileIds(slot, _)
            | Request::Stat(slot, ..)
            | Request::Look(slot, ..)
            | Request::List(slot, ..)
            | Request::Walk(slot, _)
            | Request::Usage(slot, ..)
            | Request::Usages(slot, _) => self.put(slot)?,
            Request::Find(find) => self.put(&mut find.asker)?,
            Request::TagWhere(change) => self.put(&mut change.asker)?,
            Request::Change(changes) => self.put(&mut changes.asker)?,
            // What types there are is no secret; and that is asked for with each change in mode `sync`.
            Request::Schema | Request::Persist => {}
            Request::As(said, inner) => {
                let mut slot = Some(std::mem::take(said));
                self.put(&mut slot)?;
                let inner = std::mem::replace(&mut **inner, Request::Schema);
                return if reads_the_graph(&inner) {
                    Ok(Request::As(slot.unwrap_or_default(), Box::new(inner)))
                } else {
                    self.admit(inner)
                };
            }
            read if reads_the_graph(read) => {
                return Ok(Request::As(asker.clone(), Box::new(request)));
            }
            _ => {
                return Err(Error::Target(format!(
                    "user {} may read here, and change files: the rest is for user {owner}, who owns the database",
                    asker.uid
                )));
            }
        }
        Ok(request)
    }

    /// Refuses open files that were not given to whoever sends them: `seal` makes the seal of one for a user.
    pub(super) fn admit_open(
        &self,
        request: &Request,
        seal: impl Fn(&Asker, &Handle) -> Result<[u8; SEAL_BYTES]>,
    ) -> Result<()> {
        let Self::Other { asker, .. } = self else {
            return Ok(());
        };
        let paths: Vec<&NamePath> = match request {
            // Opened anew, by who owns it: that is looked at there.
            Request::Look(..) => return Ok(()),
            Request::Stat(_, path, _)
            | Request::List(_, path, _)
            | Request::Walk(_, path)
            | Request::Usage(_, path, _)
            | Request::Usages(_, path) => vec![path],
            Request::FileIds(_, paths) => paths.iter().collect(),
            Request::Change(changes) => changes.changes.iter().map(Change::path).collect(),
            _ => Vec::new(),
        };
        for path in paths {
            if let Some(handle) = path.handle()
                && seal(asker, &handle)? != handle.seal
            {
                return Err(Errno::Stale
                    .at(format!("{path}: it was opened through another process, which has ended, or by another user; open it again"))
                    .into());
            }
        }
        Ok(())
    }

    /// Whoever says nothing, or who they are, is who they are.
    fn put(&self, slot: &mut Option<Asker>) -> Result<()> {
        let Self::Other { asker, owner } = self else {
            return Ok(());
        };
        match slot {
            None => *slot = Some(asker.clone()),
            // Fewer groups than they are in they may say.
            Some(said) if said.uid == asker.uid => said.gids.retain(|g| asker.gids.contains(g)),
            Some(said) => {
                return Err(Error::Target(format!(
                    "user {} may not ask on behalf of user {}: only user 0 and user {owner}, who owns the database, may; leave out \
                     --as",
                    asker.uid, said.uid
                )));
            }
        }
        Ok(())
    }
}

/// Whether a request is answered as somebody sees the graph ([`crate::engine::View`]).
fn reads_the_graph(request: &Request) -> bool {
    matches!(
        request,
        Request::ReadVertices(..)
            | Request::ReadEdges(..)
            | Request::ScanEdges(..)
            | Request::ScanVertices(..)
            | Request::VertexHistory(..)
            | Request::EdgeHistory(..)
            | Request::Degrees(..)
            | Request::TopDegrees(..)
            | Request::Counts
            | Request::Diff(..)
            | Request::Travel(..)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::VertexId;
    use esker_model::namespace::{Changes, Name, Open};

    fn ada() -> Identity {
        Identity::Other {
            asker: Asker {
                uid: 1001,
                gids: vec![1001, 7],
            },
            owner: 5,
        }
    }

    fn own_all() -> Asker {
        Asker {
            uid: 1001,
            gids: vec![1001, 7],
        }
    }

    fn stat(asker: Option<Asker>) -> Request {
        Request::Stat(asker, NamePath::root(), false)
    }

    #[test]
    fn an_open_file_is_whose_it_is() {
        let handle = Handle {
            id: VertexId([1; 16]),
            directory: VertexId([2; 16]),
            name: Name::new(b"x").unwrap(),
            born: 0,
            read: true,
            write: false,
            seal: [0; SEAL_BYTES],
        };
        let seal = |asker: &Asker, handle: &Handle| {
            let mut seal = [handle
                .sealed_bytes()
                .iter()
                .fold(1_u8, |a, b| a.wrapping_add(*b)); SEAL_BYTES];
            seal[0] = asker.uid as u8;
            Ok(seal)
        };
        let own = |uid| Asker {
            uid,
            gids: Vec::new(),
        };
        let sealed = |asker: &Asker| Handle {
            seal: seal(asker, &handle).unwrap(),
            ..handle.clone()
        };
        let asks = |handle: &Handle| Request::Stat(None, handle.path(), false);
        let changes = |handle: &Handle| {
            let change = Change::Write {
                path: handle.path(),
                at: None,
                data: Vec::new(),
            };
            Request::Change(Changes {
                changes: vec![change],
                ..Changes::default()
            })
        };
        for request in [asks, changes] {
            assert!(
                ada()
                    .admit_open(&request(&sealed(&own(1001))), seal)
                    .is_ok()
            );
            for other in [
                sealed(&own(1002)),
                handle.clone(),
                Handle {
                    write: true,
                    ..sealed(&own(1001))
                },
            ] {
                let refused = ada().admit_open(&request(&other), seal).unwrap_err();
                assert!(matches!(refused, Error::File(e) if e.errno == Errno::Stale));
                assert!(Identity::Trusted.admit_open(&request(&other), seal).is_ok());
            }
        }
        let look = Request::Look(None, handle.path(), Open::READ);
        assert!(ada().admit_open(&look, seal).is_ok());
    }

    #[test]
    fn the_kernel_says_who_asks() {
        let Identity::Other { asker, .. } = ada() else {
            panic!("somebody else")
        };
        assert_eq!(ada().admit(stat(None)).unwrap(), stat(Some(asker.clone())));
        // Groups that they are not in do not become theirs.
        let said = Asker {
            uid: 1001,
            gids: vec![0, 7],
        };
        let own = Asker {
            uid: 1001,
            gids: vec![7],
        };
        assert_eq!(ada().admit(stat(Some(said))).unwrap(), stat(Some(own)));
        let changes = ada().admit(Request::Change(Changes::default())).unwrap();
        assert_eq!(
            changes,
            Request::Change(Changes {
                asker: Some(asker),
                ..Changes::default()
            })
        );
        // The graph is read as they see it, and nothing else goes in by that door.
        let counts = Request::As(own_all(), Box::new(Request::Counts));
        assert_eq!(ada().admit(Request::Counts).unwrap(), counts);
        assert_eq!(ada().admit(counts.clone()).unwrap(), counts);
        let inner = Request::As(own_all(), Box::new(stat(None)));
        assert_eq!(ada().admit(inner).unwrap(), stat(Some(own_all())));
        assert!(
            ada()
                .admit(Request::As(own_all(), Box::new(Request::Stats)))
                .is_err()
        );
        let root = Asker::default();
        for (request, said) in [
            (stat(Some(root.clone())), "on behalf of user 0"),
            (Request::Stats, "for user 5"),
            (
                Request::As(root, Box::new(Request::Counts)),
                "on behalf of user 0",
            ),
            (
                Request::Space(esker_model::namespace::SpaceBy::User),
                "for user 5",
            ),
        ] {
            let refused = ada().admit(request.clone()).unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
            assert_eq!(Identity::Trusted.admit(request.clone()).unwrap(), request);
        }
    }

    /// Who owns the folder may ask for its data, and not for what this process does to files elsewhere.
    #[test]
    fn the_folder_s_owner_names_no_paths() {
        let owner = Identity::FolderOwner { user: 1001 };
        let passes = |request: Request| assert_eq!(owner.admit(request.clone()).unwrap(), request);
        passes(Request::Stats);
        passes(stat(Some(Asker::default())));
        passes(Request::Apply(esker_model::Batch::new()));
        for request in [Request::Backup, Request::Compact(None)] {
            let refused = owner.admit(request.clone()).unwrap_err().to_string();
            assert!(
                refused.contains("user 1001 owns this database's folder"),
                "{refused}"
            );
            assert_eq!(Identity::Trusted.admit(request.clone()).unwrap(), request);
            let for_ada = Request::As(own_all(), Box::new(request));
            assert!(owner.admit(for_ada).is_err());
        }
    }

    #[test]
    fn traversals_of_others_have_a_budget() {
        let traversal = esker_model::Traversal::parse("v(\"user:1\")").unwrap();
        let asks = |budget: Budget| Request::Travel(traversal.clone(), budget);
        let budget = |bytes, millis| Budget {
            bytes,
            millis,
            ..Budget::default()
        };
        let most = budget(
            Some(OTHERS_TRAVEL_BYTES_MAX),
            Some(OTHERS_TRAVEL_MILLIS_MAX),
        );
        let small = budget(Some(7), Some(8));
        for (asked, given) in [
            (budget(None, None), most),
            (budget(Some(u64::MAX), Some(u64::MAX)), most),
            (small, small),
        ] {
            let as_ada = Request::As(own_all(), Box::new(asks(given)));
            assert_eq!(ada().admit(asks(asked)).unwrap(), as_ada);
            let in_their_name = Request::As(own_all(), Box::new(asks(asked)));
            assert_eq!(ada().admit(in_their_name).unwrap(), as_ada);
            let owner = Identity::FolderOwner { user: 1001 };
            assert_eq!(owner.admit(asks(asked)).unwrap(), asks(given));
            assert_eq!(Identity::Trusted.admit(asks(asked)).unwrap(), asks(asked));
        }
    }

    #[test]
    fn groups_are_those_of_the_process() {
        let status = "Name:\tx\nUid:\t1\t1001\t3\t4\nGroups:\t7 8 \n";
        assert_eq!(groups(status, 1001), [7, 8]);
        assert!(groups(status, 1).is_empty());
        assert!(groups("", 1001).is_empty());
    }
}
