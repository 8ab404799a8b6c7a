//! Parts of every answer: its limits, and the evidence of its edges.

use esker_model::Cancel;
use esker_model::traversal::StopReason;
use esker_terminal::interrupt::Interrupt;
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Limits of one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnswerLimits {
    pub(super) rows: usize,
    pub(super) bytes: usize,
    pub(super) time: Duration,
}

/// Whether to stop a request: its time is over, or its client has cancelled it.
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

    pub(super) fn cancel(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Returns the reason to stop, if there is one.
    pub(super) fn stop_reason(&self) -> Option<&'static str> {
        if self.gone.load(Ordering::Relaxed) {
            return Some("cancelled");
        }
        self.interrupt
            .stopped()
            .map(esker_terminal::interrupt::Stopped::name)
    }
}

impl Cancel for Stop {
    fn cancelled(&self) -> bool {
        self.stop_reason().is_some()
    }

    fn reason(&self) -> StopReason {
        self.interrupt.reason()
    }
}

/// Counts edges by the kind of their evidence.
pub(super) fn evidence_of(edges: &Json) -> Json {
    let mut counts: Map<String, Json> = Map::new();
    for edge in edges.as_array().into_iter().flatten() {
        let kind = edge.pointer("/properties/evidence").and_then(Json::as_str);
        let known = |word: &&str| ["observed", "declared", "asserted"].contains(word);
        let kind = kind.filter(known).unwrap_or("not_said");
        let count = counts.get(kind).and_then(Json::as_u64).unwrap_or_default();
        counts.insert(kind.to_owned(), (count + 1).into());
    }
    Json::Object(counts)
}

/// Shortens the lists of an answer until it fits, and adds how many elements of each were left out.
pub(super) fn limit_size(
    mut answer: Json,
    lists: &[&str],
    limits: AnswerLimits,
    complete: bool,
) -> Json {
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
    // The longest list loses a quarter until the answer fits.
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

    const LIMITS: AnswerLimits = AnswerLimits {
        rows: 10,
        bytes: 400,
        time: Duration::from_secs(1),
    };

    #[test]
    fn an_answer_fits_and_says_what_it_lacks() {
        let long: Vec<String> = (0..30).map(|i| format!("{i:040}")).collect();
        let short = [1, 2, 3];
        let out = limit_size(
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
        let out = limit_size(json!({"long": [1]}), &["long"], LIMITS, true);
        assert_eq!(out["limits"]["complete"], true);
    }

    #[test]
    fn what_edges_say_is_counted() {
        let edges = json!([{"properties": {"evidence": "observed"}}, {"properties": {"evidence": "observed"}},
                           {"properties": {"evidence": 7}}, {}]);
        assert_eq!(evidence_of(&edges), json!({"observed": 2, "not_said": 2}));
    }
}
