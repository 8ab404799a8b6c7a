//! Directory listings.
//!
//! A position in a listing is given by the hash of the last name, so a listing continues correctly behind any entry,
//! whatever is added or removed, even from an old position (`telldir`). A position is a positive number of 63 bits: 54
//! bits of the hash, and the number of earlier names with the same bits.

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

/// First position of an entry; lower ones belong to `.` and `..`.
const FIRST: u64 = 4;
const DROPPED_BITS: u32 = 10;
/// Number of entries read at a time.
const PAGE_ENTRIES: usize = 512;

/// Open directories with their listings.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    open: Mutex<HashMap<u64, Arc<Mutex<Stream>>>>,
    next: AtomicU64,
}

/// A listing under way, with entries read ahead.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Position behind which the entries begin.
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

/// Returns the position of the `n`th entry among those with the same first bits of the hash.
fn position(hash: u64, n: u64) -> u64 {
    FIRST + ((hash >> DROPPED_BITS) << 8 | n.min(255))
}

/// Returns the cookie behind which to list for a position, and the first bits and number of entries to skip.
fn behind(position: u64) -> (Option<Cookie>, Option<(u64, u64)>) {
    let Some(value) = position.checked_sub(FIRST) else {
        return (None, None);
    };
    let (bits, n) = (value >> 8, value & 255);
    let first = bits << DROPPED_BITS;
    let before = first.checked_sub(1).map(|hash| Cookie { hash, n: 255 });
    (before, Some((bits, n)))
}

impl Files {
    /// Passes the entries behind a position to a sink, each with its own position, until the sink has enough.
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
            while let Some((position, entry)) = stream.ahead.front() {
                if sink(*position, entry).is_break() {
                    return Ok(());
                }
                stream.after = *position;
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
                    ahead.push_back((position(cookie.hash, n), entry));
                    if ahead.len() < PAGE_ENTRIES {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                });
        stream.ended = stream.ahead.len() < PAGE_ENTRIES;
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
        /// Positions are in the order of entries, positive as C requires, and lead back to the entry that they were
        /// computed from.
        #[test]
        fn positions_are_ordered(a in any::<u64>(), b in any::<u64>(), n in 0_u64..256) {
            let (x, y) = (position(a, n), position(b, n));
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
