//! Tables of objects: columns and their roles, invalid records, every format.

use super::*;
use esker_model::object::Identity;
use esker_model::{Properties, Value};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{Cursor, Seek as _, SeekFrom, Write as _};

fn table(id: &str) -> ObjectTable {
    ObjectTable {
        id: IdColumns::parse(id, 1001).unwrap(),
        location: None,
        tags: None,
    }
}

fn open(text: &[u8], format: Format, table: ObjectTable) -> Result<ObjectReader, RecordError> {
    let schema = Arc::new(Schema::default());
    if format == Format::Parquet {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        return ObjectReader::parquet(file, "o", table, schema);
    }
    ObjectReader::text(Cursor::new(text.to_vec()), format, "o", table, schema)
}

fn read(text: &str, format: Format, table: ObjectTable) -> Vec<Result<ObjectRecord, String>> {
    let reader = open(text.as_bytes(), format, table).unwrap();
    reader.map(|r| r.map_err(|e| e.to_string())).collect()
}

fn identity(name: &str, app: &str, owner: i64, step: i64) -> Identity {
    Identity {
        name: name.to_owned(),
        app: app.to_owned(),
        owner,
        step,
    }
}

#[test]
fn columns_are_id_attributes_attributes_and_tags() {
    let text = "name,app,owner,step,location,size,energy,run:string,empty\n\
                a,vpic,7,3,/a.h5,10,2.5,42,\n\
                b,,7,,,,,,x\n";
    let rows = read(text, Format::Csv, table("name,app,owner,step"));
    let first = rows[0].as_ref().unwrap();
    assert_eq!(first.identity, identity("a", "vpic", 7, 3));
    assert_eq!(
        first.attributes,
        Properties::new().with("location", "/a.h5").with("size", 10)
    );
    assert_eq!(
        first.tags,
        Properties::new().with("energy", 2.5).with("run", "42")
    );
    let second = rows[1].as_ref().unwrap();
    assert_eq!(second.identity, identity("b", "", 7, 0));
    assert!(second.attributes.is_empty());
    assert_eq!(second.tags, Properties::new().with("empty", "x"));
    assert_eq!((second.line, second.byte), (3, Some(86)));
}

#[test]
fn id_attributes_come_from_where_is_said() {
    let id = |text: &str| IdColumns::parse(text, 1001).map(|i| i.0);
    let column = |c: &str| IdSource::Column(c.to_owned());
    let constant = |c: &str| IdSource::Text(c.to_owned());
    assert_eq!(
        id("plate"),
        Ok([
            column("plate"),
            constant(""),
            constant("1001"),
            constant("0")
        ])
    );
    assert_eq!(
        id("step=mjd, name=plate,app=:boss"),
        Ok([
            column("plate"),
            constant("boss"),
            constant("1001"),
            column("mjd")
        ])
    );
    for (bad, what) in [
        ("", "names no column"),
        ("app=x", "does not say which column has the name"),
        ("a,b,c,d,e", "`e` does not name an ID attribute"),
        ("name=a,nome=b", "`nome=b` does not name an ID attribute"),
        ("a,name=b", "says twice where the name comes from"),
    ] {
        let error = id(bad).unwrap_err();
        assert!(error.contains(what), "{bad}: {error}");
    }
    let rows = read(
        "plate,mjd\n7,9\n",
        Format::Csv,
        table("name=plate,app=:boss,step=mjd"),
    );
    assert_eq!(
        rows[0].as_ref().unwrap().identity,
        identity("7", "boss", 1001, 9)
    );
    assert!(rows[0].as_ref().unwrap().tags.is_empty());
}

#[test]
fn bad_records_are_named_and_passed_over() {
    let text = "name,owner,size\na,1,1\n,1,1\nb,x,1\nc,1,big\nd,1\ne,,1\nf,1,2\n";
    let rows = read(text, Format::Csv, table("name=name,owner=owner"));
    let errors: Vec<_> = rows.iter().filter_map(|r| r.as_ref().err()).collect();
    let expected = [
        "o, line 3 (byte 22): there is no `name`",
        "o, line 4 (byte 27): owner: `x` is not an integer of 64 bits",
        "o, line 5 (byte 33): attribute `size`: `big` is not an integer of 64 bits",
        "o, line 6 (byte 41): 2 cells where the heading has 3",
        "o, line 7 (byte 45): there is no `owner`",
    ];
    assert_eq!(errors, expected);
    assert_eq!(rows.iter().filter(|r| r.is_ok()).count(), 2);
}

#[test]
fn a_heading_that_cannot_be_is_refused_at_once() {
    let refused = |text: &str, table| {
        let error = open(text.as_bytes(), Format::Csv, table).unwrap_err();
        assert!(error.fatal);
        error.to_string()
    };
    let error = refused("nome,step\n", table("name,app"));
    assert_eq!(
        error,
        "o: there is no column `name`; the first line has: nome, step"
    );
    let error = refused("file,name\n", table("file"));
    assert!(
        error.contains("`name` has the name of an ID attribute"),
        "{error}"
    );
    let tags = |tags: &[&str]| ObjectTable {
        tags: Some(tags.iter().map(|t| (*t).to_owned()).collect()),
        ..table("file")
    };
    let error = refused("file,size\n", tags(&["size"]));
    assert!(error.contains("cannot become a tag"), "{error}");
    assert!(refused("file,type\n", table("file")).contains("means something else"));
    assert!(refused("file,id\n", tags(&["id"])).contains("means something else"));
    assert!(refused("file\n", tags(&["energy"])).contains("no column `energy`"));
    assert!(refused("file\n", table("name=file,step=:x")).contains("`x` is not a step"));
    assert!(refused("file\n", table("name=file,owner=:ada")).contains("`ada` is not an owner"));
}

#[test]
fn only_the_tags_that_are_named() {
    let table = ObjectTable {
        tags: Some(vec!["energy".to_owned()]),
        location: Some("path".to_owned()),
        ..table("file")
    };
    let text = "file,path,name,energy,id,other\na,/p,x,1,9,2\n";
    let row = read(text, Format::Csv, table).remove(0).unwrap();
    assert_eq!(row.attributes, Properties::new().with("location", "/p"));
    assert_eq!(row.tags, Properties::new().with("energy", 1));
}

#[test]
fn null_in_json_is_a_tag_without_a_value() {
    let text = "{\"name\":\"a\",\"Conf_0\":null,\"energy\":2.5,\"owner\":7.0,\"size\":null}\n{\"x\":1}\n[]\n";
    let rows = read(text, Format::Ndjson, table("name=name,owner=owner"));
    let first = rows[0].as_ref().unwrap();
    assert_eq!(first.identity, identity("a", "", 7, 0));
    assert_eq!(
        first.tags,
        Properties::new()
            .with("Conf_0", Value::Null)
            .with("energy", 2.5)
    );
    assert!(first.attributes.is_empty());
    assert_eq!(
        rows[1].as_ref().unwrap_err(),
        "o, line 2 (byte 64): there is no `name`"
    );
    assert_eq!(
        rows[2].as_ref().unwrap_err(),
        "o, line 3 (byte 72): expected an object in JSON"
    );
}

#[test]
fn what_esker_writes_is_read_back() {
    let json = "{\"id\":\"7\",\"created\":\"2026-01-01T00:00:00.000Z\",\"modified\":\"2026-01-01T00:00:00.000Z\",\
                \"attributes\":{\"name\":\"a\",\"app\":\"v\",\"owner\":7,\"step\":3,\"mode\":420},\
                \"tags\":{\"Conf_0\":null,\"energy\":2.5}}\n";
    let csv = "id,name,app,owner,step,created,modified,attributes,tags\n\
               7,a,v,7,3,2026-01-01T00:00:00.000Z,2026-01-01T00:00:00.000Z,\"{\"\"mode\"\":420}\",\"{\"\"Conf_0\"\":null,\"\"energy\"\":2.5}\"\n";
    for (text, format) in [(json, Format::Ndjson), (csv, Format::Csv)] {
        let row = read(text, format, table("name,app,owner,step"))
            .remove(0)
            .unwrap();
        assert_eq!(row.identity, identity("a", "v", 7, 3));
        assert_eq!(row.attributes, Properties::new().with("mode", 0o644));
        assert_eq!(
            row.tags,
            Properties::new()
                .with("Conf_0", Value::Null)
                .with("energy", 2.5)
        );
    }
}

fn parquet(names: &[&str], rows: Vec<Vec<Option<Value>>>) -> Result<Vec<u8>, TableError> {
    let names = names.iter().map(|n| (*n).to_owned()).collect();
    let mut writer = TypedWriter::new(Vec::new(), names);
    for row in rows {
        writer.row(row)?;
    }
    writer.finish()
}

#[test]
fn parquet_keeps_kinds() {
    let rows = vec![
        vec![
            Some("a".into()),
            Some(3.into()),
            Some(2.into()),
            None,
            Some(Value::Bool(true)),
        ],
        vec![
            Some("b".into()),
            Some(4.into()),
            Some(2.5.into()),
            Some("x".into()),
            None,
        ],
        vec![
            Some("c".into()),
            None,
            None,
            Some(7.into()),
            Some(Value::Null),
        ],
    ];
    let file = parquet(&["name", "step", "energy", "mixed", "on"], rows).unwrap();
    let table = table("name=name,step=step");
    let read: Vec<_> = open(&file, Format::Parquet, table)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(read[0].identity, identity("a", "", 1001, 3));
    assert_eq!(
        read[0].tags,
        Properties::new().with("energy", 2.0).with("on", true)
    );
    assert_eq!(
        read[1].tags,
        Properties::new().with("energy", 2.5).with("mixed", "x")
    );
    assert_eq!(read[2].identity.step, 0);
    assert_eq!(read[2].tags, Properties::new().with("mixed", "7"));
    assert_eq!((read[2].line, read[2].byte), (3, None));
}

#[test]
fn a_column_that_changes_its_kind_behind_the_first_row_group_is_told() {
    let row = |value: Value| vec![Some(value)];
    let mut rows: Vec<_> = (0..1500).map(|i| row(Value::I64(i))).collect();
    assert!(parquet(&["x"], rows.clone()).is_ok());
    rows[1400] = row("text".into());
    let error = parquet(&["x"], rows).unwrap_err().to_string();
    assert!(
        error.contains("column `x`") && error.contains("row 1401 has a string"),
        "{error}"
    );
    // Without rows, and with names that no schema text allows.
    assert!(parquet(&["dc:title", "a b", "ä"], Vec::new()).is_ok());
}

#[test]
fn gzip_is_unpacked() {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(b"name,energy\na,1\nb,2\n").unwrap();
    let packed = packer.finish().unwrap();
    let rows: Vec<_> = open(&packed, Format::Csv, table("name")).unwrap().collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1].as_ref().unwrap().line, 3);
    let cut = &packed[..packed.len() - 9];
    let cut = open(cut, Format::Csv, table("name"));
    assert!(cut.is_err() || cut.unwrap().any(|r| r.is_err_and(|e| e.fatal)));
    assert_eq!(Format::of_file_name("a.csv.gz"), Some(Format::Csv));
}

#[test]
fn markers_differ_between_ranges() {
    let rows = read("name\na\na\nb\n", Format::Csv, table("name"));
    let digests: Vec<[u8; 16]> = rows
        .iter()
        .map(|r| r.as_ref().unwrap().digest().0)
        .collect();
    // An equal object in another line is another record.
    assert_ne!(digests[0], digests[1]);
    let key_of =
        |salt: &[u8], of: &[[u8; 16]]| ObjectRecord::idempotency_key(salt, of.iter().copied());
    assert_eq!(key_of(b"x", &digests), key_of(b"x", &digests));
    assert_ne!(key_of(b"x", &digests), key_of(b"y", &digests));
    assert_ne!(key_of(b"x", &digests), key_of(b"x", &digests[..2]));
    assert!(key_of(b"x", &digests).starts_with(b"esker-objects/1/"));
}
