//! Shares of lineages: random graphs, shares, revocations, times and owners against a simple model, and single rules.
//!
//! `ESKER_SHARE_SEEDS=1..1000` runs more seeds.

use super::{change, path, rename, small, sound};
use crate::small::Small;
use esker_engine::{Engine, View};
use esker_lineage::{LineageOptions, impact, lineage};
use esker_model::filter::Expr;
use esker_model::namespace::{Change, Errno, Namespace as _, NewFile, SetAttributes, resolve};
use esker_model::object::{Find, Identity, ObjectKey, ObjectRead as _, Principal, object_ref};
use esker_model::sharing::{ShareId, SharingTerms};
use esker_model::traversal::Budget;
use esker_model::visibility::{Access, READ, SEARCH};
use esker_model::{
    DiffSelect, Difference, EdgeKey, EdgeSelect, Error, GraphRead, NeverCancel, Op, Properties,
    Traversal, Version, VersionRange, Versions, VertexId, VertexName, VertexRef, VertexSelect,
};
use esker_testkit::rng::Rng;
use esker_testkit::run::seeds;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

const JOBS: usize = 5;
const DIRECTORIES: [(&str, u32, u32); 3] = [
    ("open", 0o755, 0),
    ("shut", 0o700, 1001),
    ("half", 0o711, 1002),
];

fn principal(uid: i64, gids: &[i64]) -> Principal {
    Principal {
        uid,
        gids: gids.to_vec(),
    }
}

fn people() -> [Principal; 4] {
    [
        principal(1001, &[100]),
        principal(1002, &[200]),
        principal(1003, &[100, 200]),
        principal(1004, &[]),
    ]
}

/// A file or an object, as the model knows it.
struct Item {
    vertex: VertexRef,
    /// Path of a file.
    path: Option<String>,
    /// Access to the directory of a file.
    directory: Option<Access>,
    access: Access,
}

impl Item {
    fn permits(&self, who: &Principal) -> bool {
        let reached = |a: &Access| a.allows(Some(who), SEARCH);
        self.directory.as_ref().is_none_or(reached) && self.access.allows(Some(who), READ)
    }
}

struct ModelShare {
    terms: SharingTerms,
    /// Owners of the items when they were shared.
    items: BTreeMap<VertexId, i64>,
}

struct Case {
    small: Small,
    items: Vec<Item>,
    jobs: Vec<VertexRef>,
    /// All edges in both directions.
    edges: BTreeSet<EdgeKey>,
    shares: BTreeMap<ShareId, (Option<i64>, ModelShare)>,
}

fn named(engine: &Engine, name: &str) -> VertexRef {
    let name = VertexName::parse(name).unwrap();
    resolve(engine, None, &engine.schema().unwrap(), &[name]).unwrap()[0]
}

fn files(rng: &mut Rng, small: &Small) -> Vec<Item> {
    let engine = &small.engine;
    let mut items = Vec::new();
    for (name, mode, uid) in DIRECTORIES {
        let make = NewFile::new(0o4_0000 | mode, uid, 0);
        change(
            engine,
            None,
            Change::Create(path(&format!("/{name}")), make),
        )
        .unwrap();
        let directory = Access::new(Some(uid.into()), Some(0), Some(mode.into()));
        for n in 0..4 {
            let at = format!("/{name}/f{n}");
            let uid = *rng.pick(&[0, 1001, 1002]);
            let gid = *rng.pick(&[100, 200]);
            let mode = *rng.pick(&[0o644, 0o600, 0o640, 0]);
            let make = NewFile::new(0o10_0000 | mode, uid, gid);
            change(engine, None, Change::Create(path(&at), make)).unwrap();
            let vertex = named(engine, &format!("file:{at}"));
            let key = at.clone();
            small
                .batch(None, vec![Op::EnsureVertex { vertex, key }])
                .unwrap();
            items.push(Item {
                vertex,
                path: Some(at),
                directory: Some(directory.clone()),
                access: Access::new(Some(uid.into()), Some(gid.into()), Some(mode.into())),
            });
        }
    }
    items
}

fn objects(rng: &mut Rng, small: &Small) -> Vec<Item> {
    let engine = &small.engine;
    let schema = engine.schema().unwrap();
    let mut items = Vec::new();
    for step in 0..4 {
        let (owner, mode) = (*rng.pick(&[0, 1001, 1002]), *rng.pick(&[0o600, 0o644]));
        let identity = Identity {
            name: "field".into(),
            app: String::new(),
            owner,
            step,
        };
        let create = Op::CreateObject {
            identity: identity.clone(),
            attributes: Properties::new().with("mode", mode),
            tags: Properties::new(),
        };
        small.batch(None, vec![create]).unwrap();
        let found = engine
            .read_objects(&[ObjectKey::Identity(identity)], None)
            .unwrap();
        let id = found[0].as_ref().unwrap().id;
        items.push(Item {
            vertex: object_ref(&schema, id).unwrap(),
            path: None,
            directory: None,
            access: Access::new(Some(owner), None, Some(mode)),
        });
    }
    items
}

impl Case {
    fn new(rng: &mut Rng) -> Self {
        let small = small();
        let mut items = files(rng, &small);
        items.extend(objects(rng, &small));
        let schema = small.engine.schema().unwrap();
        let (mut jobs, mut edges) = (Vec::new(), BTreeSet::new());
        for n in 0..JOBS {
            let job = named(&small.engine, &format!("job:{n}"));
            let mut ops = vec![Op::EnsureVertex {
                vertex: job,
                key: n.to_string(),
            }];
            for (edge_type, most) in [("read", 4), ("write", 3)] {
                let edge_type = schema.edge_type_id(edge_type).unwrap();
                for _ in 0..=rng.number_below(most) {
                    let destination = rng.pick(&items).vertex;
                    let key = EdgeKey {
                        source: job.id,
                        edge_type,
                        destination: destination.id,
                    };
                    edges.extend([key, key.reversed(schema.inverse(edge_type))]);
                    ops.push(Op::PutEdge {
                        source: job,
                        edge_type,
                        destination,
                        properties: Properties::new(),
                    });
                }
            }
            small.batch(None, ops).unwrap();
            jobs.push(job);
        }
        Self {
            small,
            items,
            jobs,
            edges,
            shares: BTreeMap::new(),
        }
    }

    fn sees(&self, who: &Principal, item: &Item) -> bool {
        let now = self.small.clock.millis();
        item.permits(who)
            || self.shares.values().any(|(_, share)| {
                let terms = &share.terms;
                let is_for = terms.users.contains(&who.uid)
                    || terms.groups.iter().any(|g| who.gids.contains(g));
                is_for
                    && terms.until_millis.is_none_or(|until| now < until)
                    && share.items.get(&item.vertex.id) == Some(&item.access.owner)
            })
    }

    /// Shares the lineage of a random vertex with random people, as the owner of the database or as a user.
    fn share(&mut self, rng: &mut Rng) {
        let people = people();
        let by = rng.percent(60).then(|| rng.pick(&people).clone());
        let all: Vec<VertexId> = self.items.iter().map(|i| i.vertex.id).collect();
        let root = *rng.pick(&all);
        let now = self.small.clock.millis();
        let (users, groups) = match rng.number_below(3) {
            0 => (vec![rng.pick(&people).uid, 1004], Vec::new()),
            1 => (Vec::new(), vec![*rng.pick(&[100, 200])]),
            _ => (vec![1003], vec![200]),
        };
        let mut terms = SharingTerms {
            root,
            impact: rng.percent(30),
            users,
            groups,
            until_millis: rng
                .percent(50)
                .then(|| now + 1 + rng.number_below(20) as u64),
        };
        let engine = &self.small.engine;
        let view = View::new(engine, by.as_ref());
        let follow = if terms.impact { impact } else { lineage };
        let found = match follow(&view, root, &LineageOptions::default(), &NeverCancel) {
            Ok(found) => found,
            Err(Error::NoVertex { .. }) => return,
            Err(e) => panic!("{e}"),
        };
        let reached: Vec<VertexId> = found.vertices.iter().map(|v| v.id).collect();
        let may = |item: &&Item| {
            reached.contains(&item.vertex.id)
                && by
                    .as_ref()
                    .is_none_or(|p| item.access.owner == p.uid && item.permits(p))
        };
        let opened = self.items.iter().filter(may);
        let items: BTreeMap<VertexId, i64> =
            opened.map(|i| (i.vertex.id, i.access.owner)).collect();
        let made = engine.share(by.as_ref(), terms.clone(), &reached);
        if items.is_empty() {
            assert!(matches!(made, Err(Error::Invalid(_))), "{made:?}");
            return;
        }
        let made = made.unwrap();
        assert_eq!(made.items, items.len() as u64);
        terms.normalize(now).unwrap();
        assert_eq!(made.terms, terms);
        self.shares
            .retain(|_, (_, s)| s.terms.until_millis.is_none_or(|until| now < until));
        let share = ModelShare { terms, items };
        self.shares.insert(made.id, (by.map(|p| p.uid), share));
    }

    fn revoke(&mut self, rng: &mut Rng) {
        let ids: Vec<ShareId> = self.shares.keys().copied().collect();
        if ids.is_empty() {
            return;
        }
        let id = *rng.pick(&ids);
        let person = rng.pick(&people()).clone();
        let by = rng.percent(50).then_some(&person);
        let may = by.is_none_or(|p| self.shares[&id].0 == Some(p.uid));
        let ended = self.small.engine.revoke_share(by, id).unwrap();
        assert_eq!(ended.is_some(), may);
        if may {
            self.shares.remove(&id);
        }
    }

    /// Changes the owner or the mode of a random file.
    fn set(&mut self, rng: &mut Rng) {
        let files: Vec<usize> = (0..self.items.len())
            .filter(|i| self.items[*i].path.is_some())
            .collect();
        let item = &mut self.items[*rng.pick(&files)];
        let mut set = SetAttributes::default();
        if rng.percent(50) {
            let uid = *rng.pick(&[0_u32, 1001, 1002]);
            set.uid = Some(uid);
            item.access.owner = uid.into();
        } else {
            let mode = *rng.pick(&[0o644_u32, 0o600, 0o640, 0]);
            set.mode = Some(mode);
            item.access.mode = mode.into();
        }
        let change_it = Change::Set {
            path: path(item.path.as_ref().unwrap()),
            follow: false,
            set,
        };
        change(&self.small.engine, None, change_it).unwrap();
    }

    fn compare(&self, engine: &Engine, past: Version) {
        for who in people() {
            self.compare_for(&who, engine, past);
        }
    }

    /// Compares all reads of the graph for one principal with the model.
    fn compare_for(&self, who: &Principal, engine: &Engine, past: Version) {
        let view = View::new(engine, Some(who));
        let seen: BTreeSet<VertexId> = self
            .items
            .iter()
            .filter(|i| self.sees(who, i))
            .map(|i| i.vertex.id)
            .collect();
        let jobs: Vec<VertexId> = self.jobs.iter().map(|j| j.id).collect();
        let mut ids: Vec<VertexId> = self.items.iter().map(|i| i.vertex.id).collect();
        ids.extend(&jobs);
        let shows = |id: &VertexId| jobs.contains(id) || seen.contains(id);
        let edges: BTreeSet<EdgeKey> = self
            .edges
            .iter()
            .filter(|e| shows(&e.source) && shows(&e.destination))
            .copied()
            .collect();
        for as_of in [past, Version::MAX] {
            let all = View::new(engine, None).read_vertices(&ids, as_of).unwrap();
            let expected = ids.iter().zip(all).map(|(id, v)| v.filter(|_| shows(id)));
            assert_eq!(
                view.read_vertices(&ids, as_of).unwrap(),
                expected.collect::<Vec<_>>(),
                "{who}"
            );
        }
        for id in &ids {
            let history = view.vertex_history(*id, VersionRange::ALL).unwrap();
            assert_eq!(history.is_empty(), !shows(id), "{who}");
        }
        let select = EdgeSelect {
            types: Vec::new(),
            versions: Versions::NOW,
            properties: false,
            after: None,
        };
        let mut scanned = BTreeSet::new();
        view.scan_edges(&ids, &select, &mut |_, edge| {
            scanned.insert(edge.key);
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(scanned, edges, "{who}");
        let keys: Vec<EdgeKey> = self.edges.iter().copied().collect();
        let read = view.read_edges(&keys, Version::MAX).unwrap();
        for (key, read) in keys.iter().zip(read) {
            assert_eq!(read.is_some(), edges.contains(key), "{who}");
            let history = view.edge_history(*key, VersionRange::ALL).unwrap();
            assert_eq!(history.is_empty(), !edges.contains(key), "{who}");
            let degree = view.degrees(&[(key.source, key.edge_type)]).unwrap()[0];
            let same = |e: &&EdgeKey| e.source == key.source && e.edge_type == key.edge_type;
            assert_eq!(degree, edges.iter().filter(same).count() as u64, "{who}");
        }
        self.compare_totals(engine, &view, &seen, &edges, who);
    }

    fn compare_totals(
        &self,
        engine: &Engine,
        view: &View<'_>,
        seen: &BTreeSet<VertexId>,
        edges: &BTreeSet<EdgeKey>,
        who: &Principal,
    ) {
        let schema = view.schema().unwrap();
        let data = schema.vertex_type_id("DataObject").unwrap();
        let mut scanned = BTreeSet::new();
        view.scan_vertices(&VertexSelect::of(data), &mut |v| {
            scanned.insert(v.id);
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(&scanned, seen, "{who}");
        let counts = view.counts().unwrap();
        let vertices: u64 = counts.vertices.iter().map(|(_, n)| n).sum();
        assert_eq!(vertices, (seen.len() + JOBS) as u64, "{who}");
        for name in ["read", "write"] {
            let edge_type = schema.edge_type_id(name).unwrap();
            let counted = counts
                .edges
                .iter()
                .find(|(t, _)| *t == edge_type)
                .unwrap()
                .1;
            let of_type = edges.iter().filter(|e| e.edge_type == edge_type);
            assert_eq!(counted, of_type.count() as u64, "{who}");
        }
        let read = schema.edge_type_id("read").unwrap();
        let chain = Traversal::parse("v(type=Job).e(\"read\").v()").unwrap();
        let found = view
            .travel(&chain, &Budget::default(), &NeverCancel)
            .unwrap();
        let got: BTreeSet<VertexId> = found
            .sets
            .iter()
            .flat_map(|set| &set.vertices)
            .copied()
            .filter(|id| self.jobs.iter().all(|j| j.id != *id))
            .collect();
        let of_reads = edges.iter().filter(|e| e.edge_type == read);
        let wanted: BTreeSet<VertexId> = of_reads.map(|e| e.destination).collect();
        assert_eq!(got, wanted, "{who}");
        let select = DiffSelect::between(Version::ZERO, Version::MAX);
        let mut told = BTreeSet::new();
        view.diff(&select, &mut |difference| {
            if let Difference::Vertex(before, after) = difference {
                told.extend(before.iter().chain(&after).map(|v| v.id));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
        told.retain(|id| self.items.iter().any(|i| i.vertex.id == *id));
        assert_eq!(&told, seen, "{who}");
        // Searches over objects go by permissions alone.
        let find = Find {
            principal: Some(who.clone()),
            ..Find::all(Expr::All)
        };
        let report = engine.find(&find, &NeverCancel, &mut |_| ControlFlow::Continue(()));
        let permitted = self
            .items
            .iter()
            .filter(|i| i.path.is_none() && i.permits(who));
        assert_eq!(report.unwrap().matches, permitted.count() as u64, "{who}");
    }
}

#[test]
fn graphs_are_as_the_model_says() {
    for seed in seeds("ESKER_SHARE_SEEDS", 4) {
        let mut rng = Rng::new(seed);
        let mut case = Case::new(&mut rng);
        let past = case.small.engine.newest_assigned();
        case.small.clock.advance(1);
        for _ in 0..30 {
            match rng.number_below(8) {
                0..4 => case.share(&mut rng),
                4 => case.revoke(&mut rng),
                5 => case.set(&mut rng),
                _ => case.small.clock.advance(1 + rng.number_below(8) as i64),
            }
            case.compare(&case.small.engine, past);
        }
        sound(&case.small.engine);
        // Shares and revocations survive a power failure at once; files do not have to.
        case.small.engine.persist().unwrap();
        let after = case.small.after_crash(0);
        case.compare(&after.engine, past);
        let shares = |engine: &Engine| engine.shares(None);
        assert_eq!(
            shares(&after.engine),
            shares(&case.small.engine),
            "seed {seed}"
        );
    }
}

/// A file of user 1001 that only that user reads, and the job that wrote it.
fn private_file(small: &Small, at: &str) -> VertexRef {
    let make = NewFile::new(0o10_0600, 1001, 0);
    change(&small.engine, None, Change::Create(path(at), make)).unwrap();
    let vertex = named(&small.engine, &format!("file:{at}"));
    let key = at.to_owned();
    small
        .batch(None, vec![Op::EnsureVertex { vertex, key }])
        .unwrap();
    vertex
}

fn terms(root: VertexRef, users: &[i64]) -> SharingTerms {
    SharingTerms {
        root: root.id,
        impact: false,
        users: users.to_vec(),
        groups: Vec::new(),
        until_millis: None,
    }
}

fn key_for(engine: &Engine, who: &Principal, vertex: VertexRef) -> Option<String> {
    let view = View::new(engine, Some(who));
    let found = view
        .read_vertices(&[vertex.id], Version::MAX)
        .unwrap()
        .remove(0);
    found.map(|v| v.key)
}

#[test]
fn a_share_shows_names_and_no_contents() {
    let small = small();
    let engine = &small.engine;
    let shut = NewFile::new(0o4_0700, 1001, 0);
    change(engine, None, Change::Create(path("/shut"), shut)).unwrap();
    let file = private_file(&small, "/shut/a");
    let (owner, bob) = (principal(1001, &[]), principal(1002, &[]));
    assert_eq!(key_for(engine, &bob, file), None);
    let share = engine
        .share(Some(&owner), terms(file, &[1002]), &[file.id])
        .unwrap();
    assert_eq!(key_for(engine, &bob, file).as_deref(), Some("/shut/a"));
    assert_eq!(engine.shares(Some(&bob)), std::slice::from_ref(&share));
    assert!(engine.shares(Some(&principal(1003, &[]))).is_empty());
    // The present name is shown; files are read as their permissions say.
    rename(engine, "/shut/a", "/shut/b").unwrap();
    assert_eq!(key_for(engine, &bob, file).as_deref(), Some("/shut/b"));
    let stat = engine.stat(Some(&bob), &path("/shut/b"), false);
    assert!(matches!(stat, Err(Error::File(e)) if e.errno == Errno::Access));
    // Only the user who shares and the owner of the database end a share.
    assert_eq!(engine.revoke_share(Some(&bob), share.id).unwrap(), None);
    assert_eq!(
        engine.revoke_share(Some(&owner), share.id).unwrap(),
        Some(share.clone())
    );
    assert_eq!(key_for(engine, &bob, file), None);
    assert_eq!(engine.revoke_share(None, share.id).unwrap(), None);
    assert!(engine.open_shares(Some(&bob)).is_empty());
}

#[test]
fn a_removed_file_stays_shared_and_another_one_is_not() {
    let small = small();
    let engine = &small.engine;
    let file = private_file(&small, "/a");
    let (owner, bob) = (principal(1001, &[]), principal(1002, &[]));
    engine
        .share(Some(&owner), terms(file, &[1002]), &[file.id])
        .unwrap();
    change(engine, None, Change::Unlink(path("/a"))).unwrap();
    assert!(key_for(engine, &bob, file).is_some());
    // A file of another user at the same path is not shared, even if it has the same vertex.
    let make = NewFile::new(0o10_0600, 1003, 0);
    change(engine, None, Change::Create(path("/a"), make)).unwrap();
    let again = named(engine, "file:/a");
    let key = "/a".to_owned();
    small
        .batch(None, vec![Op::EnsureVertex { vertex: again, key }])
        .unwrap();
    assert_eq!(key_for(engine, &bob, again), None);
    assert_eq!(
        key_for(engine, &principal(1003, &[]), again).as_deref(),
        Some("/a")
    );
}

#[test]
fn users_share_what_they_own() {
    let small = small();
    let engine = &small.engine;
    let file = private_file(&small, "/a");
    let job = named(engine, "job:1");
    small.ensure(None, "job:1");
    let (owner, bob) = (principal(1001, &[]), principal(1002, &[]));
    for (who, vertices) in [
        (Some(&bob), vec![file.id, job.id]),
        (Some(&owner), vec![job.id]),
        (None, vec![job.id]),
    ] {
        let refused = engine.share(who, terms(file, &[1003]), &vertices);
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }
    // A file that its owner cannot reach is not shared by its owner.
    let shut = NewFile::new(0o4_0700, 1002, 0);
    change(engine, None, Change::Create(path("/shut"), shut)).unwrap();
    let hidden = private_file(&small, "/shut/b");
    assert!(
        engine
            .share(Some(&owner), terms(hidden, &[1003]), &[hidden.id])
            .is_err()
    );
    assert_eq!(
        engine
            .share(None, terms(hidden, &[1003]), &[hidden.id])
            .unwrap()
            .items,
        1
    );
    // Each user makes at most a hundred; sharing the same again needs no further one.
    for uid in 0..100 {
        engine
            .share(Some(&owner), terms(file, &[2000 + uid]), &[file.id])
            .unwrap();
    }
    let full = engine.share(Some(&owner), terms(file, &[3000]), &[file.id]);
    assert!(matches!(full, Err(Error::Limit { .. })), "{full:?}");
    engine
        .share(Some(&owner), terms(file, &[2000]), &[file.id])
        .unwrap();
    let many = vec![file.id; 100_001];
    let large = engine.share(None, terms(file, &[1003]), &many);
    assert!(matches!(large, Err(Error::Limit { .. })), "{large:?}");
}
