//! Batches that a server has acknowledged and no checkpoint holds yet (SoMeta, section II-H): kept here, and sent again if the server
//! dies with them. Their markers make them count once, so what a checkpoint held after all is not done twice.
//!
//! A thread asks now and then what checkpoints hold, for as long as anything is kept. It holds nothing that keeps a client open: when
//! the last handle of a client goes, its guard waits until nothing is left to be kept.

use super::connection::Sent;
use super::{Broken, Client, Shared, Wait};
use crate::limits::{KEPT_BYTES_MAX, REPLAYS_IN_FLIGHT, WINDOW_POLL};
use crate::marker::Number;
use crate::proto;
use crate::proto::reply::Reply;
use crate::proto::request::Call;
use esker_model::{Error, ErrorKind, Result, Version};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

/// What a client keeps.
#[derive(Debug, Default)]
pub(super) struct Windows {
    /// The servers' stores die with their machines.
    pub(super) on: AtomicBool,
    state: Mutex<State>,
    /// Held by whoever asks what checkpoints hold, and sends again.
    asking: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// By server, in the order in which they came.
    kept: BTreeMap<u32, VecDeque<Kept>>,
    bytes: usize,
    /// The places of all in the order in which they came, and the next one.
    open: BTreeSet<u64>,
    next: u64,
    /// Whether a thread looks after them.
    looked_after: bool,
    /// All handles are gone.
    closed: bool,
    /// What could not be done again, and why the first of it could not.
    lost: u64,
    why: Option<String>,
}

/// A batch that was acknowledged.
#[derive(Debug)]
pub(super) struct Kept {
    request: proto::Request,
    held: proto::Held,
    version: u64,
    /// Settled once nothing sends it again.
    number: Option<Number>,
    bytes: usize,
    place: u64,
}

impl Kept {
    pub(super) fn new(
        request: proto::Request,
        reply: &proto::ApplyReply,
        held: proto::Held,
        number: Option<Number>,
    ) -> Self {
        let bytes = prost::Message::encoded_len(&request) + size_of::<Self>();
        // One that was sent again holds from when it did at first.
        let again_at = match &request.call {
            Some(Call::Apply(apply)) => apply.again_at,
            _ => None,
        };
        Self {
            version: again_at.unwrap_or(reply.version),
            request,
            held,
            number,
            bytes,
            place: 0,
        }
    }
}

impl Windows {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Goes with the last handle of a client.
#[derive(Debug)]
pub(super) struct Guard(pub(super) Arc<Shared>);

impl Drop for Guard {
    fn drop(&mut self) {
        let client = Client {
            shared: Arc::clone(&self.0),
            _guard: None,
            asker: None,
        };
        // Whoever wants to know closes the database.
        let _ = client.flush();
        client.shared.windows.state().closed = true;
    }
}

impl Client {
    /// Keeps a batch until a checkpoint holds it. Waits for that if there is too much of it.
    pub(super) fn keep(&self, kept: Kept) {
        let windows = &self.shared.windows;
        let (start, full) = {
            let mut state = windows.state();
            state.add(kept);
            let start = !std::mem::replace(&mut state.looked_after, true);
            (start, state.bytes > KEPT_BYTES_MAX)
        };
        if start {
            let client = Self {
                shared: Arc::clone(&self.shared),
                _guard: None,
                asker: None,
            };
            let thread = std::thread::Builder::new().name("esker-window".into());
            if thread.spawn(move || client.look_after()).is_err() {
                windows.state().looked_after = false;
            }
        }
        if full {
            // A server that cannot write a checkpoint does not get more to lose.
            let _ = self.flush();
        }
    }

    /// What the thread does.
    fn look_after(&self) {
        loop {
            std::thread::sleep(WINDOW_POLL);
            // A server that is away is asked again.
            let _ = self.look(false);
            let mut state = self.shared.windows.state();
            if state.bytes == 0 || state.closed {
                state.looked_after = false;
                return;
            }
        }
    }

    /// Waits until checkpoints hold everything that was acknowledged.
    pub fn flush(&self) -> Result<()> {
        let windows = &self.shared.windows;
        let until = windows.state().next;
        let mut progress = (None, Instant::now());
        loop {
            let first = {
                let mut state = windows.state();
                let first = state.open.first().copied();
                // What other threads write meanwhile is theirs.
                if first.is_none_or(|first| first >= until) {
                    return state.told();
                }
                first
            };
            if first > progress.0 {
                progress = (first, Instant::now());
            }
            match self.look(true) {
                Err(e) if progress.1.elapsed() >= self.shared.address.patience => {
                    return Err(Error::Unavailable(format!(
                        "what was written is not in a checkpoint yet: {e}"
                    )));
                }
                Err(_) => std::thread::sleep(WINDOW_POLL),
                Ok(()) => {}
            }
        }
    }

    /// Asks what checkpoints hold, lets go of that, and sends again what a server has lost. One asks at a time; others wait.
    fn look(&self, persist: bool) -> Result<()> {
        let windows = &self.shared.windows;
        let asking = match windows.asking.try_lock() {
            Ok(asking) => asking,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            // Whoever asks is at it.
            Err(TryLockError::WouldBlock) if !persist => return Ok(()),
            Err(TryLockError::WouldBlock) => windows
                .asking
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        };
        let call = Call::Window(proto::WindowRequest { persist });
        let wait = Wait {
            cancel: None,
            long: true,
        };
        let reply = self.value(call, wait, |reply| match reply {
            Reply::Window(reply) => Ok(Some(reply)),
            _ => Ok(None),
        })?;
        let mut again = {
            let mut state = windows.state();
            let mut again = Vec::new();
            for server in reply.servers {
                again.extend(state.learn(&server));
            }
            again
        };
        // All that was acknowledged before something else comes before it, on whichever server.
        again.sort_by_key(|kept| kept.version);
        let done = self.send_again(again);
        drop(asking);
        done
    }

    fn send_again(&self, again: Vec<Kept>) -> Result<()> {
        let mut failure = None;
        let mut rest = again.into_iter();
        loop {
            let mut sent = Vec::new();
            for mut kept in rest.by_ref().take(REPLAYS_IN_FLIGHT) {
                if let Some(Call::Apply(apply)) = &mut kept.request.call {
                    apply.again_at = Some(kept.version);
                }
                let connection = self.connection();
                let call = connection.and_then(|c| c.send(&kept.request, self.newest(), 0));
                sent.push((kept, call));
            }
            if sent.is_empty() {
                break;
            }
            for (mut kept, call) in sent {
                match self.answer_of(call).map_err(Broken::into_error) {
                    Ok(reply) => {
                        let mut state = self.shared.windows.state();
                        match reply.held {
                            Some(held) => {
                                kept.held = held;
                                state.kept.entry(held.server).or_default().push_back(kept);
                            }
                            None => state.settle(kept),
                        }
                    }
                    // It is tried again: its incarnation is an older one still.
                    Err(e) if e.kind() == ErrorKind::Unavailable => {
                        let mut state = self.shared.windows.state();
                        let server = state.kept.entry(kept.held.server).or_default();
                        server.push_back(kept);
                        failure = Some(e);
                    }
                    Err(e) => {
                        let mut state = self.shared.windows.state();
                        state.lost += 1;
                        state.why.get_or_insert_with(|| e.to_string());
                        state.settle(kept);
                    }
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// The answer of what was sent, asked for once: what is lost on its way goes out again with the others.
    fn answer_of(&self, call: Result<Sent, Broken>) -> Result<proto::ApplyReply, Broken> {
        let mut answer = None;
        let mut receive = |reply| match reply {
            Reply::Apply(reply) => {
                answer = Some(reply);
                Ok(ControlFlow::Continue(()))
            }
            _ => Err(self.stray()),
        };
        let wait = Wait {
            cancel: None,
            long: true,
        };
        self.receive(&call?, wait, &mut receive)?;
        let answer = answer.ok_or_else(|| Broken::Failed(self.stray()))?;
        self.saw(Version(answer.version));
        Ok(answer)
    }
}

impl State {
    fn add(&mut self, mut kept: Kept) {
        kept.place = self.next;
        self.next += 1;
        self.open.insert(kept.place);
        self.bytes += kept.bytes;
        let server = self.kept.entry(kept.held.server).or_default();
        server.push_back(kept);
    }

    /// Nothing sends it again.
    fn settle(&mut self, kept: Kept) {
        self.bytes -= kept.bytes;
        self.open.remove(&kept.place);
        if let Some(number) = kept.number {
            number.settle();
        }
    }

    /// Lets go of what a server's checkpoints hold; gives what the server has lost.
    fn learn(&mut self, now: &proto::Held) -> Vec<Kept> {
        let Some(all) = self.kept.remove(&now.server) else {
            return Vec::new();
        };
        let mut again = Vec::new();
        let mut left = VecDeque::with_capacity(all.len());
        for kept in all {
            if kept.held.incarnation < now.incarnation {
                again.push(kept);
            } else if kept.held.incarnation == now.incarnation && kept.held.number <= now.number {
                self.settle(kept);
            } else {
                left.push_back(kept);
            }
        }
        if !left.is_empty() {
            self.kept.insert(now.server, left);
        }
        again
    }

    /// What became of what was kept; an error if some of it could not be done again, told once.
    fn told(&mut self) -> Result<()> {
        let why = self.why.take().unwrap_or_default();
        match std::mem::take(&mut self.lost) {
            0 => Ok(()),
            lost => Err(Error::Unavailable(format!(
                "{lost} batches that were acknowledged died with their server and could not be done again: {why}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(server: u32, incarnation: u64, number: u64) -> proto::Held {
        proto::Held {
            server,
            incarnation,
            number,
        }
    }

    fn kept(version: u64, held: proto::Held) -> Kept {
        let request = proto::Request {
            call: Some(Call::Apply(proto::ApplyRequest::default())),
        };
        let reply = proto::ApplyReply {
            version,
            ..Default::default()
        };
        Kept::new(request, &reply, held, None)
    }

    #[test]
    fn what_checkpoints_hold_is_let_go_and_what_died_is_given_back() {
        let mut state = State::default();
        for (version, place) in [
            (10, held(1, 4, 7)),
            (11, held(2, 1, 3)),
            (12, held(1, 4, 9)),
            (13, held(1, 5, 2)),
        ] {
            state.add(kept(version, place));
        }
        let one = state.bytes / 4;
        assert!(state.learn(&held(1, 4, 8)).is_empty());
        assert_eq!(state.bytes, 3 * one);
        // Server 1 was started again: what it had not persisted before is to be sent again, what came since is not.
        let again = state.learn(&held(1, 5, 1));
        assert_eq!(again.iter().map(|k| k.version).collect::<Vec<_>>(), [12]);
        assert_eq!(state.bytes, 3 * one, "it is kept while it is on its way");
        assert!(state.learn(&held(1, 5, 2)).is_empty());
        assert!(state.learn(&held(3, 1, 1)).is_empty());
        assert_eq!(state.bytes, 2 * one);
        assert_eq!(state.open.iter().copied().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(state.kept.get(&2).map(VecDeque::len), Some(1));
    }
}
