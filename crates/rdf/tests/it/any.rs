//! Invariants for arbitrary bytes: data, queries and updates, images and records. The random tests of `hostile` and the fuzz targets call
//! these functions, so this file depends only on the library.

use esker_rdf::parse::{Loaded, Loader};
use esker_rdf::{
    Dataset, Format, JsonLdProfileSet, Load, Options, RdfFormat, dump, log, query, update,
};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Data for the queries.
const DATA: &str = r#"@prefix e: <http://e/> . e:a e:p e:b, e:c, 1, "x"@en ; e:q 2.5, true, "2026-01-01"^^<http://www.w3.org/2001/XMLSchema#date> .
e:b e:p e:c ; e:q [ e:p "y" ], (1 2) . e:c e:p e:a . e:a e:p <<( e:a e:p e:b )>> , <<( _:t e:q <<( e:b e:p "x"@ar--rtl )>> )>> . e:c e:q e:a {| e:p 1 |} .
e:g { e:a e:p e:d . e:d e:q e:a }"#;
/// Cancellation checks after which a query is cancelled.
const STEPS: usize = 2000;

fn read(
    bytes: &[u8],
    format: RdfFormat,
    threads: usize,
    lenient: bool,
) -> Option<(Dataset, Loaded)> {
    let mut loader = Loader::new(Dataset::default(), "t", lenient);
    loader.on_threads(threads);
    let read = loader.read("x", &mut &*bytes, format, None, Some("http://e/"));
    read.ok().map(|()| loader.finish())
}

fn written(data: &Dataset, format: RdfFormat) -> Vec<u8> {
    let mut out = Vec::new();
    dump(data, None, format, &mut out).expect("a dataset is written");
    out
}

/// Reads lines of quads: invalid lines are skipped, identically on any number of threads; without leniency all or nothing; output can be
/// read back.
pub(crate) fn lines(bytes: &[u8]) {
    let format = RdfFormat::NQuads;
    let (data, loaded) = read(bytes, format, 0, true).expect("lines are skipped");
    let (again, as_loaded) = read(bytes, format, 2, true).expect("lines are skipped");
    assert_eq!(loaded, as_loaded);
    let text = written(&data, format);
    assert_eq!(text, written(&again, format));
    assert_eq!(
        read(bytes, format, 0, false).is_some(),
        loaded.skipped_count == 0
    );
    let (back, _) = read(&text, format, 0, false).expect("what is written is read");
    assert_eq!(back.len(), data.len());
}

/// Reads a document in the format that its first byte selects; an accepted document survives writing and reading.
pub(crate) fn document(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else {
        return;
    };
    let json = RdfFormat::JsonLd {
        profile: JsonLdProfileSet::empty(),
    };
    let format = match kind % 4 {
        0 => RdfFormat::Turtle,
        1 => RdfFormat::TriG,
        2 => RdfFormat::RdfXml,
        _ => json,
    };
    let strict = read(bytes, format, 0, false);
    let lenient = read(bytes, format, 0, true);
    if let Some((data, _)) = strict {
        let lenient = lenient.expect("what is right is right").0;
        assert_eq!(lenient.len(), data.len());
        let text = written(&data, RdfFormat::NQuads);
        let back = read(&text, RdfFormat::NQuads, 0, false).map(|(d, _)| d.len());
        assert_eq!(back, Some(data.len()), "{}", String::from_utf8_lossy(&text));
    }
}

fn example() -> Dataset {
    read(DATA.as_bytes(), RdfFormat::TriG, 0, false)
        .expect("the example is right")
        .0
}

/// Runs a query or an update within limits: with and without the optimiser the results agree, and replaying an update's record gives the
/// same data.
pub(crate) fn sparql(text: &str) {
    let data = example();
    let asked = AtomicUsize::new(0);
    let stop = || (asked.fetch_add(1, Ordering::Relaxed) > STEPS).then_some("time-out");
    let mut options = Options::new("2026-11-22T12:00:00Z".parse().expect("a time"), 7);
    options.memory = 4 << 20;
    options.stop = &stop;
    let mut sizes = Vec::new();
    for optimise in [true, false] {
        asked.store(0, Ordering::Relaxed);
        options.optimise = optimise;
        let Ok(answer) = query(&data, text, None, None, false, &options) else {
            continue;
        };
        for format in [Format::Json, Format::Xml, Format::Csv, Format::Tsv] {
            let mut out = Vec::new();
            answer
                .write(format, &mut out)
                .expect("an answer is written");
        }
        sizes.push(answer.len());
    }
    // The rows under a limit, and random functions, are unspecified.
    let lower = text.to_ascii_lowercase();
    let open = [
        "limit",
        "offset",
        "rand",
        "uuid",
        "sample",
        "group_concat",
        "reduced",
        "bnode",
        "describe",
    ];
    if let [one, other] = sizes[..]
        && !open.iter().any(|word| lower.contains(word))
    {
        assert_eq!(one, other, "{text}");
    }
    asked.store(0, Ordering::Relaxed);
    let mut fetch = |load: &Load<'_>| Err(format!("{} is not there", load.iri));
    if let Ok(done) = update(&data, text, None, None, &mut fetch, &options) {
        let mut again = data.clone();
        log::replay(&mut again, &log::encode(&done.data, &done.changes)).expect("a record is read");
        assert_eq!(again.len(), done.data.len(), "{text}");
    }
}

/// Decodes an image; an accepted image can be queried without harm.
pub(crate) fn image(bytes: &[u8]) {
    if let Ok(data) = Dataset::decode(bytes) {
        let mut out = Vec::new();
        // Ids that are not in the dictionary are an error here.
        let _ = dump(&data, None, RdfFormat::NQuads, &mut out);
        let options = Options::new("2026-11-22T12:00:00Z".parse().expect("a time"), 7);
        let text = "SELECT * { ?s ?p ?o . ?o ?q ?r }";
        let _ = query(&data, text, None, None, false, &options).map(|a| a.len());
    }
}

/// Replays a record of updates, which is applied or refused.
pub(crate) fn record(bytes: &[u8]) {
    let mut data = example();
    if log::replay(&mut data, bytes).is_ok() {
        written(&data, RdfFormat::NQuads);
    }
}

/// A valid image and a valid record, as a starting point.
#[allow(dead_code, reason = "fuzz targets bring their own")]
pub(crate) fn stored() -> (Vec<u8>, Vec<u8>) {
    let data = example();
    let text = "INSERT DATA { <a:b> <a:c> 1, 'z'@de, 2.50 . GRAPH <a:g> { <a:b> <a:c> <http://e/a> } } ; DELETE WHERE { ?s <http://e/q> ?o } ; DROP GRAPH <http://e/g>";
    let options = Options::new("2026-11-22T12:00:00Z".parse().expect("a time"), 7);
    let mut fetch = |load: &Load<'_>| Err(format!("{} is not there", load.iri));
    let done = update(&data, text, None, None, &mut fetch, &options).expect("an update");
    (data.encode(), log::encode(&done.data, &done.changes))
}
