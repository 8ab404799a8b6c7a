//! Conversion between the cache's types, in which paths are numbers, and those of tiers.

use crate::answer::{Refused, TierAnswer};
use esker_origin::{DirEntry, PathMetadata};
use esker_site_cache::entry::{Answer, Child, Failure, Listing, Request, State, Time};
use esker_site_cache::path::Paths;
use std::sync::Arc;
use std::time::Duration;

pub(super) fn refused(failure: Failure) -> Refused {
    match failure {
        Failure::Origin(why) => Refused::Origin(why),
        Failure::Denied(why) => Refused::Denied(why),
        Failure::Busy => Refused::Busy,
        Failure::Changing => Refused::Changing,
        other => Refused::Origin(other.to_string().into()),
    }
}

pub(super) fn tier_answer(answer: &Answer, now: Time, hit: bool, paths: &Paths) -> TierAnswer {
    let found = match (&answer.state, &answer.listing) {
        (State::Absent, _) => PathMetadata::Absent,
        (State::Present(attributes), None) => PathMetadata::Present(attributes.clone()),
        (State::Present(attributes), Some(listing)) => PathMetadata::Listing {
            attributes: attributes.clone(),
            children: listing
                .children()
                .iter()
                .map(|child| DirEntry {
                    name: paths.name(child.path).into(),
                    attributes: child.attributes.clone(),
                })
                .collect(),
            complete: listing.complete(),
        },
    };
    TierAnswer {
        found,
        age: Duration::from_micros(now.saturating_sub(answer.at)),
        subscribed: answer.subscribed,
        hit,
    }
}

pub(super) fn answer(request: Request, found: PathMetadata, at: Time, paths: &mut Paths) -> Answer {
    match found {
        PathMetadata::Absent => Answer::absent(at),
        PathMetadata::Present(attributes) => Answer::present(attributes, at),
        PathMetadata::Listing {
            attributes,
            children,
            complete,
        } => {
            let mut whole = complete;
            let mut known = Vec::with_capacity(children.len());
            for DirEntry { name, attributes } in children {
                match paths.child(request.path, &name) {
                    Ok(path) => known.push(Child { path, attributes }),
                    // An invalid name cannot be requested, but the listing is incomplete without it.
                    Err(_) => whole = false,
                }
            }
            Answer {
                listing: Some(Arc::new(Listing::new(known, whole, paths))),
                ..Answer::present(attributes, at)
            }
        }
    }
}
