//! The roles that requests need: by method and path, and for calls by their numbers. A request that is not listed is refused.

use super::needs::{ADMIN, ListedRoute, Needs, READ};
use crate::calls::{CALLS, camel, number_named};
use esker_rpc::proto;
use esker_rpc::proto::request::Call;
use prost::Message as _;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Number of `check`, which needs another role if it repairs.
const CHECK: usize = number_named("check");

/// gRPC methods in `proto/` that are no calls of `Request`.
const METHOD_ROLES: [(&str, Needs); 6] = [
    ("/esker.v1.Esker/Exchange", READ),
    ("/esker.v1.Access/Prove", Needs::Nothing),
    ("/esker.v1.Access/Grant", ADMIN),
    ("/esker.v1.Access/Revoke", ADMIN),
    ("/esker.v1.Access/Grants", ADMIN),
    ("/esker.v1.Access/Token", ADMIN),
];

/// Access that a request needs, and whether bound clients may make it ([`ListedRoute::per_user`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) needs: Needs,
    pub(crate) per_user: bool,
}

/// Paths of the gRPC methods, all for POST.
pub(crate) fn grpc_methods() -> impl Iterator<Item = (Cow<'static, str>, Needs)> {
    let calls = CALLS.iter().filter(|call| !call.by_exchange).map(|call| {
        (
            format!("/esker.v1.Esker/{}", camel(call.name)).into(),
            call.needs,
        )
    });
    let others = METHOD_ROLES
        .iter()
        .map(|(path, needs)| ((*path).into(), *needs));
    others.chain(calls)
}

/// Returns everything that the port answers: the gRPC methods, and the routes that [`crate::http`] lists. The routers are made from the
/// same lists, and any other request is refused before a router sees it.
pub(crate) fn all() -> Vec<ListedRoute> {
    let services = grpc_methods().map(|(path, needs)| ListedRoute {
        method: "POST",
        path,
        needs,
        // Calls of bound clients are checked where they are decoded ([`super::BoundUser::bind`]).
        per_user: true,
    });
    services.chain(crate::http::listed_routes()).collect()
}

/// A path with the methods that it has and the access that they need.
#[derive(Debug)]
struct ListedPath {
    /// Pattern of the path, such as `/api/v1/objects/{id}`.
    pattern: Cow<'static, str>,
    methods: Vec<(&'static str, Entry)>,
}

/// All routes by path.
static TABLE: LazyLock<matchit::Router<ListedPath>> = LazyLock::new(|| {
    let mut paths: BTreeMap<Cow<'static, str>, Vec<(&'static str, Entry)>> = BTreeMap::new();
    for listed in all() {
        let methods = paths.entry(listed.path).or_default();
        let entry = Entry {
            needs: listed.needs,
            per_user: listed.per_user,
        };
        methods.push((listed.method, entry));
    }
    let mut table = matchit::Router::new();
    for (pattern, methods) in paths {
        let path = pattern.clone();
        // A path that conflicts with another one is not found, and so refused.
        if let Err(e) = table.insert(path.as_ref(), ListedPath { pattern, methods }) {
            tracing::error!(%path, error = %e, "a path is not served");
        }
    }
    table
});

/// Result of looking up a method and path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RouteLookup {
    /// The request is listed.
    Listed(Entry),
    /// The path is listed with other methods only; the text is for the header `Allow`.
    OtherMethods(String),
    /// The path is not listed.
    Nothing,
}

/// Looks up a request. Paths are compared as the router does: as they were sent, without normalization.
pub(crate) fn find(method: &str, path: &str) -> RouteLookup {
    let Ok(found) = TABLE.at(path) else {
        return RouteLookup::Nothing;
    };
    let listed = if method == "HEAD" { "GET" } else { method };
    let methods = &found.value.methods;
    if let Some((_, entry)) = methods.iter().find(|(m, _)| *m == listed) {
        return RouteLookup::Listed(*entry);
    }
    let mut allow: Vec<&str> = methods.iter().map(|(method, _)| *method).collect();
    if allow.contains(&"GET") {
        allow.push("HEAD");
    }
    allow.sort_unstable();
    RouteLookup::OtherMethods(allow.join(", "))
}

/// Pattern of the path of a listed request, and the access that it needs.
pub(crate) fn route_of(method: &str, path: &str) -> Option<(&'static str, Needs)> {
    let found = TABLE.at(path).ok()?.value;
    let listed = if method == "HEAD" { "GET" } else { method };
    let (_, entry) = found.methods.iter().find(|(m, _)| *m == listed)?;
    Some((found.pattern.as_ref(), entry.needs))
}

/// Name of a request in the audit log: that of the call, else the method and the pattern of the path. `what` is the path or the name of a
/// call.
pub(crate) fn recorded_name(method: &str, what: &str) -> String {
    if let Some(name) = what.strip_prefix("/esker.v1.Esker/") {
        let call = CALLS.iter().find(|call| camel(call.name) == name);
        return call.map_or(name, |call| call.name).to_owned();
    }
    if let Some(name) = what.strip_prefix("/esker.v1.Access/") {
        return name.to_owned();
    }
    match route_of(method, what) {
        Some((pattern, _)) => format!("{method} {pattern}"),
        None if what.starts_with('/') => format!("{method} {what}"),
        None => what.to_owned(),
    }
}

/// Access that an encoded call needs.
pub(crate) fn needs_of_call(number: usize, request: &[u8]) -> Needs {
    if number == CHECK {
        return match proto::Request::decode(request) {
            Ok(request) => needs_of_message(number, request.call.as_ref()),
            Err(_) => ADMIN,
        };
    }
    CALLS.get(number).map_or(ADMIN, |call| call.needs)
}

/// Access that a decoded call needs.
pub(crate) fn needs_of_message(number: usize, call: Option<&Call>) -> Needs {
    match call {
        // A repair changes derived rows.
        Some(Call::Check(check)) if check.repair => ADMIN,
        _ => CALLS.get(number).map_or(ADMIN, |call| call.needs),
    }
}

#[cfg(test)]
mod tests {
    use super::super::needs::{INGEST, WRITE};
    use super::*;

    /// The gRPC methods in the files of `proto/`.
    fn methods() -> Vec<(String, String)> {
        let folder = std::path::absolute("../rpc/proto/esker/v1").unwrap();
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
    fn the_methods_of_the_services_are_listed_and_no_others() {
        let methods = methods();
        assert!(methods.len() > 40, "{methods:?}");
        let mut expected: Vec<String> = methods
            .into_iter()
            .map(|(service, name)| format!("/esker.v1.{service}/{name}"))
            .collect();
        let mut listed: Vec<String> = grpc_methods().map(|(path, _)| path.into_owned()).collect();
        expected.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, expected);
    }

    #[test]
    fn reading_routes_change_nothing() {
        for (method, path, writes) in crate::http::paths() {
            let RouteLookup::Listed(Entry { needs, .. }) = find(method, path) else {
                panic!("{method} {path} is not found");
            };
            // Requests that have a body and change nothing.
            let asks = ["/api/v1/travel", "/api/v1/find"].contains(&path) || method == "GET";
            assert_eq!(needs == READ, asks, "{method} {path}: {needs:?}");
            assert!(!(asks && writes), "{method} {path}");
        }
    }

    #[test]
    fn requests_are_recorded_by_the_names_of_calls_and_routes() {
        for (what, expected) in [
            ("/esker.v1.Esker/ReadVertices", "read_vertices"),
            ("/esker.v1.Esker/Exchange", "Exchange"),
            ("/esker.v1.Access/Grant", "Grant"),
            ("/api/v1/objects/7", "GET /api/v1/objects/{id}"),
            ("/nowhere", "GET /nowhere"),
            ("apply", "apply"),
        ] {
            assert_eq!(recorded_name("GET", what), expected);
        }
    }

    #[test]
    fn all_that_is_listed_is_found() {
        for listed in all() {
            let path = listed.path.replace(['{', '}', '*'], "");
            let found = find(listed.method, &path);
            let expected = Entry {
                needs: listed.needs,
                per_user: listed.per_user,
            };
            assert_eq!(found, RouteLookup::Listed(expected), "{listed:?}");
        }
    }

    #[test]
    fn roles_are_those_that_calls_need() {
        for (method, path, needs) in [
            ("GET", "/healthz", Needs::Nothing),
            ("OPTIONS", "/sparql", Needs::Nothing),
            ("OPTIONS", "/rdf-graphs/a/b", Needs::Nothing),
            ("GET", "/metrics", READ),
            ("HEAD", "/sparql/", READ),
            ("GET", "/rdf-graphs/a/b", READ),
            ("PUT", "/rdf-graphs/a/b", WRITE),
            ("DELETE", "/rdf-graphs/", WRITE),
            ("DELETE", "/api/v1/objects/7", WRITE),
            ("GET", "/api/v1/objects/7", READ),
            ("POST", "/api/v1/lineage", INGEST),
            ("POST", "/ingest/slurm/_doc", INGEST),
            ("POST", "/esker.v1.Esker/Apply", WRITE),
            ("POST", "/esker.v1.Esker/Backup", ADMIN),
            ("POST", "/esker.v1.Esker/ScanEdges", READ),
            ("POST", "/esker.v1.Access/Prove", Needs::Nothing),
            ("POST", "/esker.v1.Access/Grant", ADMIN),
        ] {
            let RouteLookup::Listed(entry) = find(method, path) else {
                panic!("{method} {path} is not found");
            };
            assert_eq!(entry.needs, needs, "{method} {path}");
        }
        for (method, path) in [
            ("OPTIONS", "/esker.v1.Access/Token"),
            ("GET", "/esker.v1.Access/Token"),
            ("OPTIONS", "/esker.v1.Esker/Exchange"),
            ("OPTIONS", "/api/v1/apply"),
            ("PATCH", "/sparql"),
            ("get", "/healthz"),
        ] {
            let found = find(method, path);
            assert!(
                matches!(found, RouteLookup::OtherMethods(_)),
                "{method} {path}: {found:?}"
            );
        }
        assert_eq!(
            find("TRACE", "/rdf-graphs/a"),
            RouteLookup::OtherMethods("DELETE, GET, HEAD, OPTIONS, POST, PUT".into())
        );
        for path in [
            "/nowhere",
            "",
            "*",
            "/api/v1/apply/",
            "/api/v1/objects/",
            "//healthz",
            "/api/v1/%61pply",
            "/esker.v1.Access/Other",
            "/esker.v1.Esker/Peer",
            "/esker.v1.Other/Token",
        ] {
            assert_eq!(find("POST", path), RouteLookup::Nothing, "{path}");
        }
        let check = |repair| {
            let check = proto::CheckRequest {
                repair,
                part: false,
            };
            let request = proto::Request {
                call: Some(Call::Check(check)),
            };
            needs_of_call(CHECK, &request.encode_to_vec())
        };
        assert_eq!((check(false), check(true)), (READ, ADMIN));
        assert_eq!(needs_of_call(CHECK, &[0xff]), ADMIN);
        assert_eq!(needs_of_call(22, &[]), Needs::Server);
        assert_eq!(needs_of_call(999, &[]), ADMIN);
    }
}
