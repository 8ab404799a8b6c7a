//! The latest traversals: what each step did, and each server in it (GraphTrek, Fig. 9).

use super::super::json::{server_steps_out, steps_out};
use esker_model::Traversal;
use esker_model::object::Asker;
use esker_model::traversal::{ServerStep, Start, StepProfile, TravelResult};
use serde_json::{Value as Json, json};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Traversals that are remembered.
const KEPT: usize = 10;
/// Vertices that a chain may begin with to be told whole, and characters of it.
const NAMES_MAX: usize = 32;
const CHARACTERS_MAX: usize = 600;

/// The latest of them, the newest last.
#[derive(Default)]
pub(crate) struct Traversals(Mutex<VecDeque<One>>);

struct One {
    /// On whose behalf.
    asker: Option<Asker>,
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
    /// One more is answered.
    pub(crate) fn note(
        &self,
        asker: Option<&Asker>,
        traversal: &Traversal,
        result: &TravelResult,
        took: Duration,
    ) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let one = One {
            asker: asker.cloned(),
            at: i64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(i64::MAX),
            chain: text(traversal),
            micros: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            complete: result.complete,
            steps: result.profile.clone(),
            servers: result.servers.clone(),
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_back(one);
        if all.len() > KEPT {
            all.pop_front();
        }
    }

    /// The newest first. Somebody from whom something may be hidden is told of their own only: chains name vertices and values.
    pub(super) fn told(&self, asker: Option<&Asker>) -> Json {
        let asker = Asker::limited(asker);
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let theirs = |one: &&One| asker.is_none() || one.asker.as_ref() == asker;
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
