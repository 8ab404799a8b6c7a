//! What every answer has: its limits, and what it stands on.

use crate::interrupt::Interrupt;
use esker_model::Cancel;
use esker_model::traversal::StopReason;
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a question may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) rows: usize,
    pub(super) bytes: usize,
    pub(super) time: Duration,
}

/// Whether a question is to be given up: its time is over, or nobody waits for it.
#[derive(Debug, Clone)]
pub(super) struct Stop {
    interrupt: Interrupt,
    gone: Arc<AtomicBool>,
}

impl Stop {
    pub(super) fn new(interrupt: Interrupt) -> Self {
        Self {
            interrupt,
            gone: Arc::default(),
        }
    }

    pub(super) fn give_up(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Why, if so.
    pub(super) fn why(&self) -> Option<&'static str> {
        if self.gone.load(Ordering::Relaxed) {
            return Some("cancelled");
        }
        self.interrupt
            .stopped()
            .map(crate::interrupt::Stopped::name)
    }
}

impl Cancel for Stop {
    fn cancelled(&self) -> bool {
        self.why().is_some()
    }

    fn reason(&self) -> StopReason {
        self.interrupt.reason()
    }
}

/// How many edges say where they come from, and what.
pub(super) fn evidence_of(edges: &Json) -> Json {
    let mut counts: Map<String, Json> = Map::new();
    for edge in edges.as_array().into_iter().flatten() {
        let said = edge.pointer("/properties/evidence").and_then(Json::as_str);
        let known = |word: &&str| ["observed", "declared", "asserted"].contains(word);
        let said = said.filter(known).unwrap_or("not_said");
        let count = counts.get(said).and_then(Json::as_u64).unwrap_or_default();
        counts.insert(said.to_owned(), (count + 1).into());
    }
    Json::Object(counts)
}

/// Cuts lists of an answer until it is small enough: how many of each were left out.
pub(super) fn fit(mut answer: Json, lists: &[&str], limits: Limits, complete: bool) -> Json {
    let mut left_out: Map<String, Json> = Map::new();
    let mut cut = |answer: &mut Json, list: &str, keep: usize| {
        if let Some(Json::Array(items)) = answer.get_mut(list)
            && items.len() > keep
        {
            let gone = items.len() - keep;
            items.truncate(keep);
            let before = left_out.get(list).and_then(Json::as_u64).unwrap_or(0);
            left_out.insert(list.to_owned(), (before + gone as u64).into());
        }
    };
    for list in lists {
        cut(&mut answer, list, limits.rows);
    }
    // The largest list gives a quarter, until all fits.
    while answer.to_string().len() > limits.bytes {
        let size = |list: &&&str| answer.get(**list).map_or(0, |l| l.to_string().len());
        let Some(largest) = lists.iter().max_by_key(size) else {
            break;
        };
        let length = answer.get(*largest).and_then(|l| Some(l.as_array()?.len()));
        match length {
            Some(length) if length > 0 => cut(&mut answer, largest, length - length.div_ceil(4)),
            _ => break,
        }
    }
    let whole = complete && left_out.is_empty();
    answer["limits"] = json!({
        "complete": whole,
        "left_out": left_out,
        "rows": limits.rows,
        "bytes": limits.bytes,
        "seconds": limits.time.as_secs_f64(),
    });
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        rows: 10,
        bytes: 400,
        time: Duration::from_secs(1),
    };

    #[test]
    fn an_answer_fits_and_says_what_it_lacks() {
        let long: Vec<String> = (0..30).map(|i| format!("{i:040}")).collect();
        let short = [1, 2, 3];
        let out = fit(
            json!({"long": long, "short": short}),
            &["long", "short"],
            LIMITS,
            true,
        );
        assert_eq!(out["short"], json!([1, 2, 3]));
        let kept = out["long"].as_array().unwrap().len();
        assert!((1..10).contains(&kept), "{kept}");
        assert_eq!(out["limits"]["left_out"]["long"], 30 - kept);
        assert_eq!(out["limits"]["complete"], false);
        let out = fit(json!({"long": [1]}), &["long"], LIMITS, true);
        assert_eq!(out["limits"]["complete"], true);
    }

    #[test]
    fn what_edges_say_is_counted() {
        let edges = json!([{"properties": {"evidence": "observed"}}, {"properties": {"evidence": "observed"}},
                           {"properties": {"evidence": 7}}, {}]);
        assert_eq!(evidence_of(&edges), json!({"observed": 2, "not_said": 2}));
    }
}
