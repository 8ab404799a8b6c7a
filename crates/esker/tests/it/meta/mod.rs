//! Tests of the metadata graph: an updated graph equals a rebuilt one, and a graph of the past equals the one of that time.

use esker::model::filter::Expr;
mod image;
mod queries;

use esker::model::namespace::{Change, Kind, NamePath, Namespace as _, NewFile, XattrMode};
use esker::model::object::{Identity, ObjectWrite as _, TagChange, TagWhere};
use esker::model::{
    Batch, GraphRead as _, GraphWrite as _, NeverCancel, Op, Properties, SchemaChange, Value,
    Version, VertexName, VertexRef,
};
use esker::rdf::engine::{Dataset, RdfFormat, dump};
use esker::rdf::meta::{GRAPH, Meta, RequestedGraphs};
use esker::{Database, OpenOptions};
use std::collections::BTreeSet;

fn open(at: &std::path::Path) -> Database {
    OpenOptions::new()
        .create(true)
        .open(at.to_str().unwrap())
        .unwrap()
}

/// The triples of a graph as text.
fn lines(meta: &mut Meta, data: &mut Dataset, db: &Database, graph: &str) -> BTreeSet<String> {
    let wanted = RequestedGraphs::of_graph(graph).unwrap();
    let snapshot = meta.snapshot(data, db, &wanted, &|| None).unwrap();
    let mut to = Vec::new();
    dump(&snapshot, None, RdfFormat::NQuads, &mut to).unwrap();
    let text = String::from_utf8(to).unwrap();
    let all: BTreeSet<String> = text
        .lines()
        .map(|l| l.replace(&format!(" <{graph}> ."), " ."))
        .collect();
    assert_eq!(all.len(), text.lines().count());
    all
}

fn anew(db: &Database, graph: &str) -> BTreeSet<String> {
    lines(&mut Meta::default(), &mut Dataset::default(), db, graph)
}

#[track_caller]
fn same(left: &BTreeSet<String>, right: &BTreeSet<String>, about: &str) {
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| -> Vec<String> {
        a.difference(b).take(10).cloned().collect()
    };
    assert!(
        left == right,
        "{about}: only left {:#?}, only right {:#?}",
        only(left, right),
        only(right, left)
    );
}

fn vertex(db: &Database, name: &str) -> VertexRef {
    VertexName::parse(name)
        .unwrap()
        .resolve(&db.schema().unwrap())
        .unwrap()
}

/// A linear congruential random number generator.
struct Dice(u64);

impl Dice {
    fn random_below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.random_below(list.len() as u64) as usize]
    }
}

const PATHS: [&str; 7] = ["/a", "/b", "/d/a", "/d/b", "/e/a", "/d/n/a", "/e/n/a"];
const EDGES: [(&str, &str, &str); 8] = [
    ("run", "user", "job"),
    ("read", "job", "file"),
    ("exe", "job", "file"),
    ("write", "job", "file"),
    ("belongs", "job", "job"),
    ("has", "file", "file"),
    ("beside", "thing", "thing"),
    ("near", "thing", "file"),
];

fn name(dice: &mut Dice, prefix: &str) -> (String, String) {
    let key = match prefix {
        "file" => dice.of(&PATHS).to_owned(),
        _ => format!("k{}", dice.random_below(4)),
    };
    (format!("{prefix}:{key}"), key)
}

fn value(dice: &mut Dice) -> Value {
    match dice.random_below(7) {
        0 => Value::I64(dice.random_below(5) as i64),
        1 => Value::F64(dice.random_below(5) as f64 / 2.0),
        2 => Value::String(format!("s {}", dice.random_below(3))),
        3 => Value::Bool(true),
        4 => Value::Timestamp(dice.random_below(3) as i64 * 1_000_000_000),
        5 => Value::Bytes(vec![1, 2]),
        _ => Value::List(vec![Value::I64(1), Value::Null, Value::I64(1)]),
    }
}

fn path(text: &str) -> NamePath {
    NamePath::parse(text.as_bytes()).unwrap()
}

/// Makes one random change; refused changes have no effect.
fn change(db: &Database, dice: &mut Dice, files: bool, lately: bool) {
    let kinds = ["file", "job", "user", "thing"];
    let mut batch = Batch::new();
    for _ in 0..=dice.random_below(2) {
        let late = (lately && dice.random_below(8) == 0)
            .then(|| Version::new(1_000 + dice.random_below(50), 0));
        let prefix = dice.of(&kinds);
        let (of, key) = name(dice, prefix);
        let of = vertex(db, &of);
        let op = match dice.random_below(10) {
            0 | 1 => Op::PutVertex {
                vertex: of,
                key,
                attributes: Properties::new().with("name", format!("n{}", dice.random_below(3))),
            },
            2 => Op::EnsureVertex { vertex: of, key },
            3 => Op::SetAttributes {
                vertex: of,
                set: Properties::new().with(dice.of(&["t", "u v"]), value(dice)),
                remove: Vec::new(),
            },
            4 => Op::SetAttributes {
                vertex: of,
                set: Properties::new(),
                remove: vec![dice.of(&["t", "u v"]).to_owned()],
            },
            5 => Op::DeleteVertex { vertex: of },
            n => {
                let (edge_type, source, destination) = EDGES[dice.random_below(8) as usize];
                let (source, destination) = (name(dice, source).0, name(dice, destination).0);
                let (source, destination) = (vertex(db, &source), vertex(db, &destination));
                let edge_type = db.schema().unwrap().edge_type_id(edge_type).unwrap();
                if n < 9 {
                    Op::PutEdge {
                        source,
                        edge_type,
                        destination,
                        properties: match dice.random_below(2) {
                            0 => Properties::new(),
                            _ => Properties::new().with("bytes", value(dice)),
                        },
                    }
                } else {
                    Op::DeleteEdge {
                        source,
                        edge_type,
                        destination,
                    }
                }
            }
        };
        match late {
            Some(at) => batch.push_at(at, op),
            None => batch.push(op),
        }
    }
    let _ = db.apply(batch);
    if dice.random_below(8) == 0 {
        objects(db, dice);
    }
    if files && dice.random_below(2) == 0 {
        let (from, to) = (path(dice.of(&PATHS)), path(dice.of(&PATHS)));
        let folders = ["/d", "/e", "/d/n", "/e/n"];
        let file = NewFile::new(Kind::File.bits() | 0o644, 0, 0);
        let folder = NewFile::new(Kind::Directory.bits() | 0o755, 0, 0);
        let change = match dice.random_below(7) {
            0 => Change::Create(from, file),
            1 => Change::Unlink(from),
            2 | 3 => Change::Rename {
                from,
                to,
                no_replace: false,
            },
            4 => Change::Rename {
                from: path(dice.of(&folders)),
                to: path(dice.of(&folders)),
                no_replace: true,
            },
            5 => Change::Create(path(dice.of(&folders)), folder),
            _ => Change::Xattr {
                path: from,
                name: b"user.esker.t".to_vec(),
                value: Some(b"x".to_vec()),
                mode: XattrMode::Any,
            },
        };
        let _ = db.change(None, &[change]).unwrap();
    }
}

fn objects(db: &Database, dice: &mut Dice) {
    let mut batch = Batch::new();
    batch.push(Op::CreateObject {
        identity: Identity {
            name: "o".into(),
            app: "vpic".into(),
            owner: 7,
            step: dice.random_below(6) as i64,
        },
        attributes: Properties::new().with(
            "mode",
            if dice.random_below(2) == 0 {
                0o600
            } else {
                0o644
            },
        ),
        tags: Properties::new().with("Conf", value(dice)),
    });
    let _ = db.apply(batch);
    if dice.random_below(3) == 0 {
        let change = TagWhere {
            filter: Expr::All,
            change: TagChange {
                set: Properties::new().with("all", dice.random_below(9) as i64),
                ..TagChange::default()
            },
            principal: None,
            dry_run: false,
            idempotency_key: None,
        };
        let _ = db.tag_where(&change, &NeverCancel);
    }
}

fn define(db: &Database) {
    db.define(&[
        SchemaChange::VertexType {
            name: "Thing".into(),
            parent: None,
            attributes: Vec::new(),
        },
        SchemaChange::EdgeType {
            name: "beside".into(),
            inverse: "beside".into(),
            source: "Thing".into(),
            destination: "Thing".into(),
        },
        SchemaChange::EdgeType {
            name: "near".into(),
            inverse: "hasNear".into(),
            source: "Thing".into(),
            destination: "DataObject".into(),
        },
    ])
    .unwrap();
}

#[test]
fn kept_up_to_date_it_is_what_it_is_made_anew_and_the_past_is_what_was() {
    let seeds: u64 = std::env::var("ESKER_META_SEEDS").map_or(6, |n| n.parse().unwrap());
    let first: u64 = std::env::var("ESKER_META_FIRST").map_or(0, |n| n.parse().unwrap());
    for seed in first..first + seeds {
        let (files, lately) = (seed % 2 == 1, seed % 3 == 0);
        let folder = tempfile::tempdir().unwrap();
        let db = open(&folder.path().join("t"));
        define(&db);
        let mut dice = Dice(seed);
        let (mut meta, mut data) = (Meta::default(), Dataset::default());
        let mut moments = Vec::new();
        for round in 0..25 {
            for _ in 0..=dice.random_below(6) {
                change(&db, &mut dice, files, lately);
            }
            let kept = lines(&mut meta, &mut data, &db, GRAPH);
            same(
                &kept,
                &anew(&db, GRAPH),
                &format!("seed {seed}, round {round}"),
            );
            let newest = db.stats().unwrap().newest;
            if !files && let Some(newest) = newest {
                moments.push((newest, kept));
            }
            // Versions inserted out of order, and renames, change the past, so graphs cached before are invalid.
            if dice.random_below(3) == 0
                && let Some((at, then)) = moments.last()
            {
                let name = format!("{GRAPH}?as_of=#{}", at.0);
                let past = lines(&mut meta, &mut data, &db, &name);
                same(
                    &past,
                    then,
                    &format!("seed {seed}, round {round}, as of {at}"),
                );
            }
        }
        for (at, then) in &moments {
            let name = format!("{GRAPH}?as_of=#{}", at.0);
            let kept = lines(&mut meta, &mut data, &db, &name);
            same(
                &kept,
                &anew(&db, &name),
                &format!("seed {seed}, as of {at}"),
            );
            if !lately {
                same(&kept, then, &format!("seed {seed}, what was at {at}"));
            }
        }
        db.close().unwrap();
    }
}
