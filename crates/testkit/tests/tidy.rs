//! Rules about the source itself: dependencies between crates, the size of files, the clippy settings of deterministic crates.

#![allow(
    clippy::unwrap_used,
    reason = "a test that finds no manifest has failed"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    std::path::absolute("../..")
        .unwrap()
        .canonicalize()
        .unwrap()
}

/// Files that may be longer than the limit, each with its reason.
const LONG_FILES: [(&str, &str); 2] = [
    ("crates/etcd/src/generated/etcdserverpb.rs", "generated"),
    ("crates/rpc/src/generated/esker.v1.rs", "generated"),
];
const LINES_MAX: usize = 800;
const DETERMINISTIC: [&str; 8] = [
    "model",
    "store",
    "engine",
    "lineage",
    "rdf",
    "import",
    "cluster",
    "site-cache",
];

/// Files that read keys that they alone write.
const OWN_KEYS: [(&str, &str); 2] = [
    ("crates/engine/src/counts.rs", "pending changes in `meta`"),
    ("crates/engine/src/object/log.rs", "the log of objects"),
];

/// Crates by short name, with the workspace crates that each depends on.
fn manifests() -> BTreeMap<String, BTreeSet<String>> {
    let mut crates = BTreeMap::new();
    for entry in fs::read_dir(workspace().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let mut section = String::new();
        let mut depends = BTreeSet::new();
        for line in manifest.lines().map(str::trim) {
            if line.starts_with('[') {
                line.clone_into(&mut section);
            }
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            let ours = name == "esker" || name.starts_with("esker-");
            if ours && section == "[dependencies]" {
                depends.insert(name.strip_prefix("esker-").unwrap_or(name).to_owned());
            }
        }
        crates.insert(
            folder.file_name().unwrap().to_string_lossy().into_owned(),
            depends,
        );
    }
    crates
}

/// Crates and dependencies in the table of ARCHITECTURE.md.
fn drawn() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap();
    let table = text.split("<!-- crates: begin -->").nth(1).unwrap();
    let table = table.split("<!-- crates: end -->").next().unwrap();
    let names = |cell: &str| -> Vec<String> {
        cell.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    let mut crates = BTreeMap::new();
    for row in table.lines().filter(|l| l.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').collect();
        crates.insert(
            names(cells[1]).remove(0),
            names(cells[2]).into_iter().collect(),
        );
    }
    crates
}

#[test]
fn crates_depend_on_each_other_as_the_architecture_says() {
    let (manifests, drawn) = (manifests(), drawn());
    assert_eq!(
        manifests.keys().collect::<Vec<_>>(),
        drawn.keys().collect::<Vec<_>>(),
        "crates/ and the table of ARCHITECTURE.md name different crates"
    );
    for (name, depends) in &manifests {
        let extra: Vec<_> = depends.difference(&drawn[name]).collect();
        assert!(
            extra.is_empty(),
            "`{name}` depends on {extra:?}, which ARCHITECTURE.md does not draw"
        );
    }
}

#[test]
fn the_arrows_make_no_circle() {
    let crates = drawn();
    let mut done: BTreeSet<&String> = BTreeSet::new();
    while done.len() < crates.len() {
        let next: Vec<_> = crates
            .iter()
            .filter(|(name, depends)| {
                !done.contains(name) && depends.iter().all(|d| done.contains(d))
            })
            .map(|(name, _)| name)
            .collect();
        assert!(
            !next.is_empty(),
            "a circle among the crates that are not {done:?}"
        );
        done.extend(next);
    }
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

fn sources() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for name in manifests().keys() {
        rust_files(
            &workspace().join("crates").join(name).join("src"),
            &mut files,
        );
    }
    assert!(files.len() > 50, "the sources were not found");
    files
        .into_iter()
        .map(|f| {
            let name = f
                .strip_prefix(workspace())
                .unwrap()
                .to_string_lossy()
                .into_owned();
            (name, fs::read_to_string(f).unwrap())
        })
        .collect()
}

#[test]
fn no_file_does_two_things() {
    for (name, text) in sources() {
        let code = text
            .split("\n#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default();
        let lines = code.lines().count();
        let excused = LONG_FILES.iter().any(|(file, _)| *file == name);
        let is_test = name.contains("/tests/") || name.ends_with("/tests.rs");
        assert!(
            lines <= LINES_MAX || excused || is_test,
            "{name} has {lines} lines; the bar is {LINES_MAX}: look for the second thing in it"
        );
    }
}

/// The part of a line that takes a key of the graph apart, as in `key.get(1..17)`, `row.key[0]` and `cursor.key().first()`.
fn key_bytes(line: &str) -> Option<&str> {
    let code = line.split("//").next().unwrap_or_default();
    code.match_indices("key").find_map(|(at, _)| {
        let before = code[..at].chars().next_back();
        let rest = code[at + 3..].trim_start_matches("()");
        let digit = |text: &str| {
            text.trim_start_matches('.')
                .starts_with(|c: char| c.is_ascii_digit())
        };
        let reads = [
            ".first()",
            ".last()",
            ".first_chunk",
            ".last_chunk",
            ".split_first",
            ".split_last",
            ".split_at",
        ];
        let taken = rest.strip_prefix('[').is_some_and(digit)
            || rest.strip_prefix(".get(").is_some_and(digit)
            || reads.iter().any(|read| rest.starts_with(read))
            || code[..at].ends_with("Reader::new(")
                && rest.starts_with(')')
                && !rest.starts_with(").error(");
        let is_word = before.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        (taken && is_word).then_some(&code[at..])
    })
}

/// The bytes of a key are known to `model::key` alone.
#[test]
fn only_the_model_decodes_keys() {
    for line in [
        "let id = key.get(1..17);",
        "if write.key.first() == Some(&2) {",
        "match cursor.key().get(..16) {",
        "key[0]",
        "let mut r = Reader::new(key);",
    ] {
        assert!(key_bytes(line).is_some(), "{line}");
    }
    for line in [
        "let name = key.get(PREFIX.len()..);",
        "vertex_key[0]",
        "map.key.get(name)",
        "Reader::new(key).error(\"a marker\")",
        "// key.get(1..17)",
    ] {
        assert!(key_bytes(line).is_none(), "{line}");
    }
    for (name, text) in sources() {
        let of_graph = ["engine", "cluster", "esker", "lineage", "testkit"];
        let crate_name = name.split('/').nth(1).unwrap_or_default();
        let excused = OWN_KEYS.iter().any(|(file, _)| *file == name);
        if excused || !of_graph.contains(&crate_name) || name.contains("tests") {
            continue;
        }
        let code = text
            .split("\n#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default();
        for (number, line) in code.lines().enumerate() {
            assert!(
                key_bytes(line).is_none(),
                "{name}:{}: takes a key apart; a function of `model::key` should: {line}",
                number + 1
            );
        }
    }
}

/// Crates and folders that use reads: commands, pages, importers.
const USERS_OF_READS: [&str; 10] = [
    "crates/bench/",
    "crates/catalogue/",
    "crates/cli/",
    "crates/console/",
    "crates/esker/src/rdf/",
    "crates/import/",
    "crates/lineage/",
    "crates/python/",
    "crates/server/src/http/",
    "crates/testkit/",
];

/// Files that offer a read to programs in other languages (gRPC). A read works without them.
const GRPC_OF_READS: [&str; 7] = [
    "crates/rpc/src/generated/",
    "crates/server/src/answer.rs",
    "crates/server/src/audit/facts.rs",
    "crates/server/src/audit/rows.rs",
    "crates/server/src/audit/shrink.rs",
    "crates/server/src/calls.rs",
    "crates/server/src/unary.rs",
];

/// A new read of the graph works in a folder, through the owner's socket, on a server and on a cluster once its algorithm
/// (`engine/src/read`) and five files have it.
#[test]
fn a_new_read_touches_five_files() {
    for (method, variant) in [
        ("vertex_history", "VertexHistory"),
        ("edge_history", "EdgeHistory"),
    ] {
        let names = |text: &str| {
            let mut words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            words.any(|word| word == method || word == variant)
        };
        let touched: Vec<String> = sources()
            .into_iter()
            .filter(|(file, text)| {
                let elsewhere = USERS_OF_READS.iter().chain(&GRPC_OF_READS);
                let excused = elsewhere.into_iter().any(|start| file.starts_with(start));
                let algorithm = file.starts_with("crates/engine/src/read/");
                !excused && !algorithm && !file.contains("tests") && names(text)
            })
            .map(|(file, _)| file)
            .collect();
        let expected = [
            "crates/cluster/src/node/local.rs",
            "crates/cluster/src/node/read.rs",
            "crates/cluster/src/peer/mod.rs",
            "crates/engine/src/graph_read.rs",
            "crates/model/src/graph_read.rs",
        ];
        assert_eq!(touched, expected, "{method}");
    }
}

#[test]
fn every_module_says_what_lives_in_it() {
    for (name, text) in sources() {
        assert!(
            text.starts_with("//!"),
            "{name} does not open with a `//!` line"
        );
    }
}

#[test]
fn the_deterministic_zone_is_fenced() {
    let fence = fs::read_to_string(workspace().join(".config/clippy-deterministic.toml")).unwrap();
    for name in DETERMINISTIC {
        let own = workspace().join("crates").join(name).join("clippy.toml");
        assert_eq!(
            fs::read_to_string(&own).ok().as_deref(),
            Some(&*fence),
            "{}",
            own.display()
        );
    }
}

#[test]
fn only_their_crates_link_the_engines() {
    for (engine, home) in [
        ("fjall", "crates/store-fjall"),
        ("rocksdb", "crates/store-rocksdb"),
    ] {
        for entry in fs::read_dir(workspace().join("crates")).unwrap() {
            let folder = entry.unwrap().path();
            let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            let mut section = "";
            let linked = manifest.lines().map(str::trim).any(|line| {
                if line.starts_with('[') {
                    section = line;
                }
                let name = line.split(['.', ' ', '=']).next();
                section.ends_with("dependencies]") && name == Some(engine)
            });
            assert!(
                !linked || folder.ends_with(home),
                "{} links {engine}",
                folder.display()
            );
        }
    }
}

/// Tests named in a row's last column, each with its crate.
fn named_tests(row: &str, crates: &BTreeSet<String>) -> Vec<(String, String)> {
    let cell = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
    let mut named = Vec::new();
    for part in cell.split("; ") {
        let word = part.split(' ').next().unwrap_or_default();
        // Tests of the command have no crate's name.
        let of = if crates.contains(word) { word } else { "cli" };
        let names = part.split('`').skip(1).step_by(2);
        named.extend(names.map(|name| (of.to_owned(), name.to_owned())));
    }
    named
}

/// Each attack in the threat model has a test that carries it out.
#[test]
fn the_threat_model_names_tests_that_there_are() {
    let text = fs::read_to_string(workspace().join("docs/internals/access.md")).unwrap();
    let table = text.split("## Threat model").nth(1).unwrap();
    let crates: BTreeSet<String> = manifests().into_keys().collect();
    let rows = table
        .lines()
        .skip_while(|line| !line.starts_with("|---"))
        .skip(1)
        .take_while(|line| line.starts_with("| "));
    let mut tests = 0;
    for row in rows.filter(|row| !row.ends_with(" fuzz |")) {
        let named = named_tests(row, &crates);
        assert!(!named.is_empty(), "no test: {row}");
        for (of, name) in named {
            let mut files = Vec::new();
            rust_files(&workspace().join("crates").join(&of), &mut files);
            let last = name.rsplit("::").next().unwrap();
            let there = files.iter().any(|file| {
                let text = fs::read_to_string(file).unwrap();
                text.contains(&format!("fn {last}(")) || text.contains(&format!("mod {last};"))
            });
            assert!(there, "crate `{of}` has no test `{name}`: {row}");
            tests += 1;
        }
    }
    assert!(tests > 30, "{tests}");
}
