//! Connections that break under pipelined requests, are slow to connect, or never connect.

use super::{CONNECTING_MAX, Pool, Settings};
use crate::error::{Error, Result};
use crate::origin_url::OriginUrl;
use crate::request::{MetadataRequest, PathMetadata};
use crate::session::{Connect, Session};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::sleep;

/// A session that breaks when more than `most` requests are open.
struct Fragile {
    most: usize,
    open: AtomicUsize,
    broken: AtomicBool,
}

impl Session for Fragile {
    fn request(&self, _question: MetadataRequest) -> BoxFuture<'_, Result<PathMetadata>> {
        Box::pin(async {
            let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
            if open > self.most {
                self.broken.store(true, Ordering::SeqCst);
            }
            sleep(Duration::from_millis(5)).await;
            self.open.fetch_sub(1, Ordering::SeqCst);
            if self.is_broken() {
                let (origin, why) = ("ftp://h".into(), "asked ahead".into());
                return Err(Error::Broken { origin, why });
            }
            Ok(PathMetadata::Absent)
        })
    }

    fn width(&self) -> usize {
        64
    }

    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }
}

struct Maker {
    origin_url: OriginUrl,
    most: usize,
    reachable: bool,
    making: AtomicUsize,
    making_most: AtomicUsize,
}

impl Connect for Maker {
    fn origin_url(&self) -> &OriginUrl {
        &self.origin_url
    }

    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Session>>> {
        Box::pin(async {
            let making = self.making.fetch_add(1, Ordering::SeqCst) + 1;
            self.making_most.fetch_max(making, Ordering::SeqCst);
            sleep(Duration::from_millis(5)).await;
            self.making.fetch_sub(1, Ordering::SeqCst);
            if !self.reachable {
                let (origin, why) = ("ftp://h".into(), "nobody is there".into());
                return Err(Error::Unreachable { origin, why });
            }
            let session: Arc<dyn Session> = Arc::new(Fragile {
                most: self.most,
                open: AtomicUsize::new(0),
                broken: AtomicBool::new(false),
            });
            Ok(session)
        })
    }
}

fn maker(most: usize, reachable: bool) -> Arc<Maker> {
    Arc::new(Maker {
        origin_url: OriginUrl::parse("ftp://h").unwrap().0,
        most,
        reachable,
        making: AtomicUsize::new(0),
        making_most: AtomicUsize::new(0),
    })
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_asked_ahead_is_found_out() {
    let settings = Settings {
        connections: 2,
        tries: 16,
        ..Settings::default()
    };
    let pool = Pool::new(maker(4, true), settings);
    let all = (0..500).map(|_| pool.request(MetadataRequest::stat(b"/x")));
    let answers = futures_util::future::join_all(all).await;
    let answered = answers.iter().filter(|a| a.is_ok()).count();
    assert_eq!(answered, 500, "{:?}", pool.report());
    let report = pool.report();
    assert!(report.retries > 0 && report.window < 64, "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn few_connections_come_about_at_once() {
    let maker = maker(64, true);
    let settings = Settings {
        connections: 16,
        ..Settings::default()
    };
    let pool = Pool::new(maker.clone(), settings);
    let all = (0..4000).map(|_| pool.request(MetadataRequest::stat(b"/x")));
    let answers = futures_util::future::join_all(all).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(maker.making_most.load(Ordering::SeqCst), CONNECTING_MAX);
    assert!(pool.report().connections > CONNECTING_MAX);
}

#[tokio::test(start_paused = true)]
async fn an_origin_that_is_not_there_is_an_error_in_bounded_time() {
    let pool = Pool::new(maker(64, false), Settings::default());
    let began = tokio::time::Instant::now();
    let error = pool
        .request(MetadataRequest::stat(b"/x"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(began.elapsed() <= Settings::default().patience);
    assert_eq!(pool.report().failed, 1);
}
