//! Conditions on the records that are shown or exported.

use crate::record::ParsedLine;
use serde_json::Value;

/// Conditions that a record has to meet; without any, all records do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Earliest time, in microseconds since 1970.
    pub since: Option<i64>,
    /// Latest time.
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
            line.text("name") == principal
                || line.text("who").contains(principal.as_str())
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
