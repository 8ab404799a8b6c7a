//! Tests of queries on the metadata graph: the mapping, lineage, visibility, and joins with RDF data that changes.

use super::{anew, define, lines, open, path, same, vertex};
use esker::lineage::{LineageOptions, lineage};
use esker::model::namespace::{Change, Kind, Namespace as _, NewFile, SetAttributes};
use esker::model::object::{Identity, Principal};
use esker::model::{Batch, GraphWrite as _, NeverCancel, Op, Properties, Value, VertexRef};
use esker::rdf::engine::infer::Limits;
use esker::rdf::engine::{Dataset, Found, Options, RdfFormat, query, syntax};
use esker::rdf::meta::{GRAPH, Meta, RequestedGraphs};
use esker::rdf::{UpdateOptions, UpdateRequest, error, now_and_seed};
use esker::{Database, Error};
use std::collections::BTreeSet;

fn put(db: &Database, name: &str, attributes: Properties) -> VertexRef {
    let of = vertex(db, name);
    let mut batch = Batch::new();
    batch.push(Op::PutVertex {
        vertex: of,
        key: name.split_once(':').unwrap().1.to_owned(),
        attributes,
    });
    db.apply(batch).unwrap();
    of
}

fn link(db: &Database, source: VertexRef, name: &str, destination: VertexRef, p: Properties) {
    let mut batch = Batch::new();
    batch.push(Op::PutEdge {
        source,
        edge_type: {
            use esker::model::GraphRead as _;
            db.schema().unwrap().edge_type_id(name).unwrap()
        },
        destination,
        properties: p,
    });
    db.apply(batch).unwrap();
}

fn set(db: &Database, of: VertexRef, name: &str, value: impl Into<Value>) {
    let mut batch = Batch::new();
    batch.push(Op::SetAttributes {
        vertex: of,
        set: Properties::new().with(name, value),
        remove: Vec::new(),
    });
    db.apply(batch).unwrap();
}

fn none() -> Properties {
    Properties::new()
}

/// The first column of an answer, without brackets.
fn column(data: &Dataset, text: &str) -> BTreeSet<String> {
    let (now, seed) = now_and_seed();
    let options = Options::new(now, seed);
    let answer = query(data, text, None, None, false, &options).unwrap();
    let Found::Solutions(_, table) = &answer.found else {
        panic!("expected solutions")
    };
    let column = table.columns().first().unwrap();
    let shown = |id: &u32| answer.term(*id).unwrap().to_string();
    column
        .iter()
        .map(|id| shown(id).trim_matches(['<', '>']).to_owned())
        .collect()
}

const PREFIXES: [(&str, &str); 8] = [
    ("t:", "urn:esker:types/"),
    ("a:", "urn:esker:attributes/"),
    ("e:", "urn:esker:edges/"),
    ("esker:", "urn:esker:terms/"),
    ("prov:", "http://www.w3.org/ns/prov#"),
    ("rdf:", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"),
    ("rdfs:", "http://www.w3.org/2000/01/rdf-schema#"),
    ("owl:", "http://www.w3.org/2002/07/owl#"),
];

/// Triples in abbreviated form, without the times of commits.
fn short(all: &BTreeSet<String>) -> BTreeSet<String> {
    all.iter()
        .map(|line| {
            let mut line = line.trim_end_matches(" .").to_owned();
            for (short, long) in PREFIXES {
                while let Some(at) = line.find(&format!("<{long}")) {
                    let end = at + line[at..].find('>').unwrap();
                    let name = line[at + 1 + long.len()..end].to_owned();
                    line.replace_range(at..=end, &format!("{short}{name}"));
                }
            }
            line.replace("http://www.w3.org/2001/XMLSchema#", "xsd:")
        })
        .collect()
}

#[test]
fn each_row_of_the_mapping() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("t"));
    assert!(anew(&db, GRAPH).is_empty(), "of nothing there is nothing");
    define(&db);
    let start = Value::Timestamp(1_000_000_000);
    let job = put(&db, "job:1", none().with("start", start).with("nprocs", 4));
    let process = put(&db, "process:1:0", none().with("end", Value::Timestamp(0)));
    let user = put(&db, "user:ann", none().with("name", "Ann"));
    let group = put(&db, "group:g", none());
    let input = put(&db, "file:/in put", none().with("size", 7));
    let output = put(&db, "file:/out", none());
    let program = put(&db, "executable:/bin/sim", none());
    let folder_of = put(&db, "directory:/", none());
    let thing = put(&db, "thing:x", none());
    let beside = put(&db, "thing:y", none());
    link(&db, user, "run", job, none());
    link(&db, user, "memberOf", group, none());
    link(&db, process, "belongs", job, none());
    link(&db, job, "read", input, none().with("bytes", 7));
    link(&db, job, "exe", program, none());
    link(&db, job, "write", output, none());
    link(&db, folder_of, "has", output, none());
    link(&db, thing, "beside", beside, none());
    link(&db, thing, "near", output, none().with("how", "very"));
    set(&db, output, "quality", "good");
    set(&db, output, "quality", "bad");
    set(
        &db,
        output,
        "list",
        Value::List(vec![1.into(), "two".into()]),
    );
    let mut batch = Batch::new();
    batch.push(Op::DeleteVertex { vertex: input });
    batch.push(Op::CreateObject {
        identity: Identity {
            name: "energy".into(),
            app: "vpic".into(),
            owner: 7,
            step: 3,
        },
        attributes: none(),
        tags: none().with("Conf", 9),
    });
    db.apply(batch).unwrap();
    let all = short(&anew(&db, GRAPH));
    let has = |line: &str| assert!(all.contains(line), "{line} is not in {all:#?}");
    for line in [
        "<urn:esker:job:1> rdf:type t:Job",
        "<urn:esker:job:1> rdf:type prov:Activity",
        "<urn:esker:job:1> rdfs:label \"job:1\"",
        "<urn:esker:job:1> a:nprocs \"4\"^^<xsd:integer>",
        "<urn:esker:job:1> prov:startedAtTime \"1970-01-01T00:00:01Z\"^^<xsd:dateTime>",
        "<urn:esker:process:1:0> prov:endedAtTime \"1970-01-01T00:00:00Z\"^^<xsd:dateTime>",
        "<urn:esker:process:1:0> <http://purl.org/dc/terms/isPartOf> <urn:esker:job:1>",
        "<urn:esker:user:ann> rdf:type prov:Agent",
        "<urn:esker:user:ann> e:run <urn:esker:job:1>",
        "<urn:esker:user:ann> <http://www.w3.org/ns/org#memberOf> <urn:esker:group:g>",
        "<urn:esker:job:1> prov:wasAssociatedWith <urn:esker:user:ann>",
        "<urn:esker:job:1> prov:used <urn:esker:file:/in%20put>",
        "<urn:esker:job:1> prov:used <urn:esker:executable:/bin/sim>",
        "<urn:esker:file:/out> prov:wasGeneratedBy <urn:esker:job:1>",
        "<urn:esker:file:/out> rdf:type prov:Entity",
        "<urn:esker:file:/out> esker:path \"/out\"",
        "<urn:esker:directory:/> rdf:type prov:Collection",
        "<urn:esker:directory:/> prov:hadMember <urn:esker:file:/out>",
        "<urn:esker:thing:x> e:beside <urn:esker:thing:y>",
        "<urn:esker:thing:y> e:beside <urn:esker:thing:x>",
        "<urn:esker:thing:x> e:near <urn:esker:file:/out>",
        "<urn:esker:file:/out> a:list \"1\"^^<xsd:integer>",
        "<urn:esker:file:/out> a:list \"two\"",
        "<urn:esker:file:/out> <urn:esker:lists/list> \"[1,\\\"two\\\"]\"^^rdf:JSON",
        "t:Job rdfs:subClassOf t:Execution",
        "t:Job rdfs:subClassOf prov:Activity",
        "e:read rdfs:subPropertyOf prov:used",
        "e:wasWrittenBy owl:inverseOf e:write",
        "e:wasWrittenBy rdfs:subPropertyOf prov:wasGeneratedBy",
        "e:beside rdf:type owl:SymmetricProperty",
    ] {
        has(line);
    }
    let one = |begin: &str, end: &str| -> String {
        let found = all
            .iter()
            .find(|l| l.starts_with(begin) && l.ends_with(end));
        found
            .unwrap_or_else(|| panic!("{begin} … {end} is not in {all:#?}"))
            .clone()
    };
    // Properties of an edge are triples of its node.
    let usage = one("<urn:esker:job:1> prov:qualifiedUsage ", "");
    let node = usage.rsplit(' ').next().unwrap();
    for rest in [
        "rdf:type rdf:Statement",
        "rdf:type prov:Usage",
        "prov:entity <urn:esker:file:/in%20put>",
        "rdf:subject <urn:esker:job:1>",
        "rdf:predicate e:read",
        "rdf:object <urn:esker:file:/in%20put>",
        "a:bytes \"7\"^^<xsd:integer>",
    ] {
        has(&format!("{node} {rest}"));
    }
    one("e:near/", "a:how \"very\"");
    // A removed file keeps its name and its edges.
    one("<urn:esker:file:/in%20put> prov:invalidatedAtTime ", "");
    one("<urn:esker:file:/in%20put> esker:removed ", "");
    let gone = |begin: &str| assert!(!all.iter().any(|l| l.starts_with(begin)), "{begin}");
    gone("<urn:esker:file:/in%20put> a:size");
    gone("<urn:esker:job:1> prov:generatedAtTime");
    // Versions: superseded states, and their times.
    let version = one("<urn:esker:file:/out?version=", "a:quality \"good\"");
    let version = version.split(' ').next().unwrap();
    has(&format!(
        "{version} prov:specializationOf <urn:esker:file:/out>"
    ));
    one(&format!("{version} prov:generatedAtTime "), "");
    one(&format!("{version} prov:invalidatedAtTime "), "");
    one(&format!("{version} prov:wasRevisionOf "), "");
    one("<urn:esker:object:", "a:Conf \"9\"^^<xsd:integer>");
    one("<urn:esker:object:", "rdf:type t:Object");
}

#[test]
fn earlier_versions_of_edges() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("t"));
    define(&db);
    let (job, file) = (put(&db, "job:1", none()), put(&db, "file:/a", none()));
    let (thing, other) = (put(&db, "thing:x", none()), put(&db, "thing:y", none()));
    let (mut meta, mut data) = (Meta::default(), Dataset::default());
    let mut seen = || short(&lines(&mut meta, &mut data, &db, GRAPH));
    link(&db, job, "read", file, none().with("bytes", 1));
    assert!(!seen().iter().any(|l| l.contains("version=")));
    link(&db, job, "read", file, none().with("bytes", 2));
    link(&db, job, "read", file, none().with("bytes", 3));
    link(&db, thing, "near", file, none());
    link(&db, thing, "near", file, none());
    link(&db, thing, "beside", other, none());
    let mut batch = Batch::new();
    batch.push(Op::DeleteEdge {
        source: thing,
        edge_type: {
            use esker::model::GraphRead as _;
            db.schema().unwrap().edge_type_id("beside").unwrap()
        },
        destination: other,
    });
    db.apply(batch).unwrap();
    let all = seen();
    let of = |end: &str| -> Vec<String> {
        let lines = all.iter().filter(|l| l.ends_with(end));
        lines
            .map(|l| l.split(' ').next().unwrap().to_owned())
            .collect()
    };
    let (one, two) = (
        of("a:bytes \"1\"^^<xsd:integer>"),
        of("a:bytes \"2\"^^<xsd:integer>"),
    );
    assert_eq!((one.len(), two.len()), (1, 1), "{all:#?}");
    assert!(one[0].starts_with("e:read/") && one[0].contains("?version="));
    assert!(
        all.contains(&format!("{} prov:wasRevisionOf {}", two[0], one[0])),
        "{all:#?}"
    );
    let node = one[0].split('?').next().unwrap();
    for line in [
        format!("{} prov:specializationOf {node}", one[0]),
        format!("{} rdf:type esker:Version", one[0]),
        format!("{node} a:bytes \"3\"^^<xsd:integer>"),
    ] {
        assert!(all.contains(&line), "{line} is not in {all:#?}");
    }
    // A deleted edge has only its node.
    assert!(!all.contains("<urn:esker:thing:x> e:beside <urn:esker:thing:y>"));
    let gone = all
        .iter()
        .find(|l| l.starts_with("e:beside/") && l.contains("esker:removed"));
    let gone = gone
        .unwrap_or_else(|| panic!("{all:#?}"))
        .split(' ')
        .next()
        .unwrap();
    assert!(
        all.contains(&format!("{gone} rdf:predicate e:beside")),
        "{all:#?}"
    );
    same(&short(&anew(&db, GRAPH)), &all, "anew");
}

#[test]
fn what_files_are() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("t"));
    let make = |at: &str, kind: Kind, mode: u32| {
        let mut make = NewFile::new(kind.bits() | mode, 5, 6);
        make.size = 77;
        make.times = [Some(0), Some(1_000_000_000), Some(2_000_000_000), None];
        if kind == Kind::Symlink {
            make.content = esker::model::namespace::Content::Symlink(b"/a b".to_vec());
        }
        Change::Create(path(at), make)
    };
    let change = |change: Change| db.change(None, &[change]).unwrap().remove(0).unwrap();
    let (mut meta, mut data) = (Meta::default(), Dataset::default());
    let mut seen = || {
        let all = short(&lines(&mut meta, &mut data, &db, GRAPH));
        same(&short(&anew(&db, GRAPH)), &all, "anew");
        all
    };
    put(&db, "file:/a", none().with("size", 1));
    assert!(
        !seen().iter().any(|l| l.contains("esker:mode")),
        "no file is there yet"
    );
    change(make("/a", Kind::File, 0o640));
    change(make("/d", Kind::Directory, 0o755));
    change(make("/s", Kind::Symlink, 0o777));
    change(make("/nobody's", Kind::File, 0o640));
    put(&db, "file:/s", none());
    put(&db, "directory:/d", none());
    let all = seen();
    let integer = |n: u32| format!("\"{n}\"^^<xsd:integer>");
    for line in [
        "esker:kind \"file\"".to_owned(),
        "esker:mode \"0640\"".to_owned(),
        format!("esker:owner {}", integer(5)),
        format!("esker:group {}", integer(6)),
        format!("esker:size {}", integer(77)),
        format!("esker:links {}", integer(1)),
        "<http://purl.org/dc/terms/modified> \"1970-01-01T00:00:01Z\"^^<xsd:dateTime>".to_owned(),
        "esker:statusChanged \"1970-01-01T00:00:02Z\"^^<xsd:dateTime>".to_owned(),
        // Triples from the vertex's own row are checked elsewhere.
        format!("a:size {}", integer(1)),
    ] {
        let line = format!("<urn:esker:file:/a> {line}");
        assert!(all.contains(&line), "{line} is not in {all:#?}");
    }
    assert!(
        all.contains("<urn:esker:file:/s> esker:target \"/a b\""),
        "{all:#?}"
    );
    assert!(
        all.contains("<urn:esker:directory:/d> esker:kind \"directory\""),
        "{all:#?}"
    );
    assert!(
        !all.iter()
            .any(|l| l.starts_with("<urn:esker:directory:/d> esker:size"))
    );
    assert!(
        !all.iter().any(|l| l.contains("nobody")),
        "the graph does not know it"
    );
    let mode = |mode| {
        change(Change::Set {
            path: path("/a"),
            follow: true,
            set: SetAttributes {
                mode: Some(mode),
                size: Some(78),
                ..SetAttributes::default()
            },
        })
    };
    mode(0o600);
    let all = seen();
    assert!(
        all.contains("<urn:esker:file:/a> esker:mode \"0600\""),
        "{all:#?}"
    );
    assert!(!all.contains("<urn:esker:file:/a> esker:mode \"0640\""));
    change(Change::Rename {
        from: path("/a"),
        to: path("/d/b"),
        no_replace: false,
    });
    let all = seen();
    assert!(
        all.contains("<urn:esker:file:/d/b> esker:mode \"0600\""),
        "{all:#?}"
    );
    assert!(
        !all.iter().any(|l| l.starts_with("<urn:esker:file:/a> ")),
        "{all:#?}"
    );
    change(Change::Unlink(path("/d/b")));
    assert!(
        !seen()
            .iter()
            .any(|l| l.starts_with("<urn:esker:file:/d/b> esker:mode"))
    );
}

#[test]
fn lineage_is_a_path() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("t"));
    let mut dice = super::Dice(7);
    let mut files: Vec<VertexRef> = (0..5)
        .map(|n| put(&db, &format!("file:/in{n}"), none()))
        .collect();
    for n in 0..40 {
        let job = put(&db, &format!("job:{n}"), none());
        for _ in 0..=dice.random_below(3) {
            let read = files[dice.random_below(files.len() as u64) as usize];
            link(&db, job, "read", read, none());
        }
        for m in 0..=dice.random_below(2) {
            let out = put(&db, &format!("file:/out{n}-{m}"), none());
            link(&db, job, "write", out, none());
            files.push(out);
        }
    }
    let mut meta = Meta::default();
    let data = meta
        .snapshot(
            &mut Dataset::default(),
            &db,
            &RequestedGraphs::present(),
            &|| None,
        )
        .unwrap();
    let schema = {
        use esker::model::GraphRead as _;
        db.schema().unwrap()
    };
    let mut seen = 0;
    for n in 0..40 {
        let name = format!("/out{n}-0");
        let of = vertex(&db, &format!("file:{name}")).id;
        let found = lineage(&db, of, &LineageOptions::default(), &NeverCancel).unwrap();
        let ours: BTreeSet<String> = found
            .vertices
            .iter()
            .map(|v| format!("urn:esker:{}", v.name(&schema)))
            .filter(|v| !v.ends_with(&name))
            .collect();
        let text = format!(
            "PREFIX prov: <http://www.w3.org/ns/prov#> SELECT DISTINCT ?x FROM <{GRAPH}> {{ \
             <urn:esker:file:{name}> (prov:wasGeneratedBy|prov:used)+ ?x }}"
        );
        same(&ours, &column(&data, &text), &name);
        seen += ours.len();
    }
    assert!(seen > 200, "{seen}");
}

#[test]
fn others_see_what_they_may_read() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("t"));
    let make = |at: &str, mode: u32| {
        let kind = Kind::File.bits() | mode;
        let made = db.change(None, &[Change::Create(path(at), NewFile::new(kind, 5, 5))]);
        made.unwrap().remove(0).unwrap();
        put(&db, &format!("file:{at}"), none().with("size", 1))
    };
    let (open_one, closed) = (make("/open", 0o644), make("/closed", 0o600));
    let job = put(&db, "job:1", none());
    link(&db, job, "read", closed, none().with("bytes", 1));
    link(&db, job, "write", open_one, none());
    set(&db, closed, "secret", "old");
    set(&db, closed, "secret", "new");
    let mut batch = Batch::new();
    batch.push(Op::CreateObject {
        identity: Identity {
            name: "hidden".into(),
            app: "vpic".into(),
            owner: 5,
            step: 0,
        },
        attributes: none().with("mode", 0o600),
        tags: none(),
    });
    db.apply(batch).unwrap();
    let principal = Principal {
        uid: 1001,
        gids: vec![1001],
    };
    let theirs = db.on_behalf_of(Some(&principal));
    let (mut meta, mut data) = (Meta::default(), Dataset::default());
    let newest = db.stats().unwrap().newest.unwrap();
    let past = format!("{GRAPH}?as_of=#{}", newest.0);
    for round in 0..2 {
        for graph in [GRAPH, &past] {
            // Both cached together, and each built alone.
            let all = lines(&mut meta, &mut data, &db, graph);
            let some = lines(&mut meta, &mut data, &theirs, graph);
            same(&some, &anew(&theirs, graph), graph);
            let secret = |l: &&String| {
                ["closed", "secret", "hidden", "bytes"]
                    .iter()
                    .any(|w| l.contains(w))
            };
            assert!(all.iter().filter(secret).count() > 5);
            assert!(some.iter().any(|l| l.contains("wasGeneratedBy")));
            if round == 0 {
                assert_eq!(some.iter().find(secret), None);
            } else {
                assert!(some.iter().any(|l| l.contains("/closed")));
            }
        }
        let chmod = Change::Set {
            path: path("/closed"),
            follow: true,
            set: SetAttributes {
                mode: Some(0o644),
                ..SetAttributes::default()
            },
        };
        db.change(None, &[chmod]).unwrap().remove(0).unwrap();
    }
}

#[test]
fn changing_rdf_data_is_joined_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("t"));
    let live = db.rdf_live().unwrap();
    let update = |text: &str| {
        let update = syntax::update(text, None).map_err(error).unwrap();
        let meta = live.meta_of(&db, &update, None, &|| None)?;
        let how = UpdateOptions {
            meta,
            ..UpdateOptions::default()
        };
        live.update(UpdateRequest::Parsed(Box::new(update)), how)
    };
    let ask = |text: &str| {
        let parsed = syntax::query(text, None).map_err(error).unwrap();
        let data = db.rdf_snapshot_for(text, &parsed, None, &|| None).unwrap();
        column(&data, text)
    };
    let asked = format!(
        "SELECT ?n {{ ?f <urn:mine:note> ?n GRAPH <{GRAPH}> {{ ?f <urn:esker:attributes/size> ?s FILTER(?s > 5) }} }}"
    );
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..40 {
                put(&db, &format!("file:/{n}"), none().with("size", n % 10));
            }
        });
        scope.spawn(|| {
            for n in 0..40 {
                update(&format!(
                    "INSERT DATA {{ <urn:esker:file:/{n}> <urn:mine:note> \"{n}\" }}"
                ))
                .unwrap();
            }
        });
        for _ in 0..20 {
            ask(&asked);
        }
    });
    assert_eq!(ask(&asked).len(), 16);
    // A principal that reads only its own items sees none of it.
    assert_eq!(ask("SELECT ?s { ?s <urn:mine:note> ?n }").len(), 40);
    assert_eq!(live.snapshot().len(), 40);
    assert!(live.meta_len().unwrap() > 200);
    let graphs = ask("SELECT ?g { GRAPH ?g { ?s ?p ?o } }");
    assert_eq!(graphs, BTreeSet::from([GRAPH.to_owned()]));
    for refused in [
        format!("INSERT DATA {{ GRAPH <{GRAPH}> {{ <urn:a> <urn:b> 1 }} }}"),
        format!("DELETE DATA {{ GRAPH <{GRAPH}> {{ <urn:a> <urn:b> 1 }} }}"),
        format!("WITH <{GRAPH}> DELETE {{ ?s ?p ?o }} WHERE {{ ?s ?p ?o }}"),
        format!(
            "INSERT {{ GRAPH ?g {{ ?s ?p ?o }} }} WHERE {{ ?s ?p ?o VALUES ?g {{ <{GRAPH}> }} }}"
        ),
        format!("COPY DEFAULT TO <{GRAPH}>"),
        format!("CLEAR GRAPH <{GRAPH}>"),
        format!("DROP SILENT GRAPH <{GRAPH}?as_of=2026-01-01>"),
        format!("CREATE GRAPH <{GRAPH}>"),
        format!("LOAD <file:///x.nt> INTO GRAPH <{GRAPH}>"),
    ] {
        let e = update(&refused).unwrap_err();
        assert!(
            matches!(&e, Error::Invalid(m) if m.contains("follows the database")),
            "{refused}: {e}"
        );
    }
    let wrong = format!("SELECT * FROM <{GRAPH}?as_of=soon> {{ ?s ?p ?o }}");
    let parsed = syntax::query(&wrong, None).unwrap();
    let e = db
        .rdf_snapshot_for(&wrong, &parsed, None, &|| None)
        .unwrap_err();
    assert!(e.to_string().contains("`soon` is not a time"), "{e}");
    // The graph may be copied, and updates of all graphs skip it.
    let copied = update(&format!("COPY <{GRAPH}> TO <urn:mine:copy>")).unwrap();
    assert_eq!(Some(copied.added), live.meta_len());
    let done = update("DROP ALL").unwrap();
    assert_eq!(done.removed, copied.added + 40);
    assert_eq!(ask(&asked).len(), 0);
    assert_eq!(
        ask(&format!(
            "SELECT ?s FROM <{GRAPH}> {{ ?s a <urn:esker:types/File> }}"
        ))
        .len(),
        40
    );
    // Dropping the data drops its terms.
    live.drop_all().unwrap();
    update("INSERT DATA { <urn:esker:file:/7> <urn:mine:note> \"seven\" }").unwrap();
    assert_eq!(ask(&asked), BTreeSet::from(["\"seven\"".to_owned()]));
    let interrupted = db.rdf_snapshot_with(Some(&format!("{GRAPH}?as_of=2020-01-01")), &|| {
        Some("enough")
    });
    assert!(matches!(interrupted, Err(Error::Interrupted)));
    drop(live);
    db.close().unwrap();
}

#[test]
fn a_folder_s_updates_leave_it_alone_and_files_do_not_name_it() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("t"));
    put(&db, "file:/a", none());
    let mut rdf = db.rdf_to_change().unwrap();
    let (now, seed) = now_and_seed();
    let options = Options::new(now, seed);
    let copy = format!("COPY <{GRAPH}> TO <urn:mine:copy>");
    let copied = rdf.update(&copy, None, &options, false).unwrap().added;
    assert!(copied > 5);
    assert_eq!(rdf.data().len(), copied);
    let change = format!("CLEAR GRAPH <{GRAPH}>");
    rdf.update(&change, None, &options, false).unwrap_err();
    drop(rdf);
    assert_eq!(
        db.rdf().unwrap().data().len(),
        copied,
        "the log has what was copied"
    );
    let file = folder.path().join("x.nq");
    std::fs::write(&file, format!("<urn:a> <urn:b> <urn:c> <{GRAPH}> .\n")).unwrap();
    let mut rdf = db.rdf_to_change().unwrap();
    for graph in [None, Some(GRAPH)] {
        let files = [(file.clone(), RdfFormat::NQuads)];
        let e = rdf
            .load(
                &files,
                esker::rdf::LoadOptions {
                    graph,
                    ..Default::default()
                },
                Limits {
                    memory: 1 << 30,
                    stop: &|| None,
                },
                &mut |_| true,
            )
            .unwrap_err();
        assert!(e.to_string().contains("is the metadata graph"), "{e}");
    }
    assert_eq!(rdf.data().len(), copied);
}

#[test]
fn a_graph_is_not_put_into_data_that_lacks_its_terms() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("t"));
    define(&db);
    let file = put(&db, "file:/a", none());
    let (mut meta, mut data, wanted) = (
        Meta::default(),
        Dataset::default(),
        RequestedGraphs::present(),
    );
    meta.snapshot(&mut data, &db, &wanted, &|| None).unwrap();
    // A snapshot that a reader took before the graph was updated.
    let before = data.clone();
    assert!(meta.ready(&before, &db, &wanted).unwrap().is_some());
    set(&db, file, "quality", "a text that is new");
    meta.snapshot(&mut data, &db, &wanted, &|| None).unwrap();
    assert!(meta.ready(&before, &db, &wanted).unwrap().is_none());
    let found = meta.ready(&data, &db, &wanted).unwrap().unwrap();
    let mut out = Vec::new();
    esker::rdf::engine::dump(&found, None, RdfFormat::NQuads, &mut out).unwrap();
    assert!(
        String::from_utf8(out)
            .unwrap()
            .contains("a text that is new")
    );
}
