//! Packets from one device to the other, later.
//!
//! One thread a direction. All packets of a direction are held equally long, so what came first is due first, and a queue will do for a timer.

use crate::error::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tun_rs::SyncDevice;

/// Packets that are read before it is looked whether some are due.
const TOGETHER: usize = 64;
/// Bytes that are under way in one direction at most; then the devices' own queues fill.
const UNDER_WAY: usize = 256 << 20;
/// How often a relay without packets looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);
/// A relay comes before what it is to measure: a packet that it has no processor for is late.
const NICE: i32 = -15;

/// The two ends.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) near: Arc<SyncDevice>,
    pub(crate) far: Arc<SyncDevice>,
}

/// What was relayed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Carried {
    /// Packets.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Packets that a device did not take.
    pub lost: u64,
    /// The longest time that a packet was held beyond its own, in nanoseconds.
    pub latest: u64,
}

#[derive(Debug, Default)]
struct Shared {
    /// Nanoseconds that a packet is held.
    held: AtomicU64,
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
            // One that panicked has said so.
            drop(thread.join());
        }
    }
}

fn half(round_trip: Duration) -> u64 {
    u64::try_from((round_trip / 2).as_nanos()).unwrap_or(u64::MAX)
}

impl Relay {
    pub(crate) fn start(round_trip: Duration, way: Way) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        shared.held.store(half(round_trip), Ordering::Release);
        let mut relay = Self {
            shared,
            threads: Vec::new(),
        };
        let Way { near, far } = way;
        for (name, from, to) in [
            ("wan-there", near.clone(), far.clone()),
            ("wan-back", far, near),
        ] {
            let shared = relay.shared.clone();
            let thread = std::thread::Builder::new()
                .name(name.into())
                .spawn(move || carry(&from, &to, &shared))
                .map_err(Error::system("starting a relay's thread"))?;
            relay.threads.push(thread);
        }
        Ok(relay)
    }

    pub(crate) fn set_round_trip(&self, round_trip: Duration) {
        self.shared.held.store(half(round_trip), Ordering::Release);
    }

    pub(crate) fn carried(&self) -> Carried {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Carried {
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

fn carry(from: &SyncDevice, to: &SyncDevice, shared: &Shared) {
    // Without the right to it, it goes without.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
    let mut under_way: VecDeque<Packet> = VecDeque::new();
    let mut bytes = 0;
    let mut buffer = vec![0; 1 << 16];
    while !shared.stop.load(Ordering::Acquire) {
        let held = Duration::from_nanos(shared.held.load(Ordering::Acquire));
        let mut full = bytes > UNDER_WAY;
        for _ in 0..TOGETHER {
            if full {
                break;
            }
            match from.recv(&mut buffer) {
                Ok(length) => {
                    let due = Instant::now() + held;
                    bytes += length;
                    full = bytes > UNDER_WAY;
                    under_way.push_back(Packet {
                        due,
                        bytes: buffer[..length].into(),
                    });
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // Nothing there, or the device is not up yet.
                Err(_) => break,
            }
        }
        let mut now = Instant::now();
        while let Some(packet) = under_way.pop_front_if(|p| p.due <= now) {
            bytes -= packet.bytes.len();
            send(to, &packet, shared);
            now = Instant::now();
        }
        let until_due = under_way.front().map_or(LOOK, |p| p.due - now);
        let wait = Timespec::try_from(until_due.min(LOOK)).unwrap_or_default();
        // Where nothing more may be read, only the time is waited for.
        let fd = PollFd::new(from, PollFlags::IN);
        let mut fds = if full { Vec::new() } else { vec![fd] };
        // Interrupted or not: it is looked at everything again.
        let _ = poll(&mut fds, Some(&wait));
        if fds.iter().any(|fd| fd.revents().contains(PollFlags::ERR)) {
            // Not up yet, or gone: it would be told again and again.
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
