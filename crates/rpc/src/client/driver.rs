//! Runs the I/O of a process's connections: in the waiting caller's thread if it is the only one, otherwise in one
//! thread for all.
//!
//! Each hand-over to a sleeping thread costs some 20 to 100 µs, the most where processors enter sleep states between
//! calls. A
//! single caller therefore drives the connections itself until its response arrives: its call costs two such hand-overs, to
//! the server and back, and not four. A tokio runtime of the `current_thread` kind is driven by whichever thread blocks
//! on it
//! first; this module decides which thread that is.

use super::CallError;
use esker_model::Error;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};

/// Number of consecutive calls without overlap after which callers drive the connections themselves.
const ALONE_CALLS: usize = 4;
/// Time without a call after which the thread drives again.
const STAND_BY: Duration = Duration::from_millis(2);
/// Time for which a driving caller polls for its response before it sleeps.
const SPIN: Duration = Duration::from_micros(60);

/// The runtime of this process's connections.
pub(super) struct Driver {
    runtime: Runtime,
    /// Number of callers that wait for responses.
    waiting: AtomicUsize,
    /// Number of the last calls in a row that did not overlap with another one.
    alone: AtomicUsize,
    /// Number of waits so far.
    waits: AtomicU64,
    thread: Mutex<Thread>,
    nudged: Condvar,
}

/// State of the driving thread.
#[derive(Default)]
struct Thread {
    /// Waker of the thread while it drives; waking it makes it yield.
    driving: Option<Waker>,
    /// Whether callers drive themselves.
    callers_drive: bool,
}

impl Driver {
    /// The driver of this process, created on first use.
    pub(super) fn get() -> Result<&'static Self, CallError> {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        static MAKING: Mutex<()> = Mutex::new(());
        if let Some(driver) = DRIVER.get() {
            return Ok(driver);
        }
        let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = DRIVER.get() {
            return Ok(driver);
        }
        let failed = |e| CallError::Failed(Error::io("starting the thread for connections", e));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            // A caller checks for its response after each step.
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

    /// Runtime of the connections' tasks.
    pub(super) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Main loop of the driving thread.
    fn work(&self) {
        loop {
            self.runtime.block_on(std::future::poll_fn(|context| {
                let mut thread = self.thread();
                if thread.callers_drive {
                    thread.driving = None;
                    return Poll::Ready(());
                }
                thread.driving = Some(context.waker().clone());
                Poll::Pending
            }));
            self.stand_by();
        }
    }

    /// Waits until callers no longer drive.
    fn stand_by(&self) {
        let mut thread = self.thread();
        while thread.callers_drive {
            let before = self.waits.load(Ordering::Relaxed);
            let waited = self.nudged.wait_timeout(thread, STAND_BY);
            thread = waited.unwrap_or_else(PoisonError::into_inner).0;
            let idle = before == self.waits.load(Ordering::Relaxed)
                && self.waiting.load(Ordering::Acquire) == 0;
            if idle {
                thread.callers_drive = false;
            }
        }
    }

    /// Makes the thread drive, for a message whose sender does not wait for it.
    pub(super) fn nudge(&self) {
        self.alone.store(0, Ordering::Relaxed);
        self.take_back();
    }

    fn take_back(&self) {
        let mut thread = self.thread();
        if std::mem::take(&mut thread.callers_drive) {
            drop(thread);
            self.nudged.notify_all();
        }
    }

    /// Makes callers drive themselves.
    fn let_callers_drive(&self) {
        let mut thread = self.thread();
        if thread.callers_drive {
            return;
        }
        thread.callers_drive = true;
        let waker = thread.driving.take();
        drop(thread);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits for the result of a connection's task; `None` after `at_most`. Must not be called inside a runtime: see
    /// [`Driver::can_wait`].
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
            self.let_callers_drive();
        }
        let arrived = self.runtime.block_on(async {
            let mut arrives = pin!(arrives);
            if alone {
                let until = Instant::now() + SPIN;
                loop {
                    let now = std::future::poll_fn(|c| Poll::Ready(arrives.as_mut().poll(c)));
                    if let Poll::Ready(arrived) = now.await {
                        return Some(arrived);
                    }
                    if Instant::now() >= until {
                        break;
                    }
                    // The server may run on this processor.
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

    /// Whether this thread may wait and drive: not inside a runtime of its own.
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

    /// A value that a task delivers after yielding, and for some numbers after a timer.
    fn brought(driver: &Driver, number: u32) -> oneshot::Receiver<u32> {
        let (sender, receiver) = oneshot::channel();
        driver.runtime().spawn(async move {
            tokio::task::yield_now().await;
            if number.is_multiple_of(64) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let _ = sender.send(number);
        });
        receiver
    }

    fn many(driver: &Driver) {
        for number in 0..500 {
            let receiver = brought(driver, number);
            assert_eq!(driver.wait(Some(HANG), receiver), Some(Ok(number)));
        }
    }

    /// Driven by a single caller, by the thread for all, and in transitions between the two.
    #[test]
    fn results_arrive_whichever_thread_drives() {
        let driver = Driver::get().unwrap();
        for _ in 0..3 {
            many(driver);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| many(driver));
                }
            });
            many(driver);
            // Without a waiting caller the thread drives again by itself, and at once after `nudge`.
            for nudged in [false, true] {
                let (sender, receiver) = mpsc::channel();
                driver.runtime().spawn(async move { sender.send(1) });
                if nudged {
                    driver.nudge();
                }
                assert_eq!(receiver.recv_timeout(HANG), Ok(1));
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
