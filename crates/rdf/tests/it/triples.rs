//! RDF 1.2 and SPARQL 1.2: triple terms, reifiers, annotations and directional language strings, in data, queries, updates and results.

use crate::differential::ours;
use crate::{load, options};
use esker_rdf::parse::Loader;
use esker_rdf::{
    Answer, Dataset, Error, Format, Load, RdfFormat, Results, Term, dump, log, query, read_results,
    update,
};

const PREFIXES: &str =
    "PREFIX : <http://e/> PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> ";
/// Two annotated triples, one within a triple term within a triple term, and a string with a direction.
const DATA: &str = r#"
    :a :knows :b ~ :r1 {| :since 2001 |} .
    :a :knows :c ~ :r2 {| :since 2020 ; :by <<( :d :says <<( :a :knows :b )>> )>> |} .
    << :c :knows :c ~ :r3 >> :since 1999 .
    :e :label "x"@ar--rtl , "x"@ar , <<( _:n :p "01"^^<http://www.w3.org/2001/XMLSchema#integer> )>> .
    GRAPH :g { :a :q <<( :a :knows :b )>> }
"#;

fn data() -> Dataset {
    load(&format!("{PREFIXES}{DATA}"))
}

/// Returns the solutions, which must not depend on the optimiser, without the common prefix of IRIs.
fn solutions(data: &Dataset, text: &str) -> Vec<String> {
    let text = format!("{PREFIXES}{text}");
    let found = ours(data, &text, true);
    assert_eq!(found, ours(data, &text, false), "{text}");
    let rows = found.unwrap();
    rows.iter()
        .map(|row| row.replace("http://e/", ""))
        .collect()
}

fn quads(data: &Dataset) -> Vec<String> {
    let mut out = Vec::new();
    dump(data, None, RdfFormat::NQuads, &mut out).unwrap();
    let mut lines: Vec<String> = String::from_utf8(out)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines
}

fn read(text: &str, format: RdfFormat) -> Result<Dataset, Error> {
    let mut loader = Loader::new(Dataset::default(), "r", false);
    loader.read("x", &mut text.as_bytes(), format, None, Some("http://e/"))?;
    Ok(loader.finish().0)
}

#[test]
fn patterns_match_within_triple_terms() {
    let data = data();
    for (pattern, expected) in [
        (
            "SELECT * { ?r rdf:reifies <<( :a :knows ?x )>> }",
            &["r=<r1> x=<b> ", "r=<r2> x=<c> "][..],
        ),
        (
            "SELECT * { ?r rdf:reifies <<( ?x :knows ?x )>> }",
            &["r=<r3> x=<c> "],
        ),
        // The triple of a reifier need not be one of the data; annotations match triples of the data.
        (
            "SELECT * { << ?s :knows ?o >> :since ?y FILTER(?y < 2000) }",
            &["o=<c> s=<c> y=\"1999\"^^<http://www.w3.org/2001/XMLSchema#integer> "],
        ),
        (
            "SELECT ?o { ?s :knows ?o {| :since ?y |} FILTER(?y < 2010) }",
            &["o=<b> "],
        ),
        (
            "SELECT * { ?r :by <<( ?who ?said <<( ?s ?p ?o )>> )>> . ?q rdf:reifies <<( ?s ?p ?o )>> }",
            &["o=<b> p=<knows> q=<r1> r=<r2> s=<a> said=<says> who=<d> "],
        ),
        // A constant term is found by its number.
        (
            "SELECT * { ?r rdf:reifies <<( :a :knows :b )>> }",
            &["r=<r1> "],
        ),
        ("SELECT * { ?r rdf:reifies <<( :a :knows :none )>> }", &[]),
        (
            "SELECT * { GRAPH ?g { ?x :q <<( ?x ?p ?o )>> } }",
            &["g=<g> o=<b> p=<knows> x=<a> "],
        ),
        (
            "SELECT ?x { ?x (:q|:by)/:none* <<( :d ?p ?o )>> }",
            &["x=<r2> "],
        ),
        (
            "SELECT ?o { :a :knows ?o FILTER NOT EXISTS { ?r rdf:reifies <<( :a :knows ?o )>> ; :by ?x } }",
            &["o=<b> "],
        ),
        (
            "SELECT ?r { VALUES ?t { <<( :a :knows :c )>> } ?r rdf:reifies ?t }",
            &["r=<r2> "],
        ),
        (
            "SELECT ?o { :a :knows ?o BIND(<<( :a :knows ?o )>> AS ?t) :r1 rdf:reifies ?t }",
            &["o=<b> "],
        ),
        ("SELECT ?s { ?s :label \"x\"@ar--rtl }", &["s=<e> "]),
    ] {
        assert_eq!(solutions(&data, pattern), expected, "{pattern}");
    }
}

#[test]
fn functions_of_triple_terms_and_directions() {
    let data = data();
    let value = |expression: &str| {
        let row = solutions(&data, &format!("SELECT ({expression} AS ?x) {{}}")).remove(0);
        row.strip_prefix("x=").map(|v| v.trim_end().to_owned())
    };
    for (expression, expected) in [
        (
            "TRIPLE(:a, :p, 01)",
            Some("<<( <a> <p> \"01\"^^<http://www.w3.org/2001/XMLSchema#integer> )>>"),
        ),
        ("TRIPLE(1, :p, :o)", None),
        ("TRIPLE(:a, 'p', :o)", None),
        ("TRIPLE(:a, :p, 1/0)", None),
        ("TRIPLE(TRIPLE(:a, :p, :b), :p, :o)", None),
        (
            "OBJECT(TRIPLE(:a, :p, TRIPLE(:a, :q, :b)))",
            Some("<<( <a> <q> <b> )>>"),
        ),
        ("SUBJECT(<<( :a :p :b )>>)", Some("<a>")),
        ("PREDICATE(<<( :a :p :b )>>)", Some("<p>")),
        ("OBJECT(:a)", None),
        ("STR(<<( :a :p :b )>>)", None),
        ("STR(LANG(\"x\"@ar--rtl))", Some("\"ar\"")),
        ("LANGDIR(\"x\"@ar--rtl)", Some("\"rtl\"")),
        ("LANGDIR(\"x\"@ar)", Some("\"\"")),
        ("LANGDIR(:a)", None),
        ("STRLANGDIR('x', 'ar', 'ltr')", Some("\"x\"@ar--ltr")),
        ("STRLANGDIR('x', 'ar', 'up')", None),
        ("UCASE(\"x\"@ar--rtl)", Some("\"X\"@ar--rtl")),
        ("REPLACE(\"xy\"@ar--rtl, 'x', 'z')", Some("\"zy\"@ar--rtl")),
        ("CONTAINS(\"x\"@ar--rtl, \"x\"@ar--ltr)", None),
    ] {
        assert_eq!(value(expression).as_deref(), expected, "{expression}");
    }
    for (expression, expected) in [
        ("ISTRIPLE(<<( :a :p :b )>>)", Some(true)),
        ("ISTRIPLE(:a)", Some(false)),
        ("ISLITERAL(<<( :a :p :b )>>)", Some(false)),
        ("ISIRI(<<( :a :p :b )>>)", Some(false)),
        ("HASLANG(\"x\"@ar--rtl)", Some(true)),
        ("HASLANGDIR(\"x\"@ar)", Some(false)),
        // Parts are compared by value, terms as they are.
        ("<<( :a :p 1 )>> = <<( :a :p 1.0 )>>", Some(true)),
        ("sameTerm(<<( :a :p 1 )>>, <<( :a :p 1.0 )>>)", Some(false)),
        ("<<( :a :p 1 )>> != <<( :a :q 1 )>>", Some(true)),
        ("<<( :a :p \"x\"^^:t )>> = <<( :a :p \"y\"^^:t )>>", None),
        (
            "<<( :a :p \"x\"^^:t )>> = <<( :b :p \"y\"^^:t )>>",
            Some(false),
        ),
        ("<<( :a :p 1 )>> = 1", Some(false)),
        ("<<( :a :p 1 )>> IN (2, <<( :a :p 1 )>>)", Some(true)),
        ("\"x\"@ar--rtl = \"x\"@ar", Some(false)),
    ] {
        let expected =
            expected.map(|b| format!("\"{b}\"^^<http://www.w3.org/2001/XMLSchema#boolean>"));
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn triple_terms_are_ordered_by_their_parts_after_all_others() {
    let data = load(&format!(
        "{PREFIXES} :s :p <<( :a :p 10 )>>, <<( :a :p 9 )>>, <<( :a :o 11 )>>, \"z\", _:b, <<( _:b :z 1 )>>, \"x\"@ar--rtl, :i ."
    ));
    let ordered = |direction: &str| {
        let text = format!("{PREFIXES} SELECT ?o {{ :s :p ?o }} ORDER BY {direction}(?o)");
        let options = options();
        let answer = query(&data, &text, None, None, false, &options).unwrap();
        let mut out = Vec::new();
        answer.write(Format::Tsv, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap().replace("http://e/", "");
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let ascending = ordered("ASC");
    assert!(
        ascending[0].starts_with("_:") && ascending[4].starts_with("<<( _:"),
        "{ascending:?}"
    );
    let integer = |n: u32| format!("\"{n}\"^^<http://www.w3.org/2001/XMLSchema#integer> )>>");
    assert_eq!(ascending[1..4], ["<i>", "\"z\"", "\"x\"@ar--rtl"]);
    let triples = [
        format!("<<( <a> <o> {}", integer(11)),
        format!("<<( <a> <p> {}", integer(9)),
        format!("<<( <a> <p> {}", integer(10)),
    ];
    assert_eq!(ascending[5..], triples);
    let mut descending = ordered("DESC");
    descending.reverse();
    assert_eq!(descending, ascending);
}

#[test]
fn results_and_documents_come_back() {
    let data = data();
    let text = format!("{PREFIXES} SELECT * {{ ?s ?p ?o }} ORDER BY ?s ?p ?o");
    let options = options();
    let answer = query(&data, &text, None, None, false, &options).unwrap();
    let written = |format: Format| {
        let mut out = Vec::new();
        answer.write(format, &mut out).unwrap();
        out
    };
    let rows =
        |content_type: &str, bytes: &[u8]| match read_results(content_type, bytes, usize::MAX)
            .unwrap()
        {
            Results::Solutions(solutions) => solutions.rows,
            Results::Truth(_) => panic!("a SELECT has solutions"),
        };
    let json = rows("application/sparql-results+json", &written(Format::Json));
    assert_eq!(
        json,
        rows("application/sparql-results+xml", &written(Format::Xml))
    );
    let triples = json
        .iter()
        .flatten()
        .flatten()
        .filter(|t| matches!(t, Term::Triple(_)));
    assert_eq!(triples.count(), 5);
    let csv = String::from_utf8(written(Format::Csv)).unwrap();
    let term = "\"<<( <http://e/d> <http://e/says> <<( <http://e/a> <http://e/knows> <http://e/b> )>> )>>\"";
    assert!(csv.contains(term), "{csv}");
    // Blank nodes are unlabelled here, so that the labels do not differ.
    let data = load(&format!(
        "{PREFIXES}{}",
        DATA.replace("_:n", ":n").replace("GRAPH :g", "")
    ));
    let expected = quads(&data);
    for format in [
        RdfFormat::NQuads,
        RdfFormat::TriG,
        RdfFormat::Turtle,
        RdfFormat::RdfXml,
    ] {
        let mut out = Vec::new();
        dump(&data, None, format, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(quads(&read(&text, format).unwrap()), expected, "{text}");
    }
}

#[test]
fn results_with_wrong_triples_are_refused() {
    let json = |term: &str| {
        format!("{{\"head\":{{\"vars\":[\"x\"]}},\"results\":{{\"bindings\":[{{\"x\":{term}}}]}}}}")
    };
    let iri = "{\"type\":\"uri\",\"value\":\"http://e/a\"}";
    let triple = |s: &str, o: &str| {
        format!(
            "{{\"type\":\"triple\",\"value\":{{\"subject\":{s},\"predicate\":{iri},\"object\":{o}}}}}"
        )
    };
    let deep = |n: usize| (0..n).fold(iri.to_owned(), |o, _| triple(iri, &o));
    let read = |term: &str| {
        read_results("application/sparql-results+json", json(term).as_bytes(), 9).map(drop)
    };
    assert_eq!(read(&deep(64)), Ok(()));
    assert!(
        read(&deep(65))
            .unwrap_err()
            .contains("more than 64 triple terms")
    );
    let literal = "{\"type\":\"literal\",\"value\":\"x\",\"xml:lang\":\"ar\",\"its:dir\":\"up\"}";
    assert!(read(literal).unwrap_err().contains("neither ltr nor rtl"));
    assert!(
        read(&triple(&literal.replace("up", "rtl"), iri))
            .unwrap_err()
            .contains("is not a triple")
    );
    assert!(
        read("{\"type\":\"triple\",\"value\":{}}")
            .unwrap_err()
            .contains("has no subject")
    );
    assert!(read("{\"type\":\"triple\",\"value\":\"x\"}").is_err());
    assert!(read("{\"type\":\"uri\",\"value\":{}}").is_err());
    let xml = |term: &str| {
        format!(
            "<sparql><head><variable name=\"x\"/></head><results><result><binding name=\"x\">{term}</binding></result></results></sparql>"
        )
    };
    for wrong in [
        "<triple></triple>",
        "<triple><subject><uri>a:b</uri></subject></triple>",
        "<triple><subject><literal>x</literal></subject><predicate><uri>a:b</uri></predicate><object><uri>a:b</uri></object></triple>",
        "<subject><uri>a:b</uri></subject>",
    ] {
        let read = read_results("application/sparql-results+xml", xml(wrong).as_bytes(), 9);
        assert!(read.is_err(), "{wrong}");
    }
}

#[test]
fn updates_add_and_remove_triple_terms() {
    let mut data = data();
    for (text, added, removed) in [
        (
            "INSERT DATA { :x :p <<( _:b :q 1 )>> , _:b , <<( :x :q \"y\"@ar--ltr )>> }",
            3,
            0,
        ),
        ("DELETE DATA { :x :p <<( :x :q \"y\"@ar--ltr )>> }", 0, 1),
        ("DELETE DATA { :x :p <<( :x :q \"y\" )>> }", 0, 0),
        (
            "INSERT { ?s :copy <<( ?s :is <<( ?s :knows ?o )>> )>> } WHERE { ?s :knows ?o }",
            2,
            0,
        ),
        // No triple has a literal as its subject or an unbound part.
        (
            "INSERT { ?s :no <<( ?y :is ?s )>> , <<( ?s :is ?none )>> } WHERE { ?s :since ?y }",
            0,
            0,
        ),
        (
            "INSERT { ?s :new <<( _:n :of ?s )>> ; :blank _:n } WHERE { ?s :knows ?o }",
            4,
            0,
        ),
        (
            "DELETE { ?s :copy <<( ?s :is ?t )>> } WHERE { ?s :copy <<( ?s :is ?t )>> }",
            0,
            2,
        ),
        ("DELETE WHERE { ?r rdf:reifies <<( ?s ?p ?o )>> }", 0, 3),
    ] {
        let text = format!("{PREFIXES}{text}");
        let mut fetch = |_: &Load<'_>| Err("nothing is there".into());
        let done = update(&data, &text, None, None, &mut fetch, &options()).unwrap();
        assert_eq!((done.added, done.removed), (added, removed), "{text}");
        // The record of the update does the same elsewhere.
        let mut replayed = data.clone();
        log::replay(&mut replayed, &log::encode(&done.data, &done.changes)).unwrap();
        assert_eq!(quads(&replayed), quads(&done.data), "{text}");
        data = done.data;
    }
    let shared = "SELECT * { :x :p <<( ?b :q 1 )>> , ?b }";
    assert_eq!(solutions(&data, shared).len(), 1);
    let shared = "SELECT * { ?s :new <<( ?n :of ?s )>> ; :blank ?n }";
    assert_eq!(solutions(&data, shared).len(), 2);
}

#[test]
fn construct_makes_triple_terms() {
    let data = data();
    let text = format!(
        "{PREFIXES} CONSTRUCT {{ ?s :saw <<( ?s :knows ?o )>> ~ ?r {{| :n _:n |}} }} WHERE {{ ?r rdf:reifies <<( ?s :knows ?o )>> }}"
    );
    let options = options();
    let answer: Answer<'_> = query(&data, &text, None, None, false, &options).unwrap();
    let mut out = Vec::new();
    answer.write_graph(RdfFormat::NTriples, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.lines().count(), 9, "{text}");
    let nested = "<http://e/r3> <http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies> <<( <http://e/c> <http://e/saw> <<( <http://e/c> <http://e/knows> <http://e/c> )>> )>> .";
    assert!(text.contains(nested), "{text}");
}

/// Terms are followed recursively, so that their nesting has a limit, with an error that says so.
#[test]
fn nesting_has_a_limit_everywhere() {
    let turtle = |n: usize| {
        let (begin, end) = ("<<( <a:s> <a:p> ".repeat(n), " )>>".repeat(n));
        format!("<a:s> <a:p> {begin}<a:o>{end} .")
    };
    let formats = [
        RdfFormat::NTriples,
        RdfFormat::NQuads,
        RdfFormat::Turtle,
        RdfFormat::TriG,
    ];
    for format in formats {
        assert_eq!(read(&turtle(64), format).unwrap().len(), 1);
        for n in [65, 100_000] {
            let error = read(&turtle(n), format).unwrap_err().to_string();
            assert!(error.contains("more than 64 triple terms"), "{error}");
        }
    }
    let xml = |n: usize| {
        let begin = "<a:p rdf:parseType=\"Triple\"><rdf:Description rdf:about=\"a:s\">".repeat(n);
        let end = "</rdf:Description></a:p>".repeat(n);
        format!(
            "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\" xmlns:a=\"http://e/\" rdf:version=\"1.2\"><rdf:Description rdf:about=\"a:s\">{begin}<a:p/>{end}</rdf:Description></rdf:RDF>"
        )
    };
    assert_eq!(read(&xml(64), RdfFormat::RdfXml).unwrap().len(), 1);
    let error = read(&xml(65), RdfFormat::RdfXml).unwrap_err().to_string();
    assert!(error.contains("more than 64 triple terms"), "{error}");

    let data = read(&turtle(64), RdfFormat::Turtle).unwrap();
    let wrapped = "SELECT (TRIPLE(<a:x>, <a:p>, ?o) AS ?t) { ?s ?p ?o }";
    let ask = |text: &str| query(&data, text, None, None, false, &options()).map(|a| a.len());
    assert!(matches!(ask(wrapped), Err(Error::Nested(64))));
    let grow = "INSERT { <a:x> <a:p> <<( ?s ?p ?o )>> } WHERE { ?s ?p ?o }";
    let mut fetch = |_: &Load<'_>| Err("nothing is there".into());
    let grown = update(&data, grow, None, None, &mut fetch, &options());
    assert!(matches!(grown, Err(Error::Nested(64))));
    for n in [65, 100, 5000] {
        let data = format!("INSERT DATA {{ {} }}", turtle(n).trim_end_matches(" ."));
        let error = update(
            &Dataset::default(),
            &data,
            None,
            None,
            &mut fetch,
            &options(),
        );
        let error = error.unwrap_err().to_string();
        let expected = if n <= 100 { "triple terms" } else { "brackets" };
        assert!(error.contains(expected), "{error}");
    }
}
