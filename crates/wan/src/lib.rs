//! A simulated wide-area network: a network namespace with a configurable round-trip time.
//!
//! Programs that are started in the far namespace are reached at [`Wan::far_address`] through a relay of IP packets between two TUN
//! devices. Each packet is delayed by half a round trip in each direction, so connection setup is delayed as well.
//! Packets are
//! not lost, reordered or limited in bandwidth. For tests and measurements; requires Linux, root and `ip`.
//!
//! Dropping a [`Wan`] removes the namespace. The leftovers of a killed program are removed by the next program that
//! opens a `Wan`.

mod error;
mod namespace;
mod relay;

pub use error::{Error, Result};
pub use relay::RelayStats;

use namespace::Namespace;
use relay::{Devices, Relay};
use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// A far namespace, and the relay to it.
#[derive(Debug)]
pub struct Wan {
    // Fields are dropped in this order, so that the relay ends before the devices are removed.
    relay: Relay,
    namespace: Namespace,
}

impl Wan {
    /// Creates the namespace with a round-trip time.
    pub fn open(round_trip: Duration) -> Result<Self> {
        let (namespace, near, far) = Namespace::make()?;
        let (near, far) = (Arc::new(near), Arc::new(far));
        // Packets that the system sends when a device comes up need both devices.
        namespace.bring_up()?;
        let relay = Relay::start(round_trip, Devices { near, far })?;
        Ok(Self { relay, namespace })
    }

    /// Address of the near side.
    pub fn near_address(&self) -> Ipv4Addr {
        self.namespace.near_address()
    }

    /// Address of the far side.
    pub fn far_address(&self) -> Ipv4Addr {
        self.namespace.far_address()
    }

    /// Changes the round-trip time for packets from now on.
    pub fn set_round_trip(&self, round_trip: Duration) {
        self.relay.set_round_trip(round_trip);
    }

    /// A command that will run in the far namespace.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.namespace.name()]);
        command.arg(program);
        command
    }

    /// Counters of relayed packets, both directions together.
    pub fn stats(&self) -> RelayStats {
        self.relay.stats()
    }
}
