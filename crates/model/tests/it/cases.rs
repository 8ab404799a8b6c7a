//! Golden cases of the chain syntax: `testdata/cases/traversal-syntax/*.case`. Each has an input, a line `----` and the
//! output for the user: the canonical form with a summary of the parsed traversal, or the error.
//!
//! `UPDATE_EXPECT=1 cargo test -p esker-model` rewrites the outputs; read the difference before keeping it.

use esker_model::Traversal;
use esker_model::traversal::Filter;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

const SEPARATOR: &str = "\n----\n";

fn folder() -> PathBuf {
    std::path::absolute("../../testdata/cases/traversal-syntax").unwrap()
}

/// Returns the expected part of a case.
fn answer(input: &str) -> String {
    match Traversal::parse(input) {
        Err(error) => format!("{}\n\n{error}\n", error.render(input)),
        Ok(traversal) => {
            let canonical = traversal.to_string();
            let again = Traversal::parse(&canonical)
                .unwrap_or_else(|e| panic!("canonical form:\n{}", e.render(&canonical)));
            assert_eq!(again, traversal, "{canonical}");
            format!("{canonical}\n\n{}", summary(&traversal))
        }
    }
}

fn filter_summary(filter: &Filter) -> String {
    match filter {
        Filter::Attribute {
            attribute,
            predicate,
        } => format!("{attribute:?} {predicate:?}"),
        Filter::Where(expr) => format!("{expr:?}"),
    }
}

/// Formats the parsed traversal as a tree, one line for each part.
fn summary(t: &Traversal) -> String {
    let mut out = format!("start {:?}", t.start);
    for filter in &t.start_filters {
        let _ = write!(out, "\n  va {}", filter_summary(filter));
    }
    if t.start_returned {
        out.push_str("\n  returned");
    }
    let mut place = 0;
    for segment in &t.segments {
        let _ = write!(out, "\nsegment repeat={:?}", segment.repeat.map(|r| r.max));
        for hop in &segment.hops {
            place += 1;
            let _ = write!(out, "\n  hop {place} {:?}", hop.edge_types);
            for filter in &hop.edge_filters {
                let _ = write!(out, "\n    ea {}", filter_summary(filter));
            }
            for filter in &hop.vertex_filters {
                let _ = write!(out, "\n    va {}", filter_summary(filter));
            }
            if hop.returned {
                out.push_str("\n    returned");
            }
        }
    }
    let _ = writeln!(
        out,
        "\npaths={} as_of={:?} versions={:?} limit={:?}",
        t.return_paths,
        t.as_of.map(|v| v.0),
        t.versions.map(|r| (r.from.0, r.until.0)),
        t.limit
    );
    out
}

#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "the person who runs the test asks for new answers"
)]
fn traversal_syntax_cases() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut paths: Vec<PathBuf> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "case"))
        .collect();
    paths.sort();
    assert!(paths.len() >= 40, "only {} cases found", paths.len());
    let mut wrong = Vec::new();
    for path in paths {
        let case = fs::read_to_string(&path).unwrap();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        // An empty input leaves the separator at the very start.
        let (input, expected) = if let Some(rest) = case.strip_prefix(&SEPARATOR[1..]) {
            ("", rest)
        } else {
            case.split_once(SEPARATOR)
                .unwrap_or_else(|| panic!("{name} has no line `----`"))
        };
        let got = answer(input);
        if got == expected {
            continue;
        }
        if update {
            let head = if input.is_empty() {
                &SEPARATOR[1..]
            } else {
                SEPARATOR
            };
            fs::write(&path, format!("{input}{head}{got}")).unwrap();
        } else {
            wrong.push(format!("{name}: expected\n{expected}\ngot\n{got}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
