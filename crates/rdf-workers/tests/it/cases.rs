//! Single cases: queries that are distributed, evaluated by the coordinator, or refused.

use crate::{Workers, answer_by_workers, answer_locally, load};
use esker_rdf::{Graphs, Part};
use esker_rdf_workers::{Coordinator, Secret, Settings};

const DATA: &str = r#"
    PREFIX : <http://e/>
    :ann a :Person ; :knows :bob, :cid ; :age 31 ; :name "Ann"@en .
    :bob a :Person ; :knows :cid ; :age 29 ; :name "Bob" ; :wrote _:b .
    :cid a :Person ; :knows :ann ; :age 31 ; :name "C > \"id\"\n" .
    _:b :title "On parts" ; :cites _:c .
    _:c :title "On wholes" ; :by [ :is :ann ] .
    :bob :knows :ann ~ :r {| :since 2001 ; :by <<( _:b :cites _:c )>> |} .
    :cid :says <<( :ann :age "31"@en--ltr )>> , <<( :bob :knows :ann )>> .
    :g1 { :ann :likes :tea . :bob :likes :tea, :milk }
    :g2 { :tea :grows :hill . :milk :from :cow . :bob :likes :tea }
"#;

const PREFIX: &str = "PREFIX : <http://e/> ";

fn same(queries: &[&str]) {
    let workers = Workers::of(DATA, 3);
    let coordinator = workers.coordinator();
    let whole = load(DATA, None);
    for query in queries {
        let query = format!("{PREFIX}{query}");
        let expected = answer_locally(&whole, &query);
        assert!(expected.is_ok(), "{query}: {expected:?}");
        assert_eq!(answer_by_workers(&coordinator, &query), expected, "{query}");
    }
}

#[test]
fn stars_are_joined() {
    same(&[
        "SELECT * { ?a :knows ?b . ?b :knows ?c . ?c :knows ?a }",
        "SELECT ?n { ?a :knows ?b . ?b :name ?n }",
        "SELECT DISTINCT ?n { ?a :knows ?b . ?b :name ?n . ?b :age ?y FILTER(?y > 30) }",
        "SELECT ?a ?b { ?a :age ?x . ?b :age ?y FILTER(?x < ?y) }",
        "SELECT ?a ?b { ?a :age ?x . ?b :age ?x }",
        "SELECT ?a { :bob :wrote ?w . ?w :cites/:by/:is ?a }",
        "SELECT ?t { ?x :wrote [ :title ?t ] }",
        "SELECT ?s ?p ?o { ?s ?p ?o . ?o ?q ?s }",
        "ASK { :ann :knows :bob }",
        "ASK { :ann :knows :ann }",
        "SELECT ?x { :ann :knows :bob . ?x :age 29 }",
        "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }",
        "SELECT (COUNT(*) AS ?n) { ?s :nothing ?o }",
        "SELECT ?y (COUNT(*) AS ?n) (COUNT(DISTINCT ?b) AS ?d) { ?a :age ?y ; :knows ?b } GROUP BY ?y",
        "SELECT ?y (COUNT(?n) AS ?c) (AVG(?y) AS ?m2) { ?a :age ?y . ?a :knows ?b . ?b :name ?n } GROUP BY ?y",
        "SELECT ?a { ?a a :Person } ORDER BY DESC(?a) LIMIT 2",
        "SELECT ?n { ?a :name ?n . ?a :age ?y } ORDER BY ?y ?n OFFSET 1",
        "SELECT ?a ?t { ?a a :Person OPTIONAL { ?a :wrote ?w . ?w :title ?t } }",
        "SELECT ?a { ?a a :Person FILTER NOT EXISTS { ?a :wrote ?w . ?w :title ?t } }",
        "SELECT ?a { ?a a :Person MINUS { ?a :knows ?b . ?b :age 29 } }",
        "CONSTRUCT { ?b :knownBy ?a } WHERE { ?a :knows ?b . ?b :age ?y }",
        "SELECT * { { ?a :age 29 } UNION { ?a :knows ?b . ?b :age 29 } }",
        "SELECT * { BIND(:ann AS ?a) ?a :knows ?b . ?b :age ?y }",
        "SELECT ?a ?n { VALUES ?a { :ann :cid } ?a :knows ?b . ?b :name ?n }",
    ]);
}

/// Workers match within triple terms. Terms with blank nodes are joined between workers, which agree on the labels of a file.
#[test]
fn triple_terms_are_joined() {
    same(&[
        "SELECT * { ?a :says <<( ?b :knows ?c )>> . ?b :age ?y }",
        "SELECT * { ?a :knows ?b {| :since ?y |} . ?b :name ?n }",
        "SELECT * { ?a :says ?t . ?r <http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies> ?t ; :since ?y }",
        "SELECT * { ?r :by <<( ?w ?p ?v )>> . ?v :title ?t . ?a :wrote ?w }",
        "SELECT * { ?r :by <<( _:w ?p ?v )>> . ?a :wrote _:w }",
        "SELECT * { ?a :says <<( :ann :age ?y )>> FILTER(HASLANGDIR(?y)) }",
        "SELECT * { ?a :says <<( :ann :age \"31\"@en--ltr )>> }",
        "SELECT ?a { ?a a :Person FILTER EXISTS { ?c :says <<( ?a :knows ?b )>> } }",
        "SELECT ?t { ?a :knows ?b BIND(TRIPLE(?a, :knows, ?b) AS ?t) ?c :says ?t }",
        "SELECT (COUNT(*) AS ?n) { ?a :says <<( ?b ?p ?c )>> }",
        "SELECT * { ?a :says <<( ?b :knows ?c )>> . ?c :knows+ ?d }",
        "CONSTRUCT { ?c :saidBy <<( ?a :says ?b )>> } WHERE { ?a :says <<( ?b :knows ?c )>> }",
        "DESCRIBE :cid",
    ]);
}

#[test]
fn graphs_are_asked_as_in_one_process() {
    same(&[
        "SELECT * { GRAPH ?g { ?a :likes ?t } }",
        "SELECT * { GRAPH ?g { ?a :likes ?t . ?t :grows ?h } }",
        "SELECT * { GRAPH :g1 { ?a :likes ?t } GRAPH :g2 { ?t :grows ?h } }",
        "SELECT * { ?a :age ?y GRAPH ?g { ?a :likes ?t } }",
        "SELECT ?g { GRAPH ?g {} }",
        "SELECT * { GRAPH ?g { ?a :likes ?t OPTIONAL { ?t :grows ?h } } }",
        "SELECT * { GRAPH ?g { ?a :likes ?t FILTER EXISTS { ?t :grows ?h } } }",
        "SELECT * { GRAPH ?g { GRAPH :g1 { ?a :likes ?t } } }",
        "SELECT * { GRAPH :none { GRAPH :g1 { ?a :likes ?t } } }",
        "SELECT * { GRAPH :g2 { VALUES ?x { 1 2 } } }",
        "SELECT * { GRAPH :none { VALUES ?x { 1 2 } } }",
        "SELECT * { GRAPH :g1 { OPTIONAL { ?a :grows ?t } } }",
        "SELECT * { GRAPH :g1 { ?a :likes ?t BIND(STR(?t) AS ?n) } }",
        "SELECT * FROM :g1 FROM :g2 { ?a :likes ?t . ?t :grows ?h }",
        "SELECT (COUNT(*) AS ?n) FROM :g1 FROM :g2 { ?a :likes ?t }",
        "SELECT * FROM NAMED :g2 { GRAPH ?g { ?a :likes ?t } }",
    ]);
    let workers = Workers::of(DATA, 2);
    let coordinator = workers.coordinator();
    let text = "SELECT ?a { ?a <http://e/likes> ?t }";
    let graphs = Graphs {
        default: vec!["http://e/g2".into()],
        named: Vec::new(),
    };
    let query = esker_rdf::syntax::query(text, None).unwrap();
    let prepared = coordinator
        .prepare(&query, Some(&graphs), false, &|| None)
        .unwrap();
    assert_eq!(prepared.input_bindings[0].rows.len(), 1);
}

#[test]
fn what_is_not_joined_is_answered_by_the_coordinator() {
    same(&[
        "SELECT ?b { :ann :knows+ ?b }",
        "SELECT * { ?a :knows* ?b . ?b :age 29 }",
        "SELECT * { ?a !(:knows|:name) ?b }",
        "SELECT * { GRAPH ?g { ?a (:likes/:grows)? ?b } }",
        "DESCRIBE :bob",
        "DESCRIBE ?a { ?a :age 29 }",
        "SELECT * { GRAPH ?g { ?a :likes ?t MINUS { ?t :grows ?h } } }",
        "SELECT * { ?a a :Person FILTER EXISTS { ?a :knows+ ?b . ?b :age 29 } }",
    ]);
}

#[test]
fn what_is_wrong_is_said() {
    let workers = Workers::of(DATA, 3);
    let connect = |addresses: &[String]| {
        Coordinator::connect(addresses, Settings::default())
            .unwrap_err()
            .to_string()
    };
    let said = connect(&workers.addresses[..2]);
    assert!(said.starts_with("no worker holds part "), "{said}");
    let twice = [&workers.addresses[..], &workers.addresses[..1]].concat();
    let said = connect(&twice);
    assert!(said.contains("both hold part "), "{said}");
    let said = connect(&["127.0.0.1:1".to_owned()]);
    assert!(said.contains("esker rdf worker"), "{said}");
    let said = connect(&["here".to_owned()]);
    assert!(said.contains("expected HOST:PORT"), "{said}");

    let coordinator = workers.coordinator();
    let query = esker_rdf::syntax::query("SELECT * { ?s ?p ?o . ?a ?b ?c }", None).unwrap();
    let stopped = coordinator.prepare(&query, None, false, &|| Some("the time is over"));
    assert!(
        stopped
            .unwrap_err()
            .to_string()
            .contains("the time is over")
    );
    let little = Settings {
        memory: 10,
        ..Settings::default()
    };
    let coordinator = Coordinator::connect(&workers.addresses, little).unwrap();
    let said = coordinator.prepare(&query, None, false, &|| None);
    assert!(said.unwrap_err().to_string().contains("memory"));
}

#[test]
fn a_wrong_secret_is_refused() {
    let mut workers = Workers::none();
    let secret = Secret::new("a secret of the workers'").unwrap();
    for i in 0..2 {
        let part = Part::new(i, 2).unwrap();
        workers.start(load(DATA, Some(part)), part, secret.clone());
    }
    for wrong in [
        Secret::default(),
        Secret::new("another one than the workers'").unwrap(),
    ] {
        let settings = Settings {
            secret: wrong,
            ..Settings::default()
        };
        let said = Coordinator::connect(&workers.addresses, settings).unwrap_err();
        assert!(said.to_string().contains("--secret-file"), "{said}");
    }
    let settings = Settings {
        secret,
        ..Settings::default()
    };
    let coordinator = Coordinator::connect(&workers.addresses, settings).unwrap();
    // Workers send the secret to each other, too.
    let text = format!("{PREFIX}SELECT * {{ ?a :knows ?b . ?b :knows ?c }}");
    assert_eq!(
        answer_by_workers(&coordinator, &text),
        answer_locally(&load(DATA, None), &text)
    );
}
