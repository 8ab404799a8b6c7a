//! Random data and queries for differential tests.

use proptest::prelude::*;
use std::fmt::Write as _;

/// Few terms, so that joins have results; one in eight is a triple term.
fn term() -> impl Strategy<Value = String> {
    let triple = (0..6_u32, 0..3_u32, plain())
        .prop_map(|(s, p, o)| triple_term(&iri(s), &predicate_iri(p), &o));
    prop_oneof![7 => plain(), 1 => triple]
}

fn iri(n: u32) -> String {
    format!("<http://e/n{n}>")
}

fn predicate_iri(n: u32) -> String {
    format!("<http://e/p{n}>")
}

fn triple_term(s: &str, p: &str, o: &str) -> String {
    format!("<<( {s} {p} {o} )>>")
}

/// Equal numbers of several types are in the lexical forms that the library's IF and COALESCE return.
fn plain() -> impl Strategy<Value = String> {
    let typed = |text: String, local: &str| {
        format!("\"{text}\"^^<http://www.w3.org/2001/XMLSchema#{local}>")
    };
    prop_oneof![
        4 => (0..6).prop_map(|n| format!("<http://e/n{n}>")),
        2 => (0..4).prop_map(|n| format!("{n}")),
        1 => (0..3).prop_map(move |n| typed(format!("{n}"), "decimal")),
        1 => (0..2).prop_map(|n| format!("{n}.1")),
        1 => (0..2).prop_map(move |n| typed(format!("{n}"), "double")),
        1 => (0..2).prop_map(move |n| typed(format!("{n}.1"), "float")),
        1 => (0..3).prop_map(|n| format!("\"t{n}\"")),
        1 => (0..2).prop_map(|n| format!("\"t{n}\"@en")),
    ]
}

/// Generates a dataset in `TriG`.
pub(crate) fn data() -> impl Strategy<Value = String> {
    let triple = (0..6, 0..3, term(), 0..4);
    prop::collection::vec(triple, 0..40).prop_map(|triples| {
        let mut text = String::new();
        for (s, p, o, g) in triples {
            let triple = format!("<http://e/n{s}> <http://e/p{p}> {o} .");
            let _ = match g {
                0 => write!(text, "<http://e/g1> {{ {triple} }} "),
                1 => write!(text, "<http://e/g2> {{ {triple} }} "),
                _ => write!(text, "{triple} "),
            };
        }
        text
    })
}

fn var() -> impl Strategy<Value = String> {
    (0..5).prop_map(|n| format!("?v{n}"))
}

fn node() -> impl Strategy<Value = String> {
    let triple = (subject(), 0..3_u32, prop_oneof![2 => var(), 1 => plain()])
        .prop_map(|(s, p, o)| triple_term(&s, &predicate_iri(p), &o));
    prop_oneof![8 => var(), 2 => term(), 1 => triple]
}

fn subject() -> impl Strategy<Value = String> {
    prop_oneof![4 => var(), 1 => (0..6).prop_map(|n| format!("<http://e/n{n}>"))]
}

fn predicate() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (0..3).prop_map(|n| format!("<http://e/p{n}>")),
        1 => var(),
        1 => Just("^<http://e/p1>".to_owned()),
    ]
}

/// Between variables only: the library treats a zero-length path from a term outside the graph differently.
fn path() -> impl Strategy<Value = String> {
    let path = prop_oneof![
        (0..3).prop_map(|n| format!("<http://e/p{n}>+")),
        (0..3).prop_map(|n| format!("<http://e/p{n}>*")),
        Just("(<http://e/p0>/<http://e/p1>)+".to_owned()),
        Just("(<http://e/p0>|<http://e/p1>)?".to_owned()),
    ];
    (var(), path, var()).prop_map(|(a, p, b)| format!("{a} {p} {b} ."))
}

fn triples() -> impl Strategy<Value = String> {
    let triple = (subject(), predicate(), node()).prop_map(|(s, p, o)| format!("{s} {p} {o} ."));
    let one = prop_oneof![8 => triple, 1 => path()];
    prop::collection::vec(one, 1..4).prop_map(|list| list.join(" "))
}

fn condition() -> impl Strategy<Value = String> {
    let simple = prop_oneof![
        (var(), node()).prop_map(|(a, b)| format!("{a} = {b}")),
        (var(), node()).prop_map(|(a, b)| format!("{a} != {b}")),
        (var(), node()).prop_map(|(a, b)| format!("{a} < {b}")),
        (var(), node()).prop_map(|(a, b)| format!("{a} <= {b}")),
        (var(), node()).prop_map(|(a, b)| format!("{a} >= {b}")),
        (var(), node()).prop_map(|(a, b)| format!("!({a} > {b})")),
        (var(), node()).prop_map(|(a, b)| format!("sameTerm({a}, {b})")),
        var().prop_map(|v| format!("BOUND({v})")),
        var().prop_map(|v| format!("!BOUND({v})")),
        var().prop_map(|v| format!("ISIRI({v})")),
        var().prop_map(|v| format!("ISTRIPLE({v})")),
        (var(), node()).prop_map(|(v, o)| format!("OBJECT({v}) = {o}")),
        (var(), term(), term()).prop_map(|(v, a, b)| format!("{v} IN ({a}, {b})")),
        (var(), var()).prop_map(|(a, b)| format!("{a} + 1 >= {b}")),
    ];
    prop_oneof![
        3 => simple.clone(),
        1 => (simple.clone(), simple.clone()).prop_map(|(a, b)| format!("({a} || {b})")),
        1 => (simple.clone(), simple).prop_map(|(a, b)| format!("({a} && {b})")),
    ]
}

/// An expression for BIND; many are errors for some solutions, some for all.
fn expression() -> impl Strategy<Value = String> {
    prop_oneof![
        node(),
        condition().prop_map(|c| format!("({c})")),
        (var(), node()).prop_map(|(a, b)| format!("{a} + {b}")),
        var().prop_map(|v| format!("{v} * 2")),
        var().prop_map(|v| format!("STRLEN({v})")),
        var().prop_map(|v| format!("STR({v})")),
        (condition(), node(), node()).prop_map(|(c, a, b)| format!("IF({c}, {a}, {b})")),
        (var(), node()).prop_map(|(a, b)| format!("COALESCE({a} + 1, {b})")),
        Just("1 / 0".to_owned()),
        var().prop_map(|v| format!("SUBJECT({v})")),
        var().prop_map(|v| format!("PREDICATE({v})")),
        (var(), var(), node()).prop_map(|(s, p, o)| format!("TRIPLE({s}, {p}, {o})")),
    ]
}

/// The variable of a BIND. The grammar refuses one that the group has used.
fn target() -> impl Strategy<Value = String> {
    (3..7).prop_map(|n| format!("?v{n}"))
}

fn pattern() -> impl Strategy<Value = String> {
    triples().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} OPTIONAL {{ {b} }}")),
            (inner.clone(), inner.clone(), condition())
                .prop_map(|(a, b, c)| format!("{a} OPTIONAL {{ {b} FILTER({c}) }}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{{ {a} }} UNION {{ {b} }}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} MINUS {{ {b} }}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{{ {a} }} {{ {b} }}")),
            (inner.clone(), condition()).prop_map(|(a, c)| format!("{a} FILTER({c})")),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| format!("{a} FILTER EXISTS {{ {b} }}")),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| format!("{a} FILTER NOT EXISTS {{ {b} }}")),
            (inner.clone(), inner.clone(), condition())
                .prop_map(|(a, b, c)| format!("{a} FILTER({c} || EXISTS {{ {b} }})")),
            (inner.clone(), expression(), target())
                .prop_map(|(a, e, v)| format!("{a} BIND({e} AS {v})")),
            (inner.clone(), inner.clone(), target())
                .prop_map(|(a, b, v)| format!("{a} BIND(EXISTS {{ {b} }} AS {v})")),
            (inner.clone(), inner.clone(), expression(), target())
                .prop_map(|(a, b, e, v)| format!("{{ {a} }} UNION {{ {b} BIND({e} AS {v}) }}")),
            inner.clone().prop_map(|a| format!("GRAPH ?g {{ {a} }}")),
            inner
                .clone()
                .prop_map(|a| format!("GRAPH <http://e/g1> {{ {a} }}")),
            (inner.clone(), var(), node()).prop_map(|(a, v, o)| format!(
                "{{ {a} }} VALUES {v} {{ {} <http://e/n1> UNDEF }}",
                if o.starts_with('?') { "1" } else { &o }
            )),
            (inner.clone(), var())
                .prop_map(|(a, v)| format!("{{ SELECT DISTINCT {v} ?v0 {{ {a} }} }}")),
            (inner, var()).prop_map(|(a, v)| format!(
                "{{ SELECT {v} (COUNT(*) AS ?n) {{ {a} }} GROUP BY {v} }}"
            )),
        ]
    })
}

/// Generates a random query.
pub(crate) fn request() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => pattern().prop_map(|p| format!("SELECT * {{ {p} }}")),
        2 => (pattern(), var()).prop_map(|(p, v)| format!("SELECT DISTINCT {v} {{ {p} }}")),
        1 => (pattern(), var(), var()).prop_map(|(p, v, w)| format!("SELECT {v} (COUNT({w}) AS ?c) (MIN({w}) AS ?m) {{ {p} }} GROUP BY {v}")),
        1 => pattern().prop_map(|p| format!("ASK {{ {p} }}")),
        1 => pattern().prop_map(|p| format!("SELECT (COUNT(*) AS ?c) {{ {p} }}")),
        1 => (pattern(), var()).prop_map(|(p, v)| format!("SELECT (COUNT({v}) AS ?c) (COUNT(*) AS ?d) {{ {p} }}")),
        1 => (pattern(), 0..5).prop_map(|(p, n)| format!("SELECT (COUNT(*) AS ?c) {{ {{ SELECT * {{ {p} }} LIMIT {n} }} }}")),
    ]
}
