//! Tests of concurrent access to RDF data in one process.

use super::*;
use crate::rdf::Rdf;
use std::sync::atomic::AtomicBool;

fn insert(n: usize) -> UpdateRequest {
    UpdateRequest::Text(format!(
        "INSERT DATA {{ <http://a/x{n}> <http://a/p{}> \"v{n}\" }}",
        n % 5
    ))
}

fn open(folder: &Path) -> Live {
    Live::open(&folder.join("rdf"), false).unwrap()
}

#[test]
fn what_was_answered_is_there_for_readers_and_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let live = open(folder.path());
    std::thread::scope(|scope| {
        for client in 0..4 {
            let live = &live;
            scope.spawn(move || {
                for n in 0..200 {
                    let how = UpdateOptions {
                        sync: n % 50 == 0,
                        ..UpdateOptions::default()
                    };
                    let done = live.update(insert(client * 1_000 + n), how).unwrap();
                    assert_eq!((done.added, done.removed), (1, 0));
                    assert!(live.snapshot().len() > n);
                }
            });
        }
        // Images are written meanwhile, and concurrent updates are kept.
        for _ in 0..5 {
            assert!(live.checkpoint().unwrap() > 0);
        }
    });
    assert_eq!(live.snapshot().len(), 800);
    let other = Rdf::read(&folder.path().join("rdf")).unwrap();
    assert_eq!(other.data().len(), 800);
    drop(live);
    let live = open(folder.path());
    assert_eq!(live.snapshot().len(), 800);
    assert_eq!(live.drop_all().unwrap(), 800);
    drop(live);
    assert_eq!(open(folder.path()).snapshot().len(), 0);
}

#[test]
fn a_reader_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let live = open(folder.path());
    live.update(insert(1), UpdateOptions::default()).unwrap();
    let before = live.snapshot();
    live.update(insert(2), UpdateOptions::default()).unwrap();
    live.update(
        UpdateRequest::Text("CLEAR ALL".into()),
        UpdateOptions::default(),
    )
    .unwrap();
    assert_eq!((before.len(), live.snapshot().len()), (1, 0));
}

#[test]
fn what_fails_or_is_stopped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let live = open(folder.path());
    live.update(insert(1), UpdateOptions::default()).unwrap();
    let bad = "INSERT DATA { <http://a/x> <http://a/p> 1 } ; CREATE GRAPH <http://g> ; \
               INSERT DATA { GRAPH <http://g> { <http://a/x> <http://a/p> 1 } } ; CREATE GRAPH <http://g>";
    let refused = live.update(UpdateRequest::Text(bad.into()), UpdateOptions::default());
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    let stopped = UpdateOptions {
        stop: Arc::new(|| Some("time-out")),
        ..UpdateOptions::default()
    };
    assert!(matches!(
        live.update(insert(2), stopped),
        Err(Error::Interrupted)
    ));
    let file = folder.path().join("x.nt");
    std::fs::write(&file, "<http://a/x> <http://a/p> <http://a/y> .\n").unwrap();
    let load = format!("LOAD <file://{}>", file.display());
    let apart = UpdateOptions {
        files: false,
        ..UpdateOptions::default()
    };
    let message = live
        .update(UpdateRequest::Text(load.clone()), apart)
        .unwrap_err()
        .to_string();
    assert!(message.contains("a server reads no files"), "{message}");
    assert_eq!(live.snapshot().len(), 1);
    live.update(UpdateRequest::Text(load), UpdateOptions::default())
        .unwrap();
    assert_eq!(live.snapshot().len(), 2);
}

#[test]
fn added_data_takes_the_place_of_a_graph() {
    let folder = tempfile::tempdir().unwrap();
    let live = open(folder.path());
    let data = |n: usize| {
        let mut data = Dataset::default();
        for i in 0..n {
            let text =
                format!("INSERT DATA {{ GRAPH <http://g> {{ <http://a/{i}> <http://a/p> {i} }} }}");
            let (now, seed) = now_and_seed();
            let options = esker_rdf::Options::new(now, seed);
            esker_rdf::update_in_place(
                &mut data,
                &text,
                None,
                &mut |_| Err(String::new()),
                &options,
            )
            .unwrap();
        }
        data
    };
    let into = || Some("http://g".to_owned());
    let added = live
        .add(AddQuads {
            data: data(3),
            into: into(),
            ..AddQuads::default()
        })
        .unwrap();
    assert_eq!((added.existed, added.new, added.before), (false, 3, 0));
    let added = live
        .add(AddQuads {
            data: data(2),
            into: into(),
            instead_of: Some(into()),
            sync: true,
            ..AddQuads::default()
        })
        .unwrap();
    assert_eq!((added.existed, added.before), (true, 3));
    assert_eq!(live.snapshot().len(), 2);
    drop(live);
    let live = open(folder.path());
    assert_eq!(live.snapshot().len(), 2);
    let gone = live
        .add(AddQuads {
            into: into(),
            instead_of: Some(into()),
            ..AddQuads::default()
        })
        .unwrap();
    assert!(gone.existed);
    assert_eq!(live.snapshot().len(), 0);
}

#[test]
fn a_long_update_holds_up_no_reader() {
    let folder = tempfile::tempdir().unwrap();
    let live = Arc::new(open(folder.path()));
    live.update(insert(1), UpdateOptions::default()).unwrap();
    let (entered, leave) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let stop: StopCheck = {
        let (entered, leave) = (Arc::clone(&entered), Arc::clone(&leave));
        let asked = AtomicU64::new(0);
        Arc::new(move || {
            // The first call comes before the update begins.
            if asked.fetch_add(1, Ordering::AcqRel) > 0 {
                entered.store(true, Ordering::Release);
                while !leave.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            }
            None
        })
    };
    let how = UpdateOptions {
        stop,
        ..UpdateOptions::default()
    };
    let text = "INSERT { ?s <http://a/q> ?o } WHERE { ?s <http://a/p1> ?o }";
    let (sender, receiver) = mpsc::channel();
    live.submit(
        UpdateRequest::Text(text.into()),
        how,
        Box::new(move |done| sender.send(done).unwrap()),
    );
    while !entered.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    assert_eq!(live.snapshot().len(), 1);
    leave.store(true, Ordering::Release);
    assert_eq!(receiver.recv().unwrap().unwrap().added, 1);
    assert_eq!(live.snapshot().len(), 2);
}
