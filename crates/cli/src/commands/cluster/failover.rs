//! Taking over for servers that are gone (SoMeta, section II-H): each server looks after the next one. If nobody is at its address
//! for long enough and its folder can be opened, this process serves what is in it, at another port, and the cluster's map
//! says so to all.
//!
//! Whether a server is really gone is for its folder's lock to say: a process that lives and does not answer keeps it.

use super::server::open;
use crate::context::Context;
use esker::rpc::map::Map;
use esker_cluster::ServerId;
use esker_server::{ClusterConfig, Server};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

/// How often the next server is looked at, at most.
const LOOK: Duration = Duration::from_millis(100);
/// How long a connection to it may take.
const CONNECT_MAX: Duration = Duration::from_millis(300);

/// A server that looks after the next one, and what it has taken over.
pub(super) struct Failover<'a> {
    config: &'a ClusterConfig,
    me: ServerId,
    memory: u64,
    /// In the order of their numbers behind this one's.
    taken: Vec<(ServerId, Server)>,
    looked: Instant,
    /// Who was not there when it was looked at last, since when, and why it could not be taken over.
    gone: Option<(ServerId, Instant, String)>,
}

impl<'a> Failover<'a> {
    pub(super) fn new(config: &'a ClusterConfig, me: ServerId, memory: u64) -> Self {
        Self {
            config,
            me,
            memory,
            taken: Vec::new(),
            looked: Instant::now(),
            gone: None,
        }
    }

    /// Looks after the next server, if it is time to and the cluster is whole as far as this one knows.
    pub(super) fn look(&mut self, server: &Server, context: &Context) {
        let Some(after) = self.config.proxy_after else {
            return;
        };
        if self.looked.elapsed() < LOOK {
            return;
        }
        self.looked = Instant::now();
        // Who has not joined yet does not know whether the others have started at all.
        let Some(next) = self.next().filter(|_| server.serves()) else {
            self.gone = None;
            return;
        };
        if self.is_there(next) {
            self.gone = None;
            return;
        }
        let since = match &self.gone {
            Some((id, since, _)) if *id == next => *since,
            _ => {
                tracing::warn!(server = next.0, "the next server is not there");
                self.gone = Some((next, Instant::now(), String::new()));
                Instant::now()
            }
        };
        if since.elapsed() < after {
            return;
        }
        if let Err(e) = self.take(next, context) {
            let why = e.to_string();
            if let Some((_, _, before)) = &mut self.gone
                && *before != why
            {
                tracing::warn!(server = next.0, error = why, "cannot take over");
                *before = why;
            }
        }
    }

    /// The first behind this one that it has not taken over.
    fn next(&self) -> Option<ServerId> {
        let count = self.config.servers.len() as u32;
        let next = (self.me.0 + 1 + self.taken.len() as u32) % count;
        (next != self.me.0).then_some(ServerId(next))
    }

    fn is_there(&self, server: ServerId) -> bool {
        let map = self.config.map().and_then(|file| Map::read(&file).ok());
        let map = map.unwrap_or_default();
        let address = map
            .address(server.0)
            .unwrap_or_else(|| self.config.address(server));
        let addresses = address.to_socket_addrs();
        addresses
            .is_ok_and(|mut all| all.any(|at| TcpStream::connect_timeout(&at, CONNECT_MAX).is_ok()))
    }

    fn take(&mut self, server: ServerId, context: &Context) -> esker_model::Result<()> {
        let database = open(self.config, server, self.memory, context)?;
        let taken = Server::take_over(database, self.config, server.0, self.me.0)?;
        tracing::warn!(
            server = server.0,
            address = %taken.address(),
            "taken over: its process is gone"
        );
        self.taken.push((server, taken));
        self.gone = None;
        Ok(())
    }

    /// Why one that was taken over cannot serve and never will, if so.
    pub(super) fn failure(&self) -> Option<String> {
        let failure =
            |(id, server): &(ServerId, Server)| Some(format!("{id}: {}", server.failure()?));
        self.taken.iter().find_map(failure)
    }

    /// Stops what was taken over; false if something had to be cut off.
    pub(super) fn stop(self) -> esker_model::Result<bool> {
        let mut whole = true;
        for (_, server) in self.taken {
            whole &= server.stop()?;
        }
        Ok(whole)
    }
}
