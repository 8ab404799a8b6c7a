//! Plans: what is explained is what runs. The executor has only the plan, and records in its operators what it does.

use crate::{load, options};
use esker_rdf::{Dataset, Found, Options, PlanNode, query_parsed, syntax};
use std::cell::Cell;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Explains a query and runs it, and compares the explained operators with those that ran. Returns the plan that ran.
pub(crate) fn explained_as_run(
    data: &Dataset,
    text: &str,
    base: Option<&str>,
    options: &Options<'_>,
) -> Result<PlanNode, String> {
    let mut options = options.clone();
    // Parsed once: the parser gives blank nodes and aggregates random names.
    let parsed = syntax::query(text, base).map_err(|e| e.to_string())?;
    let run = query_parsed(data, text, &parsed, None, true, &options).map_err(|e| e.to_string())?;
    let run_plan = run.plan().ok_or("a profile has no plan")?.clone();
    let rows = match &run.found {
        Found::Solutions(_, table) => Some(table.len() as u64),
        _ => None,
    };
    drop(run);
    options.explain_only = true;
    let explained =
        query_parsed(data, text, &parsed, None, false, &options).map_err(|e| e.to_string())?;
    let plan = explained.plan().ok_or("an explanation has no plan")?;
    let same = Cell::new(0);
    same_operators(plan, &run_plan, &same)?;
    let recorded = run_plan.run.map(|r| r.rows_out);
    if rows.is_some() && recorded != rows {
        return Err(format!("{rows:?} rows, recorded {recorded:?}"));
    }
    Ok(run_plan)
}

fn same_operators(plan: &PlanNode, run: &PlanNode, same: &Cell<usize>) -> Result<(), String> {
    let differ = |what: &str| {
        Err(format!(
            "{what}\nexplained:\n{}\nran:\n{}",
            plan.lines().join("\n"),
            run.lines().join("\n")
        ))
    };
    if (&plan.label, plan.adaptive) != (&run.label, run.adaptive) {
        return differ("operators differ");
    }
    let counts = run.run.unwrap_or_default();
    if counts.runs == 0 && (counts.rows_in > 0 || counts.rows_out > 0) {
        return differ("rows without a run");
    }
    if !run.chosen.is_empty() && counts.runs == 0 {
        return differ("a choice without a run");
    }
    same.set(same.get() + 1);
    if plan.label.starts_with("pattern") {
        // The order of steps is the executor's where it depends on rows or on the graph, else the plan's.
        let labels = |node: &PlanNode| -> Vec<String> {
            node.children.iter().map(|c| c.label.clone()).collect()
        };
        if plan.adaptive.is_none() && labels(plan) != labels(run) {
            return differ("steps differ");
        }
        return Ok(());
    }
    if plan.children.len() != run.children.len() {
        return differ("inputs differ");
    }
    for (a, b) in plan.children.iter().zip(&run.children) {
        same_operators(a, b, same)?;
        let idle = b.run.is_some_and(|r| r.runs == 0);
        if idle && counts.runs > 0 && run.chosen.is_empty() {
            return differ("an input did not run, and nothing says why");
        }
    }
    Ok(())
}

/// Triples of every kind that the queries below match.
fn data() -> Dataset {
    let mut text = String::new();
    for n in 0..300 {
        let _ = writeln!(
            text,
            "<http://e/n{n}> <http://e/p> {} ; <http://e/q> <http://e/n{}> ; a <http://e/T{}> .",
            n % 7,
            (n * 3) % 40,
            n % 3
        );
        if n % 5 == 0 {
            let _ = writeln!(
                text,
                "GRAPH <http://g/{}> {{ <http://e/n{n}> <http://e/p> {n} }}",
                n % 4
            );
        }
    }
    load(&text)
}

/// One query of each shape.
const QUERIES: [&str; 34] = [
    "SELECT * { ?a <http://e/p> ?x }",
    "SELECT * { ?a <http://e/p> ?x . ?b <http://e/p> ?y . ?c <http://e/q> ?z } LIMIT 4",
    "SELECT * { ?a <http://e/p> ?x . ?b <http://e/q> ?y } LIMIT 9",
    "SELECT DISTINCT ?x { ?a <http://e/p> ?x . ?a <http://e/q> ?b }",
    "SELECT * { VALUES ?a { <http://e/n1> <http://e/n2> } ?a <http://e/p> ?x ; <http://e/q> ?b }",
    "SELECT * { VALUES (?a ?b) { (<http://e/n1> UNDEF) } ?a <http://e/p> ?x . ?b <http://e/q> ?y }",
    "SELECT * { VALUES ?a { } ?a <http://e/p> ?x }",
    "SELECT * { { SELECT ?a { ?a <http://e/p> 1 } LIMIT 3 } ?a <http://e/q> ?b }",
    "SELECT * { ?a <http://e/p> 1 OPTIONAL { ?a <http://e/q> ?b } }",
    "SELECT * { ?a <http://e/p> 1 OPTIONAL { ?a <http://e/q> ?b FILTER(?b = <http://e/n3>) } }",
    "SELECT * { ?a a ?t OPTIONAL { ?a <http://e/q> ?b . ?b <http://e/p> ?x FILTER(?x > ?n) } }",
    "SELECT * { ?a <http://e/none> 1 OPTIONAL { ?a <http://e/q> ?b } }",
    "SELECT * { ?a <http://e/p> ?x OPTIONAL { ?a <http://e/none> ?b } FILTER(!BOUND(?b)) }",
    "SELECT * { ?a <http://e/p> ?x OPTIONAL { ?a <http://e/q>* ?b } FILTER(?x < 2) }",
    "SELECT * { ?a <http://e/p> ?x MINUS { ?a <http://e/q> <http://e/n3> } }",
    "SELECT * { ?a <http://e/p> ?x MINUS { ?z <http://e/q> <http://e/n3> } }",
    "SELECT * { ?a <http://e/none> ?x MINUS { ?a <http://e/q> <http://e/n3> } }",
    "SELECT * { { ?a <http://e/p> 1 } UNION { ?a <http://e/p> 2 } UNION { ?a <http://e/q> ?b } } LIMIT 5",
    "SELECT * { ?a a <http://e/T1> { ?a <http://e/p> ?x } UNION { ?a <http://e/q> ?x } }",
    "SELECT * { ?a a <http://e/T1> { ?a <http://e/none> ?x } UNION { ?b <http://e/q> ?x } ?a <http://e/q>+ ?z }",
    "SELECT * { ?a <http://e/q>+ ?b }",
    "SELECT * { ?a <http://e/p> 1 . ?a <http://e/q>+ ?b FILTER(?a != ?b) }",
    "SELECT * { GRAPH ?g { ?a <http://e/p> ?x } }",
    "SELECT * { GRAPH ?g { ?a <http://e/p> ?x OPTIONAL { ?a <http://e/q> ?b } } } LIMIT 3",
    "SELECT * { GRAPH <http://g/1> { ?a <http://e/p> ?x } GRAPH <http://g/none> { ?a ?p ?o } }",
    "SELECT * { ?a <http://e/p> ?x . ?b <http://e/q> ?y FILTER(?x = ?y) }",
    "SELECT * { ?a <http://e/p> ?x FILTER EXISTS { ?a <http://e/q> ?b } }",
    "SELECT * { ?a <http://e/p> ?x FILTER NOT EXISTS { ?a <http://e/q>+ <http://e/n3> } }",
    "SELECT * { ?a <http://e/p> ?x FILTER(?x = 3) FILTER(?a = <http://e/n3>) }",
    "SELECT ?x (COUNT(*) AS ?n) { ?a <http://e/p> ?x } GROUP BY ?x ORDER BY DESC(?n) LIMIT 2",
    "SELECT (COUNT(*) AS ?n) { ?a <http://e/p> ?x . ?b <http://e/q> ?y }",
    "SELECT (SUM(?x) AS ?n) { ?a <http://e/p> ?x BIND(?x + 1 AS ?y) }",
    "SELECT REDUCED ?x { ?a <http://e/p> ?x } OFFSET 2 LIMIT 4",
    "ASK { ?a <http://e/p> ?x . ?a <http://e/q> ?b }",
];

#[test]
fn the_explained_plan_is_the_one_that_runs() {
    let data = data();
    let mut threads = options();
    (threads.threads, threads.parallel_rows) = (3, 1);
    let mut naive = options();
    naive.optimise = false;
    for text in QUERIES {
        for options in [&options(), &threads, &naive] {
            if let Err(e) = explained_as_run(&data, text, None, options) {
                panic!("{text}\n{e}");
            }
        }
    }
}

#[test]
fn a_profile_counts_rows_and_time() {
    let data = data();
    let mut options = options();
    let time = AtomicU64::new(0);
    let clock = || time.fetch_add(1_000, Ordering::Relaxed);
    options.clock = Some(&clock);
    let text = "SELECT ?b { VALUES ?a { <http://e/n1> <http://e/n2> } ?a <http://e/q> ?b }";
    let plan = explained_as_run(&data, text, None, &options).unwrap();
    // One line for each operator, with the choice below it.
    let lines: Vec<String> = plan.lines().iter().map(|l| without_times(l)).collect();
    let expected = [
        "project ?b  (~2 rows)  [2 in, 2 out]",
        "  join  (~2 rows)  [4 in, 2 out]",
        "      adaptive: small tables first; filters as soon as their variables are bound",
        "    values  (~2 rows)  [2 out]",
        "    pattern  (~2 rows)  [2 in, 2 out]",
        "        adaptive: led by other rows if they are few; the order of the steps; chosen: led by 2 rows",
        "      bind ?b from ?a <http://e/q> ·  (~2 rows)  [2 in, 2 out]",
    ];
    assert_eq!(lines, expected, "{}", lines.join("\n"));
    let json: serde_json::Value = serde_json::from_str(&plan.json()).unwrap();
    assert_eq!(json["rows_out"], 2);
    assert_eq!(
        json["inputs"][0]["inputs"][1]["chosen"][0]["choice"],
        "led by 2 rows"
    );
    assert!(json["nanos"].as_u64().unwrap() > 0);
}

/// Removes the time at the end of a line.
fn without_times(line: &str) -> String {
    match line.rsplit_once(", ") {
        Some((before, time)) if time.ends_with(" ms]") => format!("{before}]"),
        _ => line.to_owned(),
    }
}

#[test]
fn a_pattern_for_each_graph_shows_its_orders() {
    let data = load(
        "GRAPH <http://g/1> { <http://e/a> <http://e/p> 1, 2, 3, 4, 5 ; <http://e/q> 1 } \
         GRAPH <http://g/2> { <http://e/a> <http://e/p> 1 . <http://e/b> <http://e/q> 1 . <http://e/c> <http://e/q> 1 }",
    );
    let text = "SELECT * { GRAPH ?g { ?s <http://e/p> ?x ; <http://e/q> ?y } }";
    let plan = explained_as_run(&data, text, None, &options()).unwrap();
    let lines = plan.lines().join("\n");
    assert!(lines.contains("graph ?g: each of 2 graphs"), "{lines}");
    assert!(lines.contains("2 runs"), "{lines}");
}
