//! Records of requests, and their JSON.

use crate::chain::{Head, LineHash};
use crate::time;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Targets of a request that are recorded by name; further ones are counted.
pub const TARGETS_MAX: usize = 16;
/// Bytes of one target's name that are recorded.
pub const TARGET_BYTES_MAX: usize = 1 << 10;
/// Bytes of the text of a query that are recorded.
pub const QUERY_BYTES_MAX: usize = 4 << 10;

/// The sender of a request, as the server authenticated it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// Description for people: the key with its comment, the token's name, the user of the process.
    pub who: String,
    /// Login name, if it is known.
    pub name: Option<String>,
    /// Number of the user, if it is known.
    pub uid: Option<i64>,
    /// Numbers of the user's groups, if the rights have them.
    pub gids: Vec<i64>,
    /// Kind of the proof of the identity: `process`, `key`, `token`, `session`, `server`; `none` without a proof.
    pub proof: &'static str,
    /// Role of the sender; empty without one.
    pub role: &'static str,
    /// Address of the sender, `IP:PORT`, or `unix` for the socket in the folder.
    pub peer: String,
}

/// The user on whose behalf a request was made, as the request says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behalf {
    /// Number of the user.
    pub uid: i64,
    /// Numbers of the user's groups.
    pub gids: Vec<i64>,
}

/// The text of a query or filter, cut to [`QUERY_BYTES_MAX`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryText {
    /// The beginning of the text.
    text: String,
    /// Length of the whole text in bytes.
    bytes: usize,
}

impl QueryText {
    /// Takes the beginning of a text.
    pub fn new(text: &str) -> Self {
        Self {
            text: cut(text, QUERY_BYTES_MAX).to_owned(),
            bytes: text.len(),
        }
    }
}

/// Returns the beginning of a text, at most `most` bytes of whole characters.
pub fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

/// The result of a recorded request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered.
    Done,
    /// It was allowed and failed, with a status of gRPC or HTTP.
    Failed(String),
    /// It was refused: one word, and the reason.
    Refused {
        /// Reason as one word, as in the metric `esker_refused_total`.
        why: String,
        /// Reason in words.
        reason: String,
    },
}

/// One request or change of access.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Arrival in microseconds since 1970.
    pub time: i64,
    /// Kind of the record: `call`, `access`, `session`, `refusal`.
    pub event: &'static str,
    /// Number of the request in the life of its server.
    pub request: u64,
    /// The authenticated sender of it.
    pub subject: Arc<Subject>,
    /// Protocol of the request: `grpc` or `http`.
    pub protocol: &'static str,
    /// Name of the call, or method and route.
    pub call: String,
    /// Path and query string of an HTTP request.
    pub path: Option<String>,
    /// User on whose behalf the request was made.
    pub on_behalf: Option<Behalf>,
    /// Names of the first targets.
    pub targets: Vec<String>,
    /// Number of all targets.
    pub targets_total: u64,
    /// Text of a query or filter.
    pub query: Option<QueryText>,
    /// Rows in the answer, if they were counted.
    pub rows: Option<u64>,
    /// Status of an HTTP response.
    pub status: Option<u16>,
    /// Time until the answer, in microseconds.
    pub micros: Option<u64>,
    /// Further facts: whose access changed, and to what.
    pub details: Vec<(&'static str, String)>,
    /// The result of the request.
    pub outcome: Outcome,
}

impl Entry {
    /// Creates a record of a request without further facts.
    pub fn new(event: &'static str, call: impl Into<String>, subject: Arc<Subject>) -> Self {
        Self {
            time: 0,
            event,
            request: 0,
            subject,
            protocol: "grpc",
            call: call.into(),
            path: None,
            on_behalf: None,
            targets: Vec::new(),
            targets_total: 0,
            query: None,
            rows: None,
            status: None,
            micros: None,
            details: Vec::new(),
            outcome: Outcome::Done,
        }
    }

    /// Adds a target; above the limit it is only counted.
    pub fn target(&mut self, name: impl AsRef<str>) {
        self.targets_total += 1;
        if self.targets.len() < TARGETS_MAX {
            let name = cut(name.as_ref(), TARGET_BYTES_MAX);
            self.targets.push(name.to_owned());
        }
    }

    /// Writes the keys of the record.
    fn write(&self, line: &mut Line) {
        let subject = &self.subject;
        line.number("request", self.request);
        line.text("who", &subject.who);
        line.optional("name", subject.name.as_deref());
        line.signed("uid", subject.uid);
        if !subject.gids.is_empty() {
            line.key("gids");
            line.numbers(&subject.gids);
        }
        line.text("proof", subject.proof);
        if !subject.role.is_empty() {
            line.text("role", subject.role);
        }
        line.text("peer", &subject.peer);
        line.text("protocol", self.protocol);
        line.text("call", &self.call);
        line.optional("path", self.path.as_deref());
        if let Some(behalf) = &self.on_behalf {
            line.key("as");
            line.out.push_str("{\"uid\":");
            line.out.push_str(&behalf.uid.to_string());
            line.out.push_str(",\"gids\":");
            line.numbers(&behalf.gids);
            line.out.push('}');
        }
        if self.targets_total > 0 {
            line.key("targets");
            line.list(&self.targets);
            line.number("targets_total", self.targets_total);
        }
        if let Some(query) = &self.query {
            line.text("query", &query.text);
            if query.bytes > query.text.len() {
                line.number("query_bytes", query.bytes as u64);
            }
        }
        for (name, value) in &self.details {
            line.text(name, value);
        }
        line.maybe_number("rows", self.rows);
        line.maybe_number("status", self.status.map(u64::from));
        line.maybe_number("micros", self.micros);
        match &self.outcome {
            Outcome::Done => line.text("result", "ok"),
            Outcome::Failed(error) => {
                line.text("result", "error");
                line.text("error", error);
            }
            Outcome::Refused { why, reason } => {
                line.text("result", "refused");
                line.text("why", why);
                line.text("reason", reason);
            }
        }
    }
}

/// A line while it is written.
pub(crate) struct Line {
    out: String,
}

impl Line {
    /// Begins the line after `head`.
    pub(crate) fn begin(head: Head, now: i64, event: &str) -> Self {
        let mut line = Self {
            out: String::with_capacity(512),
        };
        line.out.push('{');
        line.number("seq", head.seq + 1);
        line.text("time", &time::format(now));
        line.text("prev", &head.hash.to_string());
        line.text("event", event);
        line
    }

    /// Writes the line of a record.
    pub(crate) fn of(head: Head, entry: &Entry) -> String {
        let mut line = Self::begin(head, entry.time, entry.event);
        entry.write(&mut line);
        line.end()
    }

    /// Ends the line, without a line feed.
    pub(crate) fn end(mut self) -> String {
        self.out.push('}');
        self.out
    }

    fn key(&mut self, name: &str) {
        if !self.out.ends_with('{') {
            self.out.push(',');
        }
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str("\":");
    }

    fn string(&mut self, text: &str) {
        let plain = |c: char| !c.is_ascii_control() && c != '"' && c != '\\' && c.is_ascii();
        if text.chars().all(plain) {
            self.out.push('"');
            self.out.push_str(text);
            self.out.push('"');
        } else {
            self.out.push_str(&Value::from(text).to_string());
        }
    }

    pub(crate) fn text(&mut self, name: &str, text: &str) {
        self.key(name);
        self.string(text);
    }

    fn optional(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    pub(crate) fn number(&mut self, name: &str, number: u64) {
        self.key(name);
        self.out.push_str(&number.to_string());
    }

    fn maybe_number(&mut self, name: &str, number: Option<u64>) {
        if let Some(number) = number {
            self.number(name, number);
        }
    }

    fn signed(&mut self, name: &str, number: Option<i64>) {
        if let Some(number) = number {
            self.key(name);
            self.out.push_str(&number.to_string());
        }
    }

    fn numbers(&mut self, numbers: &[i64]) {
        let all: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        self.out.push('[');
        self.out.push_str(&all.join(","));
        self.out.push(']');
    }

    fn list(&mut self, texts: &[String]) {
        self.out.push('[');
        for (i, text) in texts.iter().enumerate() {
            if i > 0 {
                self.out.push(',');
            }
            self.string(text);
        }
        self.out.push(']');
    }
}

/// A line that was read: the keys that the chain needs, and all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedLine {
    /// Number of the line.
    pub seq: u64,
    /// Hash of the line before.
    pub prev: LineHash,
    /// Time in microseconds since 1970.
    pub time: i64,
    /// All keys and values.
    pub fields: Map<String, Value>,
}

impl ParsedLine {
    /// Parses a line; an error says which part is wrong.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        let fields = match serde_json::from_slice(line) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return Err("the line is no JSON object".into()),
            Err(e) => return Err(format!("the line is no JSON: {e}")),
        };
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let seq = fields.get("seq").and_then(Value::as_u64);
        let prev = text("prev").and_then(LineHash::parse);
        let time = text("time").and_then(time::parse);
        let (Some(seq), Some(prev), Some(time), Some(_)) = (seq, prev, time, text("event")) else {
            return Err("the line lacks one of `seq`, `time`, `prev`, `event`".into());
        };
        Ok(Self {
            seq,
            prev,
            time,
            fields,
        })
    }

    /// Kind of the record.
    pub fn event(&self) -> &str {
        self.text("event")
    }

    /// Value of a key, if it is a text; else an empty text.
    pub fn text(&self, name: &str) -> &str {
        let value = self.fields.get(name).and_then(Value::as_str);
        value.unwrap_or_default()
    }

    /// Value of a key, if it is a number from 0.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.fields.get(name).and_then(Value::as_u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        let subject = Subject {
            who: "key SHA256:abc (bob \"b\" \u{fc})".into(),
            name: Some("bob".into()),
            uid: Some(1002),
            gids: vec![100, 7],
            proof: "key",
            role: "read",
            peer: "192.0.2.7:40312".into(),
        };
        let mut entry = Entry::new("call", "find", Arc::new(subject));
        entry.request = 9;
        entry.query = Some(QueryText::new(&"\u{e4}".repeat(3_000)));
        entry.on_behalf = Some(Behalf {
            uid: 5,
            gids: vec![],
        });
        for n in 0..20 {
            entry.target(format!("file:/a\n{n}"));
        }
        entry.outcome = Outcome::Refused {
            why: "role".into(),
            reason: "no \u{1} role".into(),
        };
        entry
    }

    #[test]
    fn a_record_is_one_line_of_json_with_all_facts() {
        let line = Line::of(Head::START, &entry());
        assert!(!line.contains('\n'));
        let parsed = ParsedLine::parse(line.as_bytes()).unwrap();
        assert_eq!((parsed.seq, parsed.prev), (1, LineHash::START));
        let json = Value::Object(parsed.fields);
        assert_eq!(json["who"], "key SHA256:abc (bob \"b\" \u{fc})");
        assert_eq!(json["gids"], serde_json::json!([100, 7]));
        assert_eq!(json["as"], serde_json::json!({"uid": 5, "gids": []}));
        assert_eq!(json["targets"].as_array().unwrap().len(), TARGETS_MAX);
        assert_eq!(json["targets_total"], 20);
        assert_eq!(json["targets"][1], "file:/a\n1");
        assert_eq!(json["query"].as_str().unwrap().len(), QUERY_BYTES_MAX);
        assert_eq!(json["query_bytes"], 6_000);
        assert_eq!(json["result"], "refused");
        assert_eq!(json["reason"], "no \u{1} role");
    }

    #[test]
    fn a_line_without_its_chain_is_refused() {
        for line in [
            &b""[..],
            b"7",
            b"{}",
            b"{\"seq\":1}",
            b"\xff",
            b"{\"seq\":-1,\"time\":\"1970-01-01T00:00:00Z\",\"prev\":\"\",\"event\":\"x\"}",
        ] {
            assert!(ParsedLine::parse(line).is_err());
        }
    }
}
