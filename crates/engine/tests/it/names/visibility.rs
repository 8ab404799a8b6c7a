//! Visibility of the graph equals what `access(2)` lets a user read, on random trees, tested by a process of that user.
//!
//! Needs user 0, to make files of other users and processes that run as them; without, the test prints so and does nothing.
//! `ESKER_VISIBILITY_CASES` sets the number of trees, `ESKER_VISIBILITY_SEED` the first seed.

use super::{change, path, small, sound};
use esker_engine::{Engine, View};
use esker_lineage::{LineageOptions, lineage};
use esker_model::namespace::{ACL_ACCESS, Acl, Change, NewFile, resolve};
use esker_model::object::Principal;
use esker_model::traversal::Budget;
use esker_model::{
    Batch, GraphRead, GraphWrite, NeverCancel, Op, Properties, Traversal, Version, VertexId,
    VertexName, VertexRef, VertexSelect,
};
use esker_testkit::rng::Rng;
use rustix::fs::{Access, Gid, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PERSON: &str = "ESKER_SIGHT_PERSON";

fn people() -> [Principal; 4] {
    let principal = |uid, gids: &[i64]| Principal {
        uid,
        gids: gids.to_vec(),
    };
    [
        principal(0, &[0]),
        principal(1001, &[1001, 2000]),
        principal(1002, &[1002]),
        principal(1003, &[2000, 2001]),
    ]
}

#[test]
fn people_see_what_access_lets_them_read() {
    if let Ok(person) = std::env::var(PERSON) {
        return tell(&people()[person.parse::<usize>().unwrap()]);
    }
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only user 0 can make processes of others");
        return;
    }
    let base = ["/dev/shm", "/tmp"]
        .into_iter()
        .find(|d| Path::new(d).is_dir())
        .unwrap();
    let number = |name: &str, or: u64| std::env::var(name).map_or(or, |n| n.parse().unwrap());
    let first = number("ESKER_VISIBILITY_SEED", 1);
    for seed in first..first + number("ESKER_VISIBILITY_CASES", 6) {
        let root = PathBuf::from(format!(
            "{base}/esker-visibility-{}-{seed}",
            std::process::id()
        ));
        std::fs::create_dir(&root).unwrap();
        let done = std::panic::catch_unwind(|| case(seed, &root));
        std::fs::remove_dir_all(&root).unwrap();
        if let Err(why) = done {
            println!("seed {seed}");
            std::panic::resume_unwind(why);
        }
    }
}

/// Answers, as that user, whether each path on stdin may be read.
fn tell(person: &Principal) {
    let gids: Vec<Gid> = person
        .gids
        .iter()
        .map(|g| Gid::from_raw(*g as u32))
        .collect();
    let (uid, gid) = (Uid::from_raw(person.uid as u32), gids[0]);
    rustix::thread::set_thread_groups(&gids).unwrap();
    rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
    rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
    for line in std::io::stdin().lines() {
        let may = rustix::fs::access(line.unwrap(), Access::READ_OK).is_ok();
        println!("answer {}", u8::from(may));
    }
}

/// Returns which of these paths a user may read, tested by a process of that user.
fn readable(person: usize, paths: &[PathBuf]) -> Vec<bool> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "names::visibility::people_see_what_access_lets_them_read",
            "--nocapture",
        ])
        .env(PERSON, person.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let paths: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    let text = paths.join("\n") + "\n";
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()).unwrap());
    let out = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(out.status.success());
    let text = String::from_utf8(out.stdout).unwrap();
    let answers: Vec<bool> = text
        .split("answer ")
        .skip(1)
        .map(|rest| rest.starts_with('1'))
        .collect();
    assert_eq!(answers.len(), paths.len(), "{text}");
    answers
}

fn mode(rng: &mut Rng, open: u32) -> u32 {
    // Mostly permissive: trees in which nothing is visible test little.
    if rng.percent(60) {
        open
    } else {
        rng.number_below(0o1000) as u32
    }
}

const ACL: &str = "system.posix_acl_access";

/// Returns a random list that mostly lets everybody do what the mode says.
fn random_acl(rng: &mut Rng, mode: u32) -> Acl {
    let class = |shift: u32| (mode >> shift & 7) as u8;
    let mut permissions = |usual: u8| {
        if rng.percent(50) {
            usual
        } else {
            rng.number_below(8) as u8
        }
    };
    Acl {
        owner: class(6),
        users: vec![(1001, permissions(7)), (1002, permissions(0))],
        group: permissions(class(3)),
        groups: vec![(2000, permissions(5)), (2001, permissions(4))],
        mask: Some(permissions(7)),
        other: class(0),
    }
}

/// Creates a random tree of directories and files in both, some renamed afterwards, some with a second name.
fn grow(rng: &mut Rng, root: &Path, engine: &Engine) -> Vec<PathBuf> {
    std::fs::set_permissions(root, Permissions::from_mode(0o755)).unwrap();
    let mut directories = vec![PathBuf::from("/")];
    let mut all = Vec::new();
    let real = |at: &Path| root.join(at.strip_prefix("/").unwrap());
    for i in 0..60 {
        let parent = rng.pick(&directories).clone();
        let is_directory = i < 12 || rng.percent(25);
        let at = parent.join(format!("n{i}"));
        if is_directory {
            std::fs::create_dir(real(&at)).unwrap();
            directories.push(at.clone());
        } else {
            std::fs::write(real(&at), b"").unwrap();
        }
        let uid = *rng.pick(&[0, 1001, 1002, 1003]);
        let gid = *rng.pick(&[0, 1001, 2000, 2001]);
        chown(real(&at), Some(uid), Some(gid)).unwrap();
        let bits = mode(rng, if is_directory { 0o755 } else { 0o644 });
        std::fs::set_permissions(real(&at), Permissions::from_mode(bits)).unwrap();
        if rng.percent(40) {
            let acl = random_acl(rng, bits);
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(real(&at), ACL, &acl.encode(), flags).unwrap();
        }
        all.push(at);
    }
    // Imported as by a scan.
    for at in &all {
        let of = std::fs::symlink_metadata(real(at)).unwrap();
        let mut acl = vec![0; 1_024];
        let xattrs = match rustix::fs::getxattr(real(at), ACL, &mut acl) {
            Ok(length) => vec![(ACL_ACCESS.to_vec(), acl[..length].to_vec())],
            Err(e) => {
                assert_eq!(e, rustix::io::Errno::NODATA);
                Vec::new()
            }
        };
        let make = NewFile {
            xattrs,
            ..NewFile::new(of.mode(), of.uid(), of.gid())
        };
        change(
            engine,
            None,
            Change::Create(path(at.to_str().unwrap()), make),
        )
        .unwrap();
    }
    for i in 0..8 {
        let from = rng.pick(&all).clone();
        let to = rng.pick(&directories).join(format!("moved{i}"));
        let is_link = real(&from).is_file() && rng.percent(40);
        let done = if is_link {
            std::fs::hard_link(real(&from), real(&to))
        } else {
            std::fs::rename(real(&from), real(&to))
        };
        let (old, new) = (path(from.to_str().unwrap()), path(to.to_str().unwrap()));
        let same = if is_link {
            Change::Link { from: old, to: new }
        } else {
            Change::Rename {
                from: old,
                to: new,
                no_replace: false,
            }
        };
        assert_eq!(change(engine, None, same).is_ok(), done.is_ok());
        if done.is_ok() && !is_link {
            for at in all.iter_mut().chain(&mut directories) {
                if let Ok(rest) = at.strip_prefix(&from) {
                    *at = if rest.as_os_str().is_empty() {
                        to.clone()
                    } else {
                        to.join(rest)
                    };
                }
            }
        } else if done.is_ok() {
            all.push(to);
        }
    }
    all
}

fn vertices(engine: &Engine, names: &[String]) -> Vec<VertexRef> {
    let names: Vec<VertexName> = names
        .iter()
        .map(|n| VertexName::parse(n).unwrap())
        .collect();
    resolve(engine, None, &engine.schema().unwrap(), &names).unwrap()
}

fn case(seed: u64, root: &Path) {
    let mut rng = Rng::new(seed);
    let small = small();
    let engine = &small.engine;
    let paths = grow(&mut rng, root, engine);
    let real: Vec<PathBuf> = paths
        .iter()
        .map(|p| root.join(p.strip_prefix("/").unwrap()))
        .collect();
    let names: Vec<String> = paths
        .iter()
        .zip(&real)
        .map(|(at, real)| {
            let kind = if real.is_dir() { "directory" } else { "file" };
            format!("{kind}:{}", at.display())
        })
        .collect();
    let files = vertices(engine, &names);
    // Jobs read and write some of them; the others have no vertices.
    let spoken: Vec<usize> = (0..files.len()).filter(|_| rng.percent(80)).collect();
    let schema = engine.schema().unwrap();
    let is_file = |i: usize| names[i].starts_with("file:");
    let mut reads: BTreeMap<String, BTreeSet<VertexId>> = BTreeMap::new();
    let mut batch = Batch::new();
    for i in &spoken {
        let key = names[*i].split_once(':').unwrap().1.to_owned();
        batch.push(Op::EnsureVertex {
            vertex: files[*i],
            key,
        });
    }
    for n in 0..6 {
        let name = format!("job:{n}");
        let job = vertices(engine, std::slice::from_ref(&name))[0];
        batch.push(Op::EnsureVertex {
            vertex: job,
            key: n.to_string(),
        });
        for _ in 0..8 {
            let i = *rng.pick(&spoken);
            if !is_file(i) {
                continue;
            }
            reads.entry(name.clone()).or_default().insert(files[i].id);
            batch.push(Op::PutEdge {
                source: job,
                edge_type: schema.edge_type_id("read").unwrap(),
                destination: files[i],
                properties: Properties::new(),
            });
        }
    }
    engine.apply(batch).unwrap();
    sound(engine);
    for (who, person) in people().iter().enumerate() {
        let may: BTreeSet<VertexId> = readable(who, &real)
            .into_iter()
            .zip(&files)
            .filter_map(|(may, f)| may.then_some(f.id))
            .collect();
        let view = View::new(engine, Some(person));
        let ids: Vec<VertexId> = spoken.iter().map(|i| files[*i].id).collect();
        let seen = view.read_vertices(&ids, Version::MAX).unwrap();
        for (i, seen) in spoken.iter().zip(&seen) {
            assert_eq!(
                seen.is_some(),
                may.contains(&files[*i].id),
                "{person:?} {}",
                names[*i]
            );
        }
        let known: BTreeSet<VertexId> = ids.iter().copied().filter(|id| may.contains(id)).collect();
        let mut scanned = BTreeSet::new();
        for of_type in ["File", "Directory"] {
            let select = VertexSelect::of(schema.vertex_type_id(of_type).unwrap());
            view.scan_vertices(&select, &mut |v| {
                let now = vertices(engine, &[v.name(&schema)])[0].id;
                assert_eq!(now, v.id, "it goes by a path that it has");
                scanned.insert(v.id);
                ControlFlow::Continue(())
            })
            .unwrap();
        }
        assert_eq!(scanned, known, "{person:?}");
        let counts = view.counts().unwrap();
        let of = |t: &str| {
            let t = schema.vertex_type_id(t).unwrap();
            counts
                .vertices
                .iter()
                .find(|(id, _)| *id == t)
                .map_or(0, |(_, n)| *n)
        };
        assert_eq!(of("File") + of("Directory"), known.len() as u64);
        let read_type = schema.edge_type_id("read").unwrap();
        let edges: usize = reads.values().map(|r| r.intersection(&may).count()).sum();
        let counted = counts
            .edges
            .iter()
            .find(|(t, _)| *t == read_type)
            .unwrap()
            .1;
        assert_eq!(counted, edges as u64);
        for (job, read) in &reads {
            let chain = format!("v(\"{job}\").e(\"read\").v()");
            let chain = Traversal::parse_at(&chain, 0).unwrap();
            let found = view
                .travel(&chain, &Budget::default(), &NeverCancel)
                .unwrap();
            let got: BTreeSet<VertexId> = found.sets[0].vertices.iter().copied().collect();
            let wanted: BTreeSet<VertexId> = read.intersection(&may).copied().collect();
            assert_eq!(got, wanted, "{person:?} {job}");
            let id = vertices(engine, std::slice::from_ref(job))[0].id;
            let story = lineage(&view, id, &LineageOptions::default(), &NeverCancel).unwrap();
            let told: BTreeSet<VertexId> = story
                .vertices
                .iter()
                .map(|v| v.id)
                .filter(|v| *v != id)
                .collect();
            assert_eq!(told, wanted, "{person:?} {job}");
        }
    }
}
