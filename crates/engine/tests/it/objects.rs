//! Objects against a simple model: random histories of creating, tagging, moving, deleting, searching, checkpoints and
//! crashes; results of filters, for principals and as of versions.

use crate::small::Small;
use esker_engine::Settings;
use esker_model::filter::Expr;
use esker_model::object::{
    Find, Found, Identity, ObjectId, ObjectKey, ObjectRead, ObjectWrite, Principal, Share,
    TagChange, TagWhere, object_ref,
};
use esker_model::visibility::{Access, WRITE};
use esker_model::{
    Batch, Flow, GraphRead, GraphWrite, NeverCancel, Op, Properties, Result, Value, Version,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// State of an object in the model.
#[derive(Debug, Clone, PartialEq)]
struct ModelObject {
    created: Version,
    modified: Version,
    attributes: Properties,
    tags: Properties,
    /// Names of all tags that it ever had: removing one again is a change, as for any vertex.
    ever: BTreeSet<String>,
}

impl ModelObject {
    fn found(&self, id: ObjectId) -> Found {
        Found {
            id,
            created: self.created,
            modified: self.modified,
            attributes: self.attributes.clone(),
            tags: self.tags.clone(),
        }
    }

    fn note(&mut self, set: &Properties) {
        self.ever.extend(set.iter().map(|(n, _)| n.to_owned()));
    }

    fn int(&self, name: &str) -> Option<i64> {
        match self.attributes.get(name) {
            Some(Value::I64(n)) => Some(*n),
            _ => None,
        }
    }

    fn readable(&self, principal: Option<&Principal>) -> bool {
        principal.is_none_or(|a| {
            let owner = self.int("owner").unwrap();
            let class = if a.uid == owner {
                6
            } else if self.int("gid").is_some_and(|g| a.gids.contains(&g)) {
                3
            } else {
                0
            };
            a.uid == 0 || self.int("mode").unwrap() >> class & 4 != 0
        })
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Creates several objects in one batch.
    Create(Vec<(Identity, Properties, Properties)>),
    Tag(usize, Properties, Vec<String>),
    Change(usize, Properties),
    Move(usize, Identity),
    Delete(usize),
    Group(String, TagChange, Option<Principal>),
    Find(String, Option<Principal>, Option<u64>),
    Index(String, bool),
    Crash,
    Reopen,
    Remember,
}

fn identity() -> impl Strategy<Value = Identity> {
    let name = prop::sample::select(vec!["energy", "VPIC", "run", "run7", "magnetic field"]);
    let app = prop::sample::select(vec!["", "vpic", "boss"]);
    (name, app, 0_i64..3, 0_i64..4).prop_map(|(name, app, owner, step)| Identity {
        name: name.into(),
        app: app.into(),
        owner,
        step,
    })
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => Just(Value::Null),
        4 => (-3_i64..6).prop_map(Value::I64),
        3 => (-4_i64..9).prop_map(|n| Value::F64(n as f64 / 2.0)),
        4 => prop::sample::select(vec!["run 1", "run 12", "test", "Rün", ""]).prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => (0_i64..4).prop_map(|d| Value::Timestamp(d * 86_400_000_000_000)),
        1 => Just(Value::List(vec![Value::I64(1), Value::from("a")])),
        1 => Just(Value::F64(f64::NEG_INFINITY)),
    ]
}

fn tag_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["Conf", "Conf_0", "note", "energy", "Name"]).prop_map(String::from)
}

fn tags() -> impl Strategy<Value = Properties> {
    prop::collection::vec((tag_name(), value()), 0..4).prop_map(|pairs| pairs.into_iter().collect())
}

fn attributes() -> impl Strategy<Value = Properties> {
    let location = prop::option::of(prop::sample::select(vec!["/a/1", "/a/2", "/b"]));
    let mode = prop::option::of(prop::sample::select(vec![
        0o644, 0o600, 0o640, 0o060, 0o006,
    ]));
    (
        location,
        mode,
        prop::option::of(10_i64..12),
        prop::option::of(0_i64..3000),
    )
        .prop_map(|(location, mode, gid, size)| {
            let mut all = Properties::new();
            location.into_iter().for_each(|l| all.set("location", l));
            mode.into_iter().for_each(|m: i64| all.set("mode", m));
            gid.into_iter().for_each(|g| all.set("gid", g));
            size.into_iter().for_each(|s| all.set("size", s));
            all
        })
}

fn principal() -> impl Strategy<Value = Option<Principal>> {
    prop::option::of(
        (0_i64..4, prop::collection::vec(10_i64..12, 0..2))
            .prop_map(|(uid, gids)| Principal { uid, gids }),
    )
}

fn term() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "Conf", "Conf_0", "note", "energy", "Name", "name", "step", "owner", "size", "location",
        "app", "nobody",
    ]);
    let literal = prop::sample::select(vec![
        "1",
        "0",
        "-2",
        "2.5",
        "1.0",
        "'run 1'",
        "'energy'",
        "'VPIC'",
        "''",
        "true",
        "'1970-01-02'",
        "1KiB",
    ]);
    let sign = prop::sample::select(vec!["=", "!=", "<", "<=", ">", ">="]);
    let pattern = prop::sample::select(vec!["run%", "%1", "%un%", "r_n 1", "%", "energy", "%ergy"]);
    prop_oneof![
        4 => (name.clone(), sign, literal.clone()).prop_map(|(n, s, l)| format!("{n} {s} {l}")),
        1 => (name.clone(), -3_i64..3, 0_i64..4).prop_map(|(n, a, b)| format!("{n} BETWEEN {a} AND {}.0", a + b)),
        1 => name.clone().prop_map(|n| format!("{n} BETWEEN 'e' AND 'run 1'")),
        1 => (name.clone(), literal.clone(), literal.clone()).prop_map(|(n, a, b)| format!("{n} IN ({a}, {b})")),
        1 => (name.clone(), literal.clone()).prop_map(|(n, a)| format!("{n} NOT IN ({a}, 3)")),
        2 => (name.clone(), pattern.clone()).prop_map(|(n, p)| format!("{n} LIKE '{p}'")),
        1 => (name.clone(), pattern).prop_map(|(n, p)| format!("{n} NOT LIKE '{p}'")),
        1 => (name.clone(), literal).prop_map(|(n, l)| format!("{n} CONTAINS {l}")),
        1 => name.clone().prop_map(|n| format!("{n} ~ '^r.n'")),
        1 => name.prop_map(|n| format!("EXISTS {n}")),
        1 => Just("created > 1970-01-01".to_owned()),
        1 => Just("type = 'Object'".to_owned()),
    ]
}

fn filter() -> impl Strategy<Value = String> {
    term().prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} AND {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} OR {b})")),
            inner.prop_map(|a| format!("NOT ({a})")),
        ]
    })
}

fn step() -> impl Strategy<Value = Step> {
    let one = (identity(), attributes(), tags());
    let change = (
        tags(),
        any::<bool>(),
        prop::collection::vec(tag_name(), 0..2),
    )
        .prop_map(|(set, keep, remove)| {
            let remove: Vec<_> = remove
                .into_iter()
                .filter(|n| set.get(n).is_none())
                .collect();
            TagChange { set, keep, remove }
        });
    prop_oneof![
        6 => prop::collection::vec(one, 1..6).prop_map(Step::Create),
        4 => (any::<usize>(), tags(), prop::collection::vec(tag_name(), 0..2)).prop_map(|(n, s, r)| Step::Tag(n, s, r)),
        2 => (any::<usize>(), attributes()).prop_map(|(n, a)| Step::Change(n, a)),
        3 => (any::<usize>(), identity()).prop_map(|(n, i)| Step::Move(n, i)),
        2 => any::<usize>().prop_map(Step::Delete),
        4 => (filter(), change, principal()).prop_map(|(f, c, a)| Step::Group(f, c, a)),
        12 => (filter(), principal(), prop::option::of(0_u64..5)).prop_map(|(f, a, l)| Step::Find(f, a, l)),
        1 => (tag_name(), any::<bool>()).prop_map(|(n, on)| Step::Index(n, on)),
        1 => Just(Step::Crash),
        1 => Just(Step::Reopen),
        2 => Just(Step::Remember),
    ]
}

#[derive(Default)]
struct Model {
    objects: BTreeMap<ObjectId, ModelObject>,
    /// All objects in the order of creation, including deleted ones.
    order: Vec<ObjectId>,
    deleted: Vec<ObjectId>,
    /// States at some versions.
    then: Vec<(Version, BTreeMap<ObjectId, ModelObject>)>,
}

impl Model {
    fn with_identity(&self, identity: &Identity) -> Option<ObjectId> {
        let mut all = self.objects.iter();
        let found = all.find(|(id, k)| k.found(**id).identity().as_ref() == Some(identity));
        found.map(|(id, _)| *id)
    }

    fn pick(&self, n: usize) -> Option<ObjectId> {
        let ids: Vec<_> = self.objects.keys().copied().collect();
        (!ids.is_empty()).then(|| ids[n % ids.len()])
    }

    fn matching(&self, filter: &Expr, principal: Option<&Principal>) -> Vec<ObjectId> {
        let live = self
            .order
            .iter()
            .filter_map(|id| Some((*id, self.objects.get(id)?)));
        live.filter(|(_, k)| k.readable(principal))
            .filter(|(id, k)| filter.matches(&k.found(*id)))
            .map(|(id, _)| id)
            .collect()
    }
}

fn with_identity(mut attributes: Properties, identity: &Identity) -> Properties {
    attributes.set("name", identity.name.as_str());
    attributes.set("app", identity.app.as_str());
    attributes.set("owner", identity.owner);
    attributes.set("step", identity.step);
    attributes
}

fn batch(ops: impl IntoIterator<Item = Op>) -> Batch {
    let mut batch = Batch::new();
    ops.into_iter().for_each(|op| batch.push(op));
    batch
}

fn all_found(small: &Small, find: &Find) -> Result<Vec<Found>> {
    let mut all = Vec::new();
    small.engine.find(find, &NeverCancel, &mut |found| {
        all.push(found);
        Flow::Continue(())
    })?;
    Ok(all)
}

struct Harness {
    small: Small,
    model: Model,
}

impl Harness {
    fn vertex(&self, id: ObjectId) -> esker_model::VertexRef {
        object_ref(&self.small.engine.schema().unwrap(), id).unwrap()
    }

    fn create(&mut self, all: Vec<(Identity, Properties, Properties)>) {
        let mut taken = Vec::new();
        let free = all.iter().all(|(identity, ..)| {
            let free = self.model.with_identity(identity).is_none() && !taken.contains(identity);
            taken.push(identity.clone());
            free
        });
        let ops = all
            .iter()
            .cloned()
            .map(|(identity, attributes, tags)| Op::CreateObject {
                identity,
                attributes,
                tags,
            });
        let answer = self.small.engine.apply(batch(ops));
        assert_eq!(answer.is_ok(), free, "{answer:?}");
        let Ok(commit) = answer else { return };
        assert_eq!(commit.vertices_created, all.len() as u64);
        for (identity, mut attributes, tags) in all {
            let found = self.get(ObjectKey::Identity(identity.clone())).unwrap();
            assert!(!self.model.order.contains(&found.id), "{} twice", found.id);
            if attributes.get("mode").is_none() {
                attributes.set("mode", 0o644_i64);
            }
            let known = ModelObject {
                created: commit.version,
                modified: commit.version,
                attributes: with_identity(attributes, &identity),
                ever: BTreeSet::new(),
                tags: Properties::new(),
            };
            let mut known = known;
            known.note(&tags);
            known.tags = tags;
            assert_eq!(found, known.found(found.id));
            self.model.objects.insert(found.id, known);
            self.model.order.push(found.id);
        }
    }

    fn get(&self, key: ObjectKey) -> Option<Found> {
        self.small
            .engine
            .read_objects(&[key], None)
            .unwrap()
            .remove(0)
    }

    fn step(&mut self, step: Step) {
        self.small.clock.advance(1);
        let engine = &self.small.engine;
        match step {
            Step::Create(all) => self.create(all),
            Step::Tag(n, set, mut remove) => {
                let Some(id) = self.model.pick(n) else { return };
                remove.retain(|name| set.get(name).is_none());
                let op = Op::SetAttributes {
                    vertex: self.vertex(id),
                    set: set.clone(),
                    remove: remove.clone(),
                };
                let commit = engine.apply(batch([op])).unwrap();
                let known = self.model.objects.get_mut(&id).unwrap();
                // Setting an equal value still takes the new version; removing an absent tag changes nothing.
                let changes = !set.is_empty() || remove.iter().any(|n| known.ever.contains(n));
                if changes {
                    known.modified = commit.version;
                }
                known.note(&set);
                set.into_iter().for_each(|(n, v)| known.tags.set(n, v));
                remove.iter().for_each(|n| drop(known.tags.remove(n)));
            }
            Step::Change(n, set) => {
                let Some(id) = self.model.pick(n) else { return };
                let op = Op::ChangeVertex {
                    vertex: self.vertex(id),
                    set: set.clone(),
                    remove: Vec::new(),
                };
                let commit = engine.apply(batch([op])).unwrap();
                let known = self.model.objects.get_mut(&id).unwrap();
                known.modified = commit.version;
                set.into_iter()
                    .for_each(|(n, v)| known.attributes.set(n, v));
            }
            Step::Move(n, to) => {
                let Some(id) = self.model.pick(n) else { return };
                let from = self.model.objects[&id].found(id).identity().unwrap();
                let free = self
                    .model
                    .with_identity(&to)
                    .is_none_or(|other| other == id);
                let answer = engine.apply(batch([Op::MoveObject {
                    object: id,
                    from: from.clone(),
                    to: to.clone(),
                }]));
                assert_eq!(answer.is_ok(), free, "{answer:?}");
                let Ok(commit) = answer else { return };
                let known = self.model.objects.get_mut(&id).unwrap();
                known.modified = commit.version;
                known.attributes = with_identity(known.attributes.clone(), &to);
                assert_eq!(self.get(ObjectKey::Identity(to.clone())).unwrap().id, id);
                if from != to {
                    assert_eq!(self.get(ObjectKey::Identity(from)), None);
                }
            }
            Step::Delete(n) => {
                let Some(id) = self.model.pick(n) else { return };
                let op = Op::DeleteVertex {
                    vertex: self.vertex(id),
                };
                engine.apply(batch([op])).unwrap();
                self.model.objects.remove(&id);
                self.model.deleted.push(id);
                assert_eq!(self.get(ObjectKey::Id(id)), None);
            }
            Step::Group(text, change, principal) => self.group(&text, change, principal),
            Step::Find(text, principal, limit) => self.find(&text, principal, limit),
            Step::Index(name, on) => drop(engine.set_index(&name, on).unwrap()),
            Step::Crash => self.small = self.small.after_crash(usize::MAX),
            Step::Reopen => {
                engine.close().unwrap();
                engine.checkpoint_objects().unwrap();
                self.small = self.small.after_crash(usize::MAX);
            }
            Step::Remember => {
                let version = engine.newest_stored();
                self.model.then.push((version, self.model.objects.clone()));
            }
        }
    }

    fn group(&mut self, text: &str, change: TagChange, principal: Option<Principal>) {
        let filter = Expr::parse(text, Some(0)).unwrap();
        let matching = self.model.matching(&filter, principal.as_ref());
        let mut asked = TagWhere {
            filter,
            change,
            principal,
            dry_run: true,
            idempotency_key: None,
        };
        let planned = self.small.engine.tag_where(&asked, &NeverCancel).unwrap();
        asked.dry_run = false;
        let report = self.small.engine.tag_where(&asked, &NeverCancel).unwrap();
        assert_eq!(
            (planned.matches, planned.changed, planned.refused),
            (report.matches, report.changed, report.refused)
        );
        assert_eq!(report.matches, matching.len() as u64, "{text}");
        let (mut changed, mut refused) = (0, 0);
        for id in matching {
            let known = self.model.objects.get_mut(&id).unwrap();
            let may = asked.principal.as_ref().is_none_or(|a| {
                let owner = known.int("owner").unwrap();
                Access::new(Some(owner), known.int("gid"), known.int("mode")).allows(Some(a), WRITE)
            });
            if !may {
                refused += 1;
                continue;
            }
            let before = known.tags.clone();
            known.note(&asked.change.set);
            for (name, value) in asked.change.set.iter() {
                if !(asked.change.keep && before.get(name).is_some()) {
                    known.tags.set(name, value.clone());
                }
            }
            asked
                .change
                .remove
                .iter()
                .for_each(|n| drop(known.tags.remove(n)));
            if known.tags != before {
                changed += 1;
                known.modified = report.version;
            }
        }
        assert_eq!(
            (report.changed, report.refused),
            (changed, refused),
            "{text} {asked:?}"
        );
        self.compare();
    }

    fn find(&mut self, text: &str, principal: Option<Principal>, limit: Option<u64>) {
        let filter = Expr::parse(text, Some(0)).unwrap();
        let expected = self.model.matching(&filter, principal.as_ref());
        let find = Find {
            principal,
            ..Find::all(filter)
        };
        let found = all_found(&self.small, &find).unwrap();
        let ids: Vec<_> = found.iter().map(|f| f.id).collect();
        assert_eq!(ids, expected, "{text}");
        for found in found {
            assert_eq!(found, self.model.objects[&found.id].found(found.id));
        }
        self.columns(&find, &expected);
        let count = Find {
            count: true,
            ..find.clone()
        };
        let report = self
            .small
            .engine
            .find(&count, &NeverCancel, &mut |_| unreachable!());
        assert_eq!(report.unwrap().matches, expected.len() as u64);
        if let Some(limit) = limit.filter(|l| *l > 0) {
            // Paging returns the same results.
            let mut paged = Vec::new();
            let mut page = Find {
                limit: Some(limit),
                ..find.clone()
            };
            loop {
                let some = all_found(&self.small, &page).unwrap();
                assert!(some.len() as u64 <= limit);
                let Some(last) = some.last() else { break };
                page.after = Some(last.id);
                paged.extend(some.into_iter().map(|f| f.id));
            }
            assert_eq!(paged, expected);
            let of = limit as u32 + 1;
            let mut shares = Vec::new();
            for rank in 0..of {
                let share = Some(Share { rank, of });
                let share = Find {
                    share,
                    ..find.clone()
                };
                shares.extend(
                    all_found(&self.small, &share)
                        .unwrap()
                        .into_iter()
                        .map(|f| f.id),
                );
            }
            shares.sort_unstable();
            let mut expected = expected;
            expected.sort_unstable();
            assert_eq!(shares, expected);
        }
    }

    /// Compares the results as columns.
    fn columns(&self, find: &Find, expected: &[ObjectId]) {
        let names = ["Conf", "Conf_0", "name", "step", "energy", "gid", "none"];
        let find = Find {
            select: Some(names.map(String::from).to_vec()),
            ..find.clone()
        };
        let found = self.small.engine.find_columns(&find, &NeverCancel).unwrap();
        assert_eq!(found.ids, expected);
        assert_eq!(found.report.matches, expected.len() as u64);
        assert_eq!(found.columns.len(), names.len());
        for (name, values) in &found.columns {
            assert_eq!(values.len(), expected.len());
            for (at, id) in expected.iter().enumerate() {
                let known = &self.model.objects[id];
                let value = known.attributes.get(name).or_else(|| known.tags.get(name));
                assert_eq!(values.get(at).map(|v| v.to_value()).as_ref(), value);
            }
        }
    }

    /// Compares every object through each read interface.
    fn compare(&self) {
        let engine = &self.small.engine;
        for (id, known) in &self.model.objects {
            assert_eq!(self.get(ObjectKey::Id(*id)), Some(known.found(*id)));
            let vertex = engine.read_vertices(&[id.vertex()], Version::MAX).unwrap();
            let vertex = vertex[0].as_ref().unwrap();
            assert_eq!(vertex.key, id.to_string());
            assert_eq!(vertex.attributes, known.attributes);
            let tags: Properties = vertex
                .user
                .iter()
                .map(|a| (a.name.clone(), a.value.clone()))
                .collect();
            assert_eq!(tags, known.tags);
        }
        for (version, then) in &self.model.then {
            for id in &self.model.order {
                let vertex = engine
                    .read_vertices(&[id.vertex()], *version)
                    .unwrap()
                    .remove(0);
                let vertex = vertex.filter(|v| !v.deleted);
                assert_eq!(
                    vertex.is_some(),
                    then.contains_key(id),
                    "{id} as of {version:?}"
                );
                let Some(vertex) = vertex else { continue };
                assert_eq!(
                    vertex.attributes, then[id].attributes,
                    "{id} as of {version:?}"
                );
                let tags: Properties = vertex.user.into_iter().map(|a| (a.name, a.value)).collect();
                assert_eq!(tags, then[id].tags, "{id} as of {version:?}");
            }
        }
        let mut scanned = Vec::new();
        let schema = engine.schema().unwrap();
        let select = esker_model::VertexSelect::of(schema.vertex_type_id("Object").unwrap());
        engine
            .scan_vertices(&select, &mut |v| {
                scanned.push(ObjectId::of_vertex(v.id).unwrap());
                Flow::Continue(())
            })
            .unwrap();
        assert_eq!(
            scanned,
            self.model.objects.keys().copied().collect::<Vec<_>>()
        );
        let report = engine
            .check(
                &esker_engine::CheckOptions::default(),
                &NeverCancel,
                &mut |_| {},
            )
            .unwrap();
        assert_eq!(report.problems, []);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("ESKER_OBJECT_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(96)
    ))]

    #[test]
    fn objects_are_what_a_simple_model_says(
        least in prop::sample::select(vec![0, 2, 256]),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let settings = Settings { index_objects_least: least, ..Settings::default() };
        let mut play = Harness { small: Small::with(settings), model: Model::default() };
        for step in steps {
            play.step(step);
        }
        play.compare();
    }
}

/// A checkpoint writes several batches; a power failure between any two of them leaves the last state.
#[test]
fn a_checkpoint_that_is_cut_short_changes_nothing() {
    let small = Small::new();
    let long = "x".repeat(1_000);
    let create = |from: i64, until: i64| {
        batch((from..until).map(|step| Op::CreateObject {
            identity: Identity {
                name: "a".into(),
                app: String::new(),
                owner: 1,
                step,
            },
            attributes: Properties::new().with("location", format!("{long}{step}")),
            tags: Properties::new().with("n", step % 10),
        }))
    };
    small.engine.apply(create(0, 9_000)).unwrap();
    small.engine.checkpoint_objects().unwrap();
    let tag = |filter: &str, name: &str, value: i64| TagWhere {
        filter: Expr::parse(filter, None).unwrap(),
        change: TagChange {
            set: Properties::new().with(name, value),
            ..TagChange::default()
        },
        principal: None,
        dry_run: false,
        idempotency_key: None,
    };
    small
        .engine
        .tag_where(&tag("n < 5", "group", 1), &NeverCancel)
        .unwrap();
    small
        .engine
        .tag_where(&tag("n < 2", "group", 2), &NeverCancel)
        .unwrap();
    small.engine.apply(create(9_000, 13_000)).unwrap();
    let gone = ObjectKey::Identity(Identity {
        name: "a".into(),
        app: String::new(),
        owner: 1,
        step: 7,
    });
    let id = small.engine.read_objects(&[gone], None).unwrap()[0]
        .as_ref()
        .unwrap()
        .id;
    let vertex = object_ref(&small.engine.schema().unwrap(), id).unwrap();
    small
        .engine
        .apply(batch([Op::DeleteVertex { vertex }]))
        .unwrap();
    // Another object has its ID attributes now.
    small.engine.apply(create(7, 8)).unwrap();
    small.engine.persist().unwrap();
    let everything = Find::all(Expr::All);
    let expected = all_found(&small, &everything).unwrap();
    assert_eq!(expected.len(), 13_000);
    small.engine.checkpoint_objects().unwrap();
    for kept in 0..8 {
        let after = small.after_crash(kept);
        assert!(
            all_found(&after, &everything).unwrap() == expected,
            "{kept} commits kept"
        );
    }
}
