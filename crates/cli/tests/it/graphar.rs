//! Export of a graph to a folder in GraphAr's layout, and import.

use crate::serve::{esker, run, text};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn fed(folder: &Path, args: &[&str], input: &str) {
    let mut child = esker(folder)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut to = child.stdin.take().unwrap();
    to.write_all(input.as_bytes()).unwrap();
    drop(to);
    assert!(child.wait().unwrap().success());
}

/// Returns all vertices and edges of a database as sorted lines, deleted vertices included.
fn all(folder: &Path, database: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for (kind, more) in [("vertices", &["--deleted"][..]), ("edges", &[])] {
        let args = [
            &["export", kind, database, "-", "--output-format", "ndjson"],
            more,
        ]
        .concat();
        lines.extend(good(&run(folder, &args)).lines().map(str::to_owned));
    }
    lines.sort();
    lines
}

fn lab(folder: &Path) {
    let mut edges = vec!["source,type,destination,bytes".to_owned()];
    for job in 0..11 {
        edges.push(format!("user:{},run,job:{job},", job % 3));
        for file in 0..job {
            let bytes = file * 10;
            edges.push(format!("job:{job},write,file:/out/{job}/{file},{bytes}"));
            let other = (job + file) % 11;
            edges.push(format!("job:{job},read,file:/out/{other}/0,"));
        }
    }
    let edges = edges.join("\n") + "\n";
    fed(
        folder,
        &[
            "import",
            "edges",
            "lab.esker",
            "-",
            "--input-format",
            "csv",
            "--quiet",
        ],
        &edges,
    );
    for args in [
        &[
            "set",
            "lab.esker",
            "file:/out/7/3",
            "size=7",
            "note=a \"quoted\" text",
            "at=2026-03-01T12:00:00Z",
        ][..],
        &[
            "set",
            "lab.esker",
            "job:7",
            "name=seven",
            "start=2026-03-01T12:00:00.123456789Z",
            "tags=[1, \"two\"]",
        ],
        &["delete", "lab.esker", "file:/out/9/1"],
    ] {
        good(&run(folder, args));
    }
}

#[test]
fn a_graph_comes_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    lab(folder);
    let told = run(
        folder,
        &["export", "graphar", "lab.esker", "out", "--chunk-size", "4"],
    );
    good(&told);
    let said = text(&told.stderr);
    assert!(said.contains("exported"), "{said}");
    // Eleven jobs take three files, and each file has its part of the edges.
    let job = folder.join("out/vertex/Job");
    assert_eq!(fs::read_dir(job.join("all")).unwrap().count(), 3);
    assert_eq!(
        fs::read(job.join("vertex_count")).unwrap(),
        11_u64.to_le_bytes()
    );
    let writes = folder.join("out/edge/Job_write_File/ordered_by_source");
    for part in 0..3 {
        assert!(writes.join(format!("offset/chunk{part}")).is_file());
        assert!(writes.join(format!("edge_count{part}")).is_file());
    }
    let about = fs::read_to_string(folder.join("out/esker.graph.yml")).unwrap();
    for file in about.lines().filter_map(|l| l.strip_prefix("  - ")) {
        assert!(folder.join("out").join(file).is_file(), "{file}");
    }
    assert!(about.contains("Job_write_File.edge.yml"), "{about}");

    good(&run(folder, &["import", "graphar", "copy.esker", "out"]));
    assert_eq!(all(folder, "copy.esker"), all(folder, "lab.esker"));
    let again = good(&run(
        folder,
        &["import", "graphar", "copy.esker", "out", "--format", "json"],
    ));
    let again: serde_json::Value = serde_json::from_str(&again).unwrap();
    assert_eq!(
        (
            &again["vertices_created"],
            &again["edges_created"],
            &again["bad"]
        ),
        (&0.into(), &0.into(), &0.into()),
        "{again}"
    );
}

#[test]
fn as_it_was_then() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    good(&run(folder, &["init", "lab.esker"]));
    good(&run(
        folder,
        &[
            "put",
            "lab.esker",
            "file:/a",
            "size=1",
            "--at",
            "2026-01-01",
        ],
    ));
    good(&run(
        folder,
        &[
            "put",
            "lab.esker",
            "file:/b",
            "size=2",
            "--at",
            "2026-03-01",
        ],
    ));
    good(&run(
        folder,
        &[
            "export",
            "graphar",
            "lab.esker",
            "then",
            "--as-of",
            "2026-02-01",
            "--quiet",
        ],
    ));
    good(&run(folder, &["import", "graphar", "copy.esker", "then"]));
    let lines = all(folder, "copy.esker");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("file:/a"), "{lines:?}");
}

#[test]
fn what_cannot_be_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    lab(folder);
    fs::create_dir(folder.join("there")).unwrap();
    let refused = |args: &[&str]| {
        let output = run(folder, args);
        assert!(!output.status.success(), "{args:?}");
        text(&output.stderr)
    };
    let said = refused(&["export", "graphar", "lab.esker", "there"]);
    assert!(said.contains("exists already"), "{said}");
    let said = refused(&["import", "graphar", "copy.esker", "there"]);
    assert!(said.contains("no NAME.graph.yml"), "{said}");
    let said = refused(&["import", "graphar", "copy.esker", "nowhere"]);
    assert!(said.contains("nowhere"), "{said}");
    // Files written by other programs in this layout have numbers in place of the needed names.
    good(&run(
        folder,
        &["export", "graphar", "lab.esker", "other", "--quiet"],
    ));
    let chunk = "vertex/User/all/chunk0";
    let list = "edge/Job_write_File/ordered_by_source/adj_list/part0/chunk0";
    fs::copy(
        folder.join("other").join(list),
        folder.join("other").join(chunk),
    )
    .unwrap();
    let said = refused(&["import", "graphar", "copy.esker", "other"]);
    assert!(said.contains("no column `id`"), "{said}");
}
