//! A wide-area network in a box: a network namespace that is as far away as one likes.
//!
//! Programs that are started in the far namespace are reached at [`Wan::far`] through a relay of IP packets between two TUN
//! devices. Each packet is held for half a round trip in each direction, so that setting up connections takes its time as well. Nothing is
//! lost, overtaken or slowed down otherwise. For tests and measurements; it takes Linux, root and `ip`.
//!
//! Everything is gone when a [`Wan`] is dropped. What a killed program has left is removed by the next one that opens a `Wan`.

mod error;
mod relay;
mod space;

pub use error::{Error, Result};
pub use relay::Carried;

use relay::{Relay, Way};
use space::Space;
use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// A far namespace, and the way to it.
#[derive(Debug)]
pub struct Wan {
    // Dropped in this order: nothing is relayed when the devices go.
    relay: Relay,
    space: Space,
}

impl Wan {
    /// Makes the namespace, `round_trip` away.
    pub fn open(round_trip: Duration) -> Result<Self> {
        let (space, near, far) = Space::make()?;
        let (near, far) = (Arc::new(near), Arc::new(far));
        // What the system sends when a device comes up finds the other one there.
        space.bring_up()?;
        let relay = Relay::start(round_trip, Way { near, far })?;
        Ok(Self { relay, space })
    }

    /// This side's address.
    pub fn near(&self) -> Ipv4Addr {
        self.space.near()
    }

    /// The far side's address.
    pub fn far(&self) -> Ipv4Addr {
        self.space.far()
    }

    /// From now on it is that far away.
    pub fn set_round_trip(&self, round_trip: Duration) {
        self.relay.set_round_trip(round_trip);
    }

    /// A command that will run in the far namespace.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.space.name()]);
        command.arg(program);
        command
    }

    /// What was relayed so far, in both directions.
    pub fn carried(&self) -> Carried {
        self.relay.carried()
    }
}
