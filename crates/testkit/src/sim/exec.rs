//! A single-threaded executor with its own clock: the next task is chosen from a seed, and time passes only when no
//! task can continue. The same seed gives the same run, poll by poll.
//!
//! Tasks belong to groups. A group is a server between start and crash: it can be paused, and killed, which drops its
//! futures wherever they are.

use crate::rng::Rng;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A future that stays on its thread.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
type SendFuture = Pin<Box<dyn Future<Output = ()> + Send>>;
type TaskId = u64;

/// A group of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group(pub u64);

/// The group of everything outside the servers; it is never killed.
pub const OUTSIDE: Group = Group(0);

/// Limit of polls; a run that exceeds it is in an endless loop.
const POLLS_MAX: u64 = 5_000_000;
/// Number of events that a trace keeps.
const TRACE_LINES: usize = 100_000;

/// State that may be accessed from anywhere: time, the queue of ready tasks, the trace.
pub struct Shared {
    inner: Mutex<SharedInner>,
    ready: Arc<Ready>,
}

struct SharedInner {
    /// Microseconds since the beginning.
    now: u64,
    /// Number of timers, which orders timers of equal time.
    timers_made: u64,
    timers: BinaryHeap<Reverse<Timer>>,
    /// Tasks that were spawned from outside the executor.
    incoming: VecDeque<(Group, SendFuture)>,
    tracing: bool,
    trace: VecDeque<String>,
    /// A hash of all events: equal in equal runs.
    digest: u64,
}

struct Timer {
    at: u64,
    number: u64,
    waker: Waker,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}
impl Eq for Timer {}
impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

#[derive(Default)]
struct Ready {
    tasks: Mutex<(Vec<TaskId>, BTreeSet<TaskId>)>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ready {
    fn add(&self, task: TaskId) {
        let mut tasks = locked(&self.tasks);
        if tasks.1.insert(task) {
            tasks.0.push(task);
        }
    }

    fn take(&self, rng: &mut Rng) -> Option<TaskId> {
        let mut tasks = locked(&self.tasks);
        let at = rng.number_below(tasks.0.len());
        (!tasks.0.is_empty()).then(|| {
            let task = tasks.0.swap_remove(at);
            tasks.1.remove(&task);
            task
        })
    }
}

struct TaskWaker {
    task: TaskId,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready.add(self.task);
    }
}

impl Shared {
    /// Returns the microseconds since the beginning.
    pub fn now(&self) -> u64 {
        locked(&self.inner).now
    }

    /// Spawns a task from outside the executor.
    pub fn spawn(&self, group: Group, task: SendFuture) {
        locked(&self.inner).incoming.push_back((group, task));
    }

    /// Returns a future that completes after `micros` microseconds.
    pub fn sleep(self: &Arc<Self>, micros: u64) -> Sleep {
        let until = self.now().saturating_add(micros);
        Sleep {
            until,
            set: None,
            shared: Arc::clone(self),
        }
    }

    /// Records an event. The text is made only if tracing is on.
    pub fn note(&self, what: impl FnOnce() -> String) {
        let mut inner = locked(&self.inner);
        if !inner.tracing {
            return;
        }
        let now = inner.now;
        if inner.trace.len() == TRACE_LINES {
            inner.trace.pop_front();
        }
        let text = what();
        inner
            .trace
            .push_back(format!("{:>12.3} ms  {text}", now as f64 / 1000.0));
    }

    /// Returns the last events.
    pub fn trace(&self) -> Vec<String> {
        locked(&self.inner).trace.iter().cloned().collect()
    }

    fn wake_at(&self, at: u64, waker: Waker) {
        let mut inner = locked(&self.inner);
        inner.timers_made += 1;
        let number = inner.timers_made;
        inner.timers.push(Reverse(Timer { at, number, waker }));
    }

    /// Advances the time, and calls all wakers that are due.
    fn advance(&self, to: u64) {
        let mut due = Vec::new();
        {
            let mut inner = locked(&self.inner);
            inner.now = inner.now.max(to);
            while inner
                .timers
                .peek()
                .is_some_and(|Reverse(t)| t.at <= inner.now)
            {
                due.extend(inner.timers.pop());
            }
        }
        due.into_iter()
            .for_each(|Reverse(timer)| timer.waker.wake());
    }
}

/// The future returned by [`Shared::sleep`].
pub struct Sleep {
    until: u64,
    /// The waker that the timer calls.
    set: Option<Waker>,
    shared: Arc<Shared>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.shared.now() >= self.until {
            return Poll::Ready(());
        }
        let waker = context.waker();
        if !self.set.as_ref().is_some_and(|set| set.will_wake(waker)) {
            self.set = Some(waker.clone());
            self.shared.wake_at(self.until, waker.clone());
        }
        Poll::Pending
    }
}

struct Task {
    group: Group,
    waker: Waker,
    future: LocalFuture<'static, ()>,
}

/// The executor of the simulation.
pub struct Exec {
    shared: Arc<Shared>,
    tasks: RefCell<BTreeMap<TaskId, Task>>,
    made: Cell<u64>,
    groups: Cell<u64>,
    rng: RefCell<Rng>,
    state: RefCell<Groups>,
    polls: Cell<u64>,
}

#[derive(Default)]
struct Groups {
    dead: BTreeSet<Group>,
    /// End of each pause, in microseconds.
    paused: BTreeMap<Group, u64>,
    /// Number of polls after which a group dies.
    poll_limits: BTreeMap<Group, u64>,
    /// Ready tasks of paused groups.
    deferred: Vec<(Group, TaskId)>,
}

impl Exec {
    /// Creates an empty executor. With `tracing` it keeps the last events as text.
    pub fn new(seed: u64, tracing: bool) -> Rc<Self> {
        let inner = SharedInner {
            now: 0,
            timers_made: 0,
            timers: BinaryHeap::new(),
            incoming: VecDeque::new(),
            tracing,
            trace: VecDeque::new(),
            digest: seed,
        };
        let shared = Shared {
            inner: Mutex::new(inner),
            ready: Arc::default(),
        };
        Rc::new(Self {
            shared: Arc::new(shared),
            tasks: RefCell::default(),
            made: Cell::new(0),
            groups: Cell::new(0),
            rng: RefCell::new(Rng::new(seed)),
            state: RefCell::default(),
            polls: Cell::new(0),
        })
    }

    /// Returns the simulated time and the trace.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns the number of polls so far.
    pub fn polls(&self) -> u64 {
        self.polls.get()
    }

    /// Returns a hash of all events so far: equal in equal runs.
    pub fn digest(&self) -> u64 {
        locked(&self.shared.inner).digest
    }

    /// Creates a group of tasks.
    pub fn group(&self) -> Group {
        self.groups.set(self.groups.get() + 1);
        Group(self.groups.get())
    }

    /// Spawns a task. In a dead group it is dropped.
    pub fn spawn(&self, group: Group, future: LocalFuture<'static, ()>) {
        if self.is_dead(group) {
            return;
        }
        self.made.set(self.made.get() + 1);
        let task = self.made.get();
        let ready = Arc::clone(&self.shared.ready);
        let waker = Waker::from(Arc::new(TaskWaker { task, ready }));
        let made = Task {
            group,
            waker,
            future,
        };
        self.tasks.borrow_mut().insert(task, made);
        self.shared.ready.add(task);
    }

    /// Drops all tasks of a group, now and for ever.
    pub fn kill(&self, group: Group) {
        {
            let mut state = self.state.borrow_mut();
            state.dead.insert(group);
            state.paused.remove(&group);
            state.poll_limits.remove(&group);
            state.deferred.retain(|(g, _)| *g != group);
        }
        let mut gone = Vec::new();
        {
            let mut tasks = self.tasks.borrow_mut();
            let of_group: Vec<TaskId> = tasks
                .iter()
                .filter(|(_, task)| task.group == group)
                .map(|(id, _)| *id)
                .collect();
            gone.extend(of_group.iter().filter_map(|id| tasks.remove(id)));
        }
        // Dropping a future may call the executor, so it happens last. Tasks that the drop has spawned are dropped, too.
        drop(gone);
        loop {
            let late = {
                let mut inner = locked(&self.shared.inner);
                let at = inner.incoming.iter().position(|(g, _)| *g == group);
                at.and_then(|at| inner.incoming.remove(at))
            };
            if late.is_none() {
                break;
            }
        }
        self.shared.note(|| format!("{group:?} is dead"));
    }

    /// Kills the group after a number of polls, possibly in the middle of an operation.
    pub fn kill_after(&self, group: Group, polls: u64) {
        self.state.borrow_mut().poll_limits.insert(group, polls);
    }

    /// Whether the group was killed.
    pub fn is_dead(&self, group: Group) -> bool {
        self.state.borrow().dead.contains(&group)
    }

    /// Pauses the group for `micros` microseconds.
    pub fn pause(&self, group: Group, micros: u64) {
        let until = self.shared.now() + micros;
        self.state.borrow_mut().paused.insert(group, until);
        // A timer ends the pause.
        self.shared.wake_at(until, Waker::noop().clone());
    }

    fn accept_incoming(&self) {
        loop {
            let next = locked(&self.shared.inner).incoming.pop_front();
            match next {
                Some((group, future)) => self.spawn(group, future),
                None => return,
            }
        }
    }

    fn resume_groups(&self) {
        let now = self.shared.now();
        let mut state = self.state.borrow_mut();
        if state.paused.is_empty() {
            return;
        }
        state.paused.retain(|_, until| *until > now);
        let Groups {
            deferred, paused, ..
        } = &mut *state;
        deferred.retain(|(group, task)| {
            let still = paused.contains_key(group);
            if !still {
                self.shared.ready.add(*task);
            }
            still
        });
    }

    /// Polls one task, or advances the time until one is ready. Returns false if nothing will ever happen again.
    pub fn step(&self) -> bool {
        self.accept_incoming();
        self.resume_groups();
        let next = self.shared.ready.take(&mut self.rng.borrow_mut());
        let Some(id) = next else {
            let at = locked(&self.shared.inner)
                .timers
                .peek()
                .map(|Reverse(timer)| timer.at);
            if let Some(at) = at {
                self.shared.advance(at);
            }
            return at.is_some();
        };
        let Some(group) = self.tasks.borrow().get(&id).map(|task| task.group) else {
            return true;
        };
        {
            let mut state = self.state.borrow_mut();
            if state.paused.contains_key(&group) {
                state.deferred.push((group, id));
                return true;
            }
        }
        let Some(mut task) = self.tasks.borrow_mut().remove(&id) else {
            return true;
        };
        self.count(id);
        let mut context = Context::from_waker(&task.waker);
        let polled = task.future.as_mut().poll(&mut context);
        if polled.is_pending() && !self.is_dead(group) {
            self.tasks.borrow_mut().insert(id, task);
        }
        self.count_down(group);
        true
    }

    /// Computation takes time: one microsecond per poll.
    fn count(&self, id: TaskId) {
        self.polls.set(self.polls.get() + 1);
        let mut inner = locked(&self.shared.inner);
        inner.now += 1;
        let now = inner.now;
        inner.digest = Rng::new(inner.digest ^ id ^ now << 20).next();
        drop(inner);
        self.shared.advance(now);
    }

    fn count_down(&self, group: Group) {
        let dies = {
            let mut state = self.state.borrow_mut();
            match state.poll_limits.get_mut(&group) {
                Some(0) => true,
                Some(polls_left) => {
                    *polls_left -= 1;
                    false
                }
                None => false,
            }
        };
        if dies {
            self.kill(group);
        }
    }

    /// Runs all tasks until a future completes. Fails if nothing will ever happen again, or after `micros`
    /// microseconds of simulated time.
    pub fn block_on<T>(&self, future: impl Future<Output = T>, micros: u64) -> Result<T, Stuck> {
        let mut future = pin!(future);
        let until = self.shared.now().saturating_add(micros);
        // The waker sets a flag, which the loop checks.
        let flag = Arc::new(Flag::default());
        flag.set(true);
        let waker = Waker::from(Arc::clone(&flag));
        loop {
            if flag.set(false)
                && let Poll::Ready(out) = future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return Ok(out);
            }
            let moved = self.step();
            let late = self.shared.now() > until || self.polls() > POLLS_MAX;
            if !flag.is_set() && (!moved || late) {
                return Err(Stuck {
                    for_ever: !moved,
                    at: self.shared.now(),
                });
            }
        }
    }

    /// Drops all tasks and timers.
    pub fn clear(&self) {
        loop {
            self.accept_incoming();
            let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
            if tasks.is_empty() {
                break;
            }
            drop(tasks);
        }
        let timers = std::mem::take(&mut locked(&self.shared.inner).timers);
        drop(timers);
    }
}

/// A future that did not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stuck {
    /// Whether no task can continue and no timer runs; otherwise it took too long.
    pub for_ever: bool,
    /// Time in microseconds since the beginning.
    pub at: u64,
}

#[derive(Default)]
struct Flag(Mutex<bool>);

impl Flag {
    /// Sets the flag; returns its former value.
    fn set(&self, to: bool) -> bool {
        std::mem::replace(&mut *locked(&self.0), to)
    }

    fn is_set(&self) -> bool {
        *locked(&self.0)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.set(true);
    }
}

/// Creates a channel for one value.
pub fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let slot = Arc::new(Mutex::new(Slot {
        value: None,
        closed: false,
        waker: None,
    }));
    (Sender(Arc::clone(&slot)), Receiver(slot))
}

struct Slot<T> {
    value: Option<T>,
    closed: bool,
    waker: Option<Waker>,
}

/// Sends the value; if it is dropped before, the receiver is notified.
pub struct Sender<T>(Arc<Mutex<Slot<T>>>);

impl<T> Sender<T> {
    /// Sends the value to the receiver.
    pub fn send(self, value: T) {
        locked(&self.0).value = Some(value);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut slot = locked(&self.0);
        slot.closed = true;
        let waker = slot.waker.take();
        drop(slot);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Waits for the value; completes with `None` if it will never come.
pub struct Receiver<T>(Arc<Mutex<Slot<T>>>);

impl<T> Future for Receiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut slot = locked(&self.0);
        if let Some(value) = slot.value.take() {
            return Poll::Ready(Some(value));
        }
        if slot.closed {
            return Poll::Ready(None);
        }
        slot.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Waits for a future, up to `micros` microseconds.
pub async fn within<T>(
    shared: &Arc<Shared>,
    micros: u64,
    future: impl Future<Output = T>,
) -> Option<T> {
    let mut future = pin!(future);
    let mut sleep = pin!(shared.sleep(micros));
    std::future::poll_fn(|context| {
        if let Poll::Ready(value) = future.as_mut().poll(context) {
            return Poll::Ready(Some(value));
        }
        sleep.as_mut().poll(context).map(|()| None)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn race(seed: u64) -> (Vec<usize>, u64) {
        let exec = Exec::new(seed, false);
        let order = Rc::new(RefCell::new(Vec::new()));
        for i in 0..5 {
            let (order, shared) = (Rc::clone(&order), Arc::clone(exec.shared()));
            exec.spawn(
                OUTSIDE,
                Box::pin(async move {
                    shared.sleep(100).await;
                    order.borrow_mut().push(i);
                }),
            );
        }
        while exec.step() {}
        let order = order.borrow().clone();
        (order, exec.digest())
    }

    #[test]
    fn seeds_choose_the_order() {
        assert_eq!(race(1), race(1));
        assert!((2..20).any(|seed| race(seed).0 != race(1).0));
    }

    #[test]
    fn time_passes_only_when_nobody_can_go_on() {
        let exec = Exec::new(1, false);
        let sleep = exec.shared().sleep(1_000_000);
        assert_eq!(exec.block_on(sleep, 2_000_000), Ok(()));
        assert!((1_000_000..1_000_100).contains(&exec.shared().now()));
        let (_sender, receiver) = oneshot::<()>();
        assert!(exec.block_on(receiver, 1000).is_err_and(|e| e.for_ever));
    }

    #[test]
    fn a_dead_group_drops_what_it_held() {
        let exec = Exec::new(1, false);
        let group = exec.group();
        let (sender, receiver) = oneshot::<()>();
        let shared = Arc::clone(exec.shared());
        exec.spawn(
            group,
            Box::pin(async move {
                shared.sleep(1000).await;
                sender.send(());
            }),
        );
        exec.kill_after(group, 0);
        assert_eq!(exec.block_on(receiver, 10_000), Ok(None));
        assert!(exec.is_dead(group));
    }

    #[test]
    fn a_paused_group_goes_on_later() {
        let exec = Exec::new(1, false);
        let group = exec.group();
        let (sender, receiver) = oneshot();
        let shared = Arc::clone(exec.shared());
        exec.spawn(
            group,
            Box::pin(async move {
                shared.sleep(10).await;
                sender.send(shared.now());
            }),
        );
        exec.pause(group, 5000);
        let when = exec.block_on(receiver, 100_000);
        assert!(
            when.is_ok_and(|at| at.is_some_and(|at| at >= 5000)),
            "{when:?}"
        );
    }

    #[test]
    fn waiting_has_a_limit() {
        let exec = Exec::new(1, false);
        let shared = Arc::clone(exec.shared());
        let never = std::future::pending::<()>();
        assert_eq!(exec.block_on(within(&shared, 50, never), 1000), Ok(None));
    }
}
