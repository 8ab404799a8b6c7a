//! N-Triples and N-Quads: the line parser, block by block and on several threads, gives the same result as the library's parser.

use esker_rdf::parse::{Loaded, Loader};
use esker_rdf::{Dataset, RdfFormat, dump};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Returns some megabytes of lines of all kinds, including invalid ones, and the numbers of the invalid lines, from 1.
fn text() -> (Vec<u8>, Vec<u64>) {
    let mut text = Vec::new();
    let mut wrong = Vec::new();
    let mut n = 7u64;
    for line in 1..=40_000u64 {
        n = n
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (a, b, kind) = ((n >> 33) % 3000, (n >> 40) % 500, (n >> 50) % 60);
        let mut row = String::new();
        let object = match kind {
            0..20 => format!("<http://e/o{b}>"),
            20..30 => format!("\"text {b}\""),
            30..35 => format!("\"{b}\"^^<http://www.w3.org/2001/XMLSchema#integer>"),
            35..40 => format!("\"{b}.5\"^^<http://www.w3.org/2001/XMLSchema#decimal>"),
            40..45 => format!("\"wort {b}\"@de"),
            45..50 => format!("_:b{b}"),
            50..54 => format!("\"tab\\there \\u00e9 {b}\""),
            54 => "\"open".to_owned(),
            55 => "nothing".to_owned(),
            _ => format!("\"line\\nbreak {b}\"@en"),
        };
        let graph = match b % 4 {
            0 => format!(" <http://e/g{}>", b % 3),
            1 => " _:g".to_owned(),
            _ => String::new(),
        };
        let subject = if a % 5 == 0 {
            format!("_:b{a}")
        } else {
            format!("<http://e/s{a}>")
        };
        match kind {
            58 => row.push_str("# a comment"),
            59 => {}
            _ => write!(row, "{subject} <http://e/p{}> {object}{graph} .", b % 7).unwrap(),
        }
        text.extend_from_slice(row.as_bytes());
        if line % 9001 == 0 {
            text.push(0xff);
        }
        if (54..=55).contains(&kind) || line % 9001 == 0 {
            wrong.push(line);
        }
        text.extend_from_slice(if line % 3 == 0 { b"\r\n" } else { b"\n" });
    }
    (text, wrong)
}

fn read(text: &[u8], threads: usize) -> (Dataset, Loaded) {
    let mut loader = Loader::new(Dataset::default(), "t", true);
    loader.on_threads(threads);
    loader
        .read("x", &mut &*text, RdfFormat::NQuads, None, None)
        .unwrap();
    loader.finish()
}

fn rows(data: &Dataset) -> BTreeSet<String> {
    let mut out = Vec::new();
    dump(data, None, RdfFormat::NQuads, &mut out).unwrap();
    String::from_utf8(out)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn lines_are_read_alike_on_any_number_of_threads() {
    let (text, wrong) = text();
    assert!(text.len() > 2 << 20 && wrong.len() > 500);
    let (one, loaded) = read(&text, 0);
    assert_eq!(loaded.skipped_count, wrong.len() as u64);
    for (said, line) in loaded.skipped.iter().zip(&wrong) {
        assert!(said.starts_with(&format!("x:{line}:")), "{said}, {line}");
    }
    for threads in [1, 3] {
        let (more, again) = read(&text, threads);
        assert_eq!(again, loaded);
        // Equal terms have equal ids.
        assert_eq!(more.encode(), one.encode());
    }

    // The library reads the valid lines one by one; its blank node labels equal ours without the prefix.
    let mut theirs = BTreeSet::new();
    for (n, line) in text.split(|b| *b == b'\n').enumerate() {
        if wrong.contains(&(n as u64 + 1)) {
            continue;
        }
        for quad in oxttl::NQuadsParser::new().for_slice(line) {
            theirs.insert(format!("{} .", quad.unwrap()));
        }
    }
    let ours: BTreeSet<String> = rows(&one)
        .iter()
        .map(|row| row.replace("_:t1x", "_:"))
        .collect();
    assert_eq!(ours.len(), theirs.len());
    assert_eq!(ours.difference(&theirs).next(), None);
}

#[test]
fn the_first_wrong_line_ends_a_load() {
    let (text, wrong) = text();
    let mut loader = Loader::new(Dataset::default(), "t", false);
    loader.on_threads(2);
    let error = loader
        .read("x", &mut &*text, RdfFormat::NQuads, None, None)
        .unwrap_err();
    assert!(
        error.to_string().starts_with(&format!("x:{}:", wrong[0])),
        "{error}"
    );
}

#[test]
fn a_line_holds_one_statement() {
    for (line, wrong) in [
        (
            "<http://e/s> <http://e/p> <http://e/o> <http://e/g> <http://e/n> .",
            true,
        ),
        (
            "<http://e/s> <http://e/p> \"\\t\" <http://e/g> . <http://e/s> <http://e/p> 1 .",
            true,
        ),
        (
            "<http://e/s> <http://e/p> \"\\t\" . <http://e/s> <http://e/p> \"b\" .",
            true,
        ),
        ("<http://e/s> <http://e/p> \"\\t\" . # and a comment", false),
    ] {
        let mut loader = Loader::new(Dataset::default(), "t", false);
        let read = loader.read("x", &mut line.as_bytes(), RdfFormat::NQuads, None, None);
        assert_eq!(read.is_err(), wrong, "{line}: {read:?}");
        assert_eq!(loader.finish().0.len(), usize::from(!wrong), "{line}");
    }
}
