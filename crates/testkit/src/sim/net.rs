//! A network that delays, reorders, loses and repeats, and servers that are not there.

use super::copies::Copies;
use super::exec::{Exec, Group, LocalFuture, Receiver, Sender, Shared, oneshot, within};
use super::files::{SimFiles, SimShare};
use crate::rng::Rng;
use esker_cluster::node::{BoxFuture, SharedFiles, Window};
use esker_cluster::peer::{Answer, Question};
use esker_cluster::{Host, Node, ServerId};
use esker_model::{Error, Result};
use esker_store::memory::MemoryStore;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// Somebody who answers questions.
pub trait Peer: Send + Sync {
    /// Answers one; an error is what the sender hears of a place that answers nothing.
    fn handle(self: Arc<Self>, question: Question) -> LocalFuture<'static, Result<Answer>>;
}

impl Peer for Node {
    fn handle(self: Arc<Self>, question: Question) -> LocalFuture<'static, Result<Answer>> {
        Box::pin(async move { Ok(Self::handle(&self, question).await) })
    }
}

/// What goes wrong, in so many of a thousand messages. Microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Questions that never arrive.
    pub lost_questions: usize,
    /// Answers that never arrive.
    pub lost_answers: usize,
    /// Questions that arrive twice.
    pub repeated: usize,
    /// Messages that take up to three times as long as anybody waits.
    pub late: usize,
}

/// How long things take, in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Each message at least.
    pub delay_min: u64,
    /// Each message at most, if it is not late.
    pub delay_max: u64,
    /// Who has no answer by then gives up.
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
struct Place {
    group: Group,
    peer: Arc<dyn Peer>,
}

enum Load {
    Question {
        from: ServerId,
        /// Who runs the one that asks.
        group: Group,
        to: ServerId,
        question: Box<Question>,
        reply: Reply,
    },
    Answer {
        from: ServerId,
        to: ServerId,
        /// Those who run the one that answers, and the one that asked.
        groups: (Group, Group),
        answer: Box<Result<Answer>>,
        reply: Reply,
    },
}

/// Where the first answer goes.
#[derive(Clone)]
struct Reply(Arc<Mutex<Option<Sender<Result<Answer>>>>>);

impl Reply {
    fn send(&self, answer: Result<Answer>) {
        let sender = locked(&self.0).take();
        if let Some(sender) = sender {
            sender.send(answer);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Parcel {
    at: u64,
    number: u64,
    load: Load,
}

impl PartialEq for Parcel {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}
impl Eq for Parcel {}
impl PartialOrd for Parcel {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Parcel {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

struct State {
    rng: Rng,
    faults: Faults,
    times: Times,
    places: BTreeMap<ServerId, Place>,
    /// Where servers were before, and may still be believed to be.
    former: Vec<(ServerId, Place)>,
    /// Nothing gets from the first to the second.
    cut: BTreeSet<(ServerId, ServerId)>,
    /// Which process a group is of, where servers move between processes.
    processes: BTreeMap<Group, usize>,
    /// Nothing gets from the first to the second.
    cut_processes: BTreeSet<(usize, usize)>,
    parcels: BinaryHeap<Reverse<Parcel>>,
    sent: u64,
    postman: Option<Waker>,
}

impl State {
    fn permille(&mut self, permille: usize) -> bool {
        permille > 0 && self.rng.below(1000) < permille
    }

    fn delay(&mut self) -> u64 {
        if self.permille(self.faults.late) {
            return self.rng.below(3 * self.times.wait as usize) as u64;
        }
        let spread = self.times.delay_max - self.times.delay_min;
        self.times.delay_min + self.rng.below(spread as usize + 1) as u64
    }

    fn parted(&self, from: Group, to: Group) -> bool {
        let process = |group: Group| self.processes.get(&group).copied();
        let both = process(from).zip(process(to));
        both.is_some_and(|both| self.cut_processes.contains(&both))
    }

    /// Where somebody believes a server to be.
    fn place(&mut self, server: ServerId) -> Option<Place> {
        let former: Vec<Place> = self
            .former
            .iter()
            .filter(|(id, _)| *id == server)
            .map(|(_, place)| place.clone())
            .collect();
        if !former.is_empty() && self.rng.percent(40) {
            return former.get(self.rng.below(former.len())).cloned();
        }
        self.places.get(&server).cloned()
    }

    fn send(&mut self, now: u64, load: Load) {
        self.sent += 1;
        let (at, number) = (now + self.delay(), self.sent);
        self.parcels.push(Reverse(Parcel { at, number, load }));
        self.postman.take().into_iter().for_each(Waker::wake);
    }
}

/// The network. A clone is another handle on it.
#[derive(Clone)]
pub struct Net {
    shared: Arc<Shared>,
    state: Arc<Mutex<State>>,
    copies: Arc<Copies>,
}

impl Net {
    /// A network without servers; its postman runs for ever.
    pub fn new(exec: &Rc<Exec>, seed: u64, times: Times) -> Self {
        let state = State {
            rng: Rng::new(seed),
            faults: Faults::default(),
            times,
            places: BTreeMap::new(),
            former: Vec::new(),
            cut: BTreeSet::new(),
            processes: BTreeMap::new(),
            cut_processes: BTreeSet::new(),
            parcels: BinaryHeap::new(),
            sent: 0,
            postman: None,
        };
        let net = Self {
            shared: Arc::clone(exec.shared()),
            state: Arc::new(Mutex::new(state)),
            copies: Arc::default(),
        };
        let postman = net.clone().carry(Rc::downgrade(exec));
        exec.spawn(super::exec::WORLD, Box::pin(postman));
        net
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Copies that servers have made.
    pub fn copies(&self) -> &Arc<Copies> {
        &self.copies
    }

    /// From now on this goes wrong.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// A server is there.
    pub fn add(&self, id: ServerId, group: Group, peer: Arc<dyn Peer>) {
        self.state().places.insert(id, Place { group, peer });
    }

    /// A server is also there from now on, in that process; where it was before it may be for a while.
    pub fn seat(&self, id: ServerId, group: Group, process: usize, peer: Arc<dyn Peer>) {
        let mut state = self.state();
        state.processes.insert(group, process);
        let before = state.places.insert(id, Place { group, peer });
        state.former.extend(before.map(|place| (id, place)));
    }

    /// A group has nothing any more.
    pub fn unseat(&self, group: Group) {
        let gone = {
            let mut state = self.state();
            let of = |place: &Place| place.group == group;
            let places = state.places.extract_if(.., |_, place| of(place));
            let mut gone: Vec<(ServerId, Place)> = places.collect();
            gone.extend(state.former.extract_if(.., |(_, place)| of(place)));
            state.processes.remove(&group);
            gone
        };
        drop(gone);
    }

    /// Nothing gets from one process to the other any more.
    pub fn cut_processes(&self, from: usize, to: usize) {
        self.state().cut_processes.insert((from, to));
    }

    /// It no longer is.
    pub fn remove(&self, id: ServerId) {
        let gone = self.state().places.remove(&id);
        drop(gone);
    }

    /// Nothing gets from one to the other any more.
    pub fn cut(&self, from: ServerId, to: ServerId) {
        self.state().cut.insert((from, to));
    }

    /// Everything gets everywhere again.
    pub fn join_all(&self) {
        let mut state = self.state();
        state.cut.clear();
        state.cut_processes.clear();
    }

    /// Forgets all servers and messages.
    pub fn clear(&self) {
        let gone = {
            let mut state = self.state();
            state.postman = None;
            let places = std::mem::take(&mut state.places);
            let former = std::mem::take(&mut state.former);
            (places, former, std::mem::take(&mut state.parcels))
        };
        drop(gone);
    }

    /// Forgets what is on its way: both its ends are gone for good.
    pub fn forget_messages(&self) {
        let parcels = std::mem::take(&mut self.state().parcels);
        drop(parcels);
    }

    /// How many messages were sent.
    pub fn sent(&self) -> u64 {
        self.state().sent
    }

    /// What a server sees of the network.
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

    /// A question is on its way; whoever waits may wait for ever.
    fn put(
        &self,
        (from, group): (ServerId, Group),
        to: ServerId,
        question: &Question,
    ) -> Receiver<Result<Answer>> {
        let (sender, receiver) = oneshot();
        let reply = Reply(Arc::new(Mutex::new(Some(sender))));
        let now = self.shared.now();
        self.shared
            .note(|| format!("{from} asks {to}: {:?}", question.request));
        let mut state = self.state();
        let faults = state.faults;
        // One that is lost keeps its place for the answer, so that nobody hears that it was lost.
        let lost = state.permille(faults.lost_questions);
        let copies = if state.permille(faults.repeated) {
            2
        } else {
            usize::from(!lost)
        };
        for _ in 0..copies {
            let load = Load::Question {
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

    /// Keeps a reply from being dropped before anybody has given up waiting for it.
    fn keep(&self, reply: Reply) {
        let shared = Arc::clone(&self.shared);
        let wait = 4 * self.state().times.wait;
        let task = Box::pin(async move {
            shared.sleep(wait).await;
            drop(reply);
        });
        self.shared.spawn(super::exec::WORLD, task);
    }

    async fn carry(self, exec: std::rc::Weak<Exec>) {
        loop {
            let (due, wait, sent) = {
                let mut state = self.state();
                let now = self.shared.now();
                let at = state.parcels.peek().map(|Reverse(parcel)| parcel.at);
                let due = at.filter(|at| *at <= now);
                let parcel = due.and_then(|_| state.parcels.pop());
                (parcel, at.map(|at| at.saturating_sub(now)), state.sent)
            };
            if let Some(Reverse(parcel)) = due {
                let Some(exec) = exec.upgrade() else { return };
                self.deliver(&exec, parcel.load);
                continue;
            }
            let woken = Woken { net: &self, sent };
            within(&self.shared, wait.unwrap_or(u64::MAX / 2), woken).await;
        }
    }

    fn deliver(&self, exec: &Rc<Exec>, load: Load) {
        match load {
            Load::Question {
                from,
                group,
                to,
                question,
                reply,
            } => {
                let (place, cut, refused) = {
                    let mut state = self.state();
                    let place = state.place(to);
                    let parted = |place: &Place| state.parted(group, place.group);
                    let parted = place.as_ref().is_some_and(parted);
                    let cut = parted || state.cut.contains(&(from, to));
                    // Nobody there: half of the time that is noticed at once.
                    let refused = !cut && state.rng.percent(50);
                    (place, cut, refused)
                };
                let there = place.filter(|p| !cut && !exec.is_dead(p.group));
                let Some(place) = there else {
                    if refused {
                        reply.send(Err(Error::Unavailable(format!("{to} is not there"))));
                    } else {
                        self.keep(reply);
                    }
                    return;
                };
                let net = self.clone();
                let groups = (place.group, group);
                let answering = place.peer.handle(*question);
                let task = async move {
                    let answer = answering.await;
                    net.answer((to, from), groups, answer, reply);
                };
                // One whose server dies is lost with it: the reply is dropped, as a connection breaks.
                exec.spawn(place.group, Box::pin(task));
            }
            Load::Answer {
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
        answer: Result<Answer>,
        reply: Reply,
    ) {
        self.shared.note(|| {
            let outcome = answer.as_ref().map(|answer| &answer.outcome);
            format!("{from} answers {to}: {outcome:?}")
        });
        let now = self.shared.now();
        let mut state = self.state();
        let faults = state.faults;
        if state.permille(faults.lost_answers) {
            drop(state);
            self.keep(reply);
            return;
        }
        let load = Load::Answer {
            from,
            to,
            groups,
            answer: Box::new(answer),
            reply,
        };
        state.send(now, load);
    }
}

/// Ends once something else was sent.
struct Woken<'a> {
    net: &'a Net,
    sent: u64,
}

impl Future for Woken<'_> {
    type Output = ();

    fn poll(self: std::pin::Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<()> {
        let mut state = self.net.state();
        if state.sent != self.sent {
            return Poll::Ready(());
        }
        state.postman = Some(context.waker().clone());
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
    fn call(&self, to: ServerId, question: Question) -> BoxFuture<'static, Result<Answer>> {
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
    use super::super::exec::WORLD;
    use super::*;
    use esker_cluster::peer::{Request, Response};
    use esker_model::Version;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Counts(AtomicU64);

    impl Peer for Counts {
        fn handle(self: Arc<Self>, question: Question) -> LocalFuture<'static, Result<Answer>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                Ok(Answer {
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

    fn ping() -> Question {
        Question {
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
        fn asked(&self) -> Result<Answer> {
            let call = self
                .net
                .host(ServerId(0), WORLD, None, None, None)
                .call(ServerId(1), ping());
            self.exec.block_on(call, 10_000_000).unwrap()
        }
    }

    #[test]
    fn questions_are_answered() {
        let two = two(1);
        assert_eq!(two.asked().unwrap().incarnation, 7);
        assert!(two.exec.shared().now() < 2100);
    }

    #[test]
    fn what_is_lost_is_noticed_late() {
        let two = two(1);
        for (questions, answers, arrived) in [(1000, 0, 0), (0, 1000, 1)] {
            let before = two.exec.shared().now();
            two.net.set_faults(Faults {
                lost_questions: questions,
                lost_answers: answers,
                ..Faults::default()
            });
            let said = two.asked().unwrap_err().to_string();
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
        assert!(two.asked().is_ok());
        while two.exec.shared().now() < 10_000 && two.exec.step() {}
        assert_eq!(two.peer.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn nobody_answers_from_beyond_a_cut_or_after_death() {
        let two = two(3);
        two.net.cut(ServerId(1), ServerId(0));
        assert!(two.asked().is_err(), "the answer does not get through");
        assert_eq!(two.peer.0.load(Ordering::Relaxed), 1);
        two.net.join_all();
        assert!(two.asked().is_ok());
        two.exec.kill(two.group);
        assert!(two.asked().is_err());
        assert_eq!(two.peer.0.load(Ordering::Relaxed), 2);
    }
}
