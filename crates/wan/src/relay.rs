//! Relays packets from one device to the other after a delay.
//!
//! There is one thread per direction. All packets of a direction have the same delay, so they are due in the order of
//! arrival, and a
//! queue is sufficient instead of a timer.

use crate::error::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tun_rs::SyncDevice;

/// Maximum of packets read before due packets are sent.
const PACKETS_PER_READ: usize = 64;
/// Maximum of bytes in flight in one direction; beyond this, the devices' own queues fill.
const IN_FLIGHT_BYTES_MAX: usize = 256 << 20;
/// Interval at which an idle relay checks whether to end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Scheduling priority, above that of the measured programs: a relay without a processor delays packets too long.
const NICE: i32 = -15;

/// The two devices of a relay.
#[derive(Clone)]
pub(crate) struct Devices {
    pub(crate) near: Arc<SyncDevice>,
    pub(crate) far: Arc<SyncDevice>,
}

/// Counters of a relay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelayStats {
    /// Packets delivered to a device.
    pub packets: u64,
    /// Bytes of the delivered packets.
    pub bytes: u64,
    /// Packets that a device did not accept.
    pub lost: u64,
    /// Maximum time that a packet was delayed beyond its due time, in nanoseconds.
    pub latest: u64,
}

#[derive(Debug, Default)]
struct Shared {
    /// Delay of a packet in nanoseconds.
    delay_nanos: AtomicU64,
    stop: AtomicBool,
    packets: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
    latest: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Relay {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            // A panic was already reported by the thread.
            drop(thread.join());
        }
    }
}

fn half(round_trip: Duration) -> u64 {
    u64::try_from((round_trip / 2).as_nanos()).unwrap_or(u64::MAX)
}

impl Relay {
    pub(crate) fn start(round_trip: Duration, devices: Devices) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        shared
            .delay_nanos
            .store(half(round_trip), Ordering::Release);
        let mut relay = Self {
            shared,
            threads: Vec::new(),
        };
        let Devices { near, far } = devices;
        for (name, from, to) in [
            ("wan-there", near.clone(), far.clone()),
            ("wan-back", far, near),
        ] {
            let shared = relay.shared.clone();
            let thread = std::thread::Builder::new()
                .name(name.into())
                .spawn(move || relay_packets(&from, &to, &shared))
                .map_err(Error::system("starting a relay's thread"))?;
            relay.threads.push(thread);
        }
        Ok(relay)
    }

    pub(crate) fn set_round_trip(&self, round_trip: Duration) {
        self.shared
            .delay_nanos
            .store(half(round_trip), Ordering::Release);
    }

    pub(crate) fn stats(&self) -> RelayStats {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        RelayStats {
            packets: of(&self.shared.packets),
            bytes: of(&self.shared.bytes),
            lost: of(&self.shared.lost),
            latest: of(&self.shared.latest),
        }
    }
}

struct Packet {
    due: Instant,
    bytes: Box<[u8]>,
}

fn relay_packets(from: &SyncDevice, to: &SyncDevice, shared: &Shared) {
    // Continues with normal priority if the right is missing.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
    let mut in_flight: VecDeque<Packet> = VecDeque::new();
    let mut bytes = 0;
    let mut buffer = vec![0; 1 << 16];
    while !shared.stop.load(Ordering::Acquire) {
        let delay_nanos = Duration::from_nanos(shared.delay_nanos.load(Ordering::Acquire));
        let mut full = bytes > IN_FLIGHT_BYTES_MAX;
        for _ in 0..PACKETS_PER_READ {
            if full {
                break;
            }
            match from.recv(&mut buffer) {
                Ok(length) => {
                    let due = Instant::now() + delay_nanos;
                    bytes += length;
                    full = bytes > IN_FLIGHT_BYTES_MAX;
                    in_flight.push_back(Packet {
                        due,
                        bytes: buffer[..length].into(),
                    });
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // No packet, or the device is not up yet.
                Err(_) => break,
            }
        }
        let mut now = Instant::now();
        while let Some(packet) = in_flight.pop_front_if(|p| p.due <= now) {
            bytes -= packet.bytes.len();
            send(to, &packet, shared);
            now = Instant::now();
        }
        let until_due = in_flight.front().map_or(POLL_INTERVAL, |p| p.due - now);
        let wait = Timespec::try_from(until_due.min(POLL_INTERVAL)).unwrap_or_default();
        // With a full queue only the time is waited for.
        let fd = PollFd::new(from, PollFlags::IN);
        let mut fds = if full { Vec::new() } else { vec![fd] };
        // After an interruption everything is checked again as well.
        let _ = poll(&mut fds, Some(&wait));
        if fds.iter().any(|fd| fd.revents().contains(PollFlags::ERR)) {
            // The device is not up yet, or was removed; polling would return at once.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn send(to: &SyncDevice, packet: &Packet, shared: &Shared) {
    let late = packet.due.elapsed().as_nanos();
    let late = u64::try_from(late).unwrap_or(u64::MAX);
    shared.latest.fetch_max(late, Ordering::Relaxed);
    match to.send(&packet.bytes) {
        Ok(_) => {
            let length = packet.bytes.len() as u64;
            shared.packets.fetch_add(1, Ordering::Relaxed);
            shared.bytes.fetch_add(length, Ordering::Relaxed);
        }
        Err(_) => {
            shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}
