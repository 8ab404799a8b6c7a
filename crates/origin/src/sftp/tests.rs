//! Misbehaving servers, over in-memory pipes.

use super::packet;
use super::session::{Carrier, SftpSession};
use crate::error::{Error, Result};
use crate::request::{MetadataRequest, PathMetadata};
use crate::session::Session;
use esker_site_cache::entry::Kind;
use futures_util::future::{BoxFuture, join_all};
use proptest::prelude::*;
use std::future::Future;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

struct Pipe;

impl Carrier for Pipe {
    fn ended(&mut self, why: String, _greeted: bool) -> BoxFuture<'_, Error> {
        let origin = "sftp://test".into();
        Box::pin(std::future::ready(Error::Broken {
            origin,
            why: why.into(),
        }))
    }
}

/// Connects to a server that greets, then runs `serve`.
async fn with<F>(serve: impl FnOnce(DuplexStream) -> F) -> Result<SftpSession>
where
    F: Future<Output = ()> + Send + 'static,
{
    let (here, there) = duplex(1 << 16);
    let (from, to) = tokio::io::split(here);
    tokio::spawn(serve(there));
    SftpSession::begin(
        "sftp://test".into(),
        from,
        to,
        Pipe,
        Duration::from_millis(300),
    )
    .await
}

async fn greet(there: &mut DuplexStream) {
    let mut hello = [0; 9];
    there.read_exact(&mut hello).await.unwrap();
    assert_eq!(hello, packet::hello());
    send(there, &[2, 0, 0, 0, 3]).await;
}

async fn send(there: &mut DuplexStream, packet: &[u8]) {
    let mut out = (packet.len() as u32).to_be_bytes().to_vec();
    out.extend(packet);
    // The client may have disconnected, as it should.
    let _ = there.write_all(&out).await;
}

/// Reads a request: its kind, number and field.
async fn take(there: &mut DuplexStream) -> Option<(u8, [u8; 4], Vec<u8>)> {
    let length = there.read_u32().await.ok()?;
    let mut packet = vec![0; length as usize];
    there.read_exact(&mut packet).await.ok()?;
    Some((
        packet[0],
        packet[1..5].try_into().unwrap(),
        packet[9..].into(),
    ))
}

fn reply(kind: u8, id: [u8; 4], rest: &[u8]) -> Vec<u8> {
    [&[kind], &id[..], rest].concat()
}

const DIRECTORY: [u8; 8] = [0, 0, 0, 4, 0, 0, 0o100, 0o355];

/// Fails after 20 s of simulated time.
async fn bounded<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what)
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn replies_find_their_requests_in_any_order() {
    let talk = with(|mut there| async move {
        greet(&mut there).await;
        let mut all = Vec::new();
        for _ in 0..64 {
            all.push(take(&mut there).await.unwrap());
        }
        // All requests were sent before the first reply; the last is answered first.
        for (kind, id, path) in all.into_iter().rev() {
            assert_eq!(kind, 7);
            let size = path.len() as u64;
            send(
                &mut there,
                &reply(105, id, &[&[0, 0, 0, 1], &size.to_be_bytes()[..]].concat()),
            )
            .await;
        }
    });
    let talk = talk.await.unwrap();
    let paths: Vec<Vec<u8>> = (1..=64).map(|n| vec![b'/'; n]).collect();
    let found = bounded(join_all(
        paths.iter().map(|p| talk.request(MetadataRequest::stat(p))),
    ))
    .await;
    for (path, found) in paths.iter().zip(found) {
        let Ok(PathMetadata::Present(attributes)) = found else {
            panic!("{found:?}")
        };
        assert_eq!(attributes.size, Some(path.len() as u64));
    }
    // The server disconnects after that.
    let error = bounded(talk.request(MetadataRequest::stat(b"/")))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Broken { .. }), "{error}");
    assert!(talk.is_broken());
}

#[tokio::test(start_paused = true)]
async fn what_is_no_sftp_is_said() {
    let greeting = with(|mut there| async move {
        let _ = there.write_all(b"Welcome to the cluster!\n").await;
    });
    let error = bounded(greeting).await.err().unwrap();
    assert!(error.to_string().contains(".bashrc"), "{error}");

    for garbage in [
        &b"\xff\xff\xff\xff\xff\xff"[..],
        &[0, 0, 0, 0],
        &[0, 0, 0, 5, 105, 0, 0, 0, 1],
        &[0, 0, 0, 9, 101, 9, 9, 9, 9, 0, 0, 0, 0],
        &[
            0, 0, 0, 13, 104, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0,
        ],
    ] {
        let talk = with(move |mut there| async move {
            greet(&mut there).await;
            take(&mut there).await;
            let _ = there.write_all(garbage).await;
            std::future::pending::<()>().await;
        });
        let talk = talk.await.unwrap();
        let error = bounded(talk.request(MetadataRequest::stat(b"/")))
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{error}");
        assert!(talk.is_broken());
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_given_up() {
    let talk = with(|mut there| async move {
        greet(&mut there).await;
        std::future::pending::<()>().await;
    });
    let talk = talk.await.unwrap();
    // Without an open request no reply is expected.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!talk.is_broken());
    let error = bounded(talk.request(MetadataRequest::stat(b"/")))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    assert!(talk.is_broken());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_drips_is_given_up() {
    let talk = with(|mut there| async move {
        greet(&mut there).await;
        // A long packet, one byte at a time.
        let _ = there.write_all(&[0, 1, 0, 0]).await;
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if there.write_all(&[101]).await.is_err() {
                return;
            }
        }
    });
    let talk = talk.await.unwrap();
    let error = bounded(talk.request(MetadataRequest::stat(b"/")))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_listing_without_names_or_end_is_given_up() {
    let talk = with(|mut there| async move {
        greet(&mut there).await;
        while let Some((kind, id, _)) = take(&mut there).await {
            match kind {
                7 => send(&mut there, &reply(105, id, &DIRECTORY)).await,
                11 => send(&mut there, &reply(102, id, b"\0\0\0\x01h")).await,
                12 => send(&mut there, &reply(104, id, &[0; 4])).await,
                _ => send(&mut there, &reply(101, id, &[0; 4])).await,
            }
        }
    });
    let talk = talk.await.unwrap();
    let error = bounded(talk.request(MetadataRequest::list(b"/d")))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("without names"), "{error}");
    // The connection remains usable.
    assert!(!talk.is_broken());
    let found = bounded(talk.request(MetadataRequest::stat(b"/d")))
        .await
        .unwrap();
    let PathMetadata::Present(attributes) = found else {
        panic!("{found:?}")
    };
    assert_eq!(attributes.kind, Kind::Directory);
}

/// A directory opened for an abandoned request must be closed: servers allow few.
#[tokio::test(start_paused = true)]
async fn directories_are_closed_when_nobody_waits() {
    let (closed, mut closes) = tokio::sync::mpsc::unbounded_channel();
    let talk = with(move |mut there| async move {
        greet(&mut there).await;
        let mut later = None;
        while let Some((kind, id, field)) = take(&mut there).await {
            match kind {
                7 => send(&mut there, &reply(105, id, &DIRECTORY)).await,
                11 => later = Some(id),
                4 => {
                    send(&mut there, &reply(101, id, &[0; 4])).await;
                    closed.send(field).unwrap();
                }
                // Another request came in between: now the directory opens.
                _ => {
                    send(&mut there, &reply(101, id, &[0, 0, 0, 2])).await;
                    let handle = reply(102, later.take().unwrap(), b"\0\0\0\x01h");
                    send(&mut there, &handle).await;
                }
            }
        }
    });
    let talk = talk.await.unwrap();
    let dropped = tokio::time::timeout(
        Duration::from_millis(50),
        talk.request(MetadataRequest::list(b"/d")),
    );
    assert!(dropped.await.is_err());
    talk.wire_readlink().await;
    assert_eq!(bounded(closes.recv()).await.unwrap(), b"h");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For random output after the greeting, each request yields a response or an error in bounded time.
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 100_u8..107) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let talk = with(move |mut there| async move {
                greet(&mut there).await;
                // Plausible replies to each request first, then random bytes.
                for part in bytes.chunks(40) {
                    let Some((_, id, _)) = take(&mut there).await else { return };
                    send(&mut there, &reply(kind, id, part)).await;
                }
                let _ = there.write_all(&bytes).await;
            });
            let talk = talk.await.unwrap();
            let paths = [MetadataRequest::stat(b"/a"), MetadataRequest::list(b"/a")];
            let asked = (0..8).map(|n| talk.request(paths[n % 2].clone()));
            bounded(join_all(asked)).await;
        });
    }
}
