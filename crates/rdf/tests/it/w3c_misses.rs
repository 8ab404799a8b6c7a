//! Tests of the W3C suites that are expected to fail, or are not run, with the reasons.

/// Tests that are expected to fail, by the end of their names, each with its reason.
const MISSES: &[(&str, &str)] = &[
    (
        "sparql12/grouping/select-variable-reuse",
        "the parser refuses the name of an aggregate in a later expression of the same SELECT",
    ),
    (
        "sparql12/syntax/nested-aggregate-functions",
        "the parser takes an aggregate within an aggregate",
    ),
    (
        "sparql12/syntax-triple-terms-negative/tripleterm-subject-03",
        "in an expression, the parser takes a triple term as the subject of another, as TRIPLE does; the value is an error",
    ),
    (
        "sparql12/syntax-triple-terms-negative/tripleterm-subject-06",
        "in an expression, the parser takes a literal as the subject of a triple term, as TRIPLE does; the value is an error",
    ),
];
/// Tests of inference that are expected to fail, with the missing feature.
const NOT_INFERRED: &[(&str, &[&str])] = &[
    (
        "that each class is below itself, and what else holds of everything",
        &["rdf01", "rdfs05", "rdfs11", "paper-sparqldl-Q1-rdfs"],
    ),
    ("rules of RIF", &["rif01", "rif03", "rif04", "rif06"]),
    (
        "more of OWL than rules over triples: class expressions in queries, things that exist without a name",
        &[
            "paper-sparqldl-Q1",
            "paper-sparqldl-Q2",
            "paper-sparqldl-Q3",
            "paper-sparqldl-Q4",
            "parent4",
            "parent5",
            "parent6",
            "parent7",
            "parent8",
            "parent9",
            "parent10",
            "simple1",
            "simple2",
            "simple3",
            "simple4",
            "simple5",
            "simple6",
            "simple7",
            "simple8",
            "sparqldl-02",
            "sparqldl-03",
            "sparqldl-10",
            "sparqldl-11",
            "sparqldl-12",
        ],
    ),
];
/// Folders whose tests need unsupported features, each with the reason.
pub(crate) const LEFT_OUT: &[(&str, &str)] = &[
    ("/service/", "SERVICE comes later"),
    ("service-description/", "is of the server"),
    ("/protocol/", "is of the server"),
    ("graph-store-protocol/", "is of the server"),
    ("http-rdf-update/", "is of the server"),
];

/// Returns whether a test is expected to fail.
pub(crate) fn is_miss(name: &str) -> bool {
    let test = name.split_once("/entailment/").map(|(_, test)| test);
    MISSES.iter().any(|(end, _)| name.ends_with(end))
        || NOT_INFERRED
            .iter()
            .any(|(_, list)| test.is_some_and(|t| list.contains(&t)))
}

/// Tests of JSON-LD that are expected to fail, each with its reason.
const JSON_LD: &[(&str, &[&str])] = &[
    (
        "contexts are not fetched: a load reads what it was given",
        &[
            "tc031", "tc034", "te126", "te127", "te128", "tso05", "tso06", "tso08", "tso09",
            "tso11",
        ],
    ),
    (
        "the parser resolves IRIs against a base whose own path has `.` or `..` as it stands",
        &["t0122", "t0123", "te062", "te091"],
    ),
    (
        "the parser uses the outer of two type-scoped contexts",
        &["tc013"],
    ),
    ("the parser refuses a base that is not an IRI", &["tli12"]),
    (
        "strings keep their direction, as RDF 1.2 allows; JSON-LD 1.1 drops it without an option",
        &["tdi02", "tdi04", "tdi05", "tdi06"],
    ),
];

/// Returns whether a test of JSON-LD is expected to fail.
pub(crate) fn is_json_ld_miss(name: &str) -> bool {
    JSON_LD.iter().any(|(_, list)| list.contains(&name))
}
