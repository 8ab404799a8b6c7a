//! Requests of the limited user.

use super::history::{BEGIN, History, STEP, person};
use super::servers::encoded;
use esker::Database;
use esker::lineage::{LineageOptions, impact, lineage};
use esker_model::filter::Expr;
use esker_model::namespace::{NamePath, Namespace as _, resolve};
use esker_model::object::{Find, ObjectRead as _};
use esker_model::traversal::Budget;
use esker_model::{
    DiffSelect, GraphRead as _, NeverCancel, Traversal, Version, VersionRange, VertexName,
    VertexSelect,
};
use std::fmt::Write as _;
use std::ops::ControlFlow;

/// Requests over HTTP of one history.
pub(super) fn questions(history: &History) -> Vec<(&'static str, String, String)> {
    let who = "uid=1001&gids=1001,100";
    let mut all = Vec::new();
    let mut get = |what: &str, parameters: &[(&str, &str)]| {
        let mut url = format!("/api/v1/{what}?{who}");
        for (name, value) in parameters {
            write!(url, "&{name}={}", encoded(value)).unwrap();
        }
        all.push(("GET", url, String::new()));
    };
    let then = Version::new(BEGIN + STEP * (history.steps.len() as u64 / 2), 0).to_string();
    // Part of the vertices for each seed, to limit the duration.
    for name in history
        .vertices
        .iter()
        .skip(history.steps.len() % 3)
        .step_by(3)
    {
        let id: (&str, &str) = ("id", name);
        get("vertex", &[id]);
        get("edges", &[id]);
        get("history", &[id]);
        get("suggest", &[("q", name)]);
        if name.starts_with("file") || name.starts_with("job") {
            get("lineage", &[id]);
            get("impact", &[id]);
            get("view/lineage", &[id, ("up", "2"), ("down", "2")]);
            get("view/neighbourhood", &[id, ("depth", "2")]);
            get("export/lineage", &[id]);
        }
    }
    get(
        "history",
        &[
            ("id", "job:1"),
            ("type", "read"),
            ("dst", &history.vertices[9]),
        ],
    );
    for kind in ["File", "Directory", "Job", "User", "Object"] {
        get("vertices", &[("type", kind)]);
        get("vertices", &[("type", kind), ("as_of", &then)]);
        get("vertices", &[("type", kind), ("limit", "2")]);
        get("search", &[("type", kind)]);
    }
    for words in [
        "file", "dir", "file1", "dat", "job:", "secret", "object", "/dir1", "1001",
    ] {
        get("search", &[("q", words)]);
        get("search", &[("q", words), ("limit", "2")]);
        get("search", &[("q", words), ("ending", "dat")]);
        get("suggest", &[("q", words)]);
        get(
            "complete",
            &[("what", "travel"), ("text", &format!("v(\"{words}"))],
        );
        get("complete", &[("what", "filter"), ("text", words)]);
        get("complete", &[("what", "sparql"), ("text", words)]);
    }
    let filters = [
        "",
        "owner = 1002",
        "owner = 1002 AND energy > 1",
        "energy EXISTS",
        "secret = 2 OR note = 'object1'",
        "Name = 'object1'",
        "secrte = 2",
        "NOT (app = 'vpic')",
        "mode = 384",
        "name LIKE 'object1%'",
    ];
    for filter in filters {
        get("find", &[("filter", filter)]);
        get("find", &[("filter", filter), ("limit", "3")]);
        get("find", &[("filter", filter), ("count", "true")]);
        get("find", &[("filter", filter), ("explain", "true")]);
        get("find", &[("filter", filter), ("format", "ndjson")]);
        get("search", &[("q", filter)]);
        for tag in ["energy", "secret", "owner"] {
            get("tags/values", &[("name", tag), ("filter", filter)]);
        }
    }
    for identity in &history.identities {
        let (owner, step) = (identity.owner.to_string(), identity.step.to_string());
        let of = [
            ("name", identity.name.as_str()),
            ("app", identity.app.as_str()),
            ("owner", owner.as_str()),
            ("step", step.as_str()),
        ];
        get("objects", &of);
    }
    get("files/list", &[("path", "/")]);
    get("files/find", &[("path", "/")]);
    get("files/usage", &[("path", "/"), ("depth", "9")]);
    for filter in [
        "secret = 2",
        "note = 'file1'",
        "energy > 0",
        "size > 100",
        "tempo EXISTS",
    ] {
        get("files/find", &[("path", "/"), ("filter", filter)]);
    }
    for path in &history.paths {
        get("files/stat", &[("path", path)]);
        get("files/list", &[("path", path)]);
        get("files/usage", &[("path", path)]);
        get("files/find", &[("path", path)]);
        get("view/space", &[("path", path)]);
    }
    for by in ["dir", "user", "group", "kind", "type", "age"] {
        get("files/top", &[("by", by)]);
        get("view/space", &[("by", by)]);
    }
    for what in [
        "schema",
        "stats",
        "home",
        "tags",
        "runs",
        "cluster",
        "news",
        "namespaces",
    ] {
        get(what, &[]);
    }
    get("runs/one", &[("id", "job:1")]);
    get("runs/diff", &[("a", "job:1"), ("b", "job:2")]);
    get("rdf/stats", &[]);
    get("rdf/dump", &[("format", "nq")]);
    get("rdf/dump", &[("format", "nq"), ("inferred", "true")]);
    get("rdf/dump", &[("graph", "default"), ("format", "nt")]);
    let own = [
        "urn:esker:rights",
        "urn:esker:meta",
        "http://x.example/none",
    ];
    let graphs: Vec<&str> = history
        .graphs
        .iter()
        .map(|g| g.0.as_str())
        .filter(|name| !name.is_empty())
        .chain(own)
        .collect();
    for graph in &graphs {
        get("rdf/dump", &[("graph", graph), ("format", "nt")]);
    }
    for graph in &graphs {
        let url = format!("/rdf-graphs?graph={}&{who}&format=nt", encoded(graph));
        all.push(("GET", url, String::new()));
    }
    let queries = [
        "SELECT * { ?s ?p ?o }",
        "SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g",
        "SELECT * { GRAPH <urn:esker:rights> { ?s ?p ?o } }",
        "SELECT * { GRAPH <urn:esker:meta> { ?s ?p ?o } }",
        "SELECT ?p (COUNT(*) AS ?n) { GRAPH <urn:esker:meta> { ?s ?p ?o } } GROUP BY ?p",
        "ASK { GRAPH ?g { ?s <http://x.example/q> 'http://x.example/g1' } }",
        "SELECT * { GRAPH ?g { ?s <http://x.example/p> ?o . ?s ?q 2 } }",
        "SELECT ?g ?s ?c { GRAPH ?g { ?s a ?c ; ?p ?o } }",
        "DESCRIBE <http://x.example/g1#b> FROM <http://x.example/g1>",
        "SELECT * { GRAPH ?g { ?s ?p ?o } } LIMIT 5",
        "SELECT DISTINCT ?s { GRAPH ?g { ?s ?p ?o } } ORDER BY ?p OFFSET 2 LIMIT 3",
        "SELECT (GROUP_CONCAT(STR(?s)) AS ?all) (SAMPLE(?o) AS ?one) (SUM(?o) AS ?sum) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?p",
        "SELECT ?s { GRAPH ?g { ?s ?p ?o } FILTER EXISTS { SELECT ?s { GRAPH ?g { ?s ?q ?x } } LIMIT 2 } }",
        "CONSTRUCT { ?o ?p ?s } { GRAPH ?g { ?s ?p ?o } } LIMIT 6",
        "DESCRIBE ?s { GRAPH ?g { ?s <http://x.example/p1> ?o } }",
        "SELECT ?s (BNODE('x') AS ?b) { GRAPH ?g { ?s <http://x.example/p0>* ?o } }",
    ];
    for query in queries {
        for more in ["", "&explain=true", "&profile=true"] {
            all.push((
                "GET",
                format!("/sparql?{who}&query={}&format=csv{more}", encoded(query)),
                String::new(),
            ));
        }
    }
    let chains = [
        r#"v("user:1001").e("run").v().e("read").v()"#,
        r#"v(type="Job").e("read").v().e("wasReadBy").v()"#,
        r#"v(type="File").va("size", ">", 0)"#,
        r#"v("job:1").e("read", "write").v().return_fp()"#,
        r#"v("job:2").e("write").v().where("key LIKE '%dat'")"#,
    ];
    for chain in chains {
        for more in [r#","profile":true"#, r#","max_edges":3"#, r#","depth":1"#] {
            let chain = chain.replace('"', "\\\"");
            all.push((
                "POST",
                format!("/api/v1/travel?{who}"),
                format!(r#"{{"chain":"{chain}"{more}}}"#),
            ));
        }
    }
    // After the traversals, because it reports them.
    all.push(("GET", format!("/api/v1/cluster?{who}"), String::new()));
    for filter in ["owner = 1002", "energy > 1", ""] {
        let body = format!(
            r#"{{"filter":"{filter}","set":{{"x":1}},"dry_run":true,"uid":1001,"gids":[1001,100]}}"#
        );
        all.push(("POST", "/api/v1/tag".into(), body));
    }
    all
}

/// Answers that the limited user gets from the two databases with this crate's client.
pub(super) fn answers(database: &Database, history: &History) -> Vec<(String, String)> {
    let who = person();
    let theirs = database.on_behalf_of(Some(&who));
    let schema = theirs.schema().unwrap();
    let mut all = Vec::new();
    let mut say = |what: String, answer: String| all.push((what, answer));
    let counts = theirs.counts().unwrap();
    let only = |n: &u64| *n > 0;
    say(
        "counts".into(),
        format!(
            "{:?} {:?}",
            counts
                .vertices
                .iter()
                .filter(|(_, n)| only(n))
                .collect::<Vec<_>>(),
            counts
                .edges
                .iter()
                .filter(|(_, n)| only(n))
                .collect::<Vec<_>>()
        ),
    );
    say(
        "top".into(),
        format!("{:?}", theirs.top_degrees(None, 20).unwrap()),
    );
    let mut differences = Vec::new();
    let (before, after) = (Version::new(BEGIN + STEP * 50, 0), Version::MAX);
    theirs
        .diff(&DiffSelect::between(before, after), &mut |d| {
            differences.push(format!("{d:?}"));
            ControlFlow::Continue(())
        })
        .unwrap();
    say("diff".into(), differences.join("\n"));
    for (_, declared) in schema.vertex_types() {
        let mut found = Vec::new();
        let select = VertexSelect {
            deleted: true,
            ..VertexSelect::of(schema.vertex_type_id(&declared.name).unwrap())
        };
        theirs
            .scan_vertices(&select, &mut |v| {
                found.push(format!("{v:?}"));
                ControlFlow::Continue(())
            })
            .unwrap();
        say(format!("scan {}", declared.name), found.join("\n"));
    }
    for name in &history.vertices {
        let name = VertexName::parse(name).unwrap();
        let found = resolve(&theirs, Some(&who), &schema, std::slice::from_ref(&name)).unwrap();
        say(format!("resolve {name}"), format!("{found:?}"));
        let id = found[0].id;
        let range = VersionRange {
            from: Version::ZERO,
            until: Version::MAX,
        };
        say(
            format!("history {name}"),
            format!("{:?}", theirs.vertex_history(id, range)),
        );
        for walk in [lineage, impact] {
            let found = walk(&theirs, id, &LineageOptions::default(), &NeverCancel);
            say(format!("lineage {name}"), format!("{found:?}"));
        }
        let types: Vec<_> = schema.edge_types().map(|(t, _)| (id, t)).collect();
        say(
            format!("degrees {name}"),
            format!("{:?}", theirs.degrees(&types).unwrap()),
        );
    }
    for chain in [
        r#"v(type="Job").e("read").v()"#,
        r#"v(type="File").e("wasReadBy").v().e("write").v().limit(3)"#,
    ] {
        let chain = Traversal::parse_at(chain, 0).unwrap();
        let budget = Budget {
            edges: Some(5),
            ..Budget::default()
        };
        let mut found = theirs.travel(&chain, &budget, &NeverCancel).unwrap();
        found.profile.iter_mut().for_each(|p| p.micros = 0);
        say(format!("travel {chain}"), format!("{found:?}"));
    }
    for filter in ["owner = 1002 AND energy > 1", "secrte = 1", ""] {
        let parsed = if filter.is_empty() {
            Expr::All
        } else {
            Expr::parse(filter, None).unwrap()
        };
        let find = Find {
            principal: Some(who.clone()),
            ..Find::all(parsed)
        };
        let mut objects = Vec::new();
        let mut report = theirs
            .find(&find, &NeverCancel, &mut |found| {
                objects.push(format!("{found:?}"));
                ControlFlow::Continue(())
            })
            .unwrap();
        report.plan.iter_mut().for_each(|step| step.micros = None);
        say(format!("find {filter}"), format!("{objects:?} {report:?}"));
    }
    say(
        "tags".into(),
        format!("{:?}", theirs.tags(Some(&who)).unwrap()),
    );
    let mut walked = Vec::new();
    let root = NamePath::root();
    theirs
        .walk(Some(&who), &root, &NeverCancel, &mut |path, inode| {
            walked.push(format!("{path} {inode:?}"));
            ControlFlow::Continue(())
        })
        .unwrap();
    say("walk".into(), walked.join("\n"));
    all
}
