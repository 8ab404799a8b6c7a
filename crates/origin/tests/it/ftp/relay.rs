//! A relay between client and server: counts commands, delays replies, and cuts connections.

use esker_testkit::wait::HANG;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

#[derive(Default)]
struct State {
    /// Number of commands sent to the server since replies were last held back.
    commands: AtomicUsize,
    /// Number of commands after which replies pass again.
    until: AtomicUsize,
    holds: AtomicBool,
    /// Number of commands that had reached the server when the first reply passed.
    commands_before_reply: AtomicUsize,
    /// Number of reply bytes after which connections are cut.
    cut_after: AtomicUsize,
    cuts: AtomicUsize,
    /// A command after which its connection passes no more replies.
    stalls_at: OnceLock<&'static [u8]>,
}

pub(super) struct Relay {
    pub(super) port: u16,
    state: Arc<State>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relay {
    pub(super) async fn start(to: u16, delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<State>::default();
        state.cut_after.store(usize::MAX, Ordering::SeqCst);
        let shared = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)).await else {
                    continue;
                };
                near.set_nodelay(true).unwrap();
                far.set_nodelay(true).unwrap();
                tokio::spawn(pass(near, far, shared.clone(), delay));
            }
        });
        Self { port, state, task }
    }

    /// Holds replies back until `until` commands have gone to the server.
    pub(super) fn hold_replies(&self, until: usize) {
        self.state.commands.store(0, Ordering::SeqCst);
        self.state.until.store(until, Ordering::SeqCst);
        self.state.holds.store(true, Ordering::SeqCst);
    }

    /// Number of commands that the server had before the first reply.
    pub(super) fn commands_before_reply(&self) -> usize {
        self.state.commands_before_reply.load(Ordering::SeqCst)
    }

    /// Cuts the next connection that has passed this many bytes of replies.
    pub(super) fn cut_after(&self, bytes: usize) {
        self.state.cut_after.store(bytes, Ordering::SeqCst);
    }

    /// Stops all replies on a connection once it has passed a command that contains this text.
    pub(super) fn stall_at(&self, command: &'static [u8]) {
        self.state.stalls_at.set(command).unwrap();
    }

    pub(super) fn cuts(&self) -> usize {
        self.state.cuts.load(Ordering::SeqCst)
    }
}

async fn pass(near: TcpStream, far: TcpStream, state: Arc<State>, delay: Duration) {
    let (mut near_read, mut near_write) = near.into_split();
    let (mut far_read, mut far_write) = far.into_split();
    let (to_far, mut from_near) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let (to_near, mut from_far) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let stalls = AtomicBool::new(false);
    let read_near = async move {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = near_read.read(&mut bytes).await {
            let due = Instant::now() + delay;
            if to_far.send((due, bytes[..count].to_vec())).is_err() {
                return;
            }
        }
    };
    let write_far = async {
        while let Some((due, bytes)) = from_near.recv().await {
            sleep_until(due).await;
            if far_write.write_all(&bytes).await.is_err() {
                return;
            }
            let stalls_at = state.stalls_at.get();
            if stalls_at.is_some_and(|command| bytes.windows(command.len()).any(|w| w == *command))
            {
                stalls.store(true, Ordering::SeqCst);
            }
            let lines = bytes.split(|b| *b == b'\n').count() - 1;
            state.commands.fetch_add(lines, Ordering::SeqCst);
        }
    };
    let read_far = async move {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = far_read.read(&mut bytes).await {
            let due = Instant::now() + delay;
            if to_near.send((due, bytes[..count].to_vec())).is_err() {
                return;
            }
        }
    };
    let write_near = async {
        let mut passed = 0;
        while let Some((due, bytes)) = from_far.recv().await {
            sleep_until(due).await;
            if stalls.load(Ordering::SeqCst) {
                continue;
            }
            if state.holds.load(Ordering::SeqCst) {
                let began = Instant::now();
                let commands = || state.commands.load(Ordering::SeqCst);
                while commands() < state.until.load(Ordering::SeqCst) && began.elapsed() < HANG {
                    sleep(Duration::from_millis(1)).await;
                }
                if state.holds.swap(false, Ordering::SeqCst) {
                    state
                        .commands_before_reply
                        .store(commands(), Ordering::SeqCst);
                }
            }
            let left = state
                .cut_after
                .load(Ordering::SeqCst)
                .saturating_sub(passed);
            let now = bytes.len().min(left);
            if near_write.write_all(&bytes[..now]).await.is_err() {
                return;
            }
            passed += now;
            if now < bytes.len() {
                state.cut_after.store(usize::MAX, Ordering::SeqCst);
                state.cuts.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
    };
    // When either direction ends, the other is closed too.
    tokio::select! {
        () = write_far => {}
        () = write_near => {}
        () = async { tokio::join!(read_near, read_far); std::future::pending().await } => {}
    }
}
