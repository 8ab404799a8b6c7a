//! Tests of RDF data after a crash at any time.

use super::*;
use std::fs;

const LIMITS: Limits<'static> = Limits {
    memory: usize::MAX,
    stop: &|| None,
};

fn options() -> Options<'static> {
    let (now, seed) = now_and_seed();
    Options::new(now, seed)
}

fn insert(rdf: &mut Rdf, n: usize) {
    let text = format!("INSERT DATA {{ <http://a/x{n}> <http://a/p> \"v{n}\" }}");
    assert_eq!(
        rdf.update(&text, None, &options(), n.is_multiple_of(2))
            .unwrap()
            .added,
        1
    );
}

#[test]
fn what_was_acknowledged_is_there_and_a_record_cut_short_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rdf");
    let mut ends = vec![0];
    {
        let mut rdf = Rdf::change(&path).unwrap();
        for n in 0..5 {
            insert(&mut rdf, n);
            ends.push(rdf.log_bytes());
        }
        assert!(matches!(Rdf::change(&path), Err(Error::InUse(_))));
        assert_eq!(Rdf::read(&path).unwrap().data().len(), 5);
    }
    let log = fs::read_dir(&path)
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.to_string_lossy().contains("log-"))
        .unwrap();
    let whole = fs::read(&log).unwrap();
    for cut in 0..=whole.len() {
        fs::write(&log, &whole[..cut]).unwrap();
        let count = ends.iter().filter(|e| **e <= cut as u64).count() - 1;
        assert_eq!(
            Rdf::read(&path).unwrap().data().len(),
            count,
            "cut at {cut}"
        );
    }
    // The next writer continues after the last complete record.
    fs::write(&log, &whole[..whole.len() - 3]).unwrap();
    let mut rdf = Rdf::change(&path).unwrap();
    assert_eq!(rdf.data().len(), 4);
    insert(&mut rdf, 9);
    drop(rdf);
    assert_eq!(Rdf::read(&path).unwrap().data().len(), 5);
}

#[test]
fn an_image_that_does_not_count_yet_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rdf");
    let mut rdf = Rdf::change(&path).unwrap();
    insert(&mut rdf, 0);
    let number = rdf.number;
    fs::write(path.join(format!("image-{}", number + 1)), b"half").unwrap();
    fs::write(path.join(format!("image-{}.new", number + 1)), b"half").unwrap();
    fs::write(path.join("CURRENT.new"), b"9").unwrap();
    drop(rdf);
    assert_eq!(Rdf::read(&path).unwrap().data().len(), 1);
    let mut rdf = Rdf::change(&path).unwrap();
    rdf.checkpoint().unwrap();
    insert(&mut rdf, 1);
    drop(rdf);
    let rdf = Rdf::read(&path).unwrap();
    assert_eq!(rdf.data().len(), 2);
    let mut names: Vec<String> = fs::read_dir(&path)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let number = rdf.number;
    assert_eq!(
        names,
        [
            "CURRENT".into(),
            "LOCK".into(),
            format!("image-{number}"),
            format!("log-{number}")
        ]
    );
}

#[test]
fn a_damaged_image_is_said_to_be_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rdf");
    let mut rdf = Rdf::change(&path).unwrap();
    insert(&mut rdf, 0);
    rdf.checkpoint().unwrap();
    let image = path.join(format!("image-{}", rdf.number));
    drop(rdf);
    let mut bytes = fs::read(&image).unwrap();
    bytes[20] ^= 1;
    fs::write(&image, bytes).unwrap();
    let message = Rdf::read(&path).unwrap_err().to_string();
    assert!(message.contains("damaged"), "{message}");
}

#[test]
fn a_load_that_fails_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rdf");
    let good = folder.path().join("a b.nt");
    let bad = folder.path().join("bad.nt");
    fs::write(&good, "<http://a/x> <http://a/p> <http://a/y> .\n").unwrap();
    fs::write(&bad, "<http://a/x> <http://a/p> <http://a/z> .\noops\n").unwrap();
    let mut rdf = Rdf::change(&path).unwrap();
    let both = [
        (good.clone(), RdfFormat::NTriples),
        (bad, RdfFormat::NTriples),
    ];
    let message = rdf
        .load(&both, LoadOptions::default(), LIMITS, &mut |_| true)
        .unwrap_err()
        .to_string();
    assert!(message.contains("bad.nt:2:1"), "{message}");
    assert_eq!(rdf.data().len(), 0);
    let loaded = rdf
        .load(
            &both,
            LoadOptions {
                graph: Some("http://g"),
                lenient: true,
                ..LoadOptions::default()
            },
            LIMITS,
            &mut |_| true,
        )
        .unwrap();
    assert_eq!((loaded.new, loaded.skipped_count), (2, 1));
    let load = format!("LOAD <file://{}>", encoded(&good));
    assert_eq!(rdf.update(&load, None, &options(), true).unwrap().added, 1);
    drop(rdf);
    assert_eq!(Rdf::read(&path).unwrap().data().len(), 3);
}

#[test]
fn what_follows_is_there_again_after_an_image_and_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rdf");
    let file = folder.path().join("o.ttl");
    fs::write(
        &file,
        "@prefix : <http://a/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
         :Run rdfs:subClassOf :Act . :Act rdfs:subClassOf :Thing . :r1 a :Run .",
    )
    .unwrap();
    let all = |rdf: &Rdf| -> Vec<engine::quads::Quad> {
        let mut list: Vec<_> = rdf.data().quads().collect();
        list.sort();
        list
    };
    let change = |rdf: &mut Rdf, text: &str| {
        let text = format!("PREFIX : <http://a/> {text}");
        rdf.update(&text, None, &options(), false).unwrap()
    };
    let before = {
        let mut rdf = Rdf::change(&path).unwrap();
        let files = files(&file).unwrap();
        let how = LoadOptions {
            infer: Rules::Now(Some(Inference::Rdfs)),
            ..LoadOptions::default()
        };
        let tick = &mut |_| true;
        rdf.load(&files, how, LIMITS, tick).unwrap();
        assert_eq!(rdf.data().inferred_len(), 3);
        let done = change(&mut rdf, "INSERT DATA { :r2 a :Run . :r1 a :Act }");
        assert_eq!((done.added, done.removed), (2, 0));
        assert_eq!(rdf.data().inferred_len(), 4);
        change(&mut rdf, "DELETE DATA { :r1 a :Run }");
        assert_eq!((rdf.data().len(), rdf.data().inferred_len()), (8, 4));
        all(&rdf)
    };
    // Read from the image and the log.
    let mut rdf = Rdf::change(&path).unwrap();
    assert_eq!(all(&rdf), before);
    assert_eq!(rdf.data().inference(), Some(Inference::Rdfs));
    rdf.checkpoint().unwrap();
    drop(rdf);
    let mut rdf = Rdf::change(&path).unwrap();
    assert_eq!(all(&rdf), before);
    change(&mut rdf, "CLEAR DEFAULT");
    assert!(rdf.data().is_empty());
    let triple = engine::Triple::new(
        engine::NamedNode::new_unchecked("http://a/x"),
        engine::NamedNode::new_unchecked("http://a/p"),
        engine::Literal::from(1),
    );
    for (triples, counts) in [(vec![triple.clone()], (1, 0)), (vec![], (0, 1))] {
        let done = rdf.replace_graph("http://g", &triples, false).unwrap();
        assert_eq!((done.added, done.removed), counts);
    }
    drop(rdf);
    assert!(Rdf::read(&path).unwrap().data().is_empty());
}
