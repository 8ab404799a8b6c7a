//! Takeover of failed servers (SoMeta, section II-H): each server monitors the next one. If nothing listens at its address for long
//! enough and its folder can be opened, this process serves the folder at another port, and records that in the cluster's map.
//!
//! The lock of the folder decides whether a server has really failed: a process that lives and does not answer still holds the lock.

use super::server::open;
use esker::rpc::map::Map;
use esker_cluster::ServerId;
use esker_server::{ClusterConfig, Server};
use esker_terminal::context::Context;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

/// Minimum interval between checks of the next server.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout of a connection to the next server.
const CONNECT_MAX: Duration = Duration::from_millis(300);

/// A server that monitors the next one, and the servers that it has taken over.
pub(super) struct Failover<'a> {
    config: &'a ClusterConfig,
    me: ServerId,
    memory: u64,
    /// Servers taken over, in the order of their numbers after this one's.
    taken_over: Vec<(ServerId, Server)>,
    checked: Instant,
    /// The server that did not answer the last check, since when, and why it could not be taken over.
    failing: Option<(ServerId, Instant, String)>,
}

impl<'a> Failover<'a> {
    pub(super) fn new(config: &'a ClusterConfig, me: ServerId, memory: u64) -> Self {
        Self {
            config,
            me,
            memory,
            taken_over: Vec::new(),
            checked: Instant::now(),
            failing: None,
        }
    }

    /// Checks the next server, if the interval has passed and this server is ready.
    pub(super) fn check_next(&mut self, server: &Server, context: &Context) {
        let Some(after) = self.config.proxy_after else {
            return;
        };
        if self.checked.elapsed() < POLL_INTERVAL {
            return;
        }
        self.checked = Instant::now();
        // A server that has not joined the cluster cannot know whether the others have started.
        let Some(next) = self.next().filter(|_| server.serves()) else {
            self.failing = None;
            return;
        };
        if self.answers(next) {
            self.failing = None;
            return;
        }
        let since = match &self.failing {
            Some((id, since, _)) if *id == next => *since,
            _ => {
                tracing::warn!(server = next.0, "the next server is not there");
                self.failing = Some((next, Instant::now(), String::new()));
                Instant::now()
            }
        };
        if since.elapsed() < after {
            return;
        }
        if let Err(e) = self.take_over(next, context) {
            let why = e.to_string();
            if let Some((_, _, before)) = &mut self.failing
                && *before != why
            {
                tracing::warn!(server = next.0, error = why, "cannot take over");
                *before = why;
            }
        }
    }

    /// Returns the first server after this one that it has not taken over.
    fn next(&self) -> Option<ServerId> {
        let count = self.config.servers.len() as u32;
        let next = (self.me.0 + 1 + self.taken_over.len() as u32) % count;
        (next != self.me.0).then_some(ServerId(next))
    }

    fn answers(&self, server: ServerId) -> bool {
        let map = self.config.map().and_then(|file| Map::read(&file).ok());
        let map = map.unwrap_or_default();
        let address = map
            .address(server.0)
            .unwrap_or_else(|| self.config.address(server));
        let addresses = address.to_socket_addrs();
        addresses
            .is_ok_and(|mut all| all.any(|at| TcpStream::connect_timeout(&at, CONNECT_MAX).is_ok()))
    }

    fn take_over(&mut self, server: ServerId, context: &Context) -> esker_model::Result<()> {
        let database = open(self.config, server, self.memory, context)?;
        let taken_over = Server::take_over(database, self.config, server.0, self.me.0)?;
        tracing::warn!(
            server = server.0,
            address = %taken_over.address(),
            "taken over: its process is gone"
        );
        self.taken_over.push((server, taken_over));
        self.failing = None;
        Ok(())
    }

    /// Returns why a server that was taken over can never serve, if that is so.
    pub(super) fn failure(&self) -> Option<String> {
        let failure =
            |(id, server): &(ServerId, Server)| Some(format!("{id}: {}", server.failure()?));
        self.taken_over.iter().find_map(failure)
    }

    /// Stops the servers that were taken over; false if requests had to be cut off.
    pub(super) fn stop(self) -> esker_model::Result<bool> {
        let mut whole = true;
        for (_, server) in self.taken_over {
            whole &= server.stop()?;
        }
        Ok(whole)
    }
}
