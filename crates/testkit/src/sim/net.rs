//! A simulated network that delays, reorders, loses and repeats messages, with servers that may be down.

use super::copies::Copies;
use super::exec::{Exec, Group, LocalFuture, Receiver, Sender, Shared, oneshot, within};
use super::files::{SimFiles, SimShare};
use crate::rng::Rng;
use esker_cluster::node::{BoxFuture, SharedFiles, Window};
use esker_cluster::peer::{PeerRequest, PeerResponse, Response};
use esker_cluster::{Host, Node, ServerId};
use esker_model::{Error, Result};
use esker_store::memory::MemoryStore;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// A receiver of requests.
pub trait Peer: Send + Sync {
    /// Handles a request; an error means that the sender gets no response.
    fn handle(self: Arc<Self>, question: PeerRequest)
    -> LocalFuture<'static, Result<PeerResponse>>;
}

impl Peer for Node {
    fn handle(
        self: Arc<Self>,
        question: PeerRequest,
    ) -> LocalFuture<'static, Result<PeerResponse>> {
        Box::pin(async move { Ok(Self::handle(&self, question).await) })
    }
}

/// Probabilities of message faults, in thousandths.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Requests that never arrive.
    pub lost_requests: usize,
    /// Responses that never arrive.
    pub lost_responses: usize,
    /// Requests that arrive twice.
    pub repeated: usize,
    /// Messages that take up to three times the timeout.
    pub late: usize,
}

/// Delays and timeouts, in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Smallest delay of a message.
    pub delay_min: u64,
    /// Largest delay of a message that is not late.
    pub delay_max: u64,
    /// Timeout of a request.
    pub wait: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            delay_min: 20,
            delay_max: 1000,
            wait: 2_000_000,
        }
    }
}

#[derive(Clone)]
struct Endpoint {
    group: Group,
    peer: Arc<dyn Peer>,
}

enum Payload {
    Request {
        from: ServerId,
        /// Task group of the sender.
        group: Group,
        to: ServerId,
        question: Box<PeerRequest>,
        reply: Reply,
    },
    Response {
        from: ServerId,
        to: ServerId,
        /// Task groups of the responder and of the receiver.
        groups: (Group, Group),
        answer: Box<Result<PeerResponse>>,
        reply: Reply,
    },
}

/// Channel for the first response.
#[derive(Clone)]
struct Reply(Arc<Mutex<Option<Sender<Result<PeerResponse>>>>>);

impl Reply {
    fn send(&self, answer: Result<PeerResponse>) {
        let sender = locked(&self.0).take();
        if let Some(sender) = sender {
            sender.send(answer);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Envelope {
    at: u64,
    number: u64,
    load: Payload,
}

impl PartialEq for Envelope {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}
impl Eq for Envelope {}
impl PartialOrd for Envelope {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Envelope {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// Size of a page that a server sent to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSize {
    /// Number of rows in the page.
    pub rows: usize,
    /// Size of the rows as text, in bytes.
    pub bytes: usize,
}

struct State {
    rng: Rng,
    /// Source of the durations of commits.
    disks: Rng,
    faults: Faults,
    times: Times,
    endpoints: BTreeMap<ServerId, Endpoint>,
    /// Former locations of servers, which may still be in use.
    former: Vec<(ServerId, Endpoint)>,
    /// Directed connections that are cut.
    cut: BTreeSet<(ServerId, ServerId)>,
    /// Process of each task group, where servers move between processes.
    processes: BTreeMap<Group, usize>,
    /// Directed connections between processes that are cut.
    cut_processes: BTreeSet<(usize, usize)>,
    in_flight: BinaryHeap<Reverse<Envelope>>,
    sent: u64,
    /// Pages of differences that were sent.
    pages: Vec<PageSize>,
    delivery_waker: Option<Waker>,
}

impl State {
    fn permille(&mut self, permille: usize) -> bool {
        permille > 0 && self.rng.number_below(1000) < permille
    }

    fn delay(&mut self) -> u64 {
        if self.permille(self.faults.late) {
            return self.rng.number_below(3 * self.times.wait as usize) as u64;
        }
        let spread = self.times.delay_max - self.times.delay_min;
        self.times.delay_min + self.rng.number_below(spread as usize + 1) as u64
    }

    fn parted(&self, from: Group, to: Group) -> bool {
        let process = |group: Group| self.processes.get(&group).copied();
        let both = process(from).zip(process(to));
        both.is_some_and(|both| self.cut_processes.contains(&both))
    }

    /// Chooses the location at which a sender looks for a server.
    fn endpoint(&mut self, server: ServerId) -> Option<Endpoint> {
        let former: Vec<Endpoint> = self
            .former
            .iter()
            .filter(|(id, _)| *id == server)
            .map(|(_, endpoint)| endpoint.clone())
            .collect();
        if !former.is_empty() && self.rng.percent(40) {
            return former.get(self.rng.number_below(former.len())).cloned();
        }
        self.endpoints.get(&server).cloned()
    }

    fn send(&mut self, now: u64, load: Payload) {
        self.sent += 1;
        let (at, number) = (now + self.delay(), self.sent);
        self.in_flight.push(Reverse(Envelope { at, number, load }));
        self.delivery_waker.take().into_iter().for_each(Waker::wake);
    }
}

/// The network. A clone is another handle to it.
#[derive(Clone)]
pub struct Net {
    shared: Arc<Shared>,
    state: Arc<Mutex<State>>,
    copies: Arc<Copies>,
}

impl Net {
    /// Creates a network without servers, and starts its delivery task.
    pub fn new(exec: &Rc<Exec>, seed: u64, times: Times) -> Self {
        let state = State {
            rng: Rng::new(seed),
            disks: Rng::new(seed ^ 0x6469_736b),
            faults: Faults::default(),
            times,
            endpoints: BTreeMap::new(),
            former: Vec::new(),
            cut: BTreeSet::new(),
            processes: BTreeMap::new(),
            cut_processes: BTreeSet::new(),
            in_flight: BinaryHeap::new(),
            sent: 0,
            pages: Vec::new(),
            delivery_waker: None,
        };
        let net = Self {
            shared: Arc::clone(exec.shared()),
            state: Arc::new(Mutex::new(state)),
            copies: Arc::default(),
        };
        let delivery_waker = net.clone().deliver_messages(Rc::downgrade(exec));
        exec.spawn(super::exec::OUTSIDE, Box::pin(delivery_waker));
        net
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Returns the copies that servers have made.
    pub fn copies(&self) -> &Arc<Copies> {
        &self.copies
    }

    /// Sets the probabilities of message faults.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Adds a server to the network.
    pub fn add(&self, id: ServerId, group: Group, peer: Arc<dyn Peer>) {
        self.state().endpoints.insert(id, Endpoint { group, peer });
    }

    /// Adds another instance of a server, in that process; former instances may remain for a while.
    pub fn assign(&self, id: ServerId, group: Group, process: usize, peer: Arc<dyn Peer>) {
        let mut state = self.state();
        state.processes.insert(group, process);
        let before = state.endpoints.insert(id, Endpoint { group, peer });
        state.former.extend(before.map(|endpoint| (id, endpoint)));
    }

    /// Removes the instances of a task group.
    pub fn unassign(&self, group: Group) {
        let gone = {
            let mut state = self.state();
            let of = |endpoint: &Endpoint| endpoint.group == group;
            let endpoints = state.endpoints.extract_if(.., |_, endpoint| of(endpoint));
            let mut gone: Vec<(ServerId, Endpoint)> = endpoints.collect();
            gone.extend(state.former.extract_if(.., |(_, endpoint)| of(endpoint)));
            state.processes.remove(&group);
            gone
        };
        drop(gone);
    }

    /// Cuts the connection from one process to another.
    pub fn cut_processes(&self, from: usize, to: usize) {
        self.state().cut_processes.insert((from, to));
    }

    /// Removes a server from the network.
    pub fn remove(&self, id: ServerId) {
        let gone = self.state().endpoints.remove(&id);
        drop(gone);
    }

    /// Cuts the connection from one server to another.
    pub fn cut(&self, from: ServerId, to: ServerId) {
        self.state().cut.insert((from, to));
    }

    /// Repairs all cut connections.
    pub fn join_all(&self) {
        let mut state = self.state();
        state.cut.clear();
        state.cut_processes.clear();
    }

    /// Removes all servers and messages.
    pub fn clear(&self) {
        let gone = {
            let mut state = self.state();
            state.delivery_waker = None;
            let endpoints = std::mem::take(&mut state.endpoints);
            let former = std::mem::take(&mut state.former);
            (endpoints, former, std::mem::take(&mut state.in_flight))
        };
        drop(gone);
    }

    /// Removes all messages in flight; both their ends are gone.
    pub fn forget_messages(&self) {
        let in_flight = std::mem::take(&mut self.state().in_flight);
        drop(in_flight);
    }

    /// Returns the number of messages sent.
    pub fn sent(&self) -> u64 {
        self.state().sent
    }

    /// Returns the sizes of the pages of differences that servers have sent to each other.
    pub fn pages(&self) -> Vec<PageSize> {
        self.state().pages.clone()
    }

    /// Forgets the pages so far.
    pub fn forget_pages(&self) {
        self.state().pages.clear();
    }

    /// Creates the host of a server's node.
    pub fn host(
        &self,
        id: ServerId,
        group: Group,
        window: Option<Arc<dyn Window>>,
        files: Option<Arc<SimFiles>>,
        store: Option<&MemoryStore>,
    ) -> Arc<dyn Host> {
        Arc::new(SimHost {
            store: store.cloned(),
            window,
            files,
            id,
            group,
            net: self.clone(),
        })
    }

    /// Sends a request; the receiver of the response may wait for ever.
    fn put(
        &self,
        (from, group): (ServerId, Group),
        to: ServerId,
        question: &PeerRequest,
    ) -> Receiver<Result<PeerResponse>> {
        let (sender, receiver) = oneshot();
        let reply = Reply(Arc::new(Mutex::new(Some(sender))));
        let now = self.shared.now();
        self.shared
            .note(|| format!("{from} asks {to}: {:?}", question.request));
        let mut state = self.state();
        let faults = state.faults;
        // The reply channel of a lost message stays open, so that the sender does not notice the loss.
        let lost = state.permille(faults.lost_requests);
        let copies = if state.permille(faults.repeated) {
            2
        } else {
            usize::from(!lost)
        };
        for _ in 0..copies {
            let load = Payload::Request {
                from,
                group,
                to,
                question: Box::new(question.clone()),
                reply: reply.clone(),
            };
            state.send(now, load);
        }
        if copies == 0 {
            drop(state);
            self.keep(reply);
        }
        receiver
    }

    /// Keeps a reply channel open until its timeout has passed.
    fn keep(&self, reply: Reply) {
        let shared = Arc::clone(&self.shared);
        let wait = 4 * self.state().times.wait;
        let task = Box::pin(async move {
            shared.sleep(wait).await;
            drop(reply);
        });
        self.shared.spawn(super::exec::OUTSIDE, task);
    }

    async fn deliver_messages(self, exec: std::rc::Weak<Exec>) {
        loop {
            let (due, wait, sent) = {
                let mut state = self.state();
                let now = self.shared.now();
                let at = state.in_flight.peek().map(|Reverse(parcel)| parcel.at);
                let due = at.filter(|at| *at <= now);
                let parcel = due.and_then(|_| state.in_flight.pop());
                (parcel, at.map(|at| at.saturating_sub(now)), state.sent)
            };
            if let Some(Reverse(parcel)) = due {
                let Some(exec) = exec.upgrade() else { return };
                self.deliver(&exec, parcel.load);
                continue;
            }
            let woken = NextMessage { net: &self, sent };
            within(&self.shared, wait.unwrap_or(u64::MAX / 2), woken).await;
        }
    }

    fn deliver(&self, exec: &Rc<Exec>, load: Payload) {
        match load {
            Payload::Request {
                from,
                group,
                to,
                question,
                reply,
            } => {
                let (endpoint, cut, refused) = {
                    let mut state = self.state();
                    let endpoint = state.endpoint(to);
                    let parted = |endpoint: &Endpoint| state.parted(group, endpoint.group);
                    let parted = endpoint.as_ref().is_some_and(parted);
                    let cut = parted || state.cut.contains(&(from, to));
                    // A missing receiver is noticed at once in half of the cases.
                    let refused = !cut && state.rng.percent(50);
                    (endpoint, cut, refused)
                };
                let there = endpoint.filter(|p| !cut && !exec.is_dead(p.group));
                let Some(endpoint) = there else {
                    if refused {
                        reply.send(Err(Error::Unavailable(format!("{to} is not there"))));
                    } else {
                        self.keep(reply);
                    }
                    return;
                };
                let net = self.clone();
                let groups = (endpoint.group, group);
                let answering = endpoint.peer.handle(*question);
                let task = async move {
                    let answer = answering.await;
                    net.answer((to, from), groups, answer, reply);
                };
                // If the responder dies, the reply is dropped, like a broken connection.
                exec.spawn(endpoint.group, Box::pin(task));
            }
            Payload::Response {
                from,
                to,
                groups,
                answer,
                reply,
            } => {
                let cut = {
                    let state = self.state();
                    state.cut.contains(&(from, to)) || state.parted(groups.0, groups.1)
                };
                if cut {
                    self.keep(reply);
                } else {
                    reply.send(*answer);
                }
            }
        }
    }

    fn answer(
        &self,
        (from, to): (ServerId, ServerId),
        groups: (Group, Group),
        answer: Result<PeerResponse>,
        reply: Reply,
    ) {
        self.shared.note(|| {
            let outcome = answer.as_ref().map(|answer| &answer.outcome);
            format!("{from} answers {to}: {outcome:?}")
        });
        let now = self.shared.now();
        let mut state = self.state();
        if let Ok(PeerResponse {
            outcome: Ok(Response::Diff { differences, .. }),
            ..
        }) = &answer
        {
            state.pages.push(PageSize {
                rows: differences.len(),
                bytes: format!("{differences:?}").len(),
            });
        }
        let faults = state.faults;
        if state.permille(faults.lost_responses) {
            drop(state);
            self.keep(reply);
            return;
        }
        let load = Payload::Response {
            from,
            to,
            groups,
            answer: Box::new(answer),
            reply,
        };
        state.send(now, load);
    }
}

/// Completes once another message was sent.
struct NextMessage<'a> {
    net: &'a Net,
    sent: u64,
}

impl Future for NextMessage<'_> {
    type Output = ();

    fn poll(self: std::pin::Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<()> {
        let mut state = self.net.state();
        if state.sent != self.sent {
            return Poll::Ready(());
        }
        state.delivery_waker = Some(context.waker().clone());
        Poll::Pending
    }
}

struct SimHost {
    id: ServerId,
    group: Group,
    net: Net,
    window: Option<Arc<dyn Window>>,
    files: Option<Arc<SimFiles>>,
    store: Option<MemoryStore>,
}

impl Host for SimHost {
    fn call(
        &self,
        to: ServerId,
        question: PeerRequest,
    ) -> BoxFuture<'static, Result<PeerResponse>> {
        let (net, from, group) = (self.net.clone(), self.id, self.group);
        Box::pin(async move {
            let wait = net.state().times.wait;
            let answer = net.put((from, group), to, &question);
            let shared = Arc::clone(&net.shared);
            match within(&shared, wait, answer).await {
                Some(Some(answer)) => answer,
                Some(None) => Err(Error::Unavailable(format!("{to} hung up"))),
                None => Err(Error::Unavailable(format!("{to} does not answer"))),
            }
        })
    }

    fn sleep(&self, millis: u64) -> BoxFuture<'static, ()> {
        Box::pin(self.net.shared.sleep(millis.saturating_mul(1000)))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.net.shared.spawn(self.group, task);
    }

    /// Half of the commits wait for a disk, so that others arrive meanwhile.
    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        let delay = {
            let state = &mut *self.net.state();
            let waits = state.disks.percent(50);
            waits.then(|| state.disks.number_below(state.times.delay_max as usize + 1) as u64)
        };
        let Some(delay) = delay else { return work() };
        let sleep = self.net.shared.sleep(delay);
        self.spawn(Box::pin(async move {
            sleep.await;
            work();
        }));
    }

    fn files(&self) -> Option<Arc<dyn SharedFiles>> {
        let files = self.files.clone()?;
        Some(Arc::new(SimShare(files)))
    }

    fn window(&self) -> Option<Arc<dyn Window>> {
        self.window.clone()
    }

    fn copy(&self, to: String) -> BoxFuture<'static, Result<u64>> {
        let (net, id, store) = (self.net.clone(), self.id, self.store.clone());
        Box::pin(async move {
            // Some disks are slow.
            let delay = net.state().delay();
            net.shared.sleep(delay).await;
            let store = store.ok_or_else(|| Error::Invalid("there is nothing to copy".into()))?;
            net.copies.take(to, id, &store)?;
            Ok(1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::exec::OUTSIDE;
    use super::*;
    use esker_cluster::peer::{Request, Response};
    use esker_model::Version;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Counts(AtomicU64);

    impl Peer for Counts {
        fn handle(
            self: Arc<Self>,
            question: PeerRequest,
        ) -> LocalFuture<'static, Result<PeerResponse>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                Ok(PeerResponse {
                    incarnation: question.incarnation,
                    clock: Version::ZERO,
                    newest: Version::ZERO,
                    moves: 0,
                    persisted: 0,
                    outcome: Ok(Response::Done),
                })
            })
        }
    }

    fn ping() -> PeerRequest {
        PeerRequest {
            from: ServerId(0),
            incarnation: 7,
            clock: Version::ZERO,
            newest: Version::ZERO,
            request: Request::Ping,
        }
    }

    struct Two {
        exec: Rc<Exec>,
        net: Net,
        peer: Arc<Counts>,
        group: Group,
    }

    fn two(seed: u64) -> Two {
        let exec = Exec::new(seed, false);
        let net = Net::new(&exec, seed, Times::default());
        let peer = Arc::new(Counts::default());
        let group = exec.group();
        net.add(ServerId(1), group, Arc::clone(&peer) as Arc<dyn Peer>);
        Two {
            exec,
            net,
            peer,
            group,
        }
    }

    impl Two {
        fn ping_peer(&self) -> Result<PeerResponse> {
            let call = self
                .net
                .host(ServerId(0), OUTSIDE, None, None, None)
                .call(ServerId(1), ping());
            self.exec.block_on(call, 10_000_000).unwrap()
        }
    }

    #[test]
    fn questions_are_answered() {
        let two = two(1);
        assert_eq!(two.ping_peer().unwrap().incarnation, 7);
        assert!(two.exec.shared().now() < 2100);
    }

    #[test]
    fn what_is_lost_is_noticed_late() {
        let two = two(1);
        for (questions, answers, arrived) in [(1000, 0, 0), (0, 1000, 1)] {
            let before = two.exec.shared().now();
            two.net.set_faults(Faults {
                lost_requests: questions,
                lost_responses: answers,
                ..Faults::default()
            });
            let said = two.ping_peer().unwrap_err().to_string();
            assert_eq!(said, "server 1 does not answer");
            assert!(two.exec.shared().now() - before >= 2_000_000);
            assert_eq!(two.peer.0.load(Ordering::Relaxed), arrived);
        }
    }

    #[test]
    fn a_question_may_come_twice() {
        let two = two(1);
        two.net.set_faults(Faults {
            repeated: 1000,
            ..Faults::default()
        });
        assert!(two.ping_peer().is_ok());
        while two.exec.shared().now() < 10_000 && two.exec.step() {}
        assert_eq!(two.peer.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn nobody_answers_from_beyond_a_cut_or_after_death() {
        let two = two(3);
        two.net.cut(ServerId(1), ServerId(0));
        assert!(two.ping_peer().is_err(), "the answer does not get through");
        assert_eq!(two.peer.0.load(Ordering::Relaxed), 1);
        two.net.join_all();
        assert!(two.ping_peer().is_ok());
        two.exec.kill(two.group);
        assert!(two.ping_peer().is_err());
        assert_eq!(two.peer.0.load(Ordering::Relaxed), 2);
    }
}
