//! Which call needs which role: the one list of it. What is not listed needs `admin`.

use crate::metrics::CALLS;
use esker_access::Role;
use esker_rpc::proto;
use esker_rpc::proto::request::Call;
use prost::Message as _;

/// Who may make a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Everybody: it says nothing of the data.
    Nothing,
    /// Somebody with that role.
    Role(Role),
    /// Another server of the cluster.
    Server,
}

const READ: Needs = Needs::Role(Role::Read);
const WRITE: Needs = Needs::Role(Role::Write);
const ADMIN: Needs = Needs::Role(Role::Admin);

/// The number of `check`, which needs more where it is to mend.
const CHECK: usize = 18;

/// The calls, by their numbers in `Request`.
const OF_CALLS: [(&str, Needs); CALLS.len()] = [
    ("unknown", ADMIN),
    ("ping", READ),
    ("schema", READ),
    ("define", WRITE),
    ("read_vertices", READ),
    ("read_edges", READ),
    ("scan_edges", READ),
    ("scan_vertices", READ),
    ("vertex_history", READ),
    ("edge_history", READ),
    ("degrees", READ),
    ("top_degrees", READ),
    ("counts", READ),
    ("diff", READ),
    ("travel", READ),
    ("applied", READ),
    ("apply", WRITE),
    ("stats", READ),
    ("check", READ),
    ("compact", ADMIN),
    ("persist", WRITE),
    ("backup", ADMIN),
    ("peer", Needs::Server),
    ("cluster", READ),
    ("placement", READ),
    ("read_objects", READ),
    ("find", READ),
    ("tags", READ),
    ("tag_where", WRITE),
    ("set_index", WRITE),
    ("window", WRITE),
    ("none", ADMIN),
    ("stat_file", READ),
    ("list_files", READ),
    ("walk_files", READ),
    ("change_files", WRITE),
    ("usage", READ),
    ("usages", READ),
    ("space", READ),
    ("partitions", READ),
    ("file_ids", READ),
    ("as", READ),
    ("left_out", READ),
    ("look_file", READ),
    ("watch_files", READ),
    ("shutdown", ADMIN),
];

/// What else is at the port: method (`*` for any), path, who may.
const OF_PATHS: [(&str, &str, Needs); 82] = [
    ("GET", "/healthz", Needs::Nothing),
    ("GET", "/readyz", Needs::Nothing),
    ("GET", "/metrics", READ),
    ("POST", "/esker.v1.Esker/Exchange", READ),
    ("POST", "/esker.v1.Access/Prove", Needs::Nothing),
    ("POST", "/esker.v1.Access/Grant", ADMIN),
    ("POST", "/esker.v1.Access/Revoke", ADMIN),
    ("POST", "/esker.v1.Access/Grants", ADMIN),
    ("POST", "/esker.v1.Access/Token", ADMIN),
    ("POST", "/api/v1/prove", Needs::Nothing),
    ("GET", "/api/v1/schema", READ),
    ("GET", "/api/v1/stats", READ),
    ("GET", "/api/v1/vertex", READ),
    ("GET", "/api/v1/vertices", READ),
    ("GET", "/api/v1/edges", READ),
    ("GET", "/api/v1/history", READ),
    ("GET", "/api/v1/lineage", READ),
    ("GET", "/api/v1/impact", READ),
    ("POST", "/api/v1/lineage", WRITE),
    ("POST", "/api/v1/lineage/batch", WRITE),
    ("GET", "/api/v1/namespaces", READ),
    ("GET", "/api/v1/namespaces/{namespace}", READ),
    ("GET", "/api/v1/namespaces/{namespace}/datasets", READ),
    (
        "GET",
        "/api/v1/namespaces/{namespace}/datasets/{dataset}",
        READ,
    ),
    (
        "GET",
        "/api/v1/namespaces/{namespace}/datasets/{dataset}/versions",
        READ,
    ),
    ("GET", "/api/v1/jobs", READ),
    ("GET", "/api/v1/namespaces/{namespace}/jobs", READ),
    ("GET", "/api/v1/namespaces/{namespace}/jobs/{job}", READ),
    (
        "GET",
        "/api/v1/namespaces/{namespace}/jobs/{job}/runs",
        READ,
    ),
    ("GET", "/api/v1/jobs/runs/{id}", READ),
    ("GET", "/api/v1/jobs/runs/{id}/facets", READ),
    ("GET", "/api/v1/view/lineage", READ),
    ("GET", "/api/v1/export/lineage", READ),
    ("GET", "/api/v1/news", READ),
    ("GET", "/api/v1/home", READ),
    ("GET", "/api/v1/suggest", READ),
    ("GET", "/api/v1/search", READ),
    ("GET", "/api/v1/view/neighbourhood", READ),
    ("GET", "/api/v1/view/space", READ),
    ("GET", "/api/v1/runs", READ),
    ("GET", "/api/v1/runs/one", READ),
    ("GET", "/api/v1/runs/diff", READ),
    ("GET", "/api/v1/tags/values", READ),
    ("GET", "/api/v1/complete", READ),
    ("GET", "/api/v1/cluster", READ),
    ("GET", "/api/v1/events", READ),
    ("GET", "/api/v1/site", READ),
    ("POST", "/api/v1/session/ticket", READ),
    // What a session is for is said by who asks.
    ("GET", "/api/v1/session", Needs::Nothing),
    ("POST", "/api/v1/session", Needs::Nothing),
    ("DELETE", "/api/v1/session", Needs::Nothing),
    // The pages say nothing of the data.
    ("GET", "/", Needs::Nothing),
    ("GET", "/favicon.svg", Needs::Nothing),
    ("GET", "/assets/{*name}", Needs::Nothing),
    ("POST", "/api/v1/travel", READ),
    ("POST", "/api/v1/apply", WRITE),
    ("GET", "/api/v1/find", READ),
    ("POST", "/api/v1/find", READ),
    ("GET", "/api/v1/objects/{id}", READ),
    ("GET", "/api/v1/objects", READ),
    ("POST", "/api/v1/objects", WRITE),
    ("PATCH", "/api/v1/objects/{id}", WRITE),
    ("DELETE", "/api/v1/objects/{id}", WRITE),
    ("GET", "/api/v1/tags", READ),
    ("POST", "/api/v1/tag", WRITE),
    ("POST", "/api/v1/index", WRITE),
    ("GET", "/api/v1/files/stat", READ),
    ("GET", "/api/v1/files/list", READ),
    ("GET", "/api/v1/files/find", READ),
    ("GET", "/api/v1/files/usage", READ),
    ("GET", "/api/v1/files/top", READ),
    ("POST", "/ingest/slurm/_doc", WRITE),
    ("GET", "/api/v1/openapi.json", READ),
    ("GET", "/api/v1/rdf/{what}", READ),
    ("POST", "/api/v1/rdf/{what}", WRITE),
    // An update is sent as a query is: what it is for is seen where it is read (`Origin::may_write`).
    ("GET", "/sparql", READ),
    ("POST", "/sparql", READ),
    ("GET", "/rdf-graphs", READ),
    ("PUT", "/rdf-graphs", WRITE),
    ("POST", "/rdf-graphs", WRITE),
    ("DELETE", "/rdf-graphs", WRITE),
    ("*", "/rdf-graphs/{*name}", WRITE),
];

/// `ReadVertices` as `read_vertices`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for (i, c) in name.char_indices() {
        if c.is_ascii_uppercase() && i > 0 {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// Whether a path is one of a pattern, in which `{…}` is one part and `{*…}` all that is left.
fn fits(pattern: &str, path: &str) -> bool {
    let mut parts = path.split('/');
    for part in pattern.split('/') {
        if part.starts_with("{*") {
            return parts.next().is_some();
        }
        match parts.next() {
            Some(_) if part.starts_with('{') => {}
            Some(got) if got == part => {}
            _ => return false,
        }
    }
    parts.next().is_none()
}

/// Who may make a request.
pub(crate) fn of_path(method: &str, path: &str) -> Needs {
    // What a browser asks before it sends anything is answered without looking at data.
    if method == "OPTIONS" {
        return Needs::Nothing;
    }
    let asks = matches!(method, "GET" | "HEAD");
    let path = match path.strip_suffix('/') {
        Some(shorter) if !shorter.is_empty() => shorter,
        _ => path,
    };
    // Reading what has a name of its own needs no more than reading the others.
    if asks && fits("/rdf-graphs/{*name}", path) {
        return READ;
    }
    let same = |listed: &str| listed == method || listed == "*" || (asks && listed == "GET");
    let listed = OF_PATHS
        .iter()
        .find(|(listed, pattern, _)| same(listed) && fits(pattern, path));
    if let Some((_, _, needs)) = listed {
        return *needs;
    }
    if let Some(name) = path.strip_prefix("/esker.v1.Esker/") {
        let name = snake(name);
        return OF_CALLS
            .iter()
            .find(|(call, _)| *call == name)
            .map_or(ADMIN, |(_, needs)| *needs);
    }
    // There is nothing: whoever may read is told so.
    if asks { READ } else { ADMIN }
}

/// Who may make a call of that number.
pub(crate) fn of_call(number: usize, request: &[u8]) -> Needs {
    if number == CHECK {
        return match proto::Request::decode(request) {
            Ok(request) => of_message(number, request.call.as_ref()),
            Err(_) => ADMIN,
        };
    }
    OF_CALLS.get(number).map_or(ADMIN, |(_, needs)| *needs)
}

/// The same of one that is decoded.
pub(crate) fn of_message(number: usize, call: Option<&Call>) -> Needs {
    match call {
        // Whoever mends changes what is derived from data.
        Some(Call::Check(check)) if check.repair => ADMIN,
        _ => OF_CALLS.get(number).map_or(ADMIN, |(_, needs)| *needs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_list_has_the_calls_in_their_order() {
        let names: Vec<&str> = OF_CALLS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, CALLS);
    }

    /// The methods of the services that a server has, as `proto/` has them.
    fn methods() -> Vec<(String, String)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rpc/proto/esker/v1");
        let mut all = Vec::new();
        for file in ["access.proto", "esker.proto"] {
            let text = std::fs::read_to_string(folder.join(file)).unwrap();
            let mut service = String::new();
            for line in text.lines() {
                if let Some(rest) = line.strip_prefix("service ") {
                    service = rest.trim_end_matches(" {").to_owned();
                }
                if let Some(rest) = line.trim().strip_prefix("rpc ") {
                    let name = rest.split('(').next().unwrap();
                    all.push((service.clone(), name.to_owned()));
                }
            }
        }
        all
    }

    #[test]
    fn every_method_of_the_services_is_listed() {
        let methods = methods();
        assert!(methods.len() > 40, "{methods:?}");
        for (service, name) in methods {
            let path = format!("/esker.v1.{service}/{name}");
            let by_path = OF_PATHS.iter().any(|(_, listed, _)| *listed == path);
            let by_name = OF_CALLS.iter().any(|(call, _)| *call == snake(&name));
            let listed = by_path || (service == "Esker" && by_name);
            assert!(listed, "{path} is not listed: who may call it?");
        }
    }

    #[test]
    fn every_path_of_the_api_is_listed() {
        let is_listed = |method: &str, path: &str| {
            let mut all = OF_PATHS.iter();
            assert!(
                all.any(|(m, p, _)| *m == method && *p == path),
                "{method} {path} is not listed: who may ask it?"
            );
        };
        for (method, path, writes) in crate::http::paths() {
            is_listed(method, path);
            let needs = of_path(method, path);
            // What is sent with a body and changes nothing.
            let asks = ["/api/v1/travel", "/api/v1/find"].contains(&path) || method == "GET";
            assert_eq!(needs == READ, asks, "{method} {path}: {needs:?}");
            assert!(!(asks && writes), "{method} {path}");
        }
        for path in ["/healthz", "/readyz", "/metrics", "/sparql", "/rdf-graphs"] {
            is_listed("GET", path);
        }
    }

    #[test]
    fn roles_are_those_that_calls_need() {
        for (method, path, needs) in [
            ("GET", "/healthz", Needs::Nothing),
            ("OPTIONS", "/sparql", Needs::Nothing),
            ("GET", "/metrics", READ),
            ("HEAD", "/sparql/", READ),
            ("GET", "/nowhere", READ),
            ("POST", "/nowhere", ADMIN),
            ("GET", "/rdf-graphs/a/b", READ),
            ("PUT", "/rdf-graphs/a/b", WRITE),
            ("DELETE", "/rdf-graphs/", WRITE),
            ("DELETE", "/api/v1/objects/7", WRITE),
            ("GET", "/api/v1/objects/7", READ),
            ("POST", "/esker.v1.Esker/Apply", WRITE),
            ("POST", "/esker.v1.Esker/Backup", ADMIN),
            ("POST", "/esker.v1.Esker/ScanEdges", READ),
            ("POST", "/esker.v1.Esker/Nothing", ADMIN),
            ("POST", "/esker.v1.Access/Prove", Needs::Nothing),
            ("POST", "/esker.v1.Access/Grant", ADMIN),
            ("POST", "/esker.v1.Access/Other", ADMIN),
        ] {
            assert_eq!(of_path(method, path), needs, "{method} {path}");
        }
        let check = |repair| {
            let check = proto::CheckRequest {
                repair,
                part: false,
            };
            let request = proto::Request {
                call: Some(Call::Check(check)),
            };
            of_call(CHECK, &request.encode_to_vec())
        };
        assert_eq!((check(false), check(true)), (READ, ADMIN));
        assert_eq!(of_call(CHECK, &[0xff]), ADMIN);
        assert_eq!(of_call(22, &[]), Needs::Server);
        assert_eq!(of_call(999, &[]), ADMIN);
    }
}
