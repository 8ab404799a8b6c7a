//! Conditions on the records that are shown or exported.

use crate::record::ParsedLine;
use serde_json::Value;

/// Conditions that a record has to meet; without any, all records do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Earliest time, in microseconds since 1970.
    pub since: Option<i64>,
    /// Latest time of a record.
    pub until: Option<i64>,
    /// Login name, number or description of the sender, or the number of the user on whose behalf it asked.
    pub principal: Option<String>,
    /// Part of the call's name or of its route.
    pub call: Option<String>,
    /// Whether only refused requests are selected.
    pub refused: bool,
}

impl Selection {
    /// Whether a record meets all conditions.
    pub fn matches(&self, line: &ParsedLine) -> bool {
        let of = |principal: &String| {
            let number = |value: Option<&Value>| {
                value.is_some_and(|v| v.as_i64().is_some_and(|n| n.to_string() == *principal))
            };
            let behalf = line.fields.get("as").and_then(|user| user.get("uid"));
            // A number may occur in the fingerprint of any key.
            let is_number = principal.parse::<i64>().is_ok();
            line.text("name") == principal
                || !is_number && line.text("who").contains(principal.as_str())
                || number(line.fields.get("uid"))
                || number(behalf)
        };
        self.since.is_none_or(|since| line.time >= since)
            && self.until.is_none_or(|until| line.time <= until)
            && self.principal.as_ref().is_none_or(of)
            && self
                .call
                .as_ref()
                .is_none_or(|call| line.text("call").contains(call.as_str()))
            && (!self.refused || line.text("result") == "refused")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::Head;
    use crate::record::{Behalf, Entry, Line, Outcome, Subject};
    use std::sync::Arc;

    #[test]
    fn each_condition_has_to_be_met() {
        let subject = Subject {
            who: "key SHA256:5x (bob@lab)".into(),
            name: Some("bob".into()),
            uid: Some(1002),
            gids: Vec::new(),
            proof: "key",
            role: "read",
            peer: "unix".into(),
        };
        let mut entry = Entry::new("call", "GET /api/v1/find", Arc::new(subject));
        entry.time = 50;
        entry.on_behalf = Some(Behalf {
            uid: 7,
            gids: Vec::new(),
        });
        entry.outcome = Outcome::Failed("404".into());
        let line = ParsedLine::parse(Line::of(Head::START, &entry).as_bytes()).unwrap();
        let principal = |name: &str| Selection {
            principal: Some(name.into()),
            ..Selection::default()
        };
        for name in ["bob", "bob@lab", "1002", "7"] {
            assert!(principal(name).matches(&line), "{name}");
        }
        for name in ["ann", "5", "100"] {
            assert!(!principal(name).matches(&line), "{name}");
        }
        let within = |since, until| Selection {
            since: Some(since),
            until: Some(until),
            call: Some("/find".into()),
            ..Selection::default()
        };
        assert!(within(50, 50).matches(&line));
        assert!(!within(51, 60).matches(&line));
        assert!(!within(40, 49).matches(&line));
        let refused = Selection {
            refused: true,
            ..Selection::default()
        };
        assert!(!refused.matches(&line));
    }
}
