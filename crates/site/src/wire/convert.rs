//! Conversion between messages of tiers and their types.

use crate::answer::{Refused, TierAnswer, digest};
use crate::upstream::{Fetch, FetchResponse};
use esker_origin::{DirEntry, PathMetadata};
use esker_rpc::proto;
use esker_rpc::proto::site_answer::{Reason, State};
use esker_rpc::proto::site_attributes::Kind as KindWord;
use esker_rpc::proto::site_change::Happened as Word;
use esker_site_cache::entry::{Attributes, ChangeKind, Kind, Wants};
use esker_site_cache::path::is_name;
use esker_site_cache::queue::{Class, PRIORITY_MAX};
use std::time::Duration;

/// Maximum number of names in one piece of a listing.
const PIECE: usize = 8192;

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

pub(crate) fn attributes(of: &Attributes) -> proto::SiteAttributes {
    let kind = match of.kind {
        Kind::File => KindWord::File,
        Kind::Directory => KindWord::Directory,
        Kind::Link => KindWord::Link,
        Kind::Other => KindWord::Other,
        Kind::Unknown => KindWord::Unknown,
    };
    let more = of.more.iter().flat_map(|m| m.iter());
    proto::SiteAttributes {
        kind: kind.into(),
        size: of.size,
        modified: of.modified,
        mode: of.mode,
        more: more
            .flat_map(|(name, value)| [name.to_string(), value.to_string()])
            .collect(),
    }
}

pub(crate) fn of_attributes(from: proto::SiteAttributes) -> Attributes {
    let kind = match from.kind() {
        KindWord::File => Kind::File,
        KindWord::Directory => Kind::Directory,
        KindWord::Link => Kind::Link,
        KindWord::Other => Kind::Other,
        KindWord::Unknown => Kind::Unknown,
    };
    let mut more = Vec::with_capacity(from.more.len() / 2);
    let mut words = from.more.into_iter();
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        more.push((name.into(), value.into()));
    }
    Attributes {
        kind,
        size: from.size,
        modified: from.modified,
        mode: from.mode,
        more: (!more.is_empty()).then(|| more.into()),
    }
}

pub(crate) fn site_ask(ticket: u64, fetch: Fetch, stale_if_error: bool) -> proto::SiteAsk {
    let urgency = match fetch.class {
        Class::Fetch => u32::from(PRIORITY_MAX) + 1,
        Class::Prefetch(priority) => u32::from(priority.min(PRIORITY_MAX)),
    };
    proto::SiteAsk {
        ticket,
        origin: fetch.origin.to_string(),
        path: fetch.path.into(),
        list: fetch.wants == Wants::List,
        urgency,
        max_age: fetch.max_age.map(micros),
        stale_if_error,
        kept: fetch.kept,
    }
}

pub(crate) fn class(urgency: u32) -> Class {
    match u8::try_from(urgency) {
        Ok(priority) if priority <= PRIORITY_MAX => Class::Prefetch(priority),
        _ => Class::Fetch,
    }
}

/// Converts an answer to one or more pieces; the last one completes it.
pub(crate) fn answers(
    ticket: u64,
    result: Result<TierAnswer, Refused>,
    kept: Option<u64>,
    out: &mut Vec<proto::SiteAnswer>,
) {
    let mut answer = proto::SiteAnswer {
        ticket,
        ..proto::SiteAnswer::default()
    };
    let given = match result {
        Ok(given) => given,
        Err(refused) => {
            let reason = match &refused {
                Refused::Named(_) => Reason::Named,
                Refused::Origin(_) => Reason::Origin,
                Refused::Denied(_) => Reason::Denied,
                Refused::Busy => Reason::Busy,
                Refused::Changing => Reason::Changing,
            };
            answer.set_reason(reason);
            answer.failure = refused.to_string();
            out.push(answer);
            return;
        }
    };
    answer.age = micros(given.age);
    answer.subscribed = given.subscribed;
    answer.hit = given.hit;
    if kept.is_some_and(|kept| kept == digest(&given.found)) {
        answer.set_state(State::Same);
        out.push(answer);
        return;
    }
    match given.found {
        PathMetadata::Absent => answer.set_state(State::Absent),
        PathMetadata::Present(of) => {
            answer.set_state(State::Present);
            answer.attributes = Some(attributes(&of));
        }
        PathMetadata::Listing {
            attributes: own,
            children,
            complete,
        } => {
            let child = |c: DirEntry| proto::SiteChild {
                name: c.name.into(),
                attributes: Some(attributes(&c.attributes)),
            };
            let mut rest = children.into_iter();
            while rest.len() > PIECE {
                let mut piece = proto::SiteAnswer {
                    ticket,
                    children: rest.by_ref().take(PIECE).map(child).collect(),
                    ..proto::SiteAnswer::default()
                };
                piece.set_state(State::Piece);
                out.push(piece);
            }
            answer.set_state(State::Present);
            answer.attributes = Some(attributes(&own));
            answer.listing = true;
            answer.complete = complete;
            answer.children = rest.map(child).collect();
        }
    }
    out.push(answer);
}

/// Children of an incomplete answer.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    children: Vec<DirEntry>,
    /// Whether children with invalid names were dropped.
    less: bool,
}

/// A complete answer, with the tier's cache hit flag.
#[derive(Debug)]
pub(crate) struct CompleteAnswer {
    pub(crate) got: Result<FetchResponse, Refused>,
    pub(crate) hit: bool,
}

impl Pieces {
    /// Adds a piece; returns the answer when it is complete.
    pub(crate) fn take(&mut self, answer: proto::SiteAnswer) -> Option<CompleteAnswer> {
        let state = answer.state();
        let reason = answer.reason();
        let child = |c: proto::SiteChild| DirEntry {
            name: c.name.into(),
            attributes: of_attributes(c.attributes.unwrap_or_default()),
        };
        // Invalid names are dropped, because a traversal follows names. The listing is incomplete without them.
        let names = answer.children.into_iter();
        let before = self.children.len();
        let all = names.len();
        self.children
            .extend(names.filter(|c| is_name(&c.name)).map(child));
        self.less |= self.children.len() - before < all;
        let age = Duration::from_micros(answer.age);
        let subscribed = answer.subscribed;
        let found = |found| {
            Ok(FetchResponse::Found {
                found,
                age,
                subscribed,
            })
        };
        let own = of_attributes(answer.attributes.unwrap_or_default());
        let got = match state {
            State::Piece => return None,
            State::Same => Ok(FetchResponse::Unchanged { age, subscribed }),
            State::Absent => found(PathMetadata::Absent),
            State::Present if answer.listing => found(PathMetadata::Listing {
                attributes: own,
                children: std::mem::take(&mut self.children),
                complete: answer.complete && !std::mem::take(&mut self.less),
            }),
            State::Present => found(PathMetadata::Present(own)),
            State::Failed => Err(match reason {
                Reason::Origin => Refused::Origin(answer.failure.into()),
                Reason::Named => Refused::Named(answer.failure.into()),
                Reason::Denied => Refused::Denied(answer.failure.into()),
                Reason::Busy => Refused::Busy,
                Reason::Changing => Refused::Changing,
            }),
        };
        Some(CompleteAnswer {
            got,
            hit: answer.hit,
        })
    }
}

pub(crate) fn change(origin: &str, path: Vec<u8>, happened: &ChangeKind) -> proto::SiteChange {
    let (word, of) = match happened {
        ChangeKind::Changed(of) => (Word::Changed, Some(attributes(of))),
        ChangeKind::Deleted => (Word::Deleted, None),
        ChangeKind::Unsubscribed => (Word::Forgotten, None),
        ChangeKind::Invalidated => (Word::Doubted, None),
    };
    proto::SiteChange {
        origin: origin.to_owned(),
        path,
        happened: word.into(),
        attributes: of,
    }
}

pub(crate) fn of_change(change: &proto::SiteChange) -> ChangeKind {
    match change.happened() {
        Word::Changed => {
            let of = change.attributes.clone().unwrap_or_default();
            ChangeKind::Changed(of_attributes(of))
        }
        Word::Deleted => ChangeKind::Deleted,
        Word::Forgotten => ChangeKind::Unsubscribed,
        Word::Doubted => ChangeKind::Invalidated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A malicious upstream tier listed `..` and `.` below a directory: a client's traversal went up and round without end. Names are
    /// therefore checked on arrival.
    #[test]
    fn what_no_path_can_have_as_a_name_is_left_out() {
        let listing = |names: &[&str], state: State| {
            let mut answer = proto::SiteAnswer {
                listing: true,
                complete: true,
                children: names
                    .iter()
                    .map(|name| proto::SiteChild {
                        name: name.as_bytes().to_vec(),
                        attributes: None,
                    })
                    .collect(),
                ..proto::SiteAnswer::default()
            };
            answer.set_state(state);
            answer
        };
        let mut pieces = Pieces::default();
        let found = |whole: Option<CompleteAnswer>| match whole.map(|whole| whole.got) {
            Some(Ok(FetchResponse::Found {
                found:
                    PathMetadata::Listing {
                        children, complete, ..
                    },
                ..
            })) => (children.len(), complete),
            other => panic!("{other:?}"),
        };
        let piece = pieces.take(listing(&["a", "..", "b/c"], State::Piece));
        assert!(piece.is_none());
        let last = listing(&["d", "", ".", "e\0"], State::Present);
        assert_eq!(found(pieces.take(last)), (2, false));
        let whole = Pieces::default().take(listing(&["a", "..."], State::Present));
        assert_eq!(found(whole), (2, true));
    }
}
