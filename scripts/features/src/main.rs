//! Uses a database without the features of the library, and expects errors that name them where they are needed.

use esker::OpenOptions;
use esker::model::{
    Batch, Error, GraphRead as _, GraphWrite as _, Mutation, NeverCancel, Op, Properties, Version,
    VertexId, VertexRef,
};
use std::path::Path;

fn names(answer: Result<(), Error>, feature: &str) {
    let error = answer.expect_err("this needs a feature").to_string();
    assert!(error.contains(&format!("the feature `{feature}`")), "{error}");
}

fn main() {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "lab.esker".into());
    let folder = Path::new(&folder);
    let options = OpenOptions::new().create(true);
    let target = folder.join("lab.esker");
    let open = || options.open(target.to_str().unwrap());
    let database = open().unwrap();
    let schema = database.schema().unwrap();
    let job = VertexRef {
        id: VertexId::of("job", "1"),
        type_id: schema.vertex_type_id("Job").unwrap(),
    };
    let mut newest = Version::ZERO;
    for n in 0..3 {
        let mut batch = Batch::new();
        let ops = [
            Op::EnsureVertex { vertex: job, key: "1".into() },
            Op::SetAttributes {
                vertex: job,
                set: Properties::new().with("n", n),
                remove: Vec::new(),
            },
        ];
        batch.mutations.extend(ops.map(|op| Mutation { version: None, op }));
        newest = database.apply(batch).unwrap().version;
    }
    let read = database.read_vertices(&[job.id], Version::MAX).unwrap();
    assert_eq!(read.len(), 1);
    database.compact(None, &NeverCancel).unwrap();
    database.backup(&folder.join("copy")).unwrap();
    esker::Database::restore(&folder.join("copy"), &folder.join("restored")).unwrap();

    names(OpenOptions::new().open("esker://127.0.0.1:1").map(|_| ()), "remote");
    names(database.compact(Some(newest), &NeverCancel).map(|_| ()), "archive");
    database.close().unwrap();
    std::fs::create_dir(target.join("rdf")).unwrap();
    let database = open().unwrap();
    names(database.backup(&folder.join("second")).map(|_| ()), "rdf");
    database.close().unwrap();
    std::fs::create_dir_all(target.join("archive")).unwrap();
    std::fs::write(target.join("archive/0000000000000001.parquet"), b"").unwrap();
    names(open().map(|_| ()), "archive");
    println!("ok");
}
