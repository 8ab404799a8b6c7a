//! Between the cache's words, in which paths are numbers, and those of tiers.

use crate::given::{Given, Refused};
use esker_origin::{Found, Named};
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

pub(super) fn given(answer: &Answer, now: Time, hit: bool, paths: &Paths) -> Given {
    let found = match (&answer.state, &answer.listing) {
        (State::Absent, _) => Found::Absent,
        (State::Present(attributes), None) => Found::Present(attributes.clone()),
        (State::Present(attributes), Some(listing)) => Found::Listing {
            attributes: attributes.clone(),
            children: listing
                .children()
                .iter()
                .map(|child| Named {
                    name: paths.name(child.path).into(),
                    attributes: child.attributes.clone(),
                })
                .collect(),
            complete: listing.complete(),
        },
    };
    Given {
        found,
        age: Duration::from_micros(now.saturating_sub(answer.at)),
        told: answer.told,
        hit,
    }
}

pub(super) fn answer(request: Request, found: Found, at: Time, paths: &mut Paths) -> Answer {
    match found {
        Found::Absent => Answer::absent(at),
        Found::Present(attributes) => Answer::present(attributes, at),
        Found::Listing {
            attributes,
            children,
            complete,
        } => {
            let mut whole = complete;
            let mut known = Vec::with_capacity(children.len());
            for Named { name, attributes } in children {
                match paths.child(request.path, &name) {
                    Ok(path) => known.push(Child { path, attributes }),
                    // A name that no path can have cannot be asked for either, but nothing is complete without it.
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
