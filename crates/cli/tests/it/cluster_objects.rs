//! A cluster of four finds the same objects as an embedded database, through every server and for every principal.

use crate::cluster::{Cluster, describe_servers};
use esker::{Database, OpenOptions};
use esker_model::filter::Expr;
use esker_model::object::{
    Find, FindReport, Found, Identity, ObjectId, ObjectKey, ObjectRead as _, ObjectWrite as _,
    Principal, Share, TagChange, TagWhere, object_ref,
};
use esker_model::{
    Batch, GraphRead as _, GraphWrite as _, NeverCancel, Op, Properties, Value, Version,
};
use esker_testkit::signal::signal;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

pub(crate) const OBJECTS: i64 = 2_000;
/// Objects per batch.
const BATCH: usize = 150;

const FILTERS: [&str; 14] = [
    "",
    "Name = 'name2'",
    "name = 'name1' AND step BETWEEN 100 AND 120",
    "Conf = 1 AND energy > 2.5",
    "energy > 2.5 AND Conf = 1 AND note LIKE 'run%'",
    "note LIKE '%7' OR note LIKE '%3%'",
    "EXISTS marked AND NOT Conf = 2",
    "NOT EXISTS energy",
    "size >= 1KiB AND size < 1MiB",
    "owner IN (1001, 1003) AND app != 'vpic'",
    "note ~ 'run1[0-4]$'",
    "group = 'g'",
    "varible = 1",
    "Conf = 1 OR confg = 2",
];

pub(crate) fn identity(n: i64) -> Identity {
    Identity {
        name: format!("name{}", n % 4),
        app: if n % 3 == 0 { "vpic" } else { "h5boss" }.into(),
        owner: 1000 + n % 5,
        step: n,
    }
}

/// Some objects get a new name whose home is another server.
pub(crate) fn renamed(n: i64) -> Identity {
    Identity {
        name: format!("renamed{n}"),
        ..identity(n)
    }
}

pub(crate) fn fill(database: &Database) {
    let all: Vec<i64> = (0..OBJECTS).collect();
    for part in all.chunks(BATCH) {
        let mut batch = Batch::new();
        for n in part {
            let mut tags = Properties::new()
                .with("Conf", n % 3)
                .with("note", format!("run{}", n % 20));
            if n % 2 == 0 {
                tags.set("energy", *n as f64 / 100.0);
            }
            if n % 7 == 0 {
                tags.set("marked", Value::Null);
            }
            let attributes = Properties::new()
                .with("size", n * n)
                .with("gid", 100 + n % 2)
                .with("mode", [0o644, 0o640, 0o600][(n % 3) as usize])
                .with("location", format!("/scratch/{n}"));
            batch.push(Op::CreateObject {
                identity: identity(*n),
                attributes,
                tags,
            });
        }
        let commit = database.apply(batch).unwrap();
        assert_eq!(commit.vertices_created, part.len() as u64);
    }
    let schema = database.schema().unwrap();
    let ids = ids(
        database,
        &all.iter().map(|n| identity(*n)).collect::<Vec<_>>(),
    );
    for part in all
        .iter()
        .filter(|n| **n % 11 == 0)
        .collect::<Vec<_>>()
        .chunks(BATCH)
    {
        let mut batch = Batch::new();
        for n in part {
            batch.push(Op::MoveObject {
                object: ids[**n as usize],
                from: identity(**n),
                to: renamed(**n),
            });
        }
        database.apply(batch).unwrap();
    }
    let mut batch = Batch::new();
    for n in all.iter().filter(|n| **n % 13 == 5) {
        let vertex = object_ref(&schema, ids[*n as usize]).unwrap();
        batch.push(Op::DeleteVertex { vertex });
    }
    database.apply(batch).unwrap();
    let change = TagWhere {
        filter: Expr::parse("Conf = 2 AND step < 500", None).unwrap(),
        change: TagChange {
            set: Properties::new().with("group", "g"),
            keep: false,
            remove: vec!["note".into()],
        },
        principal: None,
        dry_run: false,
        idempotency_key: None,
    };
    let dry = TagWhere {
        dry_run: true,
        ..change.clone()
    };
    let dry = database.tag_where(&dry, &NeverCancel).unwrap();
    let done = database.tag_where(&change, &NeverCancel).unwrap();
    assert_eq!((dry.matches, dry.changed), (done.matches, done.changed));
    assert!(done.changed > 100, "{done:?}");
}

fn ids(database: &Database, identities: &[Identity]) -> Vec<ObjectId> {
    let keys: Vec<ObjectKey> = identities.iter().cloned().map(ObjectKey::from).collect();
    let found = database.read_objects(&keys, None).unwrap();
    found.into_iter().map(|f| f.unwrap().id).collect()
}

/// Attributes and tags by ID attributes, without object numbers and times.
type Content = BTreeMap<Identity, (Properties, Properties)>;

fn content(found: Vec<Found>) -> Content {
    let mut all = Content::new();
    for object in found {
        let identity = object.identity().unwrap();
        let mut attributes = object.attributes;
        for time in ["atime", "mtime", "ctime"] {
            attributes.remove(time);
        }
        let twice = all.insert(identity, (attributes, object.tags));
        assert_eq!(twice, None, "an object that was found twice");
    }
    all
}

pub(crate) fn search(database: &Database, find: &Find) -> (Vec<Found>, FindReport) {
    let mut found = Vec::new();
    let mut sink = |object| {
        found.push(object);
        ControlFlow::Continue(())
    };
    let report = database.find(find, &NeverCancel, &mut sink).unwrap();
    (found, report)
}

/// Returns the results page by page.
fn pages(database: &Database, find: &Find, page: u64) -> Vec<Found> {
    let mut find = Find {
        limit: Some(page),
        ..find.clone()
    };
    let mut all = Vec::new();
    loop {
        let (found, _) = search(database, &find);
        assert!(found.len() as u64 <= page);
        let Some(last) = found.last() else { return all };
        find.after = Some(last.id);
        all.extend(found);
    }
}

#[test]
fn a_cluster_finds_what_an_embedded_database_finds() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let alone = OpenOptions::new()
        .create(true)
        .open(folder.join("alone").to_str().unwrap())
        .unwrap();
    fill(&alone);
    describe_servers(folder, 4, "");
    let cluster = Cluster::up(folder);
    let databases: Vec<Database> = (0..4)
        .map(|n| OpenOptions::new().open(cluster.target(n)).unwrap())
        .collect();
    fill(&databases[1]);

    let principals = [
        None,
        Some(Principal {
            uid: 1002,
            gids: vec![101],
        }),
        Some(Principal {
            uid: 7,
            gids: vec![],
        }),
    ];
    for (n, filter) in FILTERS.iter().enumerate() {
        for principal in &principals {
            let find = Find {
                principal: principal.clone(),
                ..Find::all(Expr::parse(filter, None).unwrap())
            };
            let (found, report) = search(&alone, &find);
            let expected = content(found);
            let unknown: BTreeSet<_> = report.unknown.into_iter().collect();
            let database = &databases[n % 4];
            let (found, report) = search(database, &find);
            assert!(
                report.complete && report.missing.is_empty(),
                "{filter}: {report:?}"
            );
            assert_eq!(report.matches, found.len() as u64, "{filter}");
            assert!(content(found) == expected, "{filter} for {principal:?}");
            let named: BTreeSet<_> = report.unknown.into_iter().collect();
            assert_eq!(named, unknown, "{filter} for {principal:?}");
            let servers: BTreeSet<u32> = report.plan.iter().map(|step| step.server).collect();
            // A plan counts hidden objects too, so that only the owner gets one.
            let expected_servers = match principal {
                Some(_) => 0,
                None => 4,
            };
            assert!(
                servers.len() == expected_servers || find.filter.is_all(),
                "{filter} for {principal:?}: {:?}",
                report.plan
            );
            let count = Find {
                count: true,
                ..find.clone()
            };
            let (none, report) = search(database, &count);
            assert!(none.is_empty());
            assert_eq!(report.matches, expected.len() as u64, "{filter}");
            assert!(content(pages(database, &find, 97)) == expected, "{filter}");
            let shared = (0..3).flat_map(|rank| {
                let share = Some(Share { rank, of: 3 });
                search(
                    &databases[rank as usize],
                    &Find {
                        share,
                        ..find.clone()
                    },
                )
                .0
            });
            assert!(content(shared.collect()) == expected, "{filter}");
        }
    }
    names(&alone, &databases, &principals);
    by_key(&alone, &databases);

    // Duplicate ID attributes: the batch is refused as a whole.
    let mut batch = Batch::new();
    for n in [OBJECTS, 1] {
        batch.push(Op::CreateObject {
            identity: identity(n),
            attributes: Properties::new(),
            tags: Properties::new(),
        });
    }
    let refused = databases[2].apply(batch).unwrap_err().to_string();
    assert!(refused.contains("exists already"), "{refused}");
    let key = [ObjectKey::from(identity(OBJECTS))];
    assert_eq!(databases[3].read_objects(&key, None).unwrap(), [None]);

    a_server_that_is_away(&cluster, &databases);
}

/// Tag names with the numbers of objects that have them.
fn names(alone: &Database, databases: &[Database], principals: &[Option<Principal>; 3]) {
    for (principal, database) in principals.iter().zip(databases) {
        let of = |database: &Database| -> Vec<(String, bool, u64, bool)> {
            let tags = database.tags(principal.as_ref()).unwrap().into_iter();
            tags.map(|t| (t.name, t.predefined, t.objects, t.indexed))
                .collect()
        };
        assert_eq!(of(database), of(alone), "{principal:?}");
    }
    for database in [alone, &databases[0]] {
        let indexed = |name: &str| {
            let tags = database.tags(None).unwrap();
            tags.iter().find(|t| t.name == name).unwrap().indexed
        };
        let before = indexed("note");
        assert!(database.set_index("note", !before).unwrap());
        assert_eq!(indexed("note"), !before);
        assert!(!database.set_index("note", !before).unwrap());
    }
}

/// Compares E-search: lookups by identity.
fn by_key(alone: &Database, databases: &[Database]) {
    let mut keys: Vec<ObjectKey> = Vec::new();
    for n in 0..OBJECTS {
        keys.push(identity(n).into());
        keys.push(renamed(n).into());
    }
    let expected = alone.read_objects(&keys, None).unwrap();
    let expected: Vec<Option<Identity>> = expected
        .into_iter()
        .map(|f| f.and_then(|f| f.identity()))
        .collect();
    for database in databases {
        let found = database.read_objects(&keys, None).unwrap();
        let numbers: Vec<ObjectKey> = found.iter().flatten().map(|f| f.id.into()).collect();
        let again = database.read_objects(&numbers, None).unwrap();
        let objects: Vec<Option<Found>> = found.iter().filter(|f| f.is_some()).cloned().collect();
        assert!(again == objects);
        let found = found.into_iter().map(|f| f.and_then(|f| f.identity()));
        assert!(found.collect::<Vec<_>>() == expected);
    }
    // The object read as a vertex.
    let (database, id) = (&databases[0], ids(&databases[3], &[renamed(0)])[0]);
    let vertex = database
        .read_vertices(&[id.vertex()], Version::MAX)
        .unwrap();
    assert_eq!(vertex[0].as_ref().unwrap().key, id.to_string());
}

/// Objects on an unavailable server are missing, and the report says so.
fn a_server_that_is_away(cluster: &Cluster, databases: &[Database]) {
    let find = Find::all(Expr::All);
    let (all, _) = search(&databases[0], &find);
    let esker::Role::Client { pid } = databases[3].role() else {
        panic!("it is a server")
    };
    // The supervisor is paused so that it does not restart the server.
    signal(cluster.pid(), "STOP");
    signal(pid, "KILL");
    let (some, report) = search(&databases[0], &find);
    assert_eq!(report.missing, [3]);
    assert!(!report.complete);
    assert!(some.len() < all.len() && some.len() > all.len() / 2);
    let ids: BTreeSet<ObjectId> = all.iter().map(|f| f.id).collect();
    assert!(some.iter().all(|f| ids.contains(&f.id)));
    signal(cluster.pid(), "CONT");
    // The server is back once it answers itself.
    search(
        &databases[3],
        &Find::all(Expr::parse("step = 1", None).unwrap()),
    );
    let (again, report) = search(&databases[0], &find);
    assert!(report.complete, "{report:?}");
    assert!(content(again) == content(all));
}
