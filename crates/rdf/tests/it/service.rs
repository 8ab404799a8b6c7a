//! SERVICE: solutions of other endpoints, which are other datasets here.

use esker_rdf::{
    Dataset, DateTime, Error, Format, Found, Options, Remote, Solutions, Term, query,
    read_solutions, update_in_place,
};
use std::sync::Mutex;

fn data(text: &str) -> Dataset {
    let mut data = Dataset::default();
    let options = Options::new(DateTime::now(), 1);
    let text = format!("PREFIX : <http://e/> INSERT DATA {{ {text} }}");
    update_in_place(&mut data, &text, None, &mut |_| Err("no".into()), &options).unwrap();
    data
}

/// Returns the solutions of a query as sorted lines.
fn solutions_of(
    data: &Dataset,
    text: &str,
    remote: Option<&Remote<'_>>,
) -> Result<Vec<String>, Error> {
    let mut options = Options::new(DateTime::now(), 2);
    options.remote = remote;
    let text = format!("PREFIX : <http://e/> {text}");
    let answer = query(data, &text, None, None, false, &options)?;
    let mut out = Vec::new();
    answer.write(Format::Tsv, &mut out).unwrap();
    let mut lines: Vec<String> = String::from_utf8(out)
        .unwrap()
        .lines()
        .skip(1)
        .map(str::to_owned)
        .collect();
    lines.sort();
    Ok(lines)
}

/// Answers as an endpoint over a dataset, by JSON and back.
fn endpoint(data: &Dataset, text: &str) -> Result<Solutions, String> {
    let options = Options::new(DateTime::now(), 3);
    let answer = query(data, text, None, None, false, &options).map_err(|e| e.to_string())?;
    let mut out = Vec::new();
    answer.write(Format::Json, &mut out).unwrap();
    read_solutions("application/sparql-results+json", &*out, 1_000)
}

#[test]
fn solutions_of_two_endpoints_are_joined_with_ours() {
    let here = data(":a :name \"Ada\" . :b :name \"Bob\" . :c :name \"Cy\" . _:x :name \"X\"");
    let one = data(":a :age 36 . :b :age 7 . :z :age 9 . _:x :age 1");
    let two = data(":a :city :rome, :oslo . :c :city :bern");
    let remote = |name: &str, text: &str| match name {
        "http://one/" => endpoint(&one, text),
        "http://two/" => endpoint(&two, text),
        _ => Err("nobody is there".to_owned()),
    };
    let all = |text: &str| solutions_of(&here, text, Some(&remote)).unwrap();
    assert_eq!(
        all("SELECT ?n ?a { ?x :name ?n SERVICE <http://one/> { ?x :age ?a FILTER(?a > 8) } }"),
        ["\"Ada\"\t36"]
    );
    assert_eq!(
        all(
            "SELECT ?n ?c ?a { ?x :name ?n SERVICE <http://two/> { ?x :city ?c } OPTIONAL { SERVICE <http://one/> { ?x :age ?a } } }"
        ),
        [
            "\"Ada\"\t<http://e/oslo>\t36",
            "\"Ada\"\t<http://e/rome>\t36",
            "\"Cy\"\t<http://e/bern>\t"
        ]
    );
    // Variables that only the remote pattern has, and blank nodes of the endpoint.
    assert_eq!(
        all("SELECT ?a { SERVICE <http://one/> { ?who :age ?a } }").len(),
        4
    );
    assert_eq!(
        all("SELECT ?x { SERVICE <http://one/> { ?x :age 1 } FILTER(ISBLANK(?x)) }").len(),
        1
    );
    assert!(all("SELECT ?x { ?x :name \"X\" SERVICE <http://one/> { ?x :age 1 } }").is_empty());
    assert_eq!(
        all("SELECT ?n { ?x :name ?n MINUS { SERVICE <http://two/> { ?x :city ?c } } }"),
        ["\"Bob\"", "\"X\""]
    );
    // Modifiers in the text reach the endpoint.
    let heard = Mutex::new(Vec::new());
    let listening = |name: &str, text: &str| {
        heard.lock().unwrap().push(text.to_owned());
        remote(name, text)
    };
    let text = "SELECT ?a { SERVICE <http://one/> { SELECT ?a { ?x :age ?a } ORDER BY DESC(?a) LIMIT 1 } }";
    assert_eq!(solutions_of(&here, text, Some(&listening)).unwrap(), ["36"]);
    assert!(heard.lock().unwrap()[0].contains("LIMIT 1"));
}

#[test]
fn an_endpoint_that_fails_is_named_unless_it_may() {
    let here = data(":a :name \"Ada\"");
    let remote = |_: &str, _: &str| Err::<Solutions, _>("nobody is there".to_owned());
    let text = "SELECT ?n { ?x :name ?n SERVICE <http://one/> { ?x :age ?a } }";
    let e = solutions_of(&here, text, Some(&remote))
        .unwrap_err()
        .to_string();
    assert_eq!(e, "SERVICE <http://one/>: nobody is there");
    let e = solutions_of(&here, text, None).unwrap_err().to_string();
    assert!(e.contains("--allow-service"), "{e}");
    let silent = text.replace("SERVICE", "SERVICE SILENT");
    assert_eq!(
        solutions_of(&here, &silent, Some(&remote)).unwrap(),
        ["\"Ada\""]
    );
    assert_eq!(solutions_of(&here, &silent, None).unwrap(), ["\"Ada\""]);
    for (pattern, says) in [
        ("SERVICE ?s { ?x :age ?a }", "SERVICE ?s: nothing"),
        (
            "?x :name ?n SERVICE ?s { ?x :age ?a }",
            "SERVICE ?s: the variable has no value",
        ),
        ("?x :name ?s SERVICE ?s { ?x :age ?a }", "named by an IRI"),
    ] {
        let text = format!("SELECT * {{ {pattern} }}");
        let e = solutions_of(&here, &text, Some(&remote))
            .unwrap_err()
            .to_string();
        assert!(e.contains(says), "{e}");
        assert!(
            solutions_of(
                &here,
                &text.replace("SERVICE", "SERVICE SILENT"),
                Some(&remote)
            )
            .is_ok()
        );
    }
}

#[test]
fn endpoints_are_told_what_is_known() {
    let here = data(
        ":a :name \"Ada\" ; :at <http://one/> . :b :name \"Bob\" ; :at <http://two/> . _:c :name \"Cy\" ; :at <http://one/>",
    );
    let one = data(":a :age 36 . :b :age 7 . :z :age 9");
    let two = data(":b :age 8 . :a :age 1");
    let heard = Mutex::new(Vec::new());
    let remote = |name: &str, text: &str| {
        heard.lock().unwrap().push(format!("{name} {text}"));
        match name {
            "http://one/" => endpoint(&one, text),
            "http://two/" => endpoint(&two, text),
            _ => Err("nobody is there".to_owned()),
        }
    };
    let all = |text: &str| {
        let found = solutions_of(&here, text, Some(&remote)).unwrap();
        (found, std::mem::take(&mut *heard.lock().unwrap()))
    };
    let (found, heard_of) =
        all("SELECT ?n ?a { ?x :name ?n SERVICE <http://one/> { ?x :age ?a } }");
    assert_eq!(found, ["\"Ada\"\t36", "\"Bob\"\t7"]);
    assert_eq!(heard_of.len(), 1);
    assert!(
        heard_of[0].contains("VALUES") && heard_of[0].contains("<http://e/a>"),
        "{heard_of:?}"
    );
    assert!(!heard_of[0].contains("_:"), "{heard_of:?}");
    // Each endpoint gets only its own bindings.
    let (found, heard_of) = all("SELECT ?n ?a { ?x :name ?n ; :at ?s SERVICE ?s { ?x :age ?a } }");
    assert_eq!(found, ["\"Ada\"\t36", "\"Bob\"\t8"]);
    assert_eq!(heard_of.len(), 2);
    assert!(!heard_of[0].contains("<http://e/b>"), "{heard_of:?}");
    let (found, _) = all(
        "SELECT ?n ?a { ?x :name ?n ; :at ?s OPTIONAL { SERVICE ?s { ?x :age ?a } } FILTER(!BOUND(?a)) }",
    );
    assert_eq!(found, ["\"Cy\"\t"]);
    // An endpoint named by VALUES; equal requests are sent once.
    let (found, heard_of) =
        all("SELECT ?a { VALUES ?s { <http://one/> <http://two/> } SERVICE ?s { :a :age ?a } }");
    assert_eq!((found.len(), heard_of.len()), (2, 2));
    let (found, heard_of) = all(
        "SELECT ?n { ?x :name ?n FILTER EXISTS { SERVICE <http://one/> { ?x :age ?a FILTER(?a > 8) } } }",
    );
    assert_eq!((found.len(), heard_of.len()), (1, 1));
    // Too many bindings to send: the whole pattern is requested.
    let many: Vec<String> = (0..3_000).map(|n| format!(":m{n} :age {n}")).collect();
    let many = data(&many.join(" . "));
    let text = "SELECT ?n { ?n :age ?y SERVICE <http://one/> { ?n :age ?a } }";
    assert!(solutions_of(&many, text, Some(&remote)).unwrap().is_empty());
    let whole = std::mem::take(&mut *heard.lock().unwrap());
    assert_eq!(whole.len(), 1);
    assert!(!whole[0].contains("VALUES"));
    let text = "SELECT ?n { ?n :age ?y FILTER(?y < 450) SERVICE <http://one/> { ?n :age ?a } }";
    assert!(solutions_of(&many, text, Some(&remote)).unwrap().is_empty());
    let blocks = std::mem::take(&mut *heard.lock().unwrap());
    assert_eq!(blocks.len(), 3, "blocks of 200");
    // Too many endpoints.
    let text = "SELECT ?n { ?n :age ?y BIND(IRI(CONCAT(\"http://\", STR(?y))) AS ?s) SERVICE ?s { ?n :age ?a } }";
    let e = solutions_of(&many, text, Some(&remote))
        .unwrap_err()
        .to_string();
    assert!(e.contains("64 endpoints at most"), "{e}");
}

#[test]
fn answers_are_bounded_and_checked() {
    let solutions = |n: usize| {
        let row = "{\"x\":{\"type\":\"literal\",\"value\":\"1\"}}";
        let rows = vec![row; n].join(",");
        format!("{{\"head\":{{\"vars\":[\"x\"]}},\"results\":{{\"bindings\":[{rows}]}}}}")
    };
    let json = "application/sparql-results+json";
    let read = |kind: &str, text: &str| read_solutions(kind, text.as_bytes(), 10);
    assert_eq!(read(json, &solutions(10)).unwrap().rows.len(), 10);
    assert!(
        read(json, &solutions(11))
            .unwrap_err()
            .contains("more than 10 solutions")
    );
    assert!(
        read(json, "{\"head\":{},\"boolean\":true}")
            .unwrap_err()
            .contains("not with solutions")
    );
    assert!(
        read("text/html", "<html>")
            .unwrap_err()
            .contains("text/html")
    );
    assert!(read(json, "oops").is_err());
    let here = data(":a :name \"Ada\"");
    let remote = |_: &str, _: &str| {
        Ok(Solutions {
            names: vec!["x".into()],
            rows: vec![vec![Some(Term::from(oxrdf::Literal::from(1)))]; 1_000],
        })
    };
    let mut options = Options::new(DateTime::now(), 2);
    options.remote = Some(&remote);
    options.memory = 100;
    let text = "SELECT ?x { SERVICE <http://one/> { ?x ?p ?o } }";
    let refused = query(&here, text, None, None, false, &options);
    assert!(matches!(refused, Err(Error::Memory { .. })));
    options.memory = 1 << 20;
    let answer = query(&here, text, None, None, false, &options).unwrap();
    assert!(matches!(answer.found, Found::Solutions(..)));
}
