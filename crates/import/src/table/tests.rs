//! Round trips of tables, damaged tables, tables from other sources.

use super::*;
use esker_model::record::UserAttribute;
use esker_model::{Edge, EdgeKey, Op, Properties, Value, ValueKind, Vertex, VertexId};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::{Cursor, Seek, SeekFrom, Write};

const FORMATS: [Format; 4] = [Format::Csv, Format::Tsv, Format::Ndjson, Format::Parquet];

fn schema() -> Arc<Schema> {
    Arc::new(Schema::default())
}

fn read(table: &[u8], format: Format, options: &ReadOptions) -> Vec<Result<Mutation, RecordError>> {
    open(table, format, options).unwrap().collect()
}

fn open(table: &[u8], format: Format, options: &ReadOptions) -> Result<TableReader, RecordError> {
    if format == Format::Parquet {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(table).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        return TableReader::parquet(file, options, schema());
    }
    TableReader::text(Cursor::new(table.to_vec()), format, options, schema())
}

fn edges() -> ReadOptions {
    ReadOptions::new("e.csv", Rows::Edges)
}

fn vertices() -> ReadOptions {
    ReadOptions::new("v.csv", Rows::Vertices)
}

fn good(table: &str, format: Format, options: &ReadOptions) -> Vec<Mutation> {
    read(table.as_bytes(), format, options)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap()
}

fn errors(table: &[u8], format: Format, options: &ReadOptions) -> Vec<String> {
    read(table, format, options)
        .into_iter()
        .filter_map(|m| m.err().map(|e| e.to_string()))
        .collect()
}

/// Applies vertex mutations as an engine does; returns the final vertices.
fn apply(mutations: &[Mutation]) -> BTreeMap<VertexId, Vertex> {
    let mut all: BTreeMap<VertexId, (Vertex, Version)> = BTreeMap::new();
    for m in mutations {
        let version = m.version.unwrap();
        let (vertex, key) = match &m.op {
            Op::EnsureVertex { vertex, key } | Op::PutVertex { vertex, key, .. } => {
                (*vertex, key.clone())
            }
            Op::SetAttributes { vertex, .. } | Op::DeleteVertex { vertex } => {
                (*vertex, all[&vertex.id].0.key.clone())
            }
            _ => panic!("an edge among vertices"),
        };
        let blank = || Vertex {
            id: vertex.id,
            type_id: vertex.type_id,
            key,
            version,
            deleted: false,
            attributes: Properties::new(),
            user: Vec::new(),
        };
        let (v, put) = all
            .entry(vertex.id)
            .or_insert_with(|| (blank(), Version::ZERO));
        v.version = v.version.max(version);
        match &m.op {
            Op::PutVertex { attributes, .. } if version >= *put => {
                *put = version;
                v.attributes = attributes.clone();
            }
            Op::SetAttributes { set, .. } => {
                for (name, value) in set.iter() {
                    v.user.retain(|a| a.name != name);
                    let (name, value) = (name.to_owned(), value.clone());
                    v.user.push(UserAttribute {
                        name,
                        version,
                        value,
                    });
                }
                v.user.sort_by(|a, b| a.name.cmp(&b.name));
            }
            Op::DeleteVertex { .. } => v.deleted = true,
            _ => {}
        }
    }
    all.into_iter().map(|(id, (v, _))| (id, v)).collect()
}

fn version() -> impl Strategy<Value = Version> {
    (0..4_000_000_000_000_u64, any::<u16>()).prop_map(|(ms, l)| Version::new(ms, l))
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::I64),
        any::<f64>()
            .prop_filter("NaN is not itself", |v| !v.is_nan())
            .prop_map(Value::F64),
        any::<String>().prop_map(Value::String),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Value::Bytes),
        any::<i64>().prop_map(Value::Timestamp),
        Just(Value::Null),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop::collection::vec(inner, 0..4).prop_map(Value::List)
    })
}

fn of_kind(kind: ValueKind) -> BoxedStrategy<Value> {
    match kind {
        ValueKind::Any => value().boxed(),
        kind => value()
            .prop_map(move |v| if kind.accepts(&v) { v } else { Value::Null })
            .boxed(),
    }
}

fn name() -> impl Strategy<Value = String> {
    "[^\\p{Cc}=]{1,12}"
}

fn key() -> impl Strategy<Value = String> {
    "[^\0]{1,20}"
}

fn vertex() -> impl Strategy<Value = Vertex> {
    let types: Vec<_> = Schema::default().vertex_types().map(|(id, _)| id).collect();
    (prop::sample::select(types), key()).prop_flat_map(|(type_id, key)| {
        let schema = Schema::default();
        let declared: Vec<(String, ValueKind)> = schema
            .attributes(type_id)
            .iter()
            .map(|a| (a.name.clone(), a.kind))
            .collect();
        let attributes: Vec<BoxedStrategy<Option<(String, Value)>>> = declared
            .into_iter()
            .map(|(name, kind)| prop::option::of((Just(name), of_kind(kind))).boxed())
            .collect();
        let user = prop::collection::btree_map(name(), (version(), value()), 0..4);
        (attributes, user, version(), prop::bool::weighted(0.2)).prop_map(
            move |(attributes, user, own, deleted)| {
                let user: Vec<UserAttribute> = user
                    .into_iter()
                    .filter(|_| !deleted)
                    .map(|(name, (version, value))| UserAttribute {
                        name,
                        version,
                        value,
                    })
                    .collect();
                Vertex {
                    id: VertexId::of(&schema.prefix(type_id), &key),
                    type_id,
                    key: key.clone(),
                    version: user.iter().map(|a| a.version).fold(own, Version::max),
                    deleted,
                    attributes: attributes
                        .into_iter()
                        .flatten()
                        .filter(|_| !deleted)
                        .collect(),
                    user,
                }
            },
        )
    })
}

/// An edge with the names of its ends.
fn edge() -> impl Strategy<Value = (Edge, String, String)> {
    let types: Vec<_> = Schema::default().edge_types().map(|(id, _)| id).collect();
    let properties = prop::collection::btree_map(name(), value(), 0..4);
    (
        prop::sample::select(types),
        key(),
        key(),
        version(),
        properties,
    )
        .prop_map(|(edge_type, a, b, version, properties)| {
            let schema = Schema::default();
            let t = schema.edge_type(edge_type).unwrap();
            let [source, destination] =
                [(t.source, a), (t.destination, b)].map(|(end, key)| (schema.prefix(end), key));
            let edge = Edge {
                key: EdgeKey {
                    source: VertexId::of(&source.0, &source.1),
                    edge_type,
                    destination: VertexId::of(&destination.0, &destination.1),
                },
                version,
                deleted: false,
                properties: properties.into_iter().collect(),
            };
            (
                edge,
                format!("{}:{}", source.0, source.1),
                format!("{}:{}", destination.0, destination.1),
            )
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Vertices survive export and import: every value, every version, in every format.
    #[test]
    fn vertices_come_back(list in prop::collection::vec(vertex(), 0..6)) {
        let expected: BTreeMap<VertexId, Vertex> = list.iter().map(|v| (v.id, v.clone())).collect();
        for format in FORMATS {
            let mut writer = TableWriter::new(Vec::new(), format, Rows::Vertices).unwrap();
            for v in expected.values() {
                writer.vertex(v, &schema()).unwrap();
            }
            let table = writer.finish().unwrap();
            let mutations: Vec<Mutation> =
                read(&table, format, &vertices()).into_iter().collect::<Result<_, _>>().unwrap();
            prop_assert_eq!(&apply(&mutations), &expected, "{}", format.name());
        }
    }

    /// Edges survive export and import.
    #[test]
    fn edges_come_back(list in prop::collection::vec(edge(), 0..6)) {
        for format in FORMATS {
            let mut writer = TableWriter::new(Vec::new(), format, Rows::Edges).unwrap();
            for (edge, source, destination) in &list {
                writer.edge(edge, source, destination, &schema()).unwrap();
            }
            let table = writer.finish().unwrap();
            let mut back = Vec::new();
            for m in read(&table, format, &edges()) {
                let m = m.unwrap();
                if let Op::PutEdge { source, edge_type, destination, properties } = m.op {
                    let key = EdgeKey { source: source.id, edge_type, destination: destination.id };
                    back.push(Edge { key, version: m.version.unwrap(), deleted: false, properties });
                }
            }
            let expected: Vec<Edge> = list.iter().map(|(e, _, _)| e.clone()).collect();
            prop_assert_eq!(back, expected, "{}", format.name());
        }
    }

    /// For any bytes the reader ends, and returns errors or mutations.
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in any::<prop::sample::Index>()) {
        let mut table = b"source,type,destination,version,properties\nuser:1,run,job:1,,\n".to_vec();
        table.splice(cut.index(table.len()).., bytes);
        for format in [Format::Csv, Format::Tsv, Format::Ndjson, Format::EdgeList] {
            let options = ReadOptions { edge_type: Some("run".into()), ..edges() };
            if let Ok(reader) = open(&table, format, &options) {
                prop_assert!(reader.count() <= 3 * table.len());
            }
        }
    }
}

#[test]
fn a_table_as_people_have_it() {
    let table = "id,name,size,note,runs:i64,code:string,when:timestamp\n\
                 file:/a,first,7,fine,12,007,2026-03-01\n\
                 file:/b,,,1.5,,,\n\
                 file:/c,,,,,,\n";
    let m = good(table, Format::Csv, &vertices());
    let Op::PutVertex {
        key, attributes, ..
    } = &m[0].op
    else {
        panic!("{m:?}")
    };
    assert_eq!(key, "/a");
    assert_eq!(
        *attributes,
        Properties::new().with("name", "first").with("size", 7_i64)
    );
    let Op::SetAttributes { set, .. } = &m[1].op else {
        panic!("{m:?}")
    };
    let when = Value::Timestamp(1_772_323_200_000_000_000);
    assert_eq!(
        *set,
        Properties::new()
            .with("note", "fine")
            .with("runs", 12_i64)
            .with("code", "007")
            .with("when", when)
    );
    // The row has no predefined attribute: existing ones stay.
    assert!(matches!(m[2].op, Op::EnsureVertex { .. }));
    let Op::SetAttributes { set, .. } = &m[3].op else {
        panic!("{m:?}")
    };
    assert_eq!(*set, Properties::new().with("note", 1.5));
    assert!(matches!(m[4].op, Op::EnsureVertex { .. }));
    assert_eq!(m.len(), 5);
    assert!(m.iter().all(|m| m.version.is_none()));
}

#[test]
fn what_looks_like_a_number_is_one_only_if_nothing_is_lost() {
    let cell = |text| value::value_from_cell(text, None, true).unwrap().unwrap();
    for text in [
        "007",
        "1.",
        ".5",
        "1e",
        "+1",
        "0x10",
        "NaN",
        "inf",
        "1 ",
        "9223372036854775808",
        "00.5",
        "1_000",
        "TRUE",
    ] {
        assert_eq!(cell(text), Value::String(text.into()), "{text}");
    }
    assert_eq!(cell("-12"), Value::I64(-12));
    assert_eq!(cell("0"), Value::I64(0));
    assert_eq!(cell("0.5"), Value::F64(0.5));
    assert_eq!(cell("-1e-3"), Value::F64(-0.001));
    assert_eq!(cell("true"), Value::Bool(true));
    let options = ReadOptions {
        infer: false,
        ..vertices()
    };
    let m = good("id,x\nfile:/a,12\n", Format::Csv, &options);
    let Op::SetAttributes { set, .. } = &m[1].op else {
        panic!("{m:?}")
    };
    assert_eq!(*set, Properties::new().with("x", "12"));
}

#[test]
fn the_host_gives_the_version_of_rows_without_one() {
    let at = Version::new(5000, 3);
    let options = ReadOptions {
        version: Some(at),
        edge_type: Some("run".into()),
        ..edges()
    };
    let table =
        "source,destination,version\nuser:1,job:1,\nuser:1,job:1,2026-03-01T12:00:00.000Z~7\n";
    let m = good(table, Format::Csv, &options);
    assert!(m[..3].iter().all(|m| m.version == Some(at)));
    assert_eq!(m[3].version, Some(Version::new(1_772_366_400_000, 7)));
    assert_eq!(
        m.len(),
        4,
        "ends that exist by then are not made sure of again"
    );
    assert_eq!(good(table, Format::Csv, &options), m, "twice the same");
}

#[test]
fn versions_read_as_the_beginning_of_their_moment() {
    for (text, expected) in [
        ("1970-01-01T00:00:05.001Z", Version::new(5001, 0)),
        ("1970-01-01T00:00:05.001Z~9", Version::new(5001, 9)),
        ("1970-01-02", Version::new(86_400_000, 0)),
        ("@5.5", Version::new(5500, 0)),
        ("#77", Version(77)),
        (" 1970-01-01T01:00:00+01:00 ", Version::ZERO),
    ] {
        assert_eq!(version_from_text(text), Ok(expected), "{text}");
    }
    assert!(version_from_text("now").is_err());
    assert!(version_from_text("yesterday").is_err());
}

#[test]
fn a_list_of_edges_as_snap_publishes_them() {
    let table = "# Directed graph: Amazon0302.txt\r\n# FromNodeId\tToNodeId\r\n0\t1\r\n\r\n0\t2\r\n1 2 0.5\n";
    let options = ReadOptions {
        edge_type: Some("has".into()),
        vertex_type: Some("File".into()),
        ..edges()
    };
    for format in [Format::EdgeList, Format::Tsv] {
        let m = good(table, format, &options);
        let puts: Vec<_> = m
            .iter()
            .filter(|m| matches!(m.op, Op::PutEdge { .. }))
            .collect();
        assert_eq!((puts.len(), m.len()), (3, 6));
        let Op::PutEdge {
            source, properties, ..
        } = &puts[2].op
        else {
            unreachable!()
        };
        assert_eq!(source.id, VertexId::of("file", "1"));
        assert_eq!(*properties, Properties::new().with("weight", 0.5));
    }
    let strict = ReadOptions {
        strict: true,
        ..options.clone()
    };
    assert_eq!(good(table, Format::EdgeList, &strict).len(), 3);
    let err = open(table.as_bytes(), Format::EdgeList, &edges())
        .unwrap_err()
        .to_string();
    assert_eq!(
        err,
        "e.csv: a list of edges does not say what they are: give an edge type, and a vertex type for bare ids"
    );
}

#[test]
fn bad_records_are_named_and_the_rest_is_read() {
    let table = b"source,type,destination,version,weight:f64\n\
        user:1,run,job:1,,1\n\
        user:1,ran,job:2,,1\n\
        user:1,run,file:/a,,1\n\
        nobody,run,job:1,,1\n\
        user:1,run,job:1,someday,1\n\
        user:1,run,job:1,,heavy\n\
        user:1,run,job:1\n\
        user:\xff,run,job:1,,1\n\
        ,run,job:1,,1\n\
        user:2,run,job:2,,2\n";
    let list = errors(table, Format::Csv, &edges());
    let expected = [
        "e.csv, line 3 (byte 63): unknown edge type `ran`; did you mean `run`?",
        "e.csv, line 4 (byte 83): edge type `run` joins User to Execution; got User to File",
        "e.csv, line 5 (byte 105): `nobody` names no vertex: there is no colon",
        "e.csv, line 6 (byte 125): version: `someday` is not a time",
        "e.csv, line 7 (byte 152): property `weight`: `heavy` is not a number",
        "e.csv, line 8 (byte 176): 3 cells where the heading has 5",
        "e.csv, line 9 (byte 193): cell 1 is not UTF-8",
        "e.csv, line 10 (byte 213): there is no `source`",
    ];
    assert_eq!(list.len(), expected.len(), "{list:#?}");
    for (got, want) in list.iter().zip(expected) {
        assert!(got.starts_with(want), "{got}\n{want}");
    }
    let puts = read(table, Format::Csv, &edges()).into_iter().flatten();
    assert_eq!(
        puts.filter(|m| matches!(m.op, Op::PutEdge { .. })).count(),
        2
    );

    let table = "{\"id\":\"file:/a\",\"size\":1}\n{\"id\":\"file:/b\"\n[1]\n\n{\"id\":\"file:/c\",\"size\":\"big\"}\n\
        {\"id\":\"file:/d\",\"attributes\":{\"colour\":1}}\n{\"id\":\"file:/e\",\"x\":{\"y\":1}}\n{\"id\":\"file:/f\",\"x\":9223372036854775808}\n";
    let options = ReadOptions::new("v.ndjson", Rows::Vertices);
    let list = errors(table.as_bytes(), Format::Ndjson, &options);
    let expected = [
        "v.ndjson, line 2 (byte 26): invalid JSON at column 15",
        "v.ndjson, line 3 (byte 42): expected an object in JSON",
        "v.ndjson, line 5 (byte 47): attribute `size`: `big` is not an integer of 64 bits",
        "v.ndjson, line 6 (byte 77): attribute `colour` is not declared for File",
        "v.ndjson, line 7 (byte 120): attribute `x`: an object is not a value",
        "v.ndjson, line 8 (byte 149): attribute `x`: 9223372036854775808 does not fit 64 bits",
    ];
    assert_eq!(list.len(), expected.len(), "{list:#?}");
    for (got, want) in list.iter().zip(expected) {
        assert!(got.starts_with(want), "{got}\n{want}");
    }
}

#[test]
fn headings_that_cannot_be() {
    let error = |table: &str, options: &ReadOptions| {
        open(table.as_bytes(), Format::Csv, options)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error("name,size\n", &vertices()),
        "v.csv: there is no column `id`; the first line has: name, size"
    );
    assert!(error("1,2\n3,4\n", &edges()).contains("--format edges"));
    assert_eq!(
        error("id,a,a\n", &vertices()),
        "v.csv: two columns mean `a`"
    );
    assert!(error("", &vertices()).contains("there is no column `id`"));
    let unknown = ReadOptions {
        edge_type: Some("runs".into()),
        ..edges()
    };
    assert!(error("source,destination\n", &unknown).contains("did you mean `run`?"));
    let options = ReadOptions::new("x.parquet", Rows::Edges);
    let err = open(b"PAR1 but not really PAR1", Format::Parquet, &options).unwrap_err();
    assert!(
        err.to_string().starts_with("x.parquet: not a Parquet file"),
        "{err}"
    );
}

#[test]
fn an_open_quote_does_not_swallow_the_memory() {
    let endless = Read::chain(&b"id,x\nfile:/a,1\nfile:/b,\""[..], std::io::repeat(b'x'));
    let reader = TableReader::text(endless, Format::Csv, &vertices(), schema()).unwrap();
    let list: Vec<_> = reader.collect();
    assert_eq!(list.len(), 3);
    let err = list[2].as_ref().unwrap_err();
    assert!(
        err.fatal && err.to_string().starts_with("v.csv, line 3"),
        "{err}"
    );
    assert!(err.to_string().contains("is a quote left open?"), "{err}");

    let long = "x".repeat(RECORD_BYTES_MAX as usize + 10);
    let table = format!("{{\"id\":\"file:/a\"}}\n{long}\n{{\"id\":\"file:/b\"}}\n");
    let list = read(table.as_bytes(), Format::Ndjson, &vertices());
    assert_eq!(list.iter().filter(|m| m.is_ok()).count(), 2);
    assert_eq!(list.len(), 3);
}

#[test]
fn a_damaged_row_group_loses_its_rows_and_no_others() {
    let schema = schema();
    let mut writer = TableWriter::new(Vec::new(), Format::Parquet, Rows::Vertices).unwrap();
    let rows = 3 * (1 << 10);
    for i in 0..rows {
        let key = format!("/scratch/{i}");
        writer
            .vertex(
                &Vertex {
                    id: VertexId::of("file", &key),
                    type_id: schema.vertex_type_id("File").unwrap(),
                    key,
                    version: Version::new(i, 0),
                    deleted: false,
                    attributes: Properties::new().with("size", i as i64),
                    user: Vec::new(),
                },
                &schema,
            )
            .unwrap();
    }
    assert_eq!(writer.rows(), rows);
    let mut table = writer.finish().unwrap();
    let options = ReadOptions::new("v.parquet", Rows::Vertices);
    assert_eq!(
        read(&table, Format::Parquet, &options)
            .into_iter()
            .flatten()
            .count() as u64,
        rows
    );
    let middle = table.len() / 2;
    table[middle..middle + 500].fill(0xff);
    let list = read(&table, Format::Parquet, &options);
    let bad: Vec<String> = list
        .iter()
        .filter_map(|m| m.as_ref().err().map(ToString::to_string))
        .collect();
    assert_eq!(bad.len(), 1, "{bad:?}");
    assert!(bad[0].contains("row group 2 is damaged, rows "), "{bad:?}");
    let good = list.len() as u64 - 1;
    assert!((2 << 10..rows).contains(&good), "{good}");
}

#[test]
fn a_vertex_is_never_younger_than_its_attributes() {
    let row = "{\"id\":\"file:/a\",\"version\":\"#900\",\"attributes\":{},\"user\":{\"old\":{\"value\":1,\"version\":\"#100\"},\"new\":{\"value\":2,\"version\":\"#900\"}}}\n";
    let m = good(row, Format::Ndjson, &vertices());
    let at: Vec<u64> = m.iter().map(|m| m.version.unwrap().0).collect();
    assert_eq!(at, [100, 900, 100, 900]);
    assert!(matches!(m[0].op, Op::EnsureVertex { .. }) && matches!(m[1].op, Op::PutVertex { .. }));
}

/// A reader that generates rows on demand, so that the table is never in memory as a whole.
struct Made {
    next: u64,
    rows: u64,
    rest: Vec<u8>,
}

impl Read for Made {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.rest.is_empty() && self.next < self.rows {
            let i = self.next;
            self.next += 1;
            self.rest = format!(
                "job:{},read,file:/scratch/{i},2026-03-01T12:00:00.000Z,4096\n",
                i % 7
            )
            .into_bytes();
        }
        let n = self.rest.len().min(buffer.len());
        buffer[..n].copy_from_slice(&self.rest[..n]);
        self.rest.drain(..n);
        Ok(n)
    }
}

#[test]
fn a_large_table_streams() {
    let heading = &b"source,type,destination,version,bytes\n"[..];
    let made = Made {
        next: 0,
        rows: 100_000,
        rest: Vec::new(),
    };
    let reader =
        TableReader::text(Read::chain(heading, made), Format::Csv, &edges(), schema()).unwrap();
    let mut most = 0;
    let mut reader = reader;
    let mut count = 0_u64;
    while let Some(m) = reader.next() {
        m.unwrap();
        count += 1;
        most = most.max(reader.ready.len());
    }
    assert_eq!((count, reader.records()), (200_007, 100_000));
    assert!(most <= 2, "a record at a time: {most} waited");
}
