//! A tier within a long-lived process, over a folder with notifications.

use esker_model::NeverCancel;
use esker_origin::{OriginUrl, PathMetadata};
use esker_site::{FetchOptions, RemoteFiles};
use esker_site_cache::entry::{Kind, Wants};
use esker_testkit::wait::HANG;
use std::sync::mpsc;

/// More directories than can be watched at a time, and than a listing's prefetches cover: each is listed, in turn.
#[test]
fn a_large_tree_is_walked_name_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let mut expected = 0;
    for a in 0..40 {
        for b in 0..12 {
            let at = top.join(format!("a{a}/b{b}"));
            std::fs::create_dir_all(&at).unwrap();
            for c in 0..(a + b) % 9 {
                std::fs::write(at.join(format!("c{c}")), "x").unwrap();
                expected += 1;
            }
        }
    }
    let (done, over) = mpsc::channel();
    std::thread::spawn(move || {
        let far = RemoteFiles::open_long_lived(None, FetchOptions::default())
            .unwrap()
            .unwrap();
        let (place, path) = OriginUrl::parse(&format!("file://{}", top.display())).unwrap();
        let mut waiting = vec![path];
        let mut files = 0;
        while let Some(path) = waiting.pop() {
            // As the kernel does: attributes, then the listing.
            far.get(&place, &path, Wants::Stat, &NeverCancel)
                .unwrap()
                .unwrap();
            let given = far.get(&place, &path, Wants::List, &NeverCancel);
            let PathMetadata::Listing { children, .. } = given.unwrap().unwrap().found else {
                panic!("no listing of {}", String::from_utf8_lossy(&path));
            };
            for child in children {
                let below = [&path, &b"/"[..], &child.name].concat();
                if child.attributes.kind == Kind::Directory {
                    waiting.push(below);
                } else {
                    files += 1;
                }
            }
        }
        done.send(files).unwrap();
    });
    let files = over.recv_timeout(HANG);
    assert_eq!(files, Ok(expected), "a question was never answered");
}
