//! What must hold of any bytes that tiers send each other. Fuzz targets ask this.

use super::convert::{self, Pieces, Whole};
use super::{Down, Node, Open, Reader};
use crate::above::{Above, Fetch, Got};
use crate::config::Config;
use crate::given::{Given, Refused, digest};
use esker_origin::{Found, Named};
use esker_rpc::proto;
use esker_site_cache::entry::{Attributes, Kind, Wants};
use esker_site_cache::path::is_name;
use esker_site_cache::tier::Who;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use prost::Message as _;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Questions of one message that are asked.
const ASKS_MAX: usize = 64;
/// How often tasks get their turn until all is answered.
const TURNS: usize = 10_000;

/// What a tier or a client below sends: each question gets one answer, and what is asked above for it is a path in its plain form.
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
            who: Who::Tier(link),
            send,
            down,
            open: Arc::new(Open::default()),
        };
        reader.take(message);
        let mut answered = Vec::new();
        for _ in 0..TURNS {
            while let Ok(one) = receive.try_recv() {
                if let Down::Answer(ticket, result, kept) = one {
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

/// What a tier above sends: names in listings are names, and what is told on is what was told.
pub fn down(bytes: &[u8]) {
    let Ok(message) = proto::SiteDown::decode(bytes) else {
        return;
    };
    let mut open: HashMap<u64, Pieces> = HashMap::new();
    for answer in message.answers {
        let ticket = answer.ticket;
        let Some(Whole { got, hit }) = open.entry(ticket).or_default().take(answer) else {
            continue;
        };
        match got {
            Ok(Got::Found { found, age, told }) => {
                if let Found::Listing { children, .. } = &found {
                    assert!(children.iter().all(|child| is_name(&child.name)));
                }
                let given = Given {
                    found,
                    age,
                    told,
                    hit,
                };
                comes_back(ticket, &Ok(given), None);
            }
            Ok(Got::Same { .. }) => {}
            Err(refused) => comes_back(ticket, &Err(refused), None),
        }
    }
    for change in &message.changes {
        let happened = convert::of_change(change);
        let again = convert::change(&change.origin, change.path.clone(), &happened);
        assert_eq!(convert::of_change(&again), happened);
    }
}

/// An answer that is sent is what arrives, in however many pieces.
fn comes_back(ticket: u64, result: &Result<Given, Refused>, kept: Option<u64>) {
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
        let Some(Whole { got, .. }) = whole else {
            continue;
        };
        match (got, result) {
            (Ok(Got::Found { found, age, told }), Ok(given)) => {
                assert_eq!(found, given.found);
                assert_eq!((age, told), (whole_micros(given.age), given.told));
            }
            (Ok(Got::Same { .. }), Ok(given)) => assert_eq!(kept, Some(digest(&given.found))),
            (Err(got), Err(refused)) => assert_eq!(&got, refused),
            (got, _) => panic!("{result:?} arrived as {got:?}"),
        }
    }
}

fn whole_micros(age: Duration) -> Duration {
    Duration::from_micros(u64::try_from(age.as_micros()).unwrap_or(u64::MAX))
}

/// An origin that has something else at each path.
struct Origin;

impl Above for Origin {
    fn fetch(&self, fetch: Fetch) -> BoxFuture<'_, Result<Got, Refused>> {
        let path = fetch.path.strip_prefix(b"/").expect("a path is absolute");
        assert!(path.is_empty() || path.split(|b| *b == b'/').all(is_name));
        let found = |found| {
            Ok(Got::Found {
                found,
                age: Duration::ZERO,
                told: true,
            })
        };
        let answer = match (path.len() % 5, fetch.wants) {
            (0, Wants::List) => found(Found::Listing {
                attributes: Attributes::of(Kind::Directory),
                children: [&b"a"[..], b"b"]
                    .map(|name| Named {
                        name: name.into(),
                        attributes: Attributes::default(),
                    })
                    .into(),
                complete: true,
            }),
            (1, _) => found(Found::Absent),
            (2, _) => Err(Refused::Origin("it does not say".into())),
            (3, _) => Err(Refused::Denied("not to you".into())),
            _ => found(Found::Present(Attributes::of(Kind::File))),
        };
        std::future::ready(answer).boxed()
    }

    fn allows(&self, origin: &str) -> Result<(), Refused> {
        assert!(!origin.is_empty());
        Ok(())
    }

    fn doubt(&self, origin: &str, path: &[u8]) {
        assert!(!origin.is_empty() && path.first() == Some(&b'/'));
    }

    fn status(&self) -> Json {
        Json::Null
    }
}
