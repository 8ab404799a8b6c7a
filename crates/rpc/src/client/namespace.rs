//! Files over the wire.

use super::graph::{LONG, SHORT, cancellable, each, expected, extend};
use super::held::{Held, Look, Question};
use super::route::Way;
use super::{Broken, Client};
use crate::convert;
use crate::proto;
use crate::proto::reply::Reply;
use crate::proto::request::Call;
use esker_model::namespace::{
    Change, Changes, Cookie, Done, Entry, Inode, Kind, Looked, NamePath, Namespace, Open,
    Partition, Space, SpaceBy, Usage,
};
use esker_model::object::Asker;
use esker_model::{Cancel, Error, Flow, Result, Version, VertexId};
use std::time::Instant;

/// Paths that are asked about in one call.
const PATHS_MAX: usize = 4_096;

impl Client {
    /// Changes files; with `sync`, the changes survive a power failure before this returns. They get a marker, so that they
    /// are made once however often they are sent, and answered as the first time.
    ///
    /// In a cluster, they go to the server that has the entry of the first, as far as is known; many that do not build on each other
    /// to all those that have theirs, at once.
    pub fn change_with(
        &self,
        asker: Option<&Asker>,
        changes: &[Change],
        sync: bool,
    ) -> Result<Vec<Result<Done>>> {
        if let Some(parts) = self.divide(changes) {
            return self.change_divided(asker, changes, parts, sync);
        }
        let way = changes.first().map(|c| self.way_to(c.path()));
        let Some(Way::To(other)) = way else {
            return self.change_through(self, asker, changes, sync);
        };
        let outcomes = self.change_through(&other, asker, changes, sync);
        self.saw(Version(other.newest()));
        outcomes
    }

    /// Changes files by way of another server's client.
    fn change_through(
        &self,
        client: &Self,
        asker: Option<&Asker>,
        changes: &[Change],
        sync: bool,
    ) -> Result<Vec<Result<Done>>> {
        let number = client.shared.sender.next(client.server_millis())?;
        let changes = Changes {
            asker: asker.cloned(),
            changes: changes.to_vec(),
            once: Some(number.marker()),
            again: false,
        };
        let outcomes = self.change_marked_through(client, &changes, sync);
        // Whoever is told that it failed may do it anew, and must not find these done too later.
        number.settle();
        outcomes
    }

    /// The same with a marker of the caller's, at this client's server.
    pub fn change_marked(&self, changes: &Changes, sync: bool) -> Result<Vec<Result<Done>>> {
        self.change_marked_through(self, changes, sync)
    }

    /// The same through another server's client.
    pub(super) fn change_marked_through(
        &self,
        client: &Self,
        changes: &Changes,
        sync: bool,
    ) -> Result<Vec<Result<Done>>> {
        let call = Call::ChangeFiles(self.changes_request(changes, sync));
        let outcomes: Vec<Result<Done>> =
            client.collect(call, SHORT, |all, reply| self.take_changed(all, reply))?;
        let outcomes = self.whole(outcomes, changes.changes.len())?;
        let newest = outcomes.iter().flatten().map(|done| done.version).max();
        client.saw(newest.unwrap_or(Version::ZERO));
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

    /// A piece of the answer to changes; false if it is none.
    pub(super) fn take_changed(&self, all: &mut Vec<Result<Done>>, reply: Reply) -> Result<bool> {
        let Reply::ChangeFiles(piece) = reply else {
            return Ok(false);
        };
        self.learn(piece.routes)?;
        extend(all, piece.outcomes, convert::outcome_in)
    }

    fn stat_through(
        &self,
        client: &Self,
        asker: Option<&Asker>,
        path: &NamePath,
        (follow, lease): (bool, bool),
    ) -> Result<(Inode, u32)> {
        let call = Call::StatFile(proto::StatFileRequest {
            asker: convert::asker_out(asker),
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

    /// How often a file was asked for and was known, because that had been promised, and how often it was not.
    pub fn held(&self) -> (u64, u64) {
        self.shared.held.as_ref().map_or((0, 0), Held::figures)
    }

    fn lost_in_a_walk(&self) -> Broken {
        Broken::Failed(Error::Unavailable(format!(
            "the connection to {} was lost in the middle of a walk: repeat",
            self.shared.address.authority()
        )))
    }
}

impl Namespace for Client {
    /// Answered without asking where the server has promised that the answer stays what it was.
    fn stat(&self, asker: Option<&Asker>, path: &NamePath, follow: bool) -> Result<Inode> {
        let Some(held) = self.shared.held.as_ref().filter(|_| !path.is_handle()) else {
            return Ok(self.stat_through(self, asker, path, (follow, false))?.0);
        };
        let question = Question::new(asker, path, follow);
        let promise = match held.look(&question) {
            Look::Answer(inode) => return Ok(inode),
            Look::Ask { promise } => promise,
        };
        let sent = Instant::now();
        let (inode, millis) = match self.way_to(path) {
            Way::Own => self.stat_through(self, asker, path, (follow, promise))?,
            Way::To(other) => self.stat_through(&other, asker, path, (follow, promise))?,
        };
        held.keep(&question, sent, millis, &inode);
        Ok(inode)
    }

    /// If the connection goes away in the middle, the listing goes on behind the last entry.
    fn list(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        after: Option<Cookie>,
        sink: &mut dyn FnMut(Cookie, Entry) -> Flow,
    ) -> Result<()> {
        let mut after = after;
        self.run(None, |connection| {
            let request = proto::Request {
                call: Some(Call::ListFiles(proto::ListFilesRequest {
                    asker: convert::asker_out(asker),
                    path: convert::path_out(path),
                    after: after.map(convert::cookie_out),
                    limit: 0,
                    watcher: 0,
                })),
            };
            self.exchange(connection, &request, LONG, &mut |reply| {
                let Reply::ListFiles(piece) = reply else {
                    return Err(self.stray());
                };
                each(piece.entries, convert::entry_in, |(cookie, entry)| {
                    after = Some(cookie);
                    sink(cookie, entry)
                })
            })
        })
    }

    /// If the connection goes away in the middle, that is an error: where the walk was cannot be told.
    fn walk(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Inode) -> Flow,
    ) -> Result<()> {
        let request = proto::Request {
            call: Some(Call::WalkFiles(proto::WalkFilesRequest {
                asker: convert::asker_out(asker),
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
                    return Err(self.stray());
                };
                given |= !piece.files.is_empty();
                each(piece.files, convert::walked_in, |(path, inode)| {
                    sink(&path, &inode)
                })
            })
        })
    }

    fn change(&self, asker: Option<&Asker>, changes: &[Change]) -> Result<Vec<Result<Done>>> {
        self.change_with(asker, changes, false)
    }

    fn usage(&self, asker: Option<&Asker>, path: &NamePath, below: bool) -> Result<Usage> {
        let call = Call::Usage(proto::UsageRequest {
            asker: convert::asker_out(asker),
            path: convert::path_out(path),
            below,
        });
        self.value(call, LONG, |reply| {
            Ok(expected!(reply, Usage, reply => Some(convert::usage_in(reply.usage)?)))
        })
    }

    fn usages(
        &self,
        asker: Option<&Asker>,
        path: &NamePath,
        cancel: &dyn Cancel,
        sink: &mut dyn FnMut(&NamePath, &Usage) -> Flow,
    ) -> Result<()> {
        let call = Call::Usages(proto::UsagesRequest {
            asker: convert::asker_out(asker),
            path: convert::path_out(path),
        });
        // The whole is there before the first is given: it may have to be asked for anew.
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

    fn look(&self, asker: Option<&Asker>, path: &NamePath, how: Open) -> Result<Looked> {
        let call = Call::LookFile(proto::LookFileRequest {
            asker: convert::asker_out(asker),
            path: convert::path_out(path),
            how: how.bits().into(),
        });
        self.value(call, SHORT, |reply| {
            Ok(expected!(reply, LookFile, reply => Some(convert::looked_in(reply)?)))
        })
    }

    fn ids(
        &self,
        asker: Option<&Asker>,
        paths: &[NamePath],
    ) -> Result<Vec<Option<(VertexId, Kind)>>> {
        let mut found = Vec::with_capacity(paths.len());
        for piece in paths.chunks(PATHS_MAX) {
            let call = Call::FileIds(proto::FileIdsRequest {
                asker: convert::asker_out(asker),
                paths: piece.iter().map(convert::path_out).collect(),
            });
            let ids = self.collect(call, SHORT, |all, reply| {
                expected!(reply, FileIds, piece => extend(all, piece.items, convert::at_path_in))
            })?;
            found.extend(self.whole(ids, piece.len())?);
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
