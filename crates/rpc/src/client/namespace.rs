//! The namespace over the network.

use super::graph::{LONG, SHORT, cancellable, each, expected, extend};
use super::lease_cache::{CacheKey, LeaseCache, Lookup};
use super::route::Destination;
use super::{CallError, Client};
use crate::convert;
use crate::proto;
use crate::proto::reply::Reply;
use crate::proto::request::Call;
use esker_model::namespace::{
    AppliedChange, Change, Changes, Cookie, Entry, Inode, Kind, NamePath, Namespace, Open,
    OpenLookup, PATH_BYTES_MAX, Partition, Space, SpaceBy, Usage,
};
use esker_model::object::Principal;
use esker_model::{Cancel, Error, Flow, Result, Version, VertexId};
use std::time::Instant;

/// Maximum of paths in one call.
const PATHS_MAX: usize = 4_096;

impl Client {
    /// Changes files; with `sync`, the changes survive a power failure before this returns. The changes get an
    /// idempotency key, so
    /// that they are made once however often they are sent, and a repeated call returns the first result.
    ///
    /// In a cluster, they are sent to the server of the first changed entry, if it is known. Many independent changes
    /// are sent to
    /// all their servers in parallel.
    pub fn change_with(
        &self,
        principal: Option<&Principal>,
        changes: &[Change],
        sync: bool,
    ) -> Result<Vec<Result<AppliedChange>>> {
        if let Some(parts) = self.divide(changes) {
            return self.change_divided(principal, changes, parts, sync);
        }
        let way = changes.first().map(|c| self.destination_of_path(c.path()));
        let Some(Destination::To(other)) = way else {
            return self.change_through(self, principal, changes, sync);
        };
        let outcomes = self.change_through(&other, principal, changes, sync);
        self.record_version(Version(other.newest()));
        outcomes
    }

    /// Changes files through the client of another server.
    fn change_through(
        &self,
        client: &Self,
        principal: Option<&Principal>,
        changes: &[Change],
        sync: bool,
    ) -> Result<Vec<Result<AppliedChange>>> {
        let number = client.shared.producer.next(client.server_millis())?;
        let changes = Changes {
            principal: principal.cloned(),
            changes: changes.to_vec(),
            idempotency_key: Some(number.idempotency_key()),
            is_retry: false,
        };
        let outcomes = self.change_marked_through(client, &changes, sync);
        // A caller that gets an error may repeat the changes; these must not be applied later as well.
        number.settle();
        outcomes
    }

    /// Changes files with the caller's idempotency key, on this client's server.
    pub fn change_marked(
        &self,
        changes: &Changes,
        sync: bool,
    ) -> Result<Vec<Result<AppliedChange>>> {
        self.change_marked_through(self, changes, sync)
    }

    /// Changes files with the caller's idempotency key, through the client of another server.
    pub(super) fn change_marked_through(
        &self,
        client: &Self,
        changes: &Changes,
        sync: bool,
    ) -> Result<Vec<Result<AppliedChange>>> {
        let call = Call::ChangeFiles(self.changes_request(changes, sync));
        let outcomes: Vec<Result<AppliedChange>> =
            client.collect(call, SHORT, |all, reply| self.take_changed(all, reply))?;
        let outcomes = self.check_count(outcomes, changes.changes.len())?;
        let newest = outcomes.iter().flatten().map(|done| done.version).max();
        client.record_version(newest.unwrap_or(Version::ZERO));
        Ok(outcomes)
    }

    pub(super) fn changes_request(
        &self,
        changes: &Changes,
        sync: bool,
    ) -> proto::ChangeFilesRequest {
        proto::ChangeFilesRequest {
            routes: self.wants_routes(),
            ..convert::changes_out(changes, sync)
        }
    }

    /// Adds a piece of the response; false if the reply is of another kind.
    pub(super) fn take_changed(
        &self,
        all: &mut Vec<Result<AppliedChange>>,
        reply: Reply,
    ) -> Result<bool> {
        let Reply::ChangeFiles(piece) = reply else {
            return Ok(false);
        };
        self.learn(piece.routes)?;
        extend(all, piece.outcomes, convert::outcome_in)
    }

    fn stat_through(
        &self,
        client: &Self,
        principal: Option<&Principal>,
        path: &NamePath,
        (follow, lease): (bool, bool),
    ) -> Result<(Inode, u32)> {
        let call = Call::StatFile(proto::StatFileRequest {
            principal: convert::principal_out(principal),
            path: convert::path_out(path),
            follow,
            routes: self.wants_routes(),
            lease,
            watcher: 0,
        });
        client.value(call, SHORT, |reply| match reply {
            Reply::StatFile(reply) => {
                self.learn(reply.routes)?;
                Ok(Some((convert::inode_in(reply.inode)?, reply.lease_ms)))
            }
            _ => Ok(None),
        })
    }

    /// Number of file lookups answered from leases, and of those sent to a server.
    pub fn lease_cache_counts(&self) -> (u64, u64) {
        self.shared
            .lease_cache
            .as_ref()
            .map_or((0, 0), LeaseCache::figures)
    }

    fn lost_in_a_walk(&self) -> CallError {
        CallError::Failed(Error::Unavailable(format!(
            "the connection to {} was lost during a traversal: repeat it",
            self.shared.address.authority()
        )))
    }
}

impl Namespace for Client {
    /// Answered locally while a lease on the attributes is valid.
    fn stat(&self, principal: Option<&Principal>, path: &NamePath, follow: bool) -> Result<Inode> {
        let Some(cache) = self
            .shared
            .lease_cache
            .as_ref()
            .filter(|_| !path.is_handle() && path.as_bytes().len() <= PATH_BYTES_MAX)
        else {
            return Ok(self.stat_through(self, principal, path, (follow, false))?.0);
        };
        let key = CacheKey::new(principal, path, follow);
        let lease = match cache.lookup(&key) {
            Lookup::Hit(inode) => return Ok(inode),
            Lookup::Miss { lease } => lease,
        };
        let sent = Instant::now();
        let (inode, millis) = match self.destination_of_path(path) {
            Destination::Own => self.stat_through(self, principal, path, (follow, lease))?,
            Destination::To(other) => {
                self.stat_through(&other, principal, path, (follow, lease))?
            }
        };
        cache.insert(&key, sent, millis, &inode);
        Ok(inode)
    }

    /// If the connection is lost, the listing continues after the last entry.
    fn list(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        let mut after = after;
        self.run(None, |connection| {
            let request = proto::Request {
                call: Some(Call::ListFiles(proto::ListFilesRequest {
                    principal: convert::principal_out(principal),
                    path: convert::path_out(path),
                    after: after.map(convert::cookie_out),
                    limit: 0,
                    watcher: 0,
                })),
            };
            self.exchange(connection, &request, LONG, &mut |reply| {
                let Reply::ListFiles(piece) = reply else {
                    return Err(self.wrong_reply());
                };
                each(piece.entries, convert::entry_in, |(cookie, entry)| {
                    after = Some(cookie);
                    sink(cookie, entry)
                })
            })
        })
    }

    /// If the connection is lost, the walk fails, because its position is unknown.
    fn walk(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Inode) -> Flow,
    ) -> Result<()> {
        let request = proto::Request {
            call: Some(Call::WalkFiles(proto::WalkFilesRequest {
                principal: convert::principal_out(principal),
                path: convert::path_out(path),
            })),
        };
        let mut given = false;
        self.run(Some(cancel), |connection| {
            if given {
                return Err(self.lost_in_a_walk());
            }
            self.exchange(connection, &request, cancellable(cancel), &mut |reply| {
                let Reply::WalkFiles(piece) = reply else {
                    return Err(self.wrong_reply());
                };
                given |= !piece.files.is_empty();
                each(piece.files, convert::walked_in, |(path, inode)| {
                    sink(&path, &inode)
                })
            })
        })
    }

    fn change(
        &self,
        principal: Option<&Principal>,
        changes: &[Change],
    ) -> Result<Vec<Result<AppliedChange>>> {
        self.change_with(principal, changes, false)
    }

    fn usage(&self, principal: Option<&Principal>, path: &NamePath, below: bool) -> Result<Usage> {
        let call = Call::Usage(proto::UsageRequest {
            principal: convert::principal_out(principal),
            path: convert::path_out(path),
            include_subtrees: below,
        });
        self.value(call, LONG, |reply| {
            Ok(expected!(reply, Usage, reply => Some(convert::usage_in(reply.usage)?)))
        })
    }

    fn usages(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Usage) -> Flow,
    ) -> Result<()> {
        let call = Call::Usages(proto::UsagesRequest {
            principal: convert::principal_out(principal),
            path: convert::path_out(path),
        });
        // All results are collected before the first is delivered, because the call may be repeated.
        let all: Vec<_> = self.collect(call, cancellable(cancel), |all, reply| {
            expected!(reply, Usages, piece => extend(all, piece.directories, convert::directory_usage_in))
        })?;
        let _ = all.iter().try_for_each(|(path, usage)| sink(path, usage));
        Ok(())
    }

    fn space(&self, by: SpaceBy) -> Result<Vec<Space>> {
        let by = convert::space_by_out(by).into();
        let call = Call::Space(proto::SpaceRequest { by });
        self.collect(
            call,
            LONG,
            |all, reply| expected!(reply, Space, piece => extend(all, piece.rows, convert::space_in)),
        )
    }

    fn resolve_open(
        &self,
        principal: Option<&Principal>,
        path: &NamePath,
        how: Open,
    ) -> Result<OpenLookup> {
        let call = Call::LookFile(proto::LookFileRequest {
            principal: convert::principal_out(principal),
            path: convert::path_out(path),
            how: how.bits().into(),
        });
        self.value(call, SHORT, |reply| {
            Ok(expected!(reply, LookFile, reply => Some(convert::looked_in(reply)?)))
        })
    }

    fn ids(
        &self,
        principal: Option<&Principal>,
        paths: &[NamePath],
    ) -> Result<Vec<Option<(VertexId, Kind)>>> {
        let mut found = Vec::with_capacity(paths.len());
        for piece in paths.chunks(PATHS_MAX) {
            let call = Call::FileIds(proto::FileIdsRequest {
                principal: convert::principal_out(principal),
                paths: piece.iter().map(convert::path_out).collect(),
            });
            let ids = self.collect(call, SHORT, |all, reply| {
                expected!(reply, FileIds, piece => extend(all, piece.items, convert::at_path_in))
            })?;
            found.extend(self.check_count(ids, piece.len())?);
        }
        Ok(found)
    }

    fn partitions(&self, path: &NamePath) -> Result<Vec<Partition>> {
        let path = convert::path_out(path);
        let call = Call::Partitions(proto::PartitionsRequest { path });
        self.collect(call, LONG, |all, reply| {
            expected!(reply, Partitions, piece => extend(all, piece.partitions, convert::partition_in))
        })
    }
}
