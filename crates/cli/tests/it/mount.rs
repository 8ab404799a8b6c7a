//! `esker mount` and related commands from a user's perspective. The mount itself is tested in its own crate.

use esker_model::namespace::Acl;
use esker_testkit::wait::{eventually, wait_until};
use serde_json::Value as Json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

struct Lab {
    folder: tempfile::TempDir,
}

/// Only root can mount without a helper program.
fn can_mount() -> bool {
    let can = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can {
        eprintln!("skipped: needs root and /dev/fuse");
    }
    can
}

impl Lab {
    fn new() -> Self {
        let lab = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(lab.at()).unwrap();
        lab.well(&["init", "lab.esker"]);
        lab
    }

    fn at(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    fn esker(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_esker"))
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .stdin(Stdio::null())
            .args(args)
            .output()
            .unwrap()
    }

    fn well(&self, args: &[&str]) -> String {
        let out = self.esker(args);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{args:?}: {said}");
        String::from_utf8(out.stdout).unwrap()
    }

    fn refused(&self, args: &[&str]) -> String {
        let out = self.esker(args);
        assert!(!out.status.success(), "{args:?}");
        String::from_utf8(out.stderr).unwrap()
    }

    fn mount(&self) {
        self.well(&[
            "mount",
            "lab.esker",
            "mnt",
            "--data",
            "data",
            "--background",
        ]);
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.esker(&["umount", "--force", "mnt"]);
        let _ = self.esker(&["umount", "--force", "second"]);
    }
}

/// Waits until no process has the database open: its owner removes its socket (`owner/N.sock`) when it closes it.
fn wait_for_end(lab: &Lab) {
    let owner = lab.folder.path().join("lab.esker/owner");
    let is_socket = |name: std::io::Result<fs::DirEntry>| {
        let name = name.unwrap().file_name();
        Path::new(&name).extension().is_some_and(|e| e == "sock")
    };
    wait_until("the database is open still", || {
        !fs::read_dir(&owner).unwrap().any(is_socket)
    });
}

#[test]
fn files_go_in_and_are_found() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    lab.mount();
    fs::create_dir(lab.at().join("run7")).unwrap();
    fs::write(lab.at().join("run7/small"), "text").unwrap();
    fs::write(lab.at().join("run7/large"), vec![7; 100_000]).unwrap();
    let name = "user.esker.campaign";
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(lab.at().join("run7/large"), name, b"winter24", flags).unwrap();
    // Other commands see the changes immediately, and the mount sees theirs.
    assert_eq!(
        lab.well(&["ls", "lab.esker", "/run7"]),
        "NAME\nlarge\nsmall\n"
    );
    let found = lab.well(&["get", "lab.esker", "file:/run7/large", "--format", "json"]);
    assert!(found.contains("winter24"), "{found}");
    let tagged = lab.well(&[
        "find",
        "lab.esker",
        "/",
        "campaign = 'winter24' and size > 1000",
    ]);
    assert_eq!(tagged, "PATH\n/run7/large\n");
    let unknown = lab.refused(&["find", "lab.esker", "/", "campain = 'winter24'"]);
    assert!(unknown.contains("unknown attribute `campain`"), "{unknown}");
    lab.well(&["mv", "lab.esker", "/run7", "/archive"]);
    assert_eq!(fs::read(lab.at().join("archive/small")).unwrap(), b"text");
    let again = lab.refused(&["mount", "lab.esker", "mnt"]);
    assert!(again.contains("is mounted here already"), "{again}");
    lab.well(&["umount", "mnt"]);
    wait_for_end(&lab);
    let none = lab.refused(&["umount", "mnt"]);
    assert!(none.contains("nothing is mounted here"), "{none}");
    lab.well(&["check", "lab.esker"]);

    // Data without a file is reported, and kept as long as it may belong to a file.
    let folder = lab.folder.path().join("data/00");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("0".repeat(32)), "orphan").unwrap();
    let told = lab.well(&["check", "lab.esker", "--data", "data", "--format", "json"]);
    let told: Json = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["files"], &told["objects"]), (&1.into(), &2.into()));
    assert_eq!(told["orphans"].as_array().unwrap().len(), 0);
    lab.well(&["rm", "lab.esker", "/archive/large"]);
    let told = lab.refused(&["check", "lab.esker", "--data", "nowhere"]);
    assert!(told.contains("expected a data folder"), "{told}");
}

#[test]
fn a_mount_of_a_dead_process_is_reported() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let mut process = Command::new(env!("CARGO_BIN_EXE_esker"))
        .current_dir(lab.folder.path())
        .args(["mount", "lab.esker", "mnt", "--data", "data"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("not mounted", || {
        fs::read_to_string("/proc/self/mountinfo")
            .unwrap()
            .contains(lab.at().to_str().unwrap())
    });
    fs::write(lab.at().join("f"), "text").unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    let told = lab.refused(&["mount", "lab.esker", "mnt", "--data", "data"]);
    assert!(
        told.contains("its process has ended; run `esker umount"),
        "{told}"
    );
    lab.well(&["umount", "mnt"]);
    lab.mount();
    assert_eq!(fs::read(lab.at().join("f")).unwrap(), b"text");
    lab.well(&["umount", "mnt"]);
}

/// The files of an origin as a file system: its contents and their changes.
#[test]
fn an_origin_is_shown() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let tree = lab.folder.path().canonicalize().unwrap().join("tree");
    for n in 0..300 {
        fs::create_dir_all(tree.join(format!("d{}", n % 7))).unwrap();
        fs::write(tree.join(format!("d{}/f{n}", n % 7)), vec![b'x'; n]).unwrap();
    }
    std::os::unix::fs::symlink("d1/f1", tree.join("link")).unwrap();
    let url = format!("file://{}", tree.display());
    lab.well(&["mount", "--origin", &url, "mnt", "--background"]);
    for n in 0..300 {
        let name = format!("d{}/f{n}", n % 7);
        let (far, near) = (
            lab.at().join(&name).metadata().unwrap(),
            tree.join(&name).metadata().unwrap(),
        );
        assert_eq!(far.len(), n as u64);
        assert_eq!(far.modified().unwrap(), near.modified().unwrap());
    }
    let names = |at: &Path| {
        let mut all: Vec<_> = fs::read_dir(at)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        all.sort();
        all
    };
    assert_eq!(names(&lab.at()), names(&tree));
    assert_eq!(names(&lab.at().join("d3")), names(&tree.join("d3")));
    let missing = lab.at().join("d1/none").metadata().unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    let refused = fs::write(lab.at().join("new"), "x").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(30), "{refused}");
    let contents = fs::read(lab.at().join("d1/f8")).unwrap_err();
    assert_eq!(contents.raw_os_error(), Some(95), "{contents}");
    // The origin notifies changes.
    fs::remove_file(tree.join("d1/f1")).unwrap();
    fs::write(tree.join("d1/later"), "12345").unwrap();
    eventually(|| {
        let gone = !lab.at().join("d1/f1").exists();
        let later = lab.at().join("d1/later").metadata().map_or(0, |m| m.len());
        (gone && later == 5)
            .then_some(())
            .ok_or_else(|| format!("{:?}", names(&lab.at().join("d1"))))
    });
    lab.well(&["umount", "mnt"]);
    let file = format!("{url}/d2/f2");
    let said = lab.refused(&["mount", "--origin", &file, "mnt"]);
    assert!(said.contains("is not a directory"), "{said}");
    let said = lab.refused(&["mount", "--origin", "nonsense", "mnt"]);
    assert!(said.contains("nonsense"), "{said}");
}

fn lines(text: &str, what: &str) -> Vec<Json> {
    let all = text
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap());
    all.filter_map(|line| line.get(what).cloned()).collect()
}

/// Edges are sent shortly after the file is closed.
fn lineage_with(lab: &Lab, command: &str, path: &str, wanted: &str) -> String {
    eventually(|| {
        // A file that the graph does not know yet is not a vertex.
        let out = lab.esker(&[command, path, "--format", "ndjson"]);
        let said = String::from_utf8(out.stdout).unwrap();
        if said.contains(wanted) {
            Ok(said)
        } else {
            Err(format!("no {wanted}: {said}"))
        }
    })
}

#[test]
fn what_programs_do_becomes_lineage() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let told = lab.refused(&["lineage", "mnt"]);
    assert!(told.contains("there is no Esker mount there"), "{told}");
    lab.well(&[
        "mount",
        "lab.esker",
        "mnt",
        "--data",
        "data",
        "--record",
        "--background",
    ]);
    fs::write(lab.at().join("raw"), "3\n1\n2\n1\n").unwrap();
    let job = Command::new("sh")
        .args([
            "-c",
            "sort mnt/raw | uniq > mnt/out && tail -n 1 mnt/out > mnt/last",
        ])
        .current_dir(lab.folder.path())
        .env("SLURM_JOB_ID", "4711")
        .env("SLURM_PROCID", "3")
        .status()
        .unwrap();
    assert!(job.success());
    assert_eq!(fs::read_to_string(lab.at().join("last")).unwrap(), "3\n");

    // The job read the input of its result, whichever of its processes did so.
    let said = lineage_with(&lab, "lineage", "mnt/last", "file:/raw");
    let edges = lines(&said, "edge");
    let has = |source: &str, kind: &str, destination: &str| {
        edges.iter().any(|e| {
            e["src"].as_str().unwrap().starts_with(source)
                && e["type"] == kind
                && e["dst"].as_str().unwrap().starts_with(destination)
        })
    };
    assert!(has("file:/last", "wasWrittenBy", "job:4711"), "{said}");
    assert!(has("file:/last", "wasWrittenBy", "process:"), "{said}");
    assert!(has("job:4711", "read", "file:/raw"), "{said}");
    assert!(has("job:4711", "wasRunBy", "user:0"), "{said}");
    assert!(has("process:", "belongs", "job:4711"), "{said}");
    let tail = lines(&said, "vertex")
        .into_iter()
        .find(|v| v["attributes"]["command"] == "tail -n 1 mnt/out")
        .unwrap_or_else(|| panic!("the shell's child is `tail` in the end: {said}"));
    assert_eq!(tail["attributes"]["rank"], 3);
    let edge = edges.iter().find(|e| e["type"] == "wasWrittenBy").unwrap();
    assert!(edge["properties"]["opens"].as_i64().unwrap() >= 1, "{edge}");
    assert!(
        edge["properties"]["start"].as_str() <= edge["properties"]["end"].as_str(),
        "{edge}"
    );

    // The results of the input, through the process that read it.
    let said = lineage_with(&lab, "impact", "mnt/raw", "sort mnt/raw");
    assert!(said.contains("file:/last"), "{said}");

    // The mount shows the same below `.esker`.
    let view = |path: &str| fs::read_to_string(lab.at().join(".esker").join(path)).unwrap();
    assert_eq!(view("lineage/last"), lab.well(&["lineage", "mnt/last"]));
    assert_eq!(
        view("impact.json/raw"),
        lab.well(&["impact", "mnt/raw", "--format", "json"])
    );

    // The history stays with the file across renames and after removal.
    fs::rename(lab.at().join("last"), lab.at().join("final")).unwrap();
    assert!(lab.well(&["lineage", "mnt/final"]).contains("job:4711"));
    fs::remove_file(lab.at().join("final")).unwrap();
    assert!(lab.well(&["lineage", "mnt/last"]).contains("job:4711"));
    lab.well(&["umount", "mnt"]);
    wait_for_end(&lab);
    assert!(
        lab.well(&["lineage", "lab.esker", "file:/out"])
            .contains("job:4711")
    );
}

/// A cluster's files through two mounts on different servers: with directories that split, and renames across servers.
#[test]
fn a_cluster_is_mounted_twice() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let folder = lab.folder.path();
    crate::cluster::describe(folder, "directory_threshold = 8\n");
    let cluster = crate::cluster::Cluster::up(folder);
    let second = folder.join("second");
    fs::create_dir(&second).unwrap();
    for (n, at) in [(0, "mnt"), (1, "second")] {
        let target = cluster.target(n);
        lab.well(&[
            "mount",
            target,
            at,
            "--data",
            "data",
            "--attr-timeout",
            "0s",
            "--background",
        ]);
    }
    let at = lab.at();
    fs::create_dir(at.join("d")).unwrap();
    for n in 0..60 {
        fs::write(at.join(format!("d/{n}")), vec![b'x'; n * 300]).unwrap();
    }
    let names = fs::read_dir(second.join("d")).unwrap();
    let mut names: Vec<usize> = names
        .map(|e| e.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, (0..60).collect::<Vec<_>>());
    fs::rename(second.join("d"), second.join("e")).unwrap();
    for n in 0..60 {
        assert_eq!(fs::read(at.join(format!("e/{n}"))).unwrap().len(), n * 300);
        fs::rename(at.join(format!("e/{n}")), at.join(format!("e/moved-{n}"))).unwrap();
        fs::write(second.join(format!("e/moved-{n}")), "changed").unwrap();
        assert_eq!(
            fs::read(at.join(format!("e/moved-{n}"))).unwrap(),
            b"changed"
        );
    }
    fs::remove_dir_all(at.join("e")).unwrap();
    assert_eq!(fs::read_dir(&second).unwrap().count(), 0);
    // A cluster does not know its past entries, and says so.
    fs::create_dir(folder.join("third")).unwrap();
    let past = lab.refused(&["mount", cluster.target(0), "third", "--as-of", "2020-01-01"]);
    assert!(past.contains("not on a cluster"), "{past}");
    lab.well(&["umount", "mnt"]);
    lab.well(&["umount", "second"]);
}

/// Runs mount(8) with this program as its helper, in mounts of the test alone.
#[test]
fn mount_of_the_system_mounts_a_database() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let helpers = lab.folder.path().join("helpers");
    fs::create_dir(&helpers).unwrap();
    let esker = env!("CARGO_BIN_EXE_esker");
    for name in ["mount.esker", "mount.fuse.esker"] {
        std::os::unix::fs::symlink(esker, helpers.join(name)).unwrap();
    }
    let script = "
        mount -t overlay overlay -o lowerdir=helpers:/sbin /sbin
        mount -t fuse.esker lab.esker mnt -o noatime,allow_other,data=data,attr_timeout=0s,x-systemd.automount
        findmnt -n -o FSTYPE,OPTIONS mnt
        printf %100000s x > mnt/large
        umount mnt
        echo \"$PWD/lab.esker mnt esker ro,data=$PWD/data 0 0\" > fstab
        mount --fstab fstab mnt
        wc -c < mnt/large
        ! touch mnt/other
        ! mount -o remount,rw mnt
        umount mnt
        ! mount -t esker lab.esker mnt -o noexec
        ! mount -t esker missing.esker mnt";
    let out = Command::new("unshare")
        .args(["--mount", "sh", "-ec", script])
        .current_dir(lab.folder.path())
        .env("HOME", lab.folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (printed, said) = (
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr),
    );
    assert!(out.status.success(), "{printed}{said}");
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines[0].starts_with("fuse.esker rw,"), "{printed}");
    assert!(lines[0].contains("allow_other"), "{printed}");
    assert_eq!(lines[1..], ["100000"]);
    assert!(said.contains("'--noexec'"), "{said}");
    assert!(said.contains("missing.esker"), "{said}");
}

/// Returns the present time for `--as-of`; later changes have later times.
fn now() -> String {
    let millis = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::try_from(now.as_millis()).unwrap()
    };
    let now = millis();
    wait_until("the clock stands still", || millis() > now + 20);
    format!("@{}.{:03}", now / 1_000, now % 1_000)
}

/// A server, killed on drop.
struct ServerProcess(Child);

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server of the database; returns its process and its address as a target.
fn serve(lab: &Lab) -> (ServerProcess, String) {
    let port = lab.folder.path().join("port");
    let arguments = [
        "serve",
        "lab.esker",
        "--listen",
        "127.0.0.1:0",
        "--port-file",
        "port",
    ];
    let mut server = Command::new(env!("CARGO_BIN_EXE_esker"))
        .current_dir(lab.folder.path())
        .env("HOME", lab.folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .args(arguments)
        .spawn()
        .unwrap();
    wait_until("the server does not start", || {
        let ended = server.try_wait().unwrap();
        assert_eq!(ended, None, "the server has ended instead of starting");
        port.exists()
    });
    let address = fs::read_to_string(&port).unwrap();
    (ServerProcess(server), format!("esker://{}", address.trim()))
}

/// A folder, and the same through a server, as they were before a file was moved and its lineage grew.
#[test]
fn a_past_time_is_mounted() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    lab.mount();
    fs::create_dir(lab.at().join("run")).unwrap();
    fs::write(lab.at().join("run/out"), vec![7; 100_000]).unwrap();
    let link = |job: &str| {
        let file = "file:/run/out";
        lab.well(&["link", "lab.esker", "--create", job, "write", file]);
    };
    link("job:1");
    let then = now();
    link("job:2");
    fs::rename(lab.at().join("run"), lab.at().join("archive")).unwrap();
    lab.well(&["umount", "mnt"]);
    wait_for_end(&lab);
    let past = |target: &str| {
        let options = ["--data", "data", "--background"];
        let begin = ["mount", target, "mnt", "--as-of", &then];
        lab.well(&[&begin[..], &options[..]].concat());
        let names = fs::read_dir(lab.at()).unwrap();
        let names: Vec<_> = names.map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["run"]);
        assert_eq!(
            fs::read(lab.at().join("run/out")).unwrap(),
            vec![7; 100_000]
        );
        let view = fs::read_to_string(lab.at().join(".esker/lineage/run/out")).unwrap();
        assert!(view.contains("job:1") && !view.contains("job:2"), "{view}");
        let refused = fs::write(lab.at().join("new"), "x").unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        lab.well(&["umount", "mnt"]);
    };
    past("lab.esker");
    wait_for_end(&lab);
    let (_server, target) = serve(&lab);
    past(&target);
}

/// Access control lists that are set in a mount of a server decide for everybody who asks the server.
#[test]
fn access_control_lists_decide_for_users() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let (_server, target) = serve(&lab);
    lab.well(&["mount", &target, "mnt", "--data", "data", "--background"]);
    let acl = |owner, users: &[(u32, u8)], group, mask| Acl {
        owner,
        users: users.to_vec(),
        group,
        groups: Vec::new(),
        mask: Some(mask),
        other: 0,
    };
    let set = |path: &str, name: &str, value: &[u8]| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(lab.at().join(path), name, value, flags).unwrap();
    };
    let access = "system.posix_acl_access";
    fs::create_dir(lab.at().join("d")).unwrap();
    set("d", access, &acl(7, &[(1000, 1)], 0, 1).encode());
    for name in ["d/named", "d/masked", "plain"] {
        fs::write(lab.at().join(name), "x").unwrap();
        set(name, "user.esker.note", b"x");
    }
    set("d/named", access, &acl(6, &[(1000, 4)], 0, 4).encode());
    set("d/masked", access, &acl(6, &[(1001, 6)], 4, 4).encode());
    // The mask of a list is not a permission of the group.
    set("plain", access, &acl(6, &[(1001, 6)], 0, 6).encode());
    let mode = |path: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        fs::metadata(lab.at().join(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!((mode("d/named"), mode("plain")), (0o640, 0o660));
    let reads = |who: &str, path: &str| {
        let file = format!("file:/{path}");
        let got = lab.esker(&["get", &target, &file, "--as", who]);
        got.status.success()
    };
    for (who, named, masked, plain) in [
        ("0:0", true, true, true),
        ("1000:1000", true, false, false),
        ("1001:1001", false, false, true),
        ("1002:0", false, false, false),
    ] {
        assert_eq!(reads(who, "d/named"), named, "{who}");
        assert_eq!(reads(who, "d/masked"), masked, "{who}");
        assert_eq!(reads(who, "plain"), plain, "{who}");
        // A search by tags that the user may not see knows no such attribute.
        let found = lab.esker(&["find", &target, "/", "note = 'x'", "--as", who]);
        let found = String::from_utf8(found.stdout).unwrap();
        assert_eq!(found.contains("/plain"), plain, "{who}: {found}");
    }
    lab.refused(&["ls", &target, "/d", "--as", "1000:1000"]);
    set("d", access, &acl(7, &[(1000, 5)], 0, 5).encode());
    let listed = lab.well(&["ls", &target, "/d", "--as", "1000:1000"]);
    assert_eq!(listed, "NAME\nmasked\nnamed\n");
    // New files inherit the default list of their directory, also without the mount.
    let inherited = acl(7, &[(1000, 4)], 0, 4).encode();
    set("d", "system.posix_acl_default", &inherited);
    lab.well(&["touch", &target, "/d/new"]);
    set("d/new", "user.esker.note", b"x");
    assert!(reads("1000:1000", "d/new") && !reads("1002:0", "d/new"));
    lab.well(&["umount", "mnt"]);
}
