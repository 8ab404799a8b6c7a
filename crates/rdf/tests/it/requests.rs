//! Atomicity of updates; answers of special query forms.

use crate::{load, options};
use esker_rdf::{
    Dataset, Format, Found, Graphs, Load, RdfFormat, dump, query, update, update_in_place,
};
use std::fmt::Write as _;

fn text(data: &Dataset) -> String {
    let mut out = Vec::new();
    dump(data, None, RdfFormat::NQuads, &mut out).unwrap();
    let mut lines: Vec<String> = String::from_utf8(out)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines.join("\n")
}

fn count_solutions(data: &Dataset, text: &str) -> usize {
    let options = options();
    query(data, text, None, None, false, &options)
        .unwrap()
        .len()
}

const DATA: &str = "@prefix : <http://e/> . :a :p :b , 1 , 1.0 ; :q :c . :b :p :c . :g1 { :a :p :x } :g2 { :a :p :y }";

#[test]
fn a_request_that_fails_changes_nothing() {
    let mut data = load(DATA);
    let before = text(&data);
    let two = "INSERT DATA { <http://e/z> <http://e/p> 7 } ; LOAD <http://e/none>";
    let options = options();
    let mut fetch = |load: &Load<'_>| Err(format!("no {}", load.iri));
    assert!(update(&data, two, None, None, &mut fetch, &options).is_err());
    assert!(update_in_place(&mut data, two, None, &mut fetch, &options).is_err());
    assert_eq!(text(&data), before);
    let (changes, added, removed) = update_in_place(
        &mut data,
        "DELETE { ?s <http://e/p> ?o } INSERT { ?s <http://e/r> ?o } WHERE { ?s <http://e/p> ?o FILTER(?o = 1) }",
        None,
        &mut fetch,
        &options,
    )
    .unwrap();
    assert_eq!((changes.len(), added, removed), (4, 2, 2));
}

/// MOVE of a graph that did not exist, a misspelt one, emptied its target and succeeded. It is an error unless the request says SILENT
/// (SPARQL 1.1 Update, sections 3.2.5 and 3.2.2), and a request that fails changes nothing.
#[test]
fn a_graph_that_does_not_exist_cannot_be_moved() {
    let moved = |from: &str| {
        let mut data = load(DATA);
        let before = text(&data);
        let mut fetch = |load: &Load<'_>| Err(format!("no {}", load.iri));
        let outcome = update_in_place(&mut data, from, None, &mut fetch, &options());
        let message = outcome.map(drop).map_err(|e| e.to_string());
        (message, text(&data) == before)
    };
    let (message, same) = moved("MOVE <http://e/none> TO <http://e/g2>");
    assert!(message.unwrap_err().contains("there is no such graph"));
    assert!(same);
    for (text, same) in [
        ("MOVE <http://e/g1> TO <http://e/g2>", false),
        ("MOVE SILENT <http://e/none> TO <http://e/g3>", true),
        ("MOVE DEFAULT TO <http://e/g2>", false),
        (
            "INSERT DATA { GRAPH <http://e/n> { <a:b> <a:c> 1 } } ; MOVE <http://e/n> TO <http://e/g2>",
            false,
        ),
        ("DROP GRAPH <http://e/none>", true),
    ] {
        assert_eq!(moved(text), (Ok(()), same), "{text}");
    }
}

#[test]
fn in_place_and_on_a_copy_are_the_same() {
    let options = options();
    let mut fetch = |load: &Load<'_>| Err(format!("no {}", load.iri));
    for request in [
        "INSERT DATA { <http://e/a> <http://e/p> 1 , 2 . GRAPH <http://e/g3> { _:b <http://e/p> \"x\"@en } }",
        "DELETE DATA { <http://e/a> <http://e/p> 1 . GRAPH <http://e/g1> { <http://e/a> <http://e/p> <http://e/x> } }",
        "DROP GRAPH <http://e/g2>",
        "MOVE <http://e/g1> TO <http://e/g2>",
        "CLEAR ALL",
    ] {
        let mut here = load(DATA);
        let copy = update(&here, request, None, None, &mut fetch, &options).unwrap();
        let before = text(&here);
        let shared = here.clone();
        let (changes, ..) =
            update_in_place(&mut here, request, None, &mut fetch, &options).unwrap();
        assert_eq!(text(&here), text(&copy.data), "{request}");
        assert_eq!(changes, copy.changes, "{request}");
        assert_eq!(text(&shared), before, "a snapshot changed: {request}");
    }
}

#[test]
fn a_request_may_say_which_graphs_it_asks() {
    let data = load(DATA);
    let options = options();
    let iri = |n: &str| format!("http://e/{n}");
    let graphs = Graphs {
        default: vec![iri("g1"), iri("g2"), iri("none")],
        named: vec![iri("g2")],
    };
    let count = |text: &str| {
        query(&data, text, None, Some(&graphs), false, &options)
            .unwrap()
            .len()
    };
    assert_eq!(count("SELECT * { ?s ?p ?o }"), 2);
    assert_eq!(count("SELECT * { GRAPH ?g { ?s ?p ?o } }"), 1);
    assert_eq!(
        count_solutions(&data, "SELECT * { GRAPH ?g { ?s ?p ?o } }"),
        2
    );
}

#[test]
fn describe_follows_blank_nodes() {
    let data = load("@prefix : <http://e/> . :a :p [ :q [ :r 1 ] ] . :b :p :a .");
    assert_eq!(count_solutions(&data, "DESCRIBE <http://e/a>"), 3);
}

#[test]
fn what_was_written_comes_back_letter_by_letter() {
    let data = load(
        "@prefix : <http://e/> . :a :p 007 , 7 , 7.0 , \"7\" , \"x\"@en-GB , true , \"1\"^^<http://www.w3.org/2001/XMLSchema#boolean> .",
    );
    let options = options();
    let answer = query(&data, "SELECT ?o { ?s ?p ?o }", None, None, false, &options).unwrap();
    let Found::Solutions(_, table) = &answer.found else {
        panic!("no solutions");
    };
    let mut values: Vec<String> = table.columns()[0]
        .iter()
        .map(|id| answer.term(*id).unwrap().to_string())
        .collect();
    values.sort();
    let xsd = "http://www.w3.org/2001/XMLSchema#";
    let mut expected = vec![
        format!("\"007\"^^<{xsd}integer>"),
        format!("\"7\"^^<{xsd}integer>"),
        format!("\"7.0\"^^<{xsd}decimal>"),
        "\"7\"".into(),
        "\"x\"@en-gb".into(),
        format!("\"true\"^^<{xsd}boolean>"),
        format!("\"1\"^^<{xsd}boolean>"),
    ];
    expected.sort();
    assert_eq!(values, expected);
}

#[test]
fn an_explanation_names_the_lists() {
    let data = load(DATA);
    let options = options();
    let text = "SELECT DISTINCT ?s { ?s <http://e/p> ?o . ?s <http://e/q> ?x }";
    let answer = query(&data, text, None, None, true, &options).unwrap();
    let notes = answer.plan().unwrap().lines().join("\n");
    assert!(notes.contains("bind ?s from"), "{notes}");
    // A variable that only has to exist is not enumerated.
    assert!(!notes.contains("?o"), "{notes}");
}

#[test]
fn the_first_of_an_order_are_those_of_the_whole_order() {
    let mut text = String::new();
    for n in 0..3000u32 {
        // Integers, equal decimals, strings, IRIs; some subjects have no value.
        let k = n.wrapping_mul(2_654_435_761) % 700;
        let value = match n % 5 {
            0 => format!("{k}"),
            1 => format!("{k}.0"),
            2 => format!("\"t{k}\""),
            3 => format!("<http://e/v{k}>"),
            _ => continue,
        };
        write!(
            text,
            "<http://e/s{n}> <http://e/p> {value} ; <http://e/q> {} . ",
            n % 13
        )
        .unwrap();
    }
    write!(text, "<http://e/none> <http://e/q> 5 . ").unwrap();
    let data = load(&text);
    for by in [
        "?v ?s",
        "DESC(?v) ?s",
        "?q DESC(?v) ?s",
        "(STR(?v)) ?s",
        "DESC(?q + 1) ?v ?s",
    ] {
        let count_solutions = |end: &str| {
            let text = format!(
                "SELECT ?s ?v {{ ?s <http://e/q> ?q OPTIONAL {{ ?s <http://e/p> ?v }} }} ORDER BY {by} {end}"
            );
            let options = options();
            let answer = query(&data, &text, None, None, false, &options).unwrap();
            let mut out = Vec::new();
            answer.write(Format::Tsv, &mut out).unwrap();
            let lines: Vec<String> = String::from_utf8(out)
                .unwrap()
                .lines()
                .map(str::to_owned)
                .collect();
            lines
        };
        let all = count_solutions("");
        assert_eq!(all.len(), 2402);
        for n in [1, 7, 100] {
            assert_eq!(
                count_solutions(&format!("LIMIT {n}")),
                all[..=n],
                "{by} {n}"
            );
        }
        assert_eq!(count_solutions("LIMIT 3 OFFSET 5")[1..], all[6..9], "{by}");
    }
}

#[test]
fn what_is_escaped_in_a_string_cannot_end_it() {
    let data = load("");
    let text = r#"SELECT ("a\u0022 } # \u005Cn" AS ?x) ('C:\\users' AS ?y) {}"#;
    let options = options();
    let answer = query(&data, text, None, None, false, &options).unwrap();
    let mut out = Vec::new();
    answer.write(Format::Tsv, &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    let row = out.lines().nth(1).unwrap();
    assert_eq!(row, r#""a\" } # \\n"	"C:\\users""#);
}
