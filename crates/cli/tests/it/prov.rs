//! PROV documents: their content is equal in each encoding, and survives a round trip through a database.

use esker::{CheckOptions, Database, OpenOptions};
use esker_import::prov::{
    self, Document, Encoding, Export, FORMS, Kind, Slot, Statement, Value, batch, changes,
};
use esker_model::{
    Batch, EdgeSelect, GraphRead as _, GraphWrite as _, NeverCancel, Op, Properties, Version,
    VersionRange, Versions, VertexName, VertexSelect,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// A portable random number generator: `SplitMix64`.
struct Rng(u64);

impl Rng {
    fn next_below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[usize::try_from(self.next_below(of.len() as u64)).unwrap()]
    }
}

/// Returns a name for an item of this kind: kinds have distinct names, as RDF cannot distinguish their attributes.
fn name(rng: &mut Rng, slot: Slot) -> String {
    let spaces = [
        "http://example.org/",
        "http://example.org/deep#",
        "urn:uuid:",
        "https://ex.org/a=b,c;d(e)'f:",
    ];
    let kind = match slot {
        Slot::Activity => "a",
        Slot::Agent => "g",
        Slot::Other => "o",
        _ => "e",
    };
    let files = ["file:///data/x%20y.nc", "file:///data/z"];
    match rng.next_below(8) {
        0 if kind == "e" => rng.one(&files).to_owned(),
        n => format!("{}{kind}{}", rng.one(&spaces), n % 4),
    }
}

fn value(rng: &mut Rng) -> Value {
    match rng.next_below(9) {
        0 => Value::integer(i64::from(u32::try_from(rng.next_below(1 << 32)).unwrap()) * 7 - 5),
        1 => Value::xsd("1.5", "double"),
        2 => Value::xsd("true", "boolean"),
        3 => Value::tagged("Größe", "de"),
        4 => Value::xsd("2026-01-02T03:04:05.25Z", "dateTime"),
        5 => Value::Name(name(rng, Slot::Entity)),
        6 => Value::typed("<x/>".into(), "http://example.org/type".into()),
        7 => Value::string("line\n\"quoted\" \\ 'tab\t'"),
        _ => Value::xsd("http://example.org/any", "anyURI"),
    }
}

/// Generates a statement. `plain`: only statements that PROV-O can express.
fn statement(rng: &mut Rng, plain: bool) -> Statement {
    let form = &FORMS[usize::try_from(rng.next_below(FORMS.len() as u64)).unwrap()];
    let mut statement = Statement::new(form.kind, None);
    for (at, ((_, slot), place)) in form
        .arguments
        .iter()
        .zip(&mut statement.arguments)
        .enumerate()
    {
        if at > 1 && rng.next_below(3) == 0 {
            continue;
        }
        *place = Some(match slot {
            Slot::Time if rng.next_below(2) == 0 => continue,
            Slot::Time => format!("2026-01-01T00:00:{:02}Z", rng.next_below(60)),
            slot => name(rng, *slot),
        });
    }
    let qualified = !form.class.is_empty();
    if form.kind.is_element() {
        let slot = match form.kind {
            Kind::Activity => Slot::Activity,
            Kind::Agent => Slot::Agent,
            _ => Slot::Entity,
        };
        statement.id = Some(name(rng, slot));
    } else if rng.next_below(4) == 0 && (qualified || !plain) {
        statement.id = Some(format!("http://example.org/id{}", rng.next_below(1 << 40)));
    }
    if form.kind.is_element() || qualified || !plain {
        for _ in 0..rng.next_below(4) {
            let names = [
                "http://www.w3.org/ns/prov#label",
                "http://www.w3.org/ns/prov#type",
                "http://example.org/attribute",
                "http://schema.org/name",
                "urn:esker:attributes/own",
            ];
            let name = rng.one(&names).to_owned();
            statement.attributes.push((name, value(rng)));
        }
    }
    statement
}

fn document(rng: &mut Rng, plain: bool) -> Document {
    let mut document = Document::default();
    let mut ends = BTreeSet::new();
    for _ in 0..=rng.next_below(20) {
        let statement = statement(rng, plain);
        // PROV-O cannot express one relation of two things both with and without further parts, nor two mentions by one entity.
        let second = statement.arguments.get(1);
        let second = second.filter(|_| statement.kind != Kind::Mention);
        // It cannot express two starts of an activity, either.
        let activity = statement.kind == Kind::Activity;
        let first = match &statement.id {
            Some(id) if activity => Some(id.clone()),
            _ => statement.arguments.first().cloned().flatten(),
        };
        let of = (statement.kind, first, second.cloned().filter(|_| !activity));
        if plain && (activity || !statement.kind.is_element()) && !ends.insert(of) {
            continue;
        }
        if !plain && rng.next_below(4) == 0 {
            let bundle = format!("http://example.org/bundle{}", rng.next_below(2));
            document.bundles.entry(bundle).or_default().push(statement);
        } else {
            document.statements.push(statement);
        }
    }
    if rng.next_below(5) == 0 && !plain {
        document
            .bundles
            .entry("http://example.org/empty".into())
            .or_default();
    }
    document.normal()
}

/// Fails with the statements that only one of the documents has.
fn same(left: &Document, right: &Document, about: &str) {
    let only = |a: &Document, b: &Document| -> Vec<String> {
        let all: Vec<_> = b.all().collect();
        let lacking = a.all().filter(|s| !all.contains(s));
        lacking.map(|s| format!("{s:?}")).collect()
    };
    assert!(
        left == right,
        "{about}: {:#?} or {:#?}",
        only(left, right),
        only(right, left)
    );
}

/// Prefixes have no meaning.
fn bare(mut document: Document) -> Document {
    document.prefixes.clear();
    document
}

#[test]
fn what_is_written_is_read_again() {
    for seed in 0..400 {
        let rng = &mut Rng(seed);
        for (encoding, plain) in [
            (Encoding::Provn, false),
            (Encoding::Json, false),
            (Encoding::Turtle, true),
        ] {
            let document = document(rng, plain);
            let text = prov::write(&document, encoding).unwrap();
            let back =
                prov::read(&text, encoding).unwrap_or_else(|e| panic!("{seed}: {e}\n{text}"));
            assert_eq!(
                bare(back),
                document,
                "seed {seed}, {}\n{text}",
                encoding.name()
            );
        }
    }
}

fn database(folder: &std::path::Path) -> Database {
    let options = OpenOptions::new().create(true).memory_bytes(16 << 20);
    options.open(folder.to_str().unwrap()).unwrap()
}

/// Imports a document and returns the number of changes.
fn import(database: &Database, document: &Document) -> usize {
    let schema = database.define(&changes(document)).unwrap();
    let batch = batch(document, &schema, database, database).unwrap();
    let changes = batch.len();
    if changes > 0 {
        database.apply(batch).unwrap();
    }
    changes
}

fn export(database: &Database) -> Document {
    let schema = database.schema().unwrap();
    let mut export = Export::new(&schema);
    let mut ids = Vec::new();
    for (root, _) in schema.vertex_types().filter(|(_, t)| t.parent.is_none()) {
        let select = VertexSelect::of(root);
        let scanned = database.scan_vertices(&select, &mut |vertex| {
            export.vertex(&vertex);
            ids.push(vertex.id);
            ControlFlow::Continue(())
        });
        scanned.unwrap();
    }
    let forward = schema.edge_types().filter(|(_, t)| t.forward);
    let write = schema.edge_type_id("write").unwrap();
    let all = VersionRange {
        from: Version::ZERO,
        until: Version::MAX,
    };
    for (id, _) in forward {
        let select = EdgeSelect {
            types: vec![id],
            versions: if id == write {
                Versions::Range(all)
            } else {
                Versions::NOW
            },
            properties: true,
            after: None,
        };
        let scanned = database.scan_edges(&ids, &select, &mut |_, edge| {
            export.edge(edge);
            ControlFlow::Continue(())
        });
        scanned.unwrap();
    }
    bare(export.finish())
}

#[test]
fn what_goes_in_comes_out_and_only_once() {
    for seed in 0..60 {
        let rng = &mut Rng(1_000 + seed);
        let (one, two) = (document(rng, false), document(rng, false));
        let folder = tempfile::tempdir().unwrap();
        let first = database(&folder.path().join("first"));
        assert!(import(&first, &one) > 0, "seed {seed}");
        same(&export(&first), &one, &format!("seed {seed}"));
        assert_eq!(import(&first, &one), 0, "seed {seed}: the same again");
        // Two documents have the same combined content in either order.
        import(&first, &two);
        assert_eq!(
            import(&first, &one) + import(&first, &two),
            0,
            "seed {seed}"
        );
        let found = first.check(&CheckOptions::default(), &NeverCancel, &mut |_| {});
        let problems = found.unwrap().problems;
        assert!(problems.is_empty(), "seed {seed}: {problems:?}");
        let second = database(&folder.path().join("second"));
        import(&second, &two);
        import(&second, &one);
        same(&export(&first), &export(&second), &format!("seed {seed}"));
    }
}

fn lab(database: &Database) {
    let schema = database.schema().unwrap();
    let vertex = |text: &str| {
        let name = VertexName::parse(text).unwrap();
        (name.resolve(&schema).unwrap(), name.key)
    };
    let mut batch = Batch::new();
    let names = [
        "user:7",
        "job:1",
        "job:2",
        "file:/in a.nc",
        "file:/out.nc",
        "executable:/bin/wrf",
    ];
    for (i, name) in names.iter().enumerate() {
        let (vertex, key) = vertex(name);
        batch.push_at(Version::new(1_000, 0), Op::EnsureVertex { vertex, key });
        let set = Properties::new().with("note", format!("note {i}"));
        let remove = Vec::new();
        batch.push_at(
            Version::new(1_000, 0),
            Op::SetAttributes {
                vertex,
                set,
                remove,
            },
        );
    }
    let edges = [
        ("user:7", "run", "job:1", 1_000),
        ("job:1", "exe", "executable:/bin/wrf", 1_000),
        ("job:1", "read", "file:/in a.nc", 1_001),
        ("job:1", "write", "file:/out.nc", 2_000),
        ("job:1", "write", "file:/out.nc", 3_000),
        ("job:2", "read", "file:/out.nc", 2_500),
        ("job:2", "belongs", "job:1", 2_500),
    ];
    for (from, name, to, millis) in edges {
        let op = Op::PutEdge {
            source: vertex(from).0,
            edge_type: schema.edge_type_id(name).unwrap(),
            destination: vertex(to).0,
            properties: Properties::new()
                .with("evidence", "observed")
                .with("bytes", 5),
        };
        batch.push_at(Version::new(millis, 0), op);
    }
    database.apply(batch).unwrap();
}

#[test]
fn what_a_database_knows_itself_has_versions() {
    let folder = tempfile::tempdir().unwrap();
    let first = database(&folder.path().join("first"));
    lab(&first);
    let told = export(&first);
    let text = prov::write(&told, Encoding::Provn).unwrap();
    let has = |part: &str| assert!(text.contains(part), "{part} is not in\n{text}");
    has(
        "specializationOf(esker:file\\:/out.nc?version\\=1970-01-01T00\\:00\\:02.000Z, esker:file\\:/out.nc)",
    );
    has(
        "wasGeneratedBy(esker:file\\:/out.nc?version\\=1970-01-01T00\\:00\\:03.000Z, esker:job\\:1, 1970-01-01T00:00:03Z",
    );
    // The second job read the version of its time.
    has(
        "used(esker:job\\:2, esker:file\\:/out.nc?version\\=1970-01-01T00\\:00\\:02.000Z, 1970-01-01T00:00:02.5Z",
    );
    has("used(esker:job\\:1, esker:file\\:/in%20a.nc, ");
    has("wasAssociatedWith(esker:job\\:1, esker:user\\:7, -");
    has("wasAssociatedWith(esker:job\\:1, -, esker:executable\\:/bin/wrf");
    has("dcterms:isPartOf='esker:job\\:1'");
    // Another database imports the export and exports the same.
    let second = database(&folder.path().join("second"));
    import(&second, &told);
    same(&export(&second), &told, "what was told");
    assert_eq!(import(&second, &told), 0);
    let schema = second.schema().unwrap();
    let job = VertexName::parse("job:2")
        .unwrap()
        .resolve(&schema)
        .unwrap();
    let found = esker::lineage::lineage(
        &second,
        job.id,
        &esker::lineage::LineageOptions::default(),
        &NeverCancel,
    )
    .unwrap();
    let names: BTreeSet<String> = found
        .vertices
        .iter()
        .filter_map(|v| v.vertex.as_ref().map(|v| v.name(&schema)))
        .collect();
    for name in [
        "file:/out.nc",
        "job:1",
        "file:/in a.nc",
        "executable:/bin/wrf",
        "user:7",
    ] {
        assert!(names.contains(name), "{name} is not in {names:?}");
    }
}
