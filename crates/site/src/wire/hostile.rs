//! Invariants of the link protocol for arbitrary bytes, for fuzz targets.

use super::convert::{self, CompleteAnswer, Pieces};
use super::{LinkMessage, Node, OpenRequests, Reader};
use crate::answer::{Refused, TierAnswer, digest};
use crate::config::Config;
use crate::upstream::{Fetch, FetchResponse, Upstream};
use esker_origin::{DirEntry, PathMetadata};
use esker_rpc::proto;
use esker_site_cache::entry::{Attributes, Kind, Wants};
use esker_site_cache::path::is_name;
use esker_site_cache::tier::Requester;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use prost::Message as _;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Maximum number of requests of one message that are handled.
const ASKS_MAX: usize = 64;
/// Maximum number of scheduler yields until all requests are answered.
const TURNS: usize = 10_000;

/// Checks messages from downstream: each request gets one answer, and the upstream request for it has a path in normal form.
pub fn up(bytes: &[u8]) {
    let Ok(mut message) = proto::SiteUp::decode(bytes) else {
        return;
    };
    message.asks.truncate(ASKS_MAX);
    message.doubts.truncate(ASKS_MAX);
    let mut wanted: Vec<u64> = message.asks.iter().map(|ask| ask.ticket).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let mut answered = runtime.block_on(async {
        let node = Node::new(&Config::default(), Arc::new(Origin));
        let (send, mut receive) = mpsc::unbounded_channel();
        let link = node.join(send.clone());
        let (down, _downs) = mpsc::channel(1);
        let reader = Reader {
            node: node.clone(),
            requester: Requester::Tier(link),
            send,
            down,
            open: Arc::new(OpenRequests::default()),
        };
        reader.take(message);
        let mut answered = Vec::new();
        for _ in 0..TURNS {
            while let Ok(one) = receive.try_recv() {
                if let LinkMessage::Answer(ticket, result, kept) = one {
                    comes_back(ticket, &result, kept);
                    answered.push(ticket);
                }
            }
            if answered.len() >= wanted.len() {
                break;
            }
            tokio::task::yield_now().await;
        }
        node.leave(link);
        answered
    });
    wanted.sort_unstable();
    answered.sort_unstable();
    assert_eq!(answered, wanted);
}

/// Checks messages from upstream: names in listings are valid, and changes are forwarded unchanged.
pub fn down(bytes: &[u8]) {
    let Ok(message) = proto::SiteDown::decode(bytes) else {
        return;
    };
    let mut open: HashMap<u64, Pieces> = HashMap::new();
    for answer in message.answers {
        let ticket = answer.ticket;
        let Some(CompleteAnswer { got, hit }) = open.entry(ticket).or_default().take(answer) else {
            continue;
        };
        match got {
            Ok(FetchResponse::Found {
                found,
                age,
                subscribed,
            }) => {
                if let PathMetadata::Listing { children, .. } = &found {
                    assert!(children.iter().all(|child| is_name(&child.name)));
                }
                let given = TierAnswer {
                    found,
                    age,
                    subscribed,
                    hit,
                };
                comes_back(ticket, &Ok(given), None);
            }
            Ok(FetchResponse::Unchanged { .. }) => {}
            Err(refused) => comes_back(ticket, &Err(refused), None),
        }
    }
    for change in &message.changes {
        let happened = convert::of_change(change);
        let again = convert::change(&change.origin, change.path.clone(), &happened);
        assert_eq!(convert::of_change(&again), happened);
    }
}

/// Checks that an answer arrives as it was sent, in any number of pieces.
fn comes_back(ticket: u64, result: &Result<TierAnswer, Refused>, kept: Option<u64>) {
    let mut sent = Vec::new();
    convert::answers(ticket, result.clone(), kept, &mut sent);
    let mut pieces = Pieces::default();
    let last = sent.len() - 1;
    for (at, answer) in sent.into_iter().enumerate() {
        assert_eq!(answer.ticket, ticket);
        let bytes = answer.encode_to_vec();
        let answer = proto::SiteAnswer::decode(&*bytes).expect("what is sent is read");
        let whole = pieces.take(answer);
        assert_eq!(whole.is_some(), at == last);
        let Some(CompleteAnswer { got, .. }) = whole else {
            continue;
        };
        match (got, result) {
            (
                Ok(FetchResponse::Found {
                    found,
                    age,
                    subscribed,
                }),
                Ok(given),
            ) => {
                assert_eq!(found, given.found);
                assert_eq!(
                    (age, subscribed),
                    (whole_micros(given.age), given.subscribed)
                );
            }
            (Ok(FetchResponse::Unchanged { .. }), Ok(given)) => {
                assert_eq!(kept, Some(digest(&given.found)));
            }
            (Err(got), Err(refused)) => assert_eq!(&got, refused),
            (got, _) => panic!("{result:?} arrived as {got:?}"),
        }
    }
}

fn whole_micros(age: Duration) -> Duration {
    Duration::from_micros(u64::try_from(age.as_micros()).unwrap_or(u64::MAX))
}

/// An origin with different metadata at each path.
struct Origin;

impl Upstream for Origin {
    fn fetch(&self, fetch: Fetch) -> BoxFuture<'_, Result<FetchResponse, Refused>> {
        let path = fetch.path.strip_prefix(b"/").expect("a path is absolute");
        assert!(path.is_empty() || path.split(|b| *b == b'/').all(is_name));
        let found = |found| {
            Ok(FetchResponse::Found {
                found,
                age: Duration::ZERO,
                subscribed: true,
            })
        };
        let answer = match (path.len() % 5, fetch.wants) {
            (0, Wants::List) => found(PathMetadata::Listing {
                attributes: Attributes::of(Kind::Directory),
                children: [&b"a"[..], b"b"]
                    .map(|name| DirEntry {
                        name: name.into(),
                        attributes: Attributes::default(),
                    })
                    .into(),
                complete: true,
            }),
            (1, _) => found(PathMetadata::Absent),
            (2, _) => Err(Refused::Origin("it does not say".into())),
            (3, _) => Err(Refused::Denied("not to you".into())),
            _ => found(PathMetadata::Present(Attributes::of(Kind::File))),
        };
        std::future::ready(answer).boxed()
    }

    fn allows(&self, origin: &str) -> Result<(), Refused> {
        assert!(!origin.is_empty());
        Ok(())
    }

    fn invalidate(&self, origin: &str, path: &[u8]) {
        assert!(!origin.is_empty() && path.first() == Some(&b'/'));
    }

    fn status(&self) -> Json {
        Json::Null
    }
}
