//! Queries that are too large, too deep, or cancelled.

use crate::{load, options};
use esker_rdf::{Dataset, Error, Found, Solutions, query};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

fn numbers(n: usize) -> String {
    let mut text = String::new();
    for i in 0..n {
        let _ = write!(text, "<http://e/n{i}> <http://e/p> {i} . ");
    }
    text
}

/// A product of three times a thousand solutions: a billion.
const PRODUCT: &str = "SELECT * { ?a <http://e/p> ?x . ?b <http://e/p> ?y . ?c <http://e/p> ?z }";

#[test]
fn a_product_ends_at_the_limit_of_memory() {
    let data = load(&numbers(1000));
    let mut options = options();
    options.memory = 16 << 20;
    let outcome = query(&data, PRODUCT, None, None, false, &options);
    assert!(
        matches!(outcome, Err(Error::Memory { .. })),
        "{:?}",
        outcome.map(|a| a.len())
    );
}

#[test]
fn a_query_stops_when_it_is_told_to() {
    let data = load(&numbers(1000));
    let asked = AtomicUsize::new(0);
    let stop = || (asked.fetch_add(1, Ordering::Relaxed) > 20).then_some("time-out");
    let mut options = options();
    options.stop = &stop;
    for text in [
        "SELECT * { ?a <http://e/p> ?x . ?b <http://e/p> ?y FILTER(?x + ?y = 7) }",
        "SELECT (SUM(?x) AS ?s) { ?a <http://e/p> ?x . ?b <http://e/p> ?y } GROUP BY ?y",
        "SELECT * { ?a (<http://e/p>|^<http://e/p>)* ?b . ?c (<http://e/p>|^<http://e/p>)* ?d }",
    ] {
        asked.store(0, Ordering::Relaxed);
        let outcome = query(&data, text, None, None, false, &options);
        assert!(matches!(outcome, Err(Error::Stopped("time-out"))), "{text}");
    }
}

#[test]
fn solutions_that_nobody_sees_are_only_counted() {
    let data = load(&numbers(1000));
    let mut options = options();
    options.memory = 1 << 20;
    let asked = AtomicUsize::new(0);
    let stop = || {
        asked.fetch_add(1, Ordering::Relaxed);
        None
    };
    options.stop = &stop;
    let ask = |text: &str, threads: usize| {
        let mut options = options.clone();
        (options.threads, options.parallel_rows) = (threads, 100);
        let answer = query(&data, text, None, None, false, &options)
            .unwrap_or_else(|e| panic!("{text}: {e}"));
        let Found::Solutions(_, table) = &answer.found else {
            panic!("no solutions")
        };
        let id = |c: &Vec<u32>| c.first().copied();
        let terms = table.columns().iter().filter_map(id);
        let terms: Vec<String> = terms
            .map(|id| answer.term(id).unwrap().to_string())
            .collect();
        (table.len(), terms.join(" "))
    };
    let xsd = "^^<http://www.w3.org/2001/XMLSchema#integer>";
    for threads in [1, 3] {
        for (pattern, count) in [
            ("?a ?b ?c . ?d ?e ?f", "1000000"),
            (
                "?a <http://e/p> ?x . ?b <http://e/p> ?y . ?c <http://e/p> ?z",
                "1000000000",
            ),
            (
                "?a <http://e/p> ?x . ?b <http://e/p> ?y FILTER(?x < 10) FILTER(?y < 3)",
                "30",
            ),
            (
                "?a <http://e/p> 7 . ?b <http://e/p> ?y . ?c ?p ?z",
                "1000000",
            ),
            ("{ ?a ?b ?c } UNION { ?d ?e ?f . ?g ?h ?i }", "1001000"),
            (
                "{ SELECT ?a ?y { ?a ?b ?c . ?x ?y ?z } ORDER BY ?a } BIND(1 AS ?n)",
                "1000000",
            ),
            (
                "?a <http://e/p> ?x . ?b <http://e/p> ?y FILTER(?a = <http://e/n1>)",
                "1000",
            ),
            ("?a <http://e/none> ?x . ?b <http://e/p> ?y", "0"),
        ] {
            let both = format!("SELECT (COUNT(*) AS ?n) {{ {pattern} }}");
            assert_eq!(
                ask(&both, threads),
                (1, format!("\"{count}\"{xsd}")),
                "{pattern}"
            );
        }
        let of =
            "SELECT (COUNT(?y) AS ?n) (COUNT(*) AS ?m) { ?a <http://e/p> ?x . ?b <http://e/p> ?y }";
        let million = format!("\"1000000\"{xsd}");
        assert_eq!(ask(of, threads), (1, format!("{million} {million}")));
    }
    // A product ends as soon as there are enough rows.
    asked.store(0, Ordering::Relaxed);
    for (text, rows) in [
        (PRODUCT.to_owned() + " LIMIT 5", 5),
        (PRODUCT.to_owned() + " LIMIT 5000", 5_000),
        (PRODUCT.to_owned() + " OFFSET 3 LIMIT 2", 2),
        (
            "SELECT ?a { { ?a ?b ?c } { ?d ?e ?f } } LIMIT 7".to_owned(),
            7,
        ),
    ] {
        assert_eq!(ask(&text, 1).0, rows, "{text}");
    }
    let ask_it = PRODUCT.replace("SELECT *", "ASK");
    let answer = query(&data, &ask_it, None, None, false, &options).unwrap();
    assert!(matches!(answer.found, Found::Boolean(true)));
    let looked = asked.load(Ordering::Relaxed);
    assert!(looked < 300, "{looked}");
    // A count above the range is an error, not a wrong number.
    let times = ["?a{n} ?b{n} ?c{n}"; 8].join(" . ");
    let mut many = String::new();
    for (n, part) in times.split("{n}").enumerate() {
        let _ = write!(
            many,
            "{part}{}",
            if part.is_empty() {
                String::new()
            } else {
                (n / 3).to_string()
            }
        );
    }
    let text = format!("SELECT (COUNT(*) AS ?n) {{ {many} }}");
    let e = query(&data, &text, None, None, false, &options).unwrap_err();
    assert!(matches!(e, Error::Unsupported(_)), "{e}");
}

#[test]
fn explaining_runs_nothing() {
    let data = load(&numbers(1000));
    let mut options = options();
    let nobody = |_: &str, _: &str| -> Result<Solutions, String> { panic!("somebody asked") };
    options.remote = Some(&nobody);
    options.explain_only = true;
    let explain = |text: &str| {
        let answer = query(&data, text, None, None, false, &options).unwrap();
        assert!(answer.len() <= 1, "{text}");
        answer.plan().unwrap().lines().join("\n")
    };
    let plan = explain(PRODUCT);
    assert!(plan.contains("join  (~1000000000 rows)"), "{plan}");
    assert!(plan.contains("pattern  (~1000 rows)"), "{plan}");
    let plan = explain(
        "SELECT ?x (COUNT(*) AS ?n) { VALUES ?a { <http://e/n1> <http://e/n2> } ?a <http://e/p> ?x \
         OPTIONAL { ?x <http://e/q> ?y } MINUS { ?a <http://e/r> 1 } { ?a <http://e/p> 1 } UNION { ?a <http://e/p> 2 } \
         SERVICE <http://one/> { ?a <http://e/age> ?age } GRAPH ?g { ?a ?p ?o } ?a <http://e/p>+ ?z \
         FILTER EXISTS { ?a ?q ?r } } GROUP BY ?x ORDER BY ?n LIMIT 3",
    );
    for part in [
        "values  (~2 rows)",
        "optional",
        "minus",
        "union",
        "service <http://one/>",
        "graph ?g",
        "path from ?a",
        "group by ?x",
        "slice",
        "filter",
    ] {
        assert!(plan.contains(part), "{part} in\n{plan}");
    }
    for text in [
        "ASK { ?a ?b ?c }",
        "CONSTRUCT WHERE { ?a ?b ?c }",
        "DESCRIBE <http://e/n1>",
    ] {
        explain(text);
    }
}

#[test]
fn a_limit_ends_a_scan_early() {
    let data = load(&numbers(50_000));
    let asked = AtomicUsize::new(0);
    let stop = || {
        asked.fetch_add(1, Ordering::Relaxed);
        None
    };
    let mut options = options();
    options.stop = &stop;
    let text = "SELECT * { ?a <http://e/p> ?x . ?a <http://e/p> ?y } LIMIT 3";
    let answer = query(&data, text, None, None, false, &options).unwrap();
    assert_eq!(answer.len(), 3);
    drop(answer);
    let few = asked.swap(0, Ordering::Relaxed);
    let whole = text.trim_end_matches(" LIMIT 3");
    assert_eq!(
        query(&data, whole, None, None, false, &options)
            .unwrap()
            .len(),
        50_000
    );
    assert!(few * 4 < asked.load(Ordering::Relaxed), "{few}");
}

#[test]
fn many_unions_and_conditions_are_answered() {
    let data = load(&numbers(10));
    let run = || {
        let options = options();
        let count = |text: &str| {
            query(&data, text, None, None, false, &options)
                .unwrap()
                .len()
        };
        let unions = vec!["{ ?a <http://e/p> 1 }"; 10_000].join(" UNION ");
        assert_eq!(count(&format!("SELECT * {{ {unions} }}")), 10_000);
        let all = vec!["?x != 3"; 5_000].join(" && ");
        assert_eq!(
            count(&format!("SELECT * {{ ?a <http://e/p> ?x FILTER({all}) }}")),
            9
        );
        let any = vec!["?x = 3"; 5_000].join(" || ");
        assert_eq!(
            count(&format!("SELECT * {{ ?a <http://e/p> ?x FILTER({any}) }}")),
            1
        );
    };
    on_a_large_stack(run);
}

/// Servers run queries on a large stack: the parser is recursive for brackets, and chains are as deep as they are long.
fn on_a_large_stack(run: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(256 << 20);
        thread.spawn_scoped(scope, run).unwrap().join().unwrap();
    });
}

#[test]
fn what_is_too_deep_is_an_error() {
    let data = load("");
    let options = options();
    let n = 100_000;
    for text in [
        format!("SELECT * {{ {} {} }}", "{".repeat(300), "}".repeat(300)),
        // The closing brackets are in comments and strings.
        format!(
            "ASK {{ FILTER({}1{}) }}",
            "( # )\n".repeat(n),
            ")".repeat(n)
        ),
        format!(
            "ASK {{ FILTER({}1{}) }}",
            "(')' = ".repeat(n),
            ")".repeat(n)
        ),
        format!(
            "ASK {{ FILTER({}1{}) }}",
            "\\u0028".repeat(n),
            ")".repeat(n)
        ),
        // The parser reads negated expressions twice.
        format!(
            "ASK {{ FILTER({}true{}) }}",
            "!(".repeat(40),
            ")".repeat(40)
        ),
        format!("ASK {{ FILTER({}true) }}", "! ".repeat(n)),
    ] {
        assert!(
            matches!(
                query(&data, &text, None, None, false, &options),
                Err(Error::Syntax(_))
            ),
            "{}",
            &text[..60]
        );
    }
}

#[test]
fn a_group_has_so_many_patterns() {
    on_a_large_stack(long_groups);
}

fn long_groups() {
    let data = load(&numbers(10));
    let options = options();
    let path = |n: usize| format!("SELECT * {{ ?a {} ?b }}", vec!["<http://e/p>"; n].join("/"));
    assert_eq!(
        query(&data, &path(500), None, None, false, &options)
            .unwrap()
            .len(),
        0
    );
    for text in [
        path(5000),
        format!("SELECT * {{ ?a <http://e/p> ({}) }}", "1 ".repeat(5000)),
    ] {
        assert!(matches!(
            query(&data, &text, None, None, false, &options),
            Err(Error::Unsupported(_))
        ));
    }
    // Duplicate patterns are evaluated once.
    let text = format!("SELECT * {{ {} }}", "?a ?p ?b . ".repeat(4000));
    assert_eq!(
        query(&data, &text, None, None, false, &options)
            .unwrap()
            .len(),
        10
    );
}

#[test]
fn the_longest_chains_end_nothing() {
    on_a_large_stack(|| {
        let data = load(&numbers(10));
        let options = options();
        // Operators of two characters count twice.
        let n = 9_990;
        for text in [
            format!("SELECT * {{ ?a {} ?b }}", vec!["<p:p>"; 2 * n].join("/")),
            format!("SELECT * {{ ?a {} ?b }}", vec!["<p:p>"; 2 * n].join("|")),
            format!("SELECT ({}1 AS ?x) {{}}", "1+".repeat(2 * n)),
            format!("SELECT ({}1 AS ?x) {{}}", "1||".repeat(n)),
            format!("SELECT * {{ {} }}", "{} ".repeat(2 * n)),
            format!("SELECT * {{ {} }}", "OPTIONAL {} ".repeat(2 * n)),
            format!("SELECT * {{ {} }}", vec!["{}"; 2 * n].join("UNION")),
            format!("SELECT * {{ {} }}", "FILTER(1) ".repeat(2 * n)),
            format!("SELECT {} {{}}", "(1 AS ?x)".repeat(2 * n)),
            (0..n).fold("SELECT * {".to_owned(), |mut text, i| {
                let _ = write!(text, " BIND(1 AS ?x{i})");
                text
            }) + "}",
        ] {
            // Some are refused as too deep, some are answered; none ends the process.
            drop(query(&data, &text, None, None, false, &options));
        }
    });
}

/// Returns a query that doubles a text `times` times by a function.
fn doubled(times: usize, double: impl Fn(&str) -> String) -> String {
    let mut text = "SELECT (STRLEN(?x0) AS ?n) { BIND(\"aaaaaaaaaa\" AS ?x0)".to_owned();
    for i in 1..=times {
        let _ = write!(text, " BIND({} AS ?x{i})", double(&format!("?x{}", i - 1)));
    }
    text.replace("STRLEN(?x0)", &format!("STRLEN(?x{times})")) + " }"
}

/// A million matches, and for each a text of 32,768 references to a group that matched nothing: the result is empty, so that no limit of
/// strings ended the query, and nothing stopped it.
#[test]
fn replacements_that_make_nothing_stop_when_they_are_told_to() {
    let mut text =
        "SELECT (REPLACE(?s20, \"a(b)?\", ?t15) AS ?x) { BIND(\"a\" AS ?s0) BIND(\"$1\" AS ?t0)"
            .to_owned();
    for (name, times) in [("s", 20), ("t", 15)] {
        for i in 0..times {
            let _ = write!(
                text,
                " BIND(CONCAT(?{name}{i}, ?{name}{i}) AS ?{name}{})",
                i + 1
            );
        }
    }
    let asked = AtomicUsize::new(0);
    let stop = || (asked.fetch_add(1, Ordering::Relaxed) > 200).then_some("time-out");
    let mut options = options();
    options.stop = &stop;
    let data = Dataset::default();
    let outcome = query(&data, &format!("{text} }}"), None, None, false, &options);
    assert!(matches!(outcome, Err(Error::Stopped("time-out"))));
}

/// Strings grow by functions, aggregates and replacements. No query may exceed the memory limit with strings.
#[test]
fn strings_end_at_their_limit() {
    let data = load(&numbers(100));
    for memory in [4usize << 30, 16 << 20] {
        let mut options = options();
        options.memory = memory;
        let fails = |text: &str| {
            let outcome = query(&data, text, None, None, false, &options);
            let e = outcome.map(|a| a.len()).unwrap_err();
            assert!(
                matches!(e, Error::LongString { .. } | Error::MemoryOfStrings { .. }),
                "{}: {e}",
                &text[..text.len().min(200)]
            );
        };
        fails(&doubled(35, |x| format!("CONCAT({x}, {x})")));
        fails(&doubled(35, |x| format!("REPLACE({x}, \"a\", \"aa\")")));
        fails(&doubled(35, |x| {
            format!("REPLACE({x}, \"(.+)\", \"$1$1\")")
        }));
        fails(&doubled(35, |x| format!("STR(CONCAT({x}, LCASE({x})))")));
        fails(&doubled(35, |x| {
            format!("STRLANG(CONCAT(STR({x}), STR({x})), \"en\")")
        }));
        fails(&doubled(35, |x| {
            format!("STRDT(CONCAT(STR({x}), STR({x})), <http://e/t>)")
        }));
        fails(&doubled(35, |x| {
            format!("IRI(CONCAT(\"http://e/\", STR({x}), STR({x})))")
        }));
        // Each percent sign becomes three characters.
        let percent =
            doubled(20, |x| format!("CONCAT({x}, {x})")).replacen("aaaaaaaaaa", "%%%%%%%%%%", 1);
        fails(&(percent.trim_end_matches('}').to_owned() + " BIND(ENCODE_FOR_URI(?x20) AS ?y) }"));
        // A million copies of a text of some megabytes.
        let long = doubled(18, |x| format!("CONCAT({x}, {x})"));
        fails(
            &(long.trim_end_matches('}').to_owned() + " BIND(REPLACE(?x18, \"a\", ?x18) AS ?y) }"),
        );
        // A text with a hundred thousand references to the match.
        let names =
            doubled(15, |x| format!("CONCAT({x}, {x})")).replacen("aaaaaaaaaa", "$0$0$0$0$0", 1);
        let found = "b".repeat(200);
        fails(
            &(names.trim_end_matches('}').to_owned()
                + &format!(" BIND(REPLACE(\"{found}\", \"b+\", ?x15) AS ?y) }}")),
        );
        // Each of ten thousand rows adds ten kilobytes.
        let some = doubled(10, |x| format!("CONCAT({x}, {x})"));
        let some = some.replace("(STRLEN(?x10) AS ?n)", "(STRLEN(GROUP_CONCAT(?x10)) AS ?n)");
        fails(
            &(some.trim_end_matches('}').to_owned() + " ?a <http://e/p> ?b . ?c <http://e/p> ?d }"),
        );
    }
}

/// Strings that are individually short, in more rows than fit into memory.
#[test]
fn all_strings_together_end_at_the_limit_of_memory() {
    let data = load(&numbers(100));
    let mut options = options();
    options.memory = 32 << 20;
    let many = doubled(10, |x| format!("CONCAT({x}, {x})"));
    let text = many.trim_end_matches('}').to_owned()
        + " ?a <http://e/p> ?b BIND(CONCAT(?x10, STR(?a)) AS ?y) }";
    for threads in [1, 3] {
        (options.threads, options.parallel_rows) = (threads, 100);
        let product = text
            .replace(
                " ?a <http://e/p> ?b ",
                " ?a <http://e/p> ?b . ?c <http://e/p> ?d BIND(STR(?d) AS ?e) ",
            )
            .replace("STR(?a))", "STR(?a), ?e)");
        let outcome = query(&data, &product, None, None, false, &options);
        assert!(
            matches!(outcome, Err(Error::MemoryOfStrings { .. })),
            "{:?}",
            outcome.map(|a| a.len())
        );
        // A result that fits is answered.
        assert_eq!(
            query(&data, &text, None, None, false, &options)
                .unwrap()
                .len(),
            100
        );
        // Values that are only compared are not kept.
        let compared = text
            .replace("SELECT (STRLEN(?x10) AS ?n)", "SELECT ?a")
            .replace(
                "BIND(CONCAT(?x10, STR(?a)) AS ?y)",
                ". ?c <http://e/p> ?d FILTER(SAMETERM(CONCAT(?x9, STR(?a), STR(?d)), \"\"))",
            );
        assert_eq!(
            query(&data, &compared, None, None, false, &options)
                .unwrap()
                .len(),
            0
        );
    }
}

/// A path whose steps each can be taken in two ways: every way is an answer.
#[test]
fn the_ways_of_a_path_end_at_the_limit_of_memory() {
    let data = load("<http://e/a> <http://e/p> <http://e/a> .");
    let mut options = options();
    options.memory = 16 << 20;
    let step = vec!["(<http://e/p>|<http://e/p>|^<http://e/p>)"; 35].join("/");
    for text in [
        format!("SELECT * {{ ?a {step} ?b }}"),
        format!("SELECT * {{ ?a ({step})|<http://e/q> ?b }}"),
    ] {
        let outcome = query(&data, &text, None, None, false, &options);
        assert!(
            matches!(outcome, Err(Error::Memory { .. })),
            "{:?}",
            outcome.map(|a| a.len())
        );
    }
}

/// Regular expressions may be computed, a new one for each row, and be long.
#[test]
fn regular_expressions_have_a_length() {
    let data = load(&numbers(300));
    let options = options();
    let long = doubled(12, |x| format!("CONCAT({x}, {x})"));
    let text = long.trim_end_matches('}').to_owned() + " FILTER(REGEX(\"b\", ?x12)) }";
    let outcome = query(&data, &text, None, None, false, &options);
    assert!(
        matches!(outcome, Err(Error::LongPattern { .. })),
        "{:?}",
        outcome.map(|a| a.len())
    );
    let each = "SELECT ?x { ?a <http://e/p> ?x FILTER(REGEX(STR(?x), CONCAT(\"^(\", STR(?x), \"){1,9}$\"))) }";
    assert_eq!(
        query(&data, each, None, None, false, &options)
            .unwrap()
            .len(),
        300
    );
}

/// Tables in use at the same time are counted in total, and the host is notified of a query's memory.
#[test]
fn the_host_is_told_of_memory_and_may_refuse() {
    let data = load(&numbers(1000));
    let most = AtomicUsize::new(0);
    let told = |bytes: usize| {
        most.fetch_max(bytes, Ordering::Relaxed);
        bytes < 12 << 20
    };
    let mut options = options();
    options.on_growth = &told;
    let count = "SELECT ?a ?b { ?a <http://e/p> ?x . ?b <http://e/p> ?y }";
    assert_eq!(
        query(&data, count, None, None, false, &options)
            .unwrap()
            .len(),
        1_000_000
    );
    assert!(most.load(Ordering::Relaxed) >= 8_000_000);
    let more = "SELECT * { { ?a <http://e/p> ?x . ?b <http://e/p> ?y } UNION { ?c <http://e/p> ?x . ?d <http://e/p> ?y } }";
    let outcome = query(&data, more, None, None, false, &options);
    assert!(
        matches!(outcome, Err(Error::MemoryOfAll)),
        "{:?}",
        outcome.map(|a| a.len())
    );
}

const XSD: &str = "http://www.w3.org/2001/XMLSchema#";

#[test]
fn values_that_are_not_comparable_are_sorted_all_the_same() {
    let mut text = String::new();
    for i in 0..2000 {
        let zone = ["", "Z", "+14:00", "-14:00", "+05:00"][i * 7 % 5];
        let (day, hour, minute) = (1 + i % 3, i * 11 % 24, i * 13 % 60);
        let _ = write!(
            text,
            "<http://e/{i}> <http://e/t> \"2026-01-0{day}T{hour:02}:{minute:02}:00{zone}\"^^<{XSD}dateTime> , \"{hour:02}:{minute:02}:00{zone}\"^^<{XSD}time> , \
             \"2026-01-0{day}{zone}\"^^<{XSD}date> , \"P{}M{}D\"^^<{XSD}duration> , \"{i}\"^^<{XSD}gYear> . ",
            i % 3,
            i * 17 % 95
        );
    }
    let (data, options) = (load(&text), options());
    let all = query(
        &data,
        "SELECT ?x { ?s <http://e/t> ?x } ORDER BY ?x",
        None,
        None,
        false,
        &options,
    )
    .unwrap();
    assert_eq!(all.len(), 10_000);
    let text = "SELECT ?x { ?s <http://e/t> ?x FILTER(DATATYPE(?x) = <http://www.w3.org/2001/XMLSchema#dateTime>) } ORDER BY DESC(?x) LIMIT 1";
    let last = query(&data, text, None, None, false, &options).unwrap();
    let mut out = Vec::new();
    last.write(esker_rdf::Format::Csv, &mut out).unwrap();
    // The latest by UTC, where its midnight is fourteen hours later.
    assert!(String::from_utf8(out).unwrap().contains("-14:00"));
}
