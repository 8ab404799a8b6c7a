//! The latest traversals, with the profile of each step and server (GraphTrek, Fig. 9).

use super::super::json::{server_steps_out, steps_out};
use esker_model::Traversal;
use esker_model::object::Principal;
use esker_model::traversal::{ServerStep, Start, StepProfile, TravelResult};
use serde_json::{Value as Json, json};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Number of traversals that are kept.
const TRAVERSALS_MAX: usize = 10;
/// Largest number of start vertices in the text of a chain, and of its characters.
const NAMES_MAX: usize = 32;
const CHARACTERS_MAX: usize = 600;

/// Ring buffer of traversals, the newest last.
#[derive(Default)]
pub(crate) struct Traversals(Mutex<VecDeque<TraversalEntry>>);

struct TraversalEntry {
    /// Principal of the traversal, if there was one.
    principal: Option<Principal>,
    at: i64,
    chain: String,
    micros: u64,
    complete: bool,
    steps: Vec<StepProfile>,
    servers: Vec<ServerStep>,
}

fn text(traversal: &Traversal) -> String {
    match &traversal.start {
        Start::Vertices(names) if names.len() > NAMES_MAX => {
            format!("v(… {} vertices).…", names.len())
        }
        _ => {
            let whole = traversal.to_string();
            match whole.char_indices().nth(CHARACTERS_MAX) {
                Some((cut, _)) => format!("{}…", &whole[..cut]),
                None => whole,
            }
        }
    }
}

impl Traversals {
    /// Adds a completed traversal.
    pub(crate) fn note(
        &self,
        principal: Option<&Principal>,
        traversal: &Traversal,
        result: &TravelResult,
        took: Duration,
    ) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let one = TraversalEntry {
            principal: principal.cloned(),
            at: i64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(i64::MAX),
            chain: text(traversal),
            micros: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            complete: result.complete,
            steps: result.profile.clone(),
            servers: result.servers.clone(),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_back(one);
        if all.len() > TRAVERSALS_MAX {
            all.pop_front();
        }
    }

    /// Encodes the traversals, the newest first. A limited principal gets only its own: chains contain names and values.
    pub(super) fn to_json(&self, principal: Option<&Principal>) -> Json {
        let principal = Principal::limited(principal);
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let theirs =
            |one: &&TraversalEntry| principal.is_none() || one.principal.as_ref() == principal;
        let each = all.iter().rev().filter(theirs).map(|one| {
            json!({
                "at": esker_console::value::time(one.at),
                "chain": one.chain,
                "micros": one.micros,
                "complete": one.complete,
                "profile": steps_out(&one.steps),
                "servers": server_steps_out(&one.servers),
            })
        });
        each.collect()
    }
}
