//! Acknowledged batches that no checkpoint contains yet (SoMeta, section II-H): the client keeps them and sends them
//! again if the
//! server loses them. Their idempotency keys make them apply once, even if a checkpoint did contain them.
//!
//! While batches are kept, a thread asks periodically which ones are in checkpoints. The thread does not keep a client
//! open: when
//! the last handle of a client is dropped, its guard waits until no batch is kept.

use super::connection::SentCall;
use super::{CallError, Client, Shared, Wait};
use crate::limits::{KEPT_BYTES_MAX, REPLAYS_IN_FLIGHT, WINDOW_POLL};
use crate::producer::BatchNumber;
use crate::proto;
use crate::proto::reply::Reply;
use crate::proto::request::Call;
use esker_model::{Error, ErrorKind, Result, Version};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

/// Kept batches of a client.
#[derive(Debug, Default)]
pub(super) struct KeptBatches {
    /// Whether the servers have ephemeral stores.
    pub(super) on: AtomicBool,
    state: Mutex<KeptState>,
    /// Lock for asking about checkpoints and sending batches again.
    poll_lock: Mutex<()>,
}

#[derive(Debug, Default)]
struct KeptState {
    /// Kept batches by server, in the order of their acknowledgement.
    kept: BTreeMap<u32, VecDeque<KeptBatch>>,
    bytes: usize,
    /// Sequence numbers of all kept batches; `next` is the next number.
    open: BTreeSet<u64>,
    next: u64,
    /// Whether the thread is running.
    polling: bool,
    /// Whether all handles were dropped.
    closed: bool,
    /// Number of batches that could not be applied again; `why` is the first reason.
    lost: u64,
    why: Option<String>,
}

/// An acknowledged batch that no checkpoint contains yet.
#[derive(Debug)]
pub(super) struct KeptBatch {
    request: proto::Request,
    position: proto::WindowPosition,
    version: u64,
    /// Settled once the batch will not be sent again.
    number: Option<BatchNumber>,
    bytes: usize,
    sequence: u64,
}

impl KeptBatch {
    pub(super) fn new(
        request: proto::Request,
        reply: &proto::ApplyReply,
        position: proto::WindowPosition,
        number: Option<BatchNumber>,
    ) -> Self {
        let bytes = prost::Message::encoded_len(&request) + size_of::<Self>();
        // A batch that was sent again keeps its first version.
        let acknowledged_at = match &request.call {
            Some(Call::Apply(apply)) => apply.acknowledged_at,
            _ => None,
        };
        Self {
            version: acknowledged_at.unwrap_or(reply.version),
            request,
            position,
            number,
            bytes,
            sequence: 0,
        }
    }
}

impl KeptBatches {
    fn state(&self) -> MutexGuard<'_, KeptState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Dropped with the last handle of a client.
#[derive(Debug)]
pub(super) struct Guard(pub(super) Arc<Shared>);

impl Drop for Guard {
    fn drop(&mut self) {
        let client = Client {
            shared: Arc::clone(&self.0),
            _guard: None,
            principal: None,
        };
        // Callers that need the result close the database instead.
        let _ = client.flush();
        client.shared.kept_batches.state().closed = true;
    }
}

impl Client {
    /// Keeps a batch until a checkpoint contains it. Waits for a checkpoint if too many bytes are kept.
    pub(super) fn keep(&self, kept: KeptBatch) {
        let kept_batches = &self.shared.kept_batches;
        let (start, full) = {
            let mut state = kept_batches.state();
            state.add(kept);
            let start = !std::mem::replace(&mut state.polling, true);
            (start, state.bytes > KEPT_BYTES_MAX)
        };
        if start {
            let client = Self {
                shared: Arc::clone(&self.shared),
                _guard: None,
                principal: None,
            };
            let thread = std::thread::Builder::new().name("esker-window".into());
            if thread.spawn(move || client.run_polling()).is_err() {
                kept_batches.state().polling = false;
            }
        }
        if full {
            // A server that cannot write checkpoints must not accumulate more unsaved batches.
            let _ = self.flush();
        }
    }

    /// Main loop of the thread.
    fn run_polling(&self) {
        loop {
            std::thread::sleep(WINDOW_POLL);
            // An unreachable server is asked again later.
            let _ = self.poll_checkpoints(false);
            let mut state = self.shared.kept_batches.state();
            if state.bytes == 0 || state.closed {
                state.polling = false;
                return;
            }
        }
    }

    /// Waits until checkpoints contain all batches acknowledged so far.
    pub fn flush(&self) -> Result<()> {
        let kept_batches = &self.shared.kept_batches;
        let until = kept_batches.state().next;
        let mut progress = (None, Instant::now());
        loop {
            let first = {
                let mut state = kept_batches.state();
                let first = state.open.first().copied();
                // Batches of other threads since then are not waited for.
                if first.is_none_or(|first| first >= until) {
                    return state.take_loss();
                }
                first
            };
            if first > progress.0 {
                progress = (first, Instant::now());
            }
            match self.poll_checkpoints(true) {
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

    /// Asks which batches are in checkpoints, drops those, and sends lost batches again. Only one thread does so at a time.
    fn poll_checkpoints(&self, persist: bool) -> Result<()> {
        let kept_batches = &self.shared.kept_batches;
        let poll_lock = match kept_batches.poll_lock.try_lock() {
            Ok(poll_lock) => poll_lock,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            // Another thread is asking already.
            Err(TryLockError::WouldBlock) if !persist => return Ok(()),
            Err(TryLockError::WouldBlock) => kept_batches
                .poll_lock
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
            let mut state = kept_batches.state();
            let mut again = Vec::new();
            for server in reply.servers {
                again.extend(state.learn(&server));
            }
            again
        };
        // Batches are replayed in the order of their versions, across servers.
        again.sort_by_key(|kept| kept.version);
        let done = self.send_again(again);
        drop(poll_lock);
        done
    }

    fn send_again(&self, again: Vec<KeptBatch>) -> Result<()> {
        let mut failure = None;
        let mut rest = again.into_iter();
        loop {
            let mut sent = Vec::new();
            for mut kept in rest.by_ref().take(REPLAYS_IN_FLIGHT) {
                if let Some(Call::Apply(apply)) = &mut kept.request.call {
                    apply.acknowledged_at = Some(kept.version);
                }
                let connection = self.connection();
                let call = connection.and_then(|c| c.send(&kept.request, self.newest(), 0));
                sent.push((kept, call));
            }
            if sent.is_empty() {
                break;
            }
            for (mut kept, call) in sent {
                match self.answer_of(call).map_err(CallError::into_error) {
                    Ok(reply) => {
                        let mut state = self.shared.kept_batches.state();
                        match reply.window_position {
                            Some(position) => {
                                kept.position = position;
                                state
                                    .kept
                                    .entry(position.server)
                                    .or_default()
                                    .push_back(kept);
                            }
                            None => state.settle(kept),
                        }
                    }
                    // Retried later, because its incarnation is still an older one.
                    Err(e) if e.kind() == ErrorKind::Unavailable => {
                        let mut state = self.shared.kept_batches.state();
                        let server = state.kept.entry(kept.position.server).or_default();
                        server.push_back(kept);
                        failure = Some(e);
                    }
                    Err(e) => {
                        let mut state = self.shared.kept_batches.state();
                        state.lost += 1;
                        state.why.get_or_insert_with(|| e.to_string());
                        state.settle(kept);
                    }
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Reads the response of a batch, without retrying: a lost one is sent again with the others.
    fn answer_of(&self, call: Result<SentCall, CallError>) -> Result<proto::ApplyReply, CallError> {
        let mut answer = None;
        let mut receive = |reply| match reply {
            Reply::Apply(reply) => {
                answer = Some(reply);
                Ok(ControlFlow::Continue(()))
            }
            _ => Err(self.wrong_reply()),
        };
        let wait = Wait {
            cancel: None,
            long: true,
        };
        self.receive(&call?, wait, &mut receive)?;
        let answer = answer.ok_or_else(|| CallError::Failed(self.wrong_reply()))?;
        self.record_version(Version(answer.version));
        Ok(answer)
    }
}

impl KeptState {
    fn add(&mut self, mut kept: KeptBatch) {
        kept.sequence = self.next;
        self.next += 1;
        self.open.insert(kept.sequence);
        self.bytes += kept.bytes;
        let server = self.kept.entry(kept.position.server).or_default();
        server.push_back(kept);
    }

    /// Removes a batch that will not be sent again.
    fn settle(&mut self, kept: KeptBatch) {
        self.bytes -= kept.bytes;
        self.open.remove(&kept.sequence);
        if let Some(number) = kept.number {
            number.settle();
        }
    }

    /// Drops the batches that a server's checkpoints contain; returns those that the server has lost.
    fn learn(&mut self, now: &proto::WindowPosition) -> Vec<KeptBatch> {
        let Some(all) = self.kept.remove(&now.server) else {
            return Vec::new();
        };
        let mut again = Vec::new();
        let mut left = VecDeque::with_capacity(all.len());
        for kept in all {
            if kept.position.incarnation < now.incarnation {
                again.push(kept);
            } else if kept.position.incarnation == now.incarnation
                && kept.position.number <= now.number
            {
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

    /// Returns an error if batches could not be applied again, once per loss.
    fn take_loss(&mut self) -> Result<()> {
        let why = self.why.take().unwrap_or_default();
        match std::mem::take(&mut self.lost) {
            0 => Ok(()),
            lost => Err(Error::Unavailable(format!(
                "{lost} acknowledged batches were lost with their server and could not be applied again: {why}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(server: u32, incarnation: u64, number: u64) -> proto::WindowPosition {
        proto::WindowPosition {
            server,
            incarnation,
            number,
        }
    }

    fn kept(version: u64, position: proto::WindowPosition) -> KeptBatch {
        let request = proto::Request {
            call: Some(Call::Apply(proto::ApplyRequest::default())),
        };
        let reply = proto::ApplyReply {
            version,
            ..Default::default()
        };
        KeptBatch::new(request, &reply, position, None)
    }

    #[test]
    fn what_checkpoints_hold_is_let_go_and_what_died_is_given_back() {
        let mut state = KeptState::default();
        for (version, sequence) in [
            (10, position(1, 4, 7)),
            (11, position(2, 1, 3)),
            (12, position(1, 4, 9)),
            (13, position(1, 5, 2)),
        ] {
            state.add(kept(version, sequence));
        }
        let one = state.bytes / 4;
        assert!(state.learn(&position(1, 4, 8)).is_empty());
        assert_eq!(state.bytes, 3 * one);
        // After the restart of server 1, batches it had not persisted before are sent again, and later ones are not.
        let again = state.learn(&position(1, 5, 1));
        assert_eq!(again.iter().map(|k| k.version).collect::<Vec<_>>(), [12]);
        assert_eq!(state.bytes, 3 * one, "it is kept while it is on its way");
        assert!(state.learn(&position(1, 5, 2)).is_empty());
        assert!(state.learn(&position(3, 1, 1)).is_empty());
        assert_eq!(state.bytes, 2 * one);
        assert_eq!(state.open.iter().copied().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(state.kept.get(&2).map(VecDeque::len), Some(1));
    }
}
