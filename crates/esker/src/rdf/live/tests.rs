//! What many do at once with RDF data that one process holds.

use super::*;
use crate::rdf::Rdf;
use std::sync::atomic::AtomicBool;

fn insert(n: usize) -> Request {
    Request::Text(format!(
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
                    let how = How {
                        sync: n % 50 == 0,
                        ..How::default()
                    };
                    let done = live.update(insert(client * 1_000 + n), how).unwrap();
                    assert_eq!((done.added, done.removed), (1, 0));
                    assert!(live.snapshot().len() > n);
                }
            });
        }
        // Images are made meanwhile, and carry what comes while they are written.
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
    live.update(insert(1), How::default()).unwrap();
    let before = live.snapshot();
    live.update(insert(2), How::default()).unwrap();
    live.update(Request::Text("CLEAR ALL".into()), How::default())
        .unwrap();
    assert_eq!((before.len(), live.snapshot().len()), (1, 0));
}

#[test]
fn what_fails_or_is_stopped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let live = open(folder.path());
    live.update(insert(1), How::default()).unwrap();
    let bad = "INSERT DATA { <http://a/x> <http://a/p> 1 } ; CREATE GRAPH <http://g> ; \
               INSERT DATA { GRAPH <http://g> { <http://a/x> <http://a/p> 1 } } ; CREATE GRAPH <http://g>";
    let refused = live.update(Request::Text(bad.into()), How::default());
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    let stopped = How {
        stop: Arc::new(|| Some("time-out")),
        ..How::default()
    };
    assert!(matches!(
        live.update(insert(2), stopped),
        Err(Error::Interrupted)
    ));
    let file = folder.path().join("x.nt");
    std::fs::write(&file, "<http://a/x> <http://a/p> <http://a/y> .\n").unwrap();
    let load = format!("LOAD <file://{}>", file.display());
    let apart = How {
        files: false,
        ..How::default()
    };
    let message = live
        .update(Request::Text(load.clone()), apart)
        .unwrap_err()
        .to_string();
    assert!(message.contains("a server reads no files"), "{message}");
    assert_eq!(live.snapshot().len(), 1);
    live.update(Request::Text(load), How::default()).unwrap();
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
            let (now, seed) = moment();
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
        .add(Add {
            data: data(3),
            into: into(),
            ..Add::default()
        })
        .unwrap();
    assert_eq!((added.existed, added.new, added.before), (false, 3, 0));
    let added = live
        .add(Add {
            data: data(2),
            into: into(),
            instead_of: Some(into()),
            sync: true,
            ..Add::default()
        })
        .unwrap();
    assert_eq!((added.existed, added.before), (true, 3));
    assert_eq!(live.snapshot().len(), 2);
    drop(live);
    let live = open(folder.path());
    assert_eq!(live.snapshot().len(), 2);
    let gone = live
        .add(Add {
            into: into(),
            instead_of: Some(into()),
            ..Add::default()
        })
        .unwrap();
    assert!(gone.existed);
    assert_eq!(live.snapshot().len(), 0);
}

#[test]
fn a_long_update_holds_up_no_reader() {
    let folder = tempfile::tempdir().unwrap();
    let live = Arc::new(open(folder.path()));
    live.update(insert(1), How::default()).unwrap();
    let (entered, leave) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let stop: Stop = {
        let (entered, leave) = (Arc::clone(&entered), Arc::clone(&leave));
        let asked = AtomicU64::new(0);
        Arc::new(move || {
            // The first question comes before the update begins.
            if asked.fetch_add(1, Ordering::AcqRel) > 0 {
                entered.store(true, Ordering::Release);
                while !leave.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            }
            None
        })
    };
    let how = How {
        stop,
        ..How::default()
    };
    let text = "INSERT { ?s <http://a/q> ?o } WHERE { ?s <http://a/p1> ?o }";
    let (tell, told) = mpsc::channel();
    live.submit(
        Request::Text(text.into()),
        how,
        Box::new(move |done| tell.send(done).unwrap()),
    );
    while !entered.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    assert_eq!(live.snapshot().len(), 1);
    leave.store(true, Ordering::Release);
    assert_eq!(told.recv().unwrap().unwrap().added, 1);
    assert_eq!(live.snapshot().len(), 2);
}
