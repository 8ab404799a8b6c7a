//! Records for other systems: OCSF's class "API Activity" (6003), and syslog lines of RFC 5424 with that JSON as message.

use crate::record::ParsedLine;
use serde_json::{Map, Value, json};

/// Version of OCSF whose names are used.
const OCSF: &str = "1.3.0";
/// Number of OCSF's class "API Activity".
const API_ACTIVITY: u64 = 6003;
/// Facility of syslog for audit logs.
const FACILITY: u64 = 13;
const INFORMATIONAL: u64 = 6;
const WARNING: u64 = 4;

/// Words of calls and routes that create, change or delete; all others read.
const ACTIVITIES: [(u64, &[&str]); 3] = [
    (1, &["create", "grant", "token", "put"]),
    (4, &["delete", "revoke"]),
    (
        3,
        &[
            "apply",
            "change",
            "define",
            "tag_where",
            "set_index",
            "compact",
            "persist",
            "post",
            "patch",
            "window",
            "shutdown",
            "backup",
        ],
    ),
];

/// Number of OCSF's activity: 1 create, 2 read, 3 update, 4 delete.
fn activity(call: &str) -> u64 {
    let call = call.to_ascii_lowercase();
    let found = ACTIVITIES
        .iter()
        .find(|(_, words)| words.iter().any(|word| call.starts_with(word)));
    found.map_or(2, |(number, _)| *number)
}

fn moved(line: &ParsedLine, name: &str) -> Value {
    line.fields.get(name).cloned().unwrap_or(Value::Null)
}

/// Removes keys without a value.
fn compact(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| (key, compact(value)));
            let full = |value: &Value| !value.is_null() && *value != json!({});
            Value::Object(fields.filter(|(_, value)| full(value)).collect())
        }
        other => other,
    }
}

/// Converts a record to an event of OCSF's class "API Activity". Records that the log writes about itself become events of the
/// activity "other".
pub fn ocsf(line: &ParsedLine, version: &str) -> Value {
    let result = line.text("result");
    let own = result.is_empty();
    let activity = if own { 99 } else { activity(line.text("call")) };
    let (status, status_id) = match result {
        "ok" => ("Success", 1),
        "error" | "refused" => ("Failure", 2),
        _ => ("Other", 99),
    };
    let (ip, port) = match line.text("peer").rsplit_once(':') {
        Some((ip, port)) => (
            Value::from(ip.trim_matches(['[', ']'])),
            json!(port.parse::<u16>().ok()),
        ),
        None => (Value::Null, Value::Null),
    };
    let groups = line.fields.get("gids").and_then(Value::as_array);
    let groups = groups.map(|gids| {
        let group = |gid: &Value| json!({"uid": gid.to_string()});
        gids.iter().map(group).collect::<Vec<_>>()
    });
    let resources = line.fields.get("targets").and_then(Value::as_array);
    let resources = resources.map(|targets| {
        let resource = |name: &Value| json!({"name": name});
        targets.iter().map(resource).collect::<Vec<_>>()
    });
    let uid = line.fields.get("uid").and_then(Value::as_i64);
    // Keys that have no place in the class.
    let unmapped: Map<String, Value> = [
        "prev",
        "event",
        "proof",
        "role",
        "protocol",
        "as",
        "targets_total",
        "query",
        "query_bytes",
        "rows",
        "micros",
        "why",
        "grantee",
        "granted",
        "revoked",
        "session",
        "what",
        "server",
        "records",
    ]
    .into_iter()
    .filter_map(|key| Some((key.to_owned(), line.fields.get(key)?.clone())))
    .collect();
    compact(json!({
        "activity_id": activity,
        "category_uid": 6,
        "class_uid": API_ACTIVITY,
        "type_uid": API_ACTIVITY * 100 + activity,
        "class_name": "API Activity",
        "category_name": "Application Activity",
        "severity_id": if result == "refused" { 3 } else { 1 },
        "status": status,
        "status_id": status_id,
        "status_code": moved(line, "error"),
        "status_detail": moved(line, "reason"),
        "time": line.time / 1_000,
        "metadata": {
            "version": OCSF,
            "product": {"name": "Esker", "vendor_name": "Esker", "version": version},
            "uid": line.seq.to_string(),
            "log_name": "audit",
            "original_time": line.text("time"),
        },
        "actor": {
            "user": {
                "name": if line.text("name").is_empty() { moved(line, "who") } else { moved(line, "name") },
                "uid": uid.map(|uid| uid.to_string()),
                "full_name": moved(line, "who"),
                "groups": groups,
            },
        },
        "src_endpoint": if own { json!({"name": "server"}) } else { json!({"ip": ip, "port": port, "name": line.text("peer")}) },
        "api": {
            "operation": if own { line.text("event") } else { line.text("call") },
            "service": {"name": "esker"},
            "request": {"uid": line.number("request").map(|n| n.to_string())},
            "response": {"code": moved(line, "status"), "error": moved(line, "error"), "message": moved(line, "reason")},
        },
        "http_request": {"url": {"path": moved(line, "path")}},
        "resources": resources,
        "unmapped": unmapped,
    }))
}

/// Formats a record as a syslog line of RFC 5424, without a line feed. `host` is a name without spaces, or `-`.
pub fn syslog(line: &ParsedLine, host: &str, version: &str) -> String {
    let severity = if line.text("result") == "refused" {
        WARNING
    } else {
        INFORMATIONAL
    };
    let printable = |c: &char| c.is_ascii_graphic();
    let host: String = host.chars().filter(printable).take(255).collect();
    let host = if host.is_empty() { "-" } else { &host };
    // Names of messages have at most 32 printable characters.
    let name: String = line.event().chars().filter(printable).take(32).collect();
    let name = if name.is_empty() { "-" } else { &name };
    format!(
        "<{}>1 {} {host} esker - {name} [origin software=\"esker\" swVersion=\"{}\"] {}",
        FACILITY * 8 + severity,
        line.text("time"),
        version.replace(['"', '\\', ']'], ""),
        ocsf(line, version)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::Head;
    use crate::record::{Entry, Line, Outcome, Subject};
    use std::sync::Arc;

    fn line(call: &str, outcome: Outcome) -> ParsedLine {
        let subject = Subject {
            who: "key SHA256:x (bob@lab)".into(),
            name: Some("bob".into()),
            uid: Some(1002),
            gids: vec![100],
            proof: "key",
            role: "read",
            peer: "[2001:db8::7]:40312".into(),
        };
        let mut entry = Entry::new("call", call, Arc::new(subject));
        entry.time = 1_796_000_000_000_007;
        entry.request = 12;
        entry.target("file:/a");
        entry.outcome = outcome;
        ParsedLine::parse(Line::of(Head::START, &entry).as_bytes()).unwrap()
    }

    #[test]
    fn an_event_of_ocsf_has_the_required_attributes() {
        let refused = Outcome::Refused {
            why: "role".into(),
            reason: "no role".into(),
        };
        let event = ocsf(&line("apply", refused), "0.1.0");
        for (path, expected) in [
            ("/class_uid", json!(6003)),
            ("/category_uid", json!(6)),
            ("/activity_id", json!(3)),
            ("/type_uid", json!(600_303)),
            ("/severity_id", json!(3)),
            ("/status_id", json!(2)),
            ("/time", json!(1_796_000_000_000_u64)),
            ("/actor/user/name", json!("bob")),
            ("/actor/user/uid", json!("1002")),
            ("/actor/user/groups/0/uid", json!("100")),
            ("/src_endpoint/ip", json!("2001:db8::7")),
            ("/src_endpoint/port", json!(40_312)),
            ("/api/operation", json!("apply")),
            ("/api/request/uid", json!("12")),
            ("/resources/0/name", json!("file:/a")),
            ("/metadata/version", json!(OCSF)),
            ("/unmapped/why", json!("role")),
        ] {
            assert_eq!(event.pointer(path), Some(&expected), "{path} of {event}");
        }
        for (call, activity) in [
            ("read_vertices", 2),
            ("GET /api/v1/vertex", 2),
            ("PUT /rdf-graphs", 1),
            ("DELETE /api/v1/objects/{id}", 4),
            ("Grant", 1),
        ] {
            let event = ocsf(&line(call, Outcome::Done), "0.1.0");
            assert_eq!(event["activity_id"], activity, "{call}");
        }
    }

    #[test]
    fn a_line_of_syslog_has_the_form_of_rfc_5424() {
        let text = syslog(&line("find", Outcome::Done), "ada box\n", "0.1.0");
        let begins = "<110>1 2026-11-30T00:53:20.000007Z adabox esker - call [origin software=\"esker\" swVersion=\"0.1.0\"] {";
        assert!(text.starts_with(begins), "{text}");
        assert!(!text.contains('\n'));
        let message = text.split_once("] ").unwrap().1;
        let event: Value = serde_json::from_str(message).unwrap();
        assert_eq!(event["class_uid"], 6003);
    }
}
