//! Open files through servers: on a single server and on a cluster of two, while other clients rename and remove them; after the client
//! is gone; after the server is restarted.

use crate::cluster::two;
use crate::common::settings;
use crate::plain::{connect_to, runtime};
use esker::{CheckOptions, Database, File, OpenOptions};
use esker_model::namespace::{
    Change, Content, Errno, NamePath, Namespace as _, NewFile, Open, SpaceBy, XattrMode,
};
use esker_model::{Error, NeverCancel, Result};
use esker_rpc::proto;
use esker_server::{Server, Settings};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::Path;
use tonic::Code;

fn path(text: &str) -> NamePath {
    NamePath::parse(text.as_bytes()).unwrap()
}

fn client(at: SocketAddr) -> Database {
    OpenOptions::new().open(&format!("esker://{at}")).unwrap()
}

fn change(database: &Database, change: Change) {
    database.change(None, &[change]).unwrap().remove(0).unwrap();
}

fn make(database: &Database, at: &str, mode: u32) {
    change(database, Change::Create(path(at), NewFile::new(mode, 0, 0)));
}

fn rename(database: &Database, from: &str, to: &str) {
    let (from, to) = (path(from), path(to));
    let no_replace = false;
    change(
        database,
        Change::Rename {
            from,
            to,
            no_replace,
        },
    );
}

fn open(database: &Database, at: &str) -> File {
    let how = Open {
        create: true,
        ..Open::BOTH
    };
    let make = NewFile::new(0o10_0644, 0, 0);
    database
        .open_file(None, &path(at), how, Some(&make))
        .unwrap()
}

fn errno<T: std::fmt::Debug>(result: Result<T>) -> Errno {
    match result {
        Err(Error::File(e)) => e.errno,
        other => panic!("{other:?}"),
    }
}

/// Files that one client has open while another one, possibly through another server, moves and removes them.
fn stays_open(first: SocketAddr, second: SocketAddr) {
    let (mine, other) = (client(first), client(second));
    make(&mine, "/a", 0o4_0755);
    make(&mine, "/b", 0o4_0755);
    // Enough entries to split the directories, if they can split.
    for n in 0..12 {
        let file = open(&mine, &format!("/a/{n}"));
        file.append(b"one").unwrap();
        let id = file.stat().unwrap().id;
        rename(&other, &format!("/a/{n}"), &format!("/b/{n}.moved"));
        file.append(b" two").unwrap();
        let inode = other
            .stat(None, &path(&format!("/b/{n}.moved")), false)
            .unwrap();
        assert_eq!((inode.id, inode.size), (id, 7));
        assert_eq!(inode.content, Content::Inline(b"one two".to_vec()));
        if n % 3 == 0 {
            let (from, to) = (
                path(&format!("/b/{n}.moved")),
                path(&format!("/a/{n}.link")),
            );
            change(&other, Change::Link { from, to });
        }
        change(&other, Change::Unlink(path(&format!("/b/{n}.moved"))));
        file.append(b" three").unwrap();
        let links = u32::from(n % 3 == 0);
        assert_eq!(file.stat().unwrap().links, links);
        assert_eq!(file.read_at(4, 99).unwrap(), b"two three");
        if links == 1 {
            change(&other, Change::Unlink(path(&format!("/a/{n}.link"))));
            file.truncate(3).unwrap();
            file.set_xattr(b"user.n", Some(b"1"), XattrMode::Create)
                .unwrap();
            let inode = file.stat().unwrap();
            assert_eq!((inode.links, inode.size, inode.xattrs.len()), (0, 3, 1));
        }
    }
    // Its directory entry was removed, so that no row has its location.
    for n in 0..6 {
        let at = format!("/b/plain{n}");
        let file = open(&mine, &at);
        file.append(b"plain").unwrap();
        let twin = client(second)
            .open_file(None, &path(&at), Open::BOTH, None)
            .unwrap();
        change(&other, Change::Unlink(path(&at)));
        assert_eq!(file.read_at(0, 9).unwrap(), b"plain");
        twin.write_at(0, b"PL").unwrap();
        assert_eq!(file.read_at(0, 9).unwrap(), b"PLain");
        assert_eq!(file.stat().unwrap().links, 0);
        // Its name is free and used for another file.
        let next = open(&other, &at);
        assert_ne!(next.stat().unwrap().id, file.stat().unwrap().id);
        assert_eq!(next.stat().unwrap().size, 0);
        drop(next);
        change(&other, Change::Unlink(path(&at)));
    }
    let listed = |file: &File| {
        let mut names = Vec::new();
        file.list(None, &mut |_, entry| {
            names.push(entry.name.to_string());
            ControlFlow::Continue(())
        })
        .map(|()| names)
    };
    let directory = mine.open_file(None, &path("/b"), Open::READ, None).unwrap();
    make(&other, "/b/left", 0o10_0644);
    rename(&other, "/b", "/c");
    assert_eq!(listed(&directory).unwrap(), ["left"]);
    change(&other, Change::Unlink(path("/c/left")));
    change(&other, Change::Rmdir(path("/c")));
    assert_eq!(errno(listed(&directory)), Errno::NotFound);
    assert_eq!(directory.stat().unwrap().links, 0);
    let usage = mine.usage(None, &NamePath::root(), true).unwrap();
    assert_eq!((usage.files, usage.directories, usage.bytes), (0, 2, 0));
    for space in mine.space(SpaceBy::Kind).unwrap() {
        assert_eq!(space.usage.bytes, 0, "{space:?}");
    }
}

#[test]
fn files_stay_open_through_one_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), "127.0.0.1:0");
    stays_open(server.address(), server.address());
    assert!(server.stop().unwrap());
    sound(dir.path());
}

#[test]
fn files_stay_open_through_a_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = two(dir.path());
    stays_open(first.address(), second.address());
    assert!(first.stop().unwrap());
    assert!(second.stop().unwrap());
}

fn start(folder: &Path, listen: &str) -> Server {
    let options = OpenOptions::new().create(true).memory_bytes(32 << 20);
    let database = options
        .open(folder.join("lab.esker").to_str().unwrap())
        .unwrap();
    let settings = Settings {
        listen: listen.into(),
        ..settings()
    };
    Server::start(database, settings).unwrap()
}

fn sound(folder: &Path) {
    let database = OpenOptions::new()
        .open(folder.join("lab.esker").to_str().unwrap())
        .unwrap();
    let report = database
        .check(&CheckOptions::default(), &NeverCancel, &mut |_| {})
        .unwrap();
    assert!(
        report.complete && report.problems.is_empty(),
        "{:#?}",
        report.problems
    );
    let usage = database.usage(None, &NamePath::root(), true).unwrap();
    assert_eq!((usage.files, usage.bytes), (0, 0));
}

/// A server keeps no state of open files: nothing remains when a client has gone, and they stay open when the server is restarted.
#[test]
fn servers_and_clients_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), "127.0.0.1:0");
    let at = server.address();
    let database = client(at);
    let (named, gone) = (open(&database, "/named"), open(&database, "/gone"));
    gone.append(b"one").unwrap();
    change(&database, Change::Unlink(path("/gone")));
    assert!(server.stop().unwrap());
    let server = start(dir.path(), &at.to_string());
    gone.append(b" two").unwrap();
    named.append(b"here").unwrap();
    assert_eq!(gone.read_at(0, 9).unwrap(), b"one two");
    let limited = OpenOptions::new().open_files(1);
    let limited = limited.open(&format!("esker://{at}")).unwrap();
    let one = open(&limited, "/named");
    assert_eq!(
        errno(limited.open_file(None, &path("/named"), Open::READ, None)),
        Errno::TooManyOpen
    );
    drop((one, limited, named, gone, database));
    let database = client(at);
    assert_eq!(database.stat(None, &path("/named"), false).unwrap().size, 4);
    change(&database, Change::Unlink(path("/named")));
    drop(database);
    assert!(server.stop().unwrap());
    sound(dir.path());
}

/// Over gRPC with text names, as in other languages.
#[test]
fn open_files_are_paths_of_calls() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), "127.0.0.1:0");
    runtime().block_on(async {
        let mut client = connect_to(server.address()).await;
        let look = |how| proto::LookFileRequest {
            principal: None,
            path: b"/x".to_vec(),
            how,
        };
        assert_eq!(
            client.look_file(look(1)).await.unwrap_err().code(),
            Code::NotFound
        );
        let missing = client
            .look_file(look(1 | 2 | 4))
            .await
            .unwrap()
            .into_inner();
        assert_eq!((missing.path, missing.handle), (b"/x".to_vec(), Vec::new()));
        let change = |change| proto::ChangeFilesRequest {
            changes: vec![proto::FileChange {
                change: Some(change),
            }],
            ..Default::default()
        };
        let make = proto::MakeFile {
            path: b"/x".to_vec(),
            mode: 0o10_0644,
            ..Default::default()
        };
        let make = proto::file_change::Change::Make(make);
        client.change_files(change(make)).await.unwrap();
        let found = client.look_file(look(1 | 2)).await.unwrap().into_inner();
        let unlink = proto::file_change::Change::Unlink(b"/x".to_vec());
        client.change_files(change(unlink)).await.unwrap();
        let write = proto::WriteFile {
            path: found.handle.clone(),
            at: None,
            data: b"there".to_vec(),
        };
        let write = proto::file_change::Change::Write(write);
        client.change_files(change(write)).await.unwrap();
        let stat = proto::StatFileRequest {
            path: found.handle,
            ..Default::default()
        };
        let inode = client
            .stat_file(stat)
            .await
            .unwrap()
            .into_inner()
            .inode
            .unwrap();
        assert_eq!((inode.links, inode.size), (0, 5));
        let wrong = client.look_file(look(128)).await.unwrap_err();
        assert_eq!(wrong.code(), Code::InvalidArgument, "{wrong:?}");
        let torn = proto::StatFileRequest {
            path: vec![0, 3, 9],
            ..Default::default()
        };
        assert!(client.stat_file(torn).await.is_err());
    });
    assert!(server.stop().unwrap());
}
