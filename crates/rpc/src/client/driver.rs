//! Who moves the bytes of a process's connections: a thread that waits for an answer, where it is the only one, else one
//! thread for all.
//!
//! Each hand-over from a thread to another that sleeps costs some 20 to 100 µs, most where processors fall asleep between
//! calls. A caller that is alone therefore drives the connections itself until its answer is there: its call costs two such
//! hand-overs, to the server and back, and not four. A runtime of tokio's `current_thread` kind is driven by whichever
//! thread blocks on it first; this decides which one that is.

use super::Broken;
use esker_model::Error;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};

/// So many calls in a row that overlap with no other, and callers drive.
const ALONE_CALLS: usize = 4;
/// How long the thread stands by without a call before it drives again.
const STAND_BY: Duration = Duration::from_millis(2);
/// How long a caller that drives looks for its answer again and again, before it sleeps until there is something.
const LOOK: Duration = Duration::from_micros(60);

/// The process's own small runtime.
pub(super) struct Driver {
    runtime: Runtime,
    /// Callers that wait for answers.
    waiting: AtomicUsize,
    /// How many of the last calls overlapped with no other.
    alone: AtomicUsize,
    /// All waits so far.
    waits: AtomicU64,
    thread: Mutex<Thread>,
    nudged: Condvar,
}

/// What the thread for all does.
#[derive(Default)]
struct Thread {
    /// It drives, and hands over when this is woken.
    driving: Option<Waker>,
    /// Callers want to drive themselves.
    lent: bool,
}

impl Driver {
    /// The one of this process, made when it is first needed.
    pub(super) fn get() -> Result<&'static Self, Broken> {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        static MAKING: Mutex<()> = Mutex::new(());
        if let Some(driver) = DRIVER.get() {
            return Ok(driver);
        }
        let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = DRIVER.get() {
            return Ok(driver);
        }
        let failed = |e| Broken::Failed(Error::io("starting the thread for connections", e));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            // A caller looks for its answer after each step.
            .event_interval(8)
            .build()
            .map_err(failed)?;
        let driver = DRIVER.get_or_init(|| Self {
            runtime,
            waiting: AtomicUsize::new(0),
            alone: AtomicUsize::new(0),
            waits: AtomicU64::new(0),
            thread: Mutex::default(),
            nudged: Condvar::new(),
        });
        std::thread::Builder::new()
            .name("esker-client".into())
            .spawn(|| driver.work())
            .map_err(failed)?;
        Ok(driver)
    }

    fn thread(&self) -> MutexGuard<'_, Thread> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where tasks of connections run.
    pub(super) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// What the thread for all does, for ever.
    fn work(&self) {
        loop {
            self.runtime.block_on(std::future::poll_fn(|context| {
                let mut thread = self.thread();
                if thread.lent {
                    thread.driving = None;
                    return Poll::Ready(());
                }
                thread.driving = Some(context.waker().clone());
                Poll::Pending
            }));
            self.stand_by();
        }
    }

    /// Waits until callers drive no more.
    fn stand_by(&self) {
        let mut thread = self.thread();
        while thread.lent {
            let before = self.waits.load(Ordering::Relaxed);
            let waited = self.nudged.wait_timeout(thread, STAND_BY);
            thread = waited.unwrap_or_else(PoisonError::into_inner).0;
            let idle = before == self.waits.load(Ordering::Relaxed)
                && self.waiting.load(Ordering::Acquire) == 0;
            if idle {
                thread.lent = false;
            }
        }
    }

    /// Something is sent whose sender does not wait for it now: the thread sees to it.
    pub(super) fn nudge(&self) {
        self.alone.store(0, Ordering::Relaxed);
        self.take_back();
    }

    fn take_back(&self) {
        let mut thread = self.thread();
        if std::mem::take(&mut thread.lent) {
            drop(thread);
            self.nudged.notify_all();
        }
    }

    /// Lets callers drive.
    fn lend(&self) {
        let mut thread = self.thread();
        if thread.lent {
            return;
        }
        thread.lent = true;
        let waker = thread.driving.take();
        drop(thread);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits for something that a task of a connection brings: `None` if it takes longer than that. Outside of a runtime
    /// only: see [`Driver::can_wait`].
    pub(super) fn wait<T>(
        &self,
        at_most: Option<Duration>,
        arrives: impl Future<Output = T>,
    ) -> Option<T> {
        let others = self.waiting.fetch_add(1, Ordering::AcqRel);
        self.waits.fetch_add(1, Ordering::Relaxed);
        let alone = if others == 0 {
            self.alone.fetch_add(1, Ordering::Relaxed) >= ALONE_CALLS
        } else {
            self.nudge();
            false
        };
        if alone {
            self.lend();
        }
        let arrived = self.runtime.block_on(async {
            let mut arrives = pin!(arrives);
            if alone {
                let until = Instant::now() + LOOK;
                loop {
                    let now = std::future::poll_fn(|c| Poll::Ready(arrives.as_mut().poll(c)));
                    if let Poll::Ready(arrived) = now.await {
                        return Some(arrived);
                    }
                    if Instant::now() >= until {
                        break;
                    }
                    // The server may be on this processor.
                    std::thread::yield_now();
                    tokio::task::yield_now().await;
                }
            }
            match at_most {
                None => Some(arrives.await),
                Some(time) => tokio::time::timeout(time, arrives).await.ok(),
            }
        });
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        arrived
    }

    /// Whether this thread may wait as one that drives: not inside a runtime of its own.
    pub(super) fn can_wait() -> bool {
        Handle::try_current().is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_testkit::wait::HANG;
    use std::sync::mpsc;
    use tokio::sync::oneshot;

    /// Something that a task brings after it has waited for its turn, and for the clock, too.
    fn brought(driver: &Driver, number: u32) -> oneshot::Receiver<u32> {
        let (tell, told) = oneshot::channel();
        driver.runtime().spawn(async move {
            tokio::task::yield_now().await;
            if number.is_multiple_of(64) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let _ = tell.send(number);
        });
        told
    }

    fn many(driver: &Driver) {
        for number in 0..500 {
            let told = brought(driver, number);
            assert_eq!(driver.wait(Some(HANG), told), Some(Ok(number)));
        }
    }

    /// By the caller that is alone, by the thread for all, and from one to the other.
    #[test]
    fn whoever_drives_what_is_waited_for_arrives() {
        let driver = Driver::get().unwrap();
        for _ in 0..3 {
            many(driver);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| many(driver));
                }
            });
            many(driver);
            // Nobody waits: the thread comes back to it by itself, and at once when it is told.
            for nudged in [false, true] {
                let (tell, told) = mpsc::channel();
                driver.runtime().spawn(async move { tell.send(1) });
                if nudged {
                    driver.nudge();
                }
                assert_eq!(told.recv_timeout(HANG), Ok(1));
            }
        }
    }

    #[test]
    fn a_wait_ends() {
        let driver = Driver::get().unwrap();
        for _ in 0..2 * ALONE_CALLS {
            let never = std::future::pending::<()>();
            assert_eq!(driver.wait(Some(Duration::from_millis(3)), never), None);
        }
    }

    #[test]
    fn threads_of_a_runtime_do_not_drive() {
        assert!(Driver::can_wait());
        let driver = Driver::get().unwrap();
        let inside = driver.runtime().spawn(async { Driver::can_wait() });
        assert!(matches!(driver.wait(Some(HANG), inside), Some(Ok(false))));
    }
}
