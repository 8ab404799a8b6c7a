//! Files over the network: a client sees the same as the folder's owner.

use crate::common::{Served, settings};
use crate::plain::{connect, runtime};
use esker::{Database, OpenOptions};
use esker_model::namespace::{
    Change, Content, Cookie, Errno, Inode, NamePath, Namespace, NewFile, SetAttributes, SpaceBy,
    XattrMode,
};
use esker_model::object::Principal;
use esker_model::{Error, NeverCancel, Result};
use esker_rpc::proto;
use esker_server::Settings;
use esker_server::settings::Limits;
use std::ops::ControlFlow;
use tonic::Code;

/// Random number generator with a seed.
struct Rng(u64);

impl Rng {
    fn number_below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        ((self.0 >> 33) as usize) % bound
    }
}

fn path(text: &str) -> NamePath {
    NamePath::parse(text.as_bytes()).unwrap()
}

fn make(at: &str, mode: u32) -> Change {
    Change::Create(path(at), NewFile::new(mode, 0, 0))
}

fn principal(uid: i64) -> Principal {
    Principal {
        uid,
        gids: vec![uid, 2000],
    }
}

/// A file without the fields that differ between databases: ids, versions, times that were not set.
fn comparable(inode: &Inode) -> impl PartialEq + std::fmt::Debug {
    let set = |time: i64| (time < 1_000_000).then_some(time);
    (
        (inode.mode, inode.uid, inode.gid, inode.links),
        (inode.size, inode.blocks, inode.rdev, inode.tracked),
        (set(inode.atime), set(inode.mtime), set(inode.btime)),
        (inode.content.clone(), inode.xattrs.clone()),
    )
}

fn why<T>(result: &Result<T>) -> Option<(Errno, String)> {
    match result {
        Ok(_) => None,
        Err(Error::File(e)) => Some((e.errno, e.path.clone())),
        Err(e) => panic!("{e}"),
    }
}

fn some_path(rng: &mut Rng) -> NamePath {
    let mut bytes = Vec::new();
    for _ in 0..=rng.number_below(3) {
        bytes.push(b'/');
        bytes.extend_from_slice(
            [b"a".as_slice(), b"b", b"c", b"\xff\n", b"d.x"][rng.number_below(5)],
        );
    }
    NamePath::parse(&bytes).unwrap()
}

fn some_change(rng: &mut Rng, who: Option<&Principal>) -> Change {
    let at = some_path(rng);
    let mode = [0o777, 0o755, 0o700, 0o070, 0o1777, 0o2775, 0o711, 0o666][rng.number_below(8)];
    let (uid, gid) = who.map_or((0, 0), |a| (a.uid as u32, a.gids[0] as u32));
    let make = |bits: u32, content| NewFile {
        content,
        times: [None, Some(7), None, Some(9)],
        ..NewFile::new(bits | mode, uid, gid)
    };
    match rng.number_below(16) {
        0..=3 => Change::Create(at, make(0o4_0000, Content::None)),
        4..=6 => Change::Create(at, make(0o10_0000, Content::Inline(vec![1, 0, 255]))),
        7 => Change::Create(at, make(0o12_0000, Content::Symlink(b"../\xfe".to_vec()))),
        8 => Change::Unlink(at),
        9 => Change::Rmdir(at),
        10 | 11 => Change::Rename {
            from: at,
            to: some_path(rng),
            no_replace: rng.number_below(2) == 0,
        },
        12 => Change::Link {
            from: at,
            to: some_path(rng),
        },
        13 | 14 => Change::Set {
            path: at,
            follow: rng.number_below(2) == 0,
            set: SetAttributes {
                mode: (rng.number_below(2) == 0).then_some(mode),
                gid: (rng.number_below(4) == 0).then_some(2000),
                size: (rng.number_below(3) == 0).then_some(rng.number_below(9) as u64),
                mtime: (rng.number_below(2) == 0).then_some(rng.number_below(99) as i64),
                content: (rng.number_below(5) == 0).then_some(Content::None),
                ..SetAttributes::default()
            },
        },
        _ => Change::Xattr {
            path: at,
            name: b"user.\xff".to_vec(),
            value: (rng.number_below(3) > 0).then(|| vec![0, 200]),
            mode: [XattrMode::Any, XattrMode::Create, XattrMode::Replace][rng.number_below(3)],
        },
    }
}

fn list(
    database: &Database,
    who: Option<&Principal>,
    at: &NamePath,
) -> Result<Vec<(Cookie, String, String)>> {
    let mut all = Vec::new();
    database.list(who, at, None, &mut |cookie, entry| {
        all.push((
            cookie,
            entry.name.to_string(),
            format!("{:?}", comparable(&entry.inode)),
        ));
        ControlFlow::Continue(())
    })?;
    // Paging returns the same entries.
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let before = pages.len();
        database.list(who, at, after, &mut |cookie, entry| {
            pages.push((
                cookie,
                entry.name.to_string(),
                format!("{:?}", comparable(&entry.inode)),
            ));
            after = Some(cookie);
            ControlFlow::Break(())
        })?;
        if pages.len() == before {
            break;
        }
    }
    assert_eq!(pages, all);
    Ok(all)
}

/// All answers about a database.
fn answers(database: &Database, who: Option<&Principal>) -> Vec<String> {
    let root = path("/");
    let mut all = Vec::new();
    let mut paths = vec![root.clone()];
    let walked = database.walk(who, &root, &NeverCancel, &mut |path, inode| {
        all.push(format!("{path} {:?}", comparable(inode)));
        paths.push(path.clone());
        ControlFlow::Continue(())
    });
    all.push(format!("{:?}", why(&walked)));
    for at in &paths {
        for follow in [false, true] {
            let inode = database.stat(who, at, follow);
            all.push(format!(
                "{at} {:?} {:?}",
                why(&inode),
                inode.ok().as_ref().map(comparable)
            ));
        }
        let listed = list(database, who, at);
        all.push(format!("{:?} {:?}", why(&listed), listed.ok()));
        for below in [false, true] {
            let usage = database.usage(who, at, below);
            all.push(format!("{:?} {:?}", why(&usage), usage.ok()));
        }
    }
    let mut usages = Vec::new();
    let done = database.usages(who, &root, &NeverCancel, &mut |path, usage| {
        usages.push(format!("{path} {usage:?}"));
        ControlFlow::Continue(())
    });
    // The order within a directory depends on ids, which differ.
    usages.sort();
    all.push(format!("{:?} {usages:?}", why(&done)));
    for by in [
        SpaceBy::User,
        SpaceBy::Group,
        SpaceBy::Kind,
        SpaceBy::Ending,
    ] {
        all.push(format!("{:?}", database.space(by).unwrap()));
    }
    all.push(format!("{:?}", database.partitions(&root).unwrap()));
    all
}

#[test]
fn a_served_namespace_does_what_an_embedded_one_does() {
    for seed in 1..=4 {
        let mut rng = Rng(seed);
        let served = Served::start(settings());
        let remote = served.open();
        let dir = tempfile::tempdir().unwrap();
        let here = dir.path().join("here.esker");
        let options = OpenOptions::new().create(true).memory_bytes(32 << 20);
        let here = options.open(here.to_str().unwrap()).unwrap();
        let people = [
            None,
            Some(principal(0)),
            Some(principal(1001)),
            Some(principal(1002)),
        ];
        for database in [&here, &remote] {
            let open = Change::Set {
                path: path("/"),
                follow: true,
                set: SetAttributes {
                    mode: Some(0o777),
                    ..SetAttributes::default()
                },
            };
            assert!(database.change(None, &[open]).unwrap()[0].is_ok());
        }
        for round in 0..80 {
            let who = people[rng.number_below(4)].as_ref();
            let changes: Vec<Change> = (0..=rng.number_below(6))
                .map(|_| some_change(&mut rng, who))
                .collect();
            let (a, b) = (
                here.change(who, &changes).unwrap(),
                remote.change(who, &changes).unwrap(),
            );
            let (a, b): (Vec<_>, Vec<_>) = a.iter().map(why).zip(b.iter().map(why)).unzip();
            assert_eq!(a, b, "seed {seed} round {round}: {changes:?}");
        }
        for who in &people {
            let (a, b) = (answers(&here, who.as_ref()), answers(&remote, who.as_ref()));
            assert!(a.len() > 10, "{a:?}");
            for (a, b) in a.iter().zip(&b) {
                assert_eq!(a, b, "seed {seed}, {who:?}");
            }
            assert_eq!(a.len(), b.len());
        }
        drop(remote);
        drop(served);
    }
}

/// Concurrent writes form one commit, and each client gets the outcome of its own.
#[test]
fn many_clients_change_one_directory() {
    let served = Served::start(settings());
    assert!(served.open().change(None, &[make("/d", 0o4_0755)]).unwrap()[0].is_ok());
    let (threads, each) = (6, 200);
    std::thread::scope(|scope| {
        for t in 0..threads {
            let client = served.open();
            scope.spawn(move || {
                let mut own = 0;
                for n in 0..each {
                    let mine = make(&format!("/d/{t}-{n}"), 0o10_0644);
                    // Exactly one client gets this change.
                    let shared = make(&format!("/d/shared-{n}"), 0o10_0644);
                    let done = client.change(None, &[mine, shared]).unwrap();
                    assert!(done[0].is_ok(), "{done:?}");
                    own += usize::from(done[1].is_ok());
                }
                own
            });
        }
    });
    let all = list(&served.open(), None, &path("/d")).unwrap();
    assert_eq!(all.len(), (threads + 1) * each);
}

#[test]
fn a_directory_of_many_is_listed_while_it_changes() {
    let served = Served::start(settings());
    let client = served.open();
    let many: Vec<Change> = (0..20_000)
        .map(|n| make(&format!("/{n}"), 0o10_0644))
        .collect();
    for chunk in many.chunks(5_000) {
        assert!(
            client
                .change(None, chunk)
                .unwrap()
                .iter()
                .all(Result::is_ok)
        );
    }
    let (other, mut count) = (served.open(), 0);
    client
        .list(None, &path("/"), None, &mut |_, entry| {
            if count % 1_000 == 0 {
                let gone = Change::Unlink(path(&format!("/{}", entry.name)));
                assert!(other.change(None, &[gone]).unwrap()[0].is_ok());
            }
            count += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(count, 20_000);
}

/// A client in another language gets the errors of a file system.
#[test]
fn plain_clients_are_told_what_is_wrong() {
    let limits = Limits {
        frontier: 3,
        ..Limits::default()
    };
    let served = Served::start(Settings {
        limits,
        ..settings()
    });
    let change = |name: &str| proto::FileChange {
        change: Some(proto::file_change::Change::Make(proto::MakeFile {
            path: name.into(),
            mode: 0o10_0644,
            ..Default::default()
        })),
    };
    let request = |changes: Vec<proto::FileChange>| proto::ChangeFilesRequest {
        changes,
        ..Default::default()
    };
    runtime().block_on(async {
        let mut client = connect(&served).await;
        let done = client
            .change_files(request(vec![change("/x"), change("/x"), change("/no/x")]))
            .await
            .unwrap()
            .into_inner();
        let outcomes: Vec<_> = done
            .outcomes
            .into_iter()
            .map(|o| o.outcome.unwrap())
            .collect();
        let failure = |n: usize| match &outcomes[n] {
            proto::change_files_reply::outcome::Outcome::Failure(f) => {
                (f.code.clone(), f.texts.clone(), f.numbers.clone())
            }
            done @ proto::change_files_reply::outcome::Outcome::Done(_) => panic!("{done:?}"),
        };
        assert_eq!(failure(1), ("file".into(), vec!["/x".into()], vec![17]));
        assert_eq!(failure(2).2, [2]);

        for (wrong, code, said) in [
            (
                request(vec![change("x")]),
                Code::InvalidArgument,
                "begins with /",
            ),
            (
                request(vec![proto::FileChange::default()]),
                Code::InvalidArgument,
                "changes[0].change",
            ),
            (
                request(vec![change("/y"); 4]),
                Code::InvalidArgument,
                "number of changes",
            ),
            (
                proto::ChangeFilesRequest {
                    idempotency_key: b"mine".to_vec(),
                    ..request(vec![change("/y")])
                },
                Code::InvalidArgument,
                "idempotency key",
            ),
        ] {
            let status = client.change_files(wrong).await.unwrap_err();
            assert_eq!(status.code(), code, "{status}");
            assert!(status.message().contains(said), "{status}");
        }
        let stat = |path: &str| proto::StatFileRequest {
            path: path.into(),
            ..Default::default()
        };
        let inode = client
            .stat_file(stat("/x"))
            .await
            .unwrap()
            .into_inner()
            .inode
            .unwrap();
        assert_eq!(inode.mode, 0o10_0644);
        let status = client.stat_file(stat("/y")).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound);
        let wrong = proto::SpaceRequest { by: 9 };
        let status = client.space(wrong).await.unwrap_err();
        assert!(status.message().contains("`by`"), "{status}");
    });
}

/// Files over plain HTTP.
#[test]
fn files_by_http() {
    let served = Served::start(settings());
    let client = served.open();
    let odd = NamePath::parse(b"/d/x\n\\\xff").unwrap();
    let data = NewFile {
        content: Content::Inline(vec![7; 100]),
        ..NewFile::new(0o10_0600, 1001, 1001)
    };
    let link = NewFile {
        content: Content::Symlink(b"d".to_vec()),
        ..NewFile::new(0o12_0777, 0, 0)
    };
    let mut changes = vec![
        make("/d", 0o4_0755),
        make("/d/e", 0o4_0700),
        Change::Create(odd, data),
        Change::Create(path("/link"), link),
    ];
    changes.extend((0..10).map(|n| make(&format!("/d/e/{n}.h5"), 0o10_0644)));
    assert!(
        client
            .change(None, &changes)
            .unwrap()
            .iter()
            .all(Result::is_ok)
    );

    let get = |path: &str| served.json("GET", &format!("/api/v1/files/{path}"), "");
    let (status, file) = get("stat?path=/d/x%5Cx0a%5C%5C%5Cxff");
    assert_eq!(status, 200, "{file}");
    assert_eq!(
        (&file["path"], &file["mode"]),
        (&"/d/x\\x0a\\\\\\xff".into(), &"0600".into())
    );
    assert_eq!((&file["size"], &file["uid"]), (&100.into(), &1001.into()));
    let (_, link) = get("stat?path=/link");
    assert_eq!(
        (&link["kind"], &link["target"]),
        (&"symlink".into(), &"d".into())
    );
    assert_eq!(get("stat?path=/link&follow").1["kind"], "directory");

    // Paging returns each entry once.
    let (mut listed, mut after) = (Vec::new(), String::new());
    loop {
        let (status, page) = get(&format!("list?path=/d/e&limit=3{after}"));
        assert_eq!(status, 200, "{page}");
        let entries = page["entries"].as_array().unwrap();
        assert!(entries.len() <= 3);
        listed.extend(
            entries
                .iter()
                .map(|e| e["path"].as_str().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    listed.sort();
    let expected: Vec<_> = (0..10).map(|n| format!("/d/e/{n}.h5")).collect();
    assert_eq!(listed, expected);

    let (_, found) = get("find?path=/&filter=type+%3D+%27file%27+AND+size+%3D+0");
    assert_eq!(found["files"].as_array().unwrap().len(), 10, "{found}");
    assert_eq!(found["complete"], true);
    let (_, found) = get("find?path=/&limit=2");
    assert_eq!(
        (found["files"].as_array().unwrap().len(), &found["complete"]),
        (2, &false.into())
    );
    // Other users see what the permission bits allow.
    let (_, found) = get("find?path=/&filter=type+%3D+%27file%27&uid=1001&gids=1001");
    assert_eq!(found["files"].as_array().unwrap().len(), 1, "{found}");

    let (_, usage) = get("usage?path=/&depth=1");
    assert_eq!(usage["rows"].as_array().unwrap().len(), 2, "{usage}");
    assert_eq!(
        (&usage["rows"][1]["key"], &usage["rows"][1]["files"]),
        (&"/d".into(), &11.into())
    );
    assert_eq!(get("usage?path=/d/e").1["rows"][0]["files"], 10);
    let (_, top) = get("top?by=user");
    assert_eq!(
        (&top["rows"][0]["key"], &top["rows"][0]["bytes"]),
        (&"1001".into(), &100.into())
    );
    assert_eq!(get("top?by=dir&limit=1").1["complete"], false);
    let (_, by_type) = get("top?by=type&limit=1000");
    assert!(
        by_type["rows"]
            .as_array()
            .unwrap()
            .iter()
            .any(|r| r["key"] == "h5" && r["files"] == 10),
        "{by_type}"
    );

    for (asked, status, said) in [
        (
            "stat?path=/no",
            404,
            "/no: no such file or directory (ENOENT)",
        ),
        ("stat?path=no", 400, "begins with /"),
        ("stat?path=/%5Cy", 400, "for a byte"),
        ("stat", 400, "`path` is missing"),
        ("list?path=/link", 200, ""),
        ("list?path=/d/e/1.h5", 400, "ENOTDIR"),
        ("list?path=/d/e&uid=7", 400, "EACCES"),
        ("list?path=/&after=x", 400, "`next`"),
        ("find?path=/&filter=siez+%3E+1", 400, "did you mean `size`"),
        ("find?path=/&filter=size+%3E", 400, "error"),
        ("top?by=colour", 400, "expected dir"),
        ("top?by=user&uid=7", 400, "leave out `uid`"),
        ("top?by=user&path=/d", 400, "by=dir"),
    ] {
        let (got, answer) = get(asked);
        assert_eq!(got, status, "{asked}: {answer}");
        let told = answer["error"].as_str().unwrap_or_default();
        assert!(told.contains(said), "{asked}: {told}");
    }
}

/// Several clients merge subtrees at the same time; of those with the same name, one succeeds.
#[test]
fn subtrees_of_several_clients_come_in() {
    let served = Served::start(settings());
    assert!(served.open().change(None, &[make("/d", 0o4_0755)]).unwrap()[0].is_ok());
    let (threads, each) = (4, 3_000_u64);
    let won: usize = std::thread::scope(|scope| {
        let working: Vec<_> = (0..threads)
            .map(|t| {
                let client = served.open();
                scope.spawn(move || {
                    let mut won = 0;
                    for top in [format!("/d/own{t}"), "/d/shared".into()] {
                        // Another client may have merged it by now.
                        let Ok(mut private) = client.private(None, &path(&top)) else {
                            continue;
                        };
                        let changes: Vec<Change> = (0..each)
                            .map(|n| make(&format!("{top}/{t}-{n}"), 0o10_0644))
                            .collect();
                        assert!(
                            private
                                .change(None, &changes)
                                .unwrap()
                                .iter()
                                .all(Result::is_ok)
                        );
                        match private.merge() {
                            Ok(_) => won += 1,
                            Err(e) => assert!(top == "/d/shared", "{e}"),
                        }
                    }
                    won
                })
            })
            .collect();
        working.into_iter().map(|w| w.join().unwrap()).sum()
    });
    assert_eq!(won, threads + 1);
    let remote = served.open();
    let usage = remote.usage(None, &path("/d"), true).unwrap();
    assert_eq!(usage.files, (threads as u64 + 1) * each);
    let shared = list(&remote, None, &path("/d/shared")).unwrap();
    let of = |t: usize| {
        let theirs = format!("{t}-");
        shared
            .iter()
            .filter(|(_, name, _)| name.starts_with(&theirs))
            .count()
    };
    assert!((0..threads).all(|t| of(t) == 0 || of(t) == each as usize));
}
