//! Generated data: runs that read files written by earlier runs, and people who started them; and queries with all
//! shapes of joins.

use crate::random::Random;
use std::io::{self, Write};

/// Queries by name, one for each shape of join.
pub(super) const QUERIES: [(&str, &str); 12] = [
    ("star", include_str!("queries/star.rq")),
    ("chain", include_str!("queries/chain.rq")),
    ("triangle", include_str!("queries/triangle.rq")),
    ("scan", include_str!("queries/scan.rq")),
    ("distinct", include_str!("queries/distinct.rq")),
    ("same-name", include_str!("queries/same-name.rq")),
    ("unread", include_str!("queries/unread.rq")),
    ("earlier", include_str!("queries/earlier.rq")),
    ("group", include_str!("queries/group.rq")),
    ("latest", include_str!("queries/latest.rq")),
    ("ancestors", include_str!("queries/ancestors.rq")),
    ("ask", include_str!("queries/ask.rq")),
];

/// Writes N-Triples of this number of runs.
pub(super) fn write(runs: u32, to: &mut dyn Write) -> io::Result<()> {
    const A: &str = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>";
    const PROV: &str = "http://www.w3.org/ns/prov#";
    const LAB: &str = "http://example.org/lab/";
    const INTEGER: &str = "http://www.w3.org/2001/XMLSchema#integer";
    let mut random = Random::new(1);
    let mut below = |n: u64| random.next() % n;
    let people = u64::from(runs / 50).max(8);
    for n in 0..people {
        let person = format!("<{LAB}person/{n}>");
        writeln!(to, "{person} {A} <{PROV}Agent> .")?;
        // One name in twenty belongs to two people.
        let name = if n % 20 == 0 { n / 2 } else { n };
        writeln!(to, "{person} <{LAB}name> \"Person {name}\" .")?;
    }
    let mut files: Vec<(u64, u64)> = Vec::new();
    for run in 0..u64::from(runs) {
        let run_iri = format!("<{LAB}run/{run}>");
        let owner = below(people).min(below(people));
        writeln!(to, "{run_iri} {A} <{PROV}Activity> .")?;
        writeln!(
            to,
            "{run_iri} <{PROV}wasAssociatedWith> <{LAB}person/{owner}> ."
        )?;
        writeln!(
            to,
            "{run_iri} <{LAB}started> \"{}\"^^<{INTEGER}> .",
            run / 3
        )?;
        writeln!(to, "{run_iri} <{LAB}program> \"program {}\" .", below(40))?;
        if run % 100 == 0 {
            writeln!(to, "{run_iri} <{LAB}comment> \"looked at again\" .")?;
        }
        for _ in 0..=below(4) {
            if let Some(last) = files.len().checked_sub(1) {
                // Recently written files are more likely.
                let within = below(files.len() as u64) + 1;
                let back = below(within) as usize;
                let (by, n) = files[last - back];
                writeln!(to, "{run_iri} <{PROV}used> <{LAB}file/{by}/{n}> .")?;
            }
        }
        for n in 0..=below(3) {
            let file = format!("<{LAB}file/{run}/{n}>");
            writeln!(to, "{file} {A} <{PROV}Entity> .")?;
            writeln!(to, "{file} <{PROV}wasGeneratedBy> {run_iri} .")?;
            writeln!(
                to,
                "{file} <{LAB}size> \"{}\"^^<{INTEGER}> .",
                below(1 << 20)
            )?;
            files.push((run, n));
        }
    }
    Ok(())
}
