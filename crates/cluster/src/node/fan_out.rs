//! Requests to one server or to all, this one included.

use super::Node;
use crate::peer::{Read, Request, Response};
use crate::vnode::ServerId;
use esker_model::{Error, Result, Version};
use futures_util::future::join_all;
use std::sync::Arc;

/// A server's incarnation, and the number of partition moves there since.
pub(super) type Moves = (u64, u64);

/// Largest number of attempts to follow edges that move.
pub(super) const MOVES_MAX: u32 = 64;

impl Node {
    /// Returns the version as of which a read over several servers sees the present.
    pub(crate) fn read_version(&self, as_of: Version, seen: Version) -> Version {
        if as_of != Version::MAX {
            return as_of;
        }
        self.observe_client_version(seen);
        let known = self.newest_known().max(seen);
        let now = self.newest();
        if known > now { Version::MAX } else { now }
    }

    /// Reads from a server, this one included.
    pub(crate) async fn read_at(
        self: &Arc<Self>,
        server: ServerId,
        read: Read,
    ) -> Result<Response> {
        if server == self.settings.id {
            self.read_here(read).await
        } else {
            self.request(server, Request::Read(read)).await
        }
    }

    /// Reads from all servers; returns their responses in the order of ids.
    pub(super) async fn read_everywhere(
        self: &Arc<Self>,
        read: &Read,
    ) -> Result<Vec<(ServerId, Response)>> {
        let request = Request::Read(read.clone());
        let answers = self.request_all(&request).await?;
        let answer = |(server, (response, _))| (server, response);
        Ok(answers.into_iter().map(answer).collect())
    }

    /// Reads from all servers for results that must count each edge once: reads again if partitions have moved
    /// meanwhile. A move after all servers reported their number of moves is noticed by the giver or the receiver;
    /// and a server that is about to receive a partition waits before it responds.
    pub(super) async fn read_all(
        self: &Arc<Self>,
        read: &Read,
    ) -> Result<Vec<(ServerId, Response)>> {
        let request = Request::Read(read.clone());
        for attempt in 0..MOVES_MAX {
            let before = self.request_all(&Request::Ping).await?;
            let answers = self.request_all(&request).await?;
            let moves = |all: &[(ServerId, (Response, Moves))]| -> Vec<Moves> {
                all.iter().map(|(_, (_, moves))| *moves).collect()
            };
            if moves(&before) == moves(&answers) {
                let answer = |(server, (response, _))| (server, response);
                return Ok(answers.into_iter().map(answer).collect());
            }
            self.pause_after(attempt).await;
        }
        Err(kept_moving())
    }

    /// Sends a request to all servers, this one included; each response comes with the incarnation and the number of
    /// partition moves.
    pub(super) async fn request_all(
        self: &Arc<Self>,
        request: &Request,
    ) -> Result<Vec<(ServerId, (Response, Moves))>> {
        let servers = self.map.servers().iter();
        let answers = servers.map(|server| self.request_at(*server, request));
        let answers = self.map.servers().iter().zip(join_all(answers).await);
        answers
            .map(|(server, answer)| Ok((*server, answer?)))
            .collect()
    }

    /// Sends a request to a server, this one included, as [`Self::request_all`].
    pub(super) async fn request_at(
        self: &Arc<Self>,
        server: ServerId,
        request: &Request,
    ) -> Result<(Response, Moves)> {
        if server != self.settings.id {
            let (response, incarnation, moves) =
                self.request_with_moves(server, request.clone()).await?;
            return Ok((response, (incarnation, moves)));
        }
        let response = match request {
            Request::Read(read) => self.read_here(read.clone()).await?,
            _ => Response::Done,
        };
        self.wait_for_split_publication().await?;
        Ok((response, (self.incarnation, self.state().moves)))
    }

    /// Waits while edges move; the first attempt needs no pause, since the new splits suffice.
    pub(crate) async fn pause_after(&self, attempt: u32) {
        if attempt > 0 {
            self.host.sleep(u64::from(attempt.min(20))).await;
        }
    }
}

pub(crate) fn kept_moving() -> Error {
    Error::Busy("the edges asked for kept moving between servers; try again".into())
}
