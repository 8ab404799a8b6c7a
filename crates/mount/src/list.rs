//! Directories, listed.
//!
//! Where a listing is, is told by the hash of the last name: so it goes on behind any entry, whatever comes and goes, also for whoever
//! comes back with a place of long ago (`telldir`). A place is a positive number of 63 bits: 54 bits of the hash, and how many
//! names with these bits come before.

use crate::attributes;
use crate::files::{Answer, Files};
use crate::nodes::Node;
use esker_model::graph::Flow;
use esker_model::namespace::{Cookie, Entry};
use fuser::Errno;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Places below are those of `.` and `..`.
const FIRST: u64 = 4;
const DROPPED_BITS: u32 = 10;
/// Entries that are asked for at a time.
const AHEAD: usize = 512;

/// Directories that are being listed.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    open: Mutex<HashMap<u64, Arc<Mutex<Stream>>>>,
    next: AtomicU64,
}

/// One of them: entries that were read ahead.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The place behind which they begin.
    after: u64,
    ahead: VecDeque<(u64, Entry)>,
    ended: bool,
}

impl Streams {
    pub(crate) fn open(&self) -> u64 {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.lock().insert(handle, Arc::default());
        handle
    }

    pub(crate) fn close(&self, handle: u64) {
        self.open.lock().remove(&handle);
    }

    pub(crate) fn get(&self, handle: u64) -> Answer<Arc<Mutex<Stream>>> {
        self.open.lock().get(&handle).cloned().ok_or(Errno::EBADF)
    }
}

/// The place behind the `n`th entry of those with the same first bits.
fn place(hash: u64, n: u64) -> u64 {
    FIRST + ((hash >> DROPPED_BITS) << 8 | n.min(255))
}

/// From which entry on to look for what comes behind a place, and how many with the same first bits to leave out.
fn behind(place: u64) -> (Option<Cookie>, Option<(u64, u64)>) {
    let Some(value) = place.checked_sub(FIRST) else {
        return (None, None);
    };
    let (bits, n) = (value >> 8, value & 255);
    let first = bits << DROPPED_BITS;
    let before = first.checked_sub(1).map(|hash| Cookie { hash, n: 255 });
    (before, Some((bits, n)))
}

impl Files {
    /// Gives the entries behind a place to a sink, each with the place behind it, until the sink has enough.
    pub(crate) fn list(
        &self,
        node: &Arc<Node>,
        stream: &mut Stream,
        after: u64,
        sink: &mut dyn FnMut(u64, &Entry) -> Flow,
    ) -> Answer<()> {
        if stream.after != after {
            *stream = Stream {
                after,
                ..Stream::default()
            };
        }
        loop {
            while let Some((place, entry)) = stream.ahead.front() {
                if sink(*place, entry).is_break() {
                    return Ok(());
                }
                stream.after = *place;
                stream.ahead.pop_front();
            }
            if stream.ended {
                return Ok(());
            }
            self.read_ahead(node, stream)?;
        }
    }

    fn read_ahead(&self, node: &Arc<Node>, stream: &mut Stream) -> Answer<()> {
        let (cookie, same) = behind(stream.after);
        let (mut bits, mut n) = (u64::MAX, 0);
        let ahead = &mut stream.ahead;
        let listed =
            self.target
                .names()
                .list(None, &node.handle(), cookie, &mut |cookie, entry| {
                    let now = cookie.hash >> DROPPED_BITS;
                    n = if now == bits { n + 1 } else { 0 };
                    bits = now;
                    if same.is_some_and(|(bits, least)| bits == now && n <= least) {
                        return ControlFlow::Continue(());
                    }
                    ahead.push_back((place(cookie.hash, n), entry));
                    if ahead.len() < AHEAD {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                });
        stream.ended = stream.ahead.len() < AHEAD;
        match listed {
            Ok(()) => Ok(()),
            // A directory that was removed while it is open is empty.
            Err(e) if attributes::errno(&e).code() == Errno::ENOENT.code() => Ok(()),
            Err(e) => Err(attributes::errno(&e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Places are in the order of entries, positive as C has them, and lead back to where they come from.
        #[test]
        fn places(a in any::<u64>(), b in any::<u64>(), n in 0_u64..256) {
            let (x, y) = (place(a, n), place(b, n));
            prop_assert!(i64::try_from(x).is_ok() && x >= FIRST);
            if a >> DROPPED_BITS != b >> DROPPED_BITS {
                prop_assert_eq!(a.cmp(&b), x.cmp(&y));
            }
            let (before, same) = behind(x);
            prop_assert_eq!(same, Some((a >> DROPPED_BITS, n)));
            prop_assert!(before.is_none_or(|c| c.hash < a && c.hash >> DROPPED_BITS < a >> DROPPED_BITS));
        }
    }
}
