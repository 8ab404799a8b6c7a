//! Identity of the peer on the socket, and the requests that it may make.
//!
//! The user of this process and user 0 may make all requests, also for other principals. The owner of the folder, if that
//! is another user, may do the same, except for operations that write files with this process's rights: backups and
//! archiving. If the folder `owner` is open to others (`chmod 755`), other users may read and change files as permission
//! bits allow, always in their own name, which the kernel reports.

use super::core::Core;
use crate::limits::{OTHER_USERS_TRAVEL_BYTES_MAX, OTHER_USERS_TRAVEL_MILLIS_MAX};
use crate::wire::request::Request;
use esker_model::graph_read::{GraphCall, GraphCallAs};
use esker_model::namespace::{Change, Errno, Handle, NamePath, SEAL_BYTES};
use esker_model::object::Principal;
use esker_model::traversal::Budget;
use esker_model::{Error, Result};
use esker_process::user::is_mapped;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The peer of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Identity {
    /// A user who may make all requests.
    Trusted,
    /// The owner of the folder, which this process has open as another user.
    FolderOwner { user: u32 },
    /// Any other user.
    Other {
        principal: Principal,
        /// User who owns the folder.
        owner: u32,
    },
}

/// Value of a line of `/proc/PID/status`.
fn line<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|l| l.strip_prefix(name))
}

/// Supplementary groups of a process, if it still belongs to the user.
fn groups(status: &str, uid: u32) -> Vec<i64> {
    // Real, effective, saved and file-system user id.
    let effective = line(status, "Uid:").and_then(|ids| ids.split_whitespace().nth(1));
    // The process may have ended and its number may have been reused.
    if effective != Some(uid.to_string().as_str()) {
        return Vec::new();
    }
    let groups = line(status, "Groups:").unwrap_or_default();
    groups
        .split_whitespace()
        .filter_map(|g| g.parse().ok())
        .collect()
}

/// Whether other users may enter the folder of the socket, and so may use the socket.
pub(super) fn lets_others_in(folder: &Path) -> bool {
    std::fs::metadata(folder).is_ok_and(|m| m.mode() & 0o011 != 0)
}

/// Whether a user may make all requests to this process.
pub(super) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Limits the budget of a traversal for another user, because it uses this process's memory and time.
fn capped(budget: &mut Budget) {
    let least =
        |slot: &mut Option<u64>, most: u64| *slot = Some(slot.map_or(most, |n| n.min(most)));
    least(&mut budget.bytes, OTHER_USERS_TRAVEL_BYTES_MAX);
    least(&mut budget.millis, OTHER_USERS_TRAVEL_MILLIS_MAX);
}

impl Identity {
    /// Identifies the peer of a connection.
    pub(super) fn of(stream: &UnixStream, core: &Core) -> Result<Self> {
        let failed = |e: std::io::Error| core.folder.failed("asking who attaches to", e);
        let peer = rustix::net::sockopt::socket_peercred(stream).map_err(|e| failed(e.into()))?;
        let uid = peer.uid.as_raw();
        let own = rustix::process::geteuid().as_raw();
        // A user id shared by several users through an id mapping identifies nobody.
        if is_trusted(uid) && is_mapped(uid) {
            return Ok(Self::Trusted);
        }
        if Some(uid) == core.owner && is_mapped(uid) {
            return Ok(Self::FolderOwner { user: uid });
        }
        let owner = core.owner.unwrap_or(own);
        let pid = peer.pid.as_raw_nonzero();
        // If the file cannot be read, the peer has only the group that the kernel reports.
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let first = i64::from(peer.gid.as_raw());
        let mut gids = vec![first];
        gids.extend(groups(&status, uid).into_iter().filter(|g| *g != first));
        let principal = Principal {
            uid: uid.into(),
            gids,
        };
        Ok(Self::Other { principal, owner })
    }

    /// Checks a request and sets its principal to the peer.
    pub(super) fn admit(&self, mut request: Request) -> Result<Request> {
        if *self == Self::Trusted {
            return Ok(request);
        }
        if let Request::Graph(call) | Request::GraphAs(GraphCallAs { call, .. }) = &mut request
            && let GraphCall::Travel(_, budget) = call
        {
            capped(budget);
        }
        if let Self::FolderOwner { user } = self
            && matches!(request, Request::Backup | Request::Compact(_))
        {
            return Err(Error::Target(format!(
                "user {user} owns this database's folder, but user {} has it open, with whose \
                 permissions a backup or an archive would be written: end that process, open the \
                 database yourself, and repeat",
                rustix::process::geteuid().as_raw()
            )));
        }
        let Self::Other { principal, owner } = self else {
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
            | Request::Usages(slot, _)
            | Request::Share(slot, _) => self.put(slot)?,
            Request::Find(find) => self.put(&mut find.principal)?,
            Request::TagWhere(change) => self.put(&mut change.principal)?,
            Request::Change(changes) => self.put(&mut changes.principal)?,
            // The schema is not secret, and `Persist` is sent with each change in mode `sync`.
            Request::Graph(GraphCall::Schema) | Request::Persist => {}
            Request::Graph(call) if call.depends_on_principal() => {
                let call = std::mem::replace(call, GraphCall::Schema);
                let principal = principal.clone();
                return Ok(Request::GraphAs(GraphCallAs { call, principal }));
            }
            Request::GraphAs(read) if read.call.depends_on_principal() => {
                let mut slot = Some(std::mem::take(&mut read.principal));
                self.put(&mut slot)?;
                read.principal = slot.unwrap_or_default();
            }
            _ => {
                return Err(Error::Target(format!(
                    "user {} may read and change files here: everything else is for user {owner}, who owns the database",
                    principal.uid
                )));
            }
        }
        Ok(request)
    }

    /// Refuses open files that were issued to another user; `seal` computes the seal of a handle for a user.
    pub(super) fn admit_open(
        &self,
        request: &Request,
        seal: impl Fn(&Principal, &Handle) -> Result<[u8; SEAL_BYTES]>,
    ) -> Result<()> {
        let Self::Other { principal, .. } = self else {
            return Ok(());
        };
        let paths: Vec<&NamePath> = match request {
            // Reopens a file; the engine checks the permissions.
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
                && seal(principal, &handle)? != handle.seal
            {
                return Err(Errno::Stale
                    .at(format!("{path}: it was opened through another process, which has ended, or by another user; open it again"))
                    .into());
            }
        }
        Ok(())
    }

    /// Sets the principal to the peer with all of its groups; refuses another user. Groups that a caller leaves out count as well: a mode
    /// may permit others what it denies to a group.
    fn put(&self, slot: &mut Option<Principal>) -> Result<()> {
        let Self::Other { principal, owner } = self else {
            return Ok(());
        };
        match slot {
            Some(claimed) if claimed.uid != principal.uid => {
                return Err(Error::Target(format!(
                    "user {} may not ask on behalf of user {}: only user 0 and user {owner}, who owns the database, may; leave out \
                     --as",
                    principal.uid, claimed.uid
                )));
            }
            _ => *slot = Some(principal.clone()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::VertexId;
    use esker_model::namespace::{Changes, Name, Open};

    fn ada() -> Identity {
        Identity::Other {
            principal: Principal {
                uid: 1001,
                gids: vec![1001, 7],
            },
            owner: 5,
        }
    }

    fn own_all() -> Principal {
        Principal {
            uid: 1001,
            gids: vec![1001, 7],
        }
    }

    fn on_behalf(principal: Principal, call: GraphCall) -> Request {
        Request::GraphAs(GraphCallAs { call, principal })
    }

    fn stat(principal: Option<Principal>) -> Request {
        Request::Stat(principal, NamePath::root(), false)
    }

    #[test]
    fn a_handle_is_accepted_only_from_its_user() {
        let handle = Handle {
            id: VertexId([1; 16]),
            directory: VertexId([2; 16]),
            name: Name::new(b"x").unwrap(),
            born: 0,
            read: true,
            write: false,
            seal: [0; SEAL_BYTES],
        };
        let seal = |principal: &Principal, handle: &Handle| {
            let mut seal = [handle
                .sealed_bytes()
                .iter()
                .fold(1_u8, |a, b| a.wrapping_add(*b)); SEAL_BYTES];
            seal[0] = principal.uid as u8;
            Ok(seal)
        };
        let own = |uid| Principal {
            uid,
            gids: Vec::new(),
        };
        let sealed = |principal: &Principal| Handle {
            seal: seal(principal, &handle).unwrap(),
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
    fn the_kernel_reports_the_principal() {
        let Identity::Other { principal, .. } = ada() else {
            panic!("somebody else")
        };
        assert_eq!(
            ada().admit(stat(None)).unwrap(),
            stat(Some(principal.clone()))
        );
        // Neither a group of others nor the lack of an own one changes anything.
        for gids in [vec![0, 7], vec![7], Vec::new()] {
            let claimed = Principal { uid: 1001, gids };
            assert_eq!(
                ada().admit(stat(Some(claimed))).unwrap(),
                stat(Some(own_all()))
            );
        }
        let changes = ada().admit(Request::Change(Changes::default())).unwrap();
        assert_eq!(
            changes,
            Request::Change(Changes {
                principal: Some(principal),
                ..Changes::default()
            })
        );
        // The graph is read with the peer's visibility, and no other request passes as a graph read.
        let counts = on_behalf(own_all(), GraphCall::Counts);
        let bare = Request::Graph(GraphCall::Counts);
        assert_eq!(ada().admit(bare).unwrap(), counts);
        assert_eq!(ada().admit(counts.clone()).unwrap(), counts);
        let schema = Request::Graph(GraphCall::Schema);
        assert_eq!(ada().admit(schema.clone()).unwrap(), schema);
        let root = Principal::default();
        for (request, claimed) in [
            (stat(Some(root.clone())), "on behalf of user 0"),
            (Request::Stats, "for user 5"),
            (on_behalf(root, GraphCall::Counts), "on behalf of user 0"),
            (Request::Graph(GraphCall::Applied(vec![1])), "for user 5"),
            (
                Request::Space(esker_model::namespace::SpaceBy::User),
                "for user 5",
            ),
        ] {
            let refused = ada().admit(request.clone()).unwrap_err().to_string();
            assert!(refused.contains(claimed), "{refused}");
            assert_eq!(Identity::Trusted.admit(request.clone()).unwrap(), request);
        }
    }

    /// The owner of the folder may read all data, and may not make this process write files elsewhere.
    #[test]
    fn the_folder_s_owner_names_no_paths() {
        let owner = Identity::FolderOwner { user: 1001 };
        let passes = |request: Request| assert_eq!(owner.admit(request.clone()).unwrap(), request);
        passes(Request::Stats);
        passes(stat(Some(Principal::default())));
        passes(Request::Apply(esker_model::Batch::new()));
        for request in [Request::Backup, Request::Compact(None)] {
            let refused = owner.admit(request.clone()).unwrap_err().to_string();
            assert!(
                refused.contains("user 1001 owns this database's folder"),
                "{refused}"
            );
            assert_eq!(Identity::Trusted.admit(request.clone()).unwrap(), request);
        }
    }

    #[test]
    fn traversals_of_others_have_a_budget() {
        let traversal = esker_model::Traversal::parse("v(\"user:1\")").unwrap();
        let call = |budget: Budget| GraphCall::Travel(traversal.clone(), budget);
        let asks = |budget: Budget| Request::Graph(call(budget));
        let budget = |bytes, millis| Budget {
            bytes,
            millis,
            ..Budget::default()
        };
        let most = budget(
            Some(OTHER_USERS_TRAVEL_BYTES_MAX),
            Some(OTHER_USERS_TRAVEL_MILLIS_MAX),
        );
        let small = budget(Some(7), Some(8));
        for (asked, given) in [
            (budget(None, None), most),
            (budget(Some(u64::MAX), Some(u64::MAX)), most),
            (small, small),
        ] {
            let as_ada = on_behalf(own_all(), call(given));
            assert_eq!(ada().admit(asks(asked)).unwrap(), as_ada);
            let in_their_name = on_behalf(own_all(), call(asked));
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
