//! Remote files through a tier of the site cache: those of another Esker, and of a real sshd.

use crate::serve::{Served, address_in, esker, run, text};
use esker_testkit::port::free_port;
use esker_testkit::wait::{eventually, wait_until};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Allows any origin except folders of this machine.
const ALL: &str = "[origins]\nallow = [\"*\"]\n";

/// `esker site serve`, stopped on drop.
struct Tier {
    process: Child,
    via: String,
}

impl Drop for Tier {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Tier {
    /// Starts a tier with the contents of a file `site.toml`, and additional environment variables.
    fn start(folder: &Path, config: &str, environment: &[(&str, &str)]) -> Self {
        let config = format!("listen = \"127.0.0.1:0\"\n{config}");
        fs::write(folder.join("site.toml"), config).unwrap();
        let port_file = folder.join("tier");
        let _ = fs::remove_file(&port_file);
        let mut process = esker(folder)
            .args(["site", "serve", "site.toml", "--port-file", "tier"])
            .args(["--log", "error"])
            .envs(environment.iter().copied())
            .spawn()
            .unwrap();
        let via = format!("http://{}", address_in(&port_file, &mut process));
        Self { process, via }
    }
}

fn good(output: &Output) -> String {
    let error = text(&output.stderr);
    assert!(output.status.success(), "{error}");
    text(&output.stdout)
}

/// Returns the message of an error, and the exit code.
fn bad(output: &Output) -> (String, i32) {
    let told = text(&output.stderr);
    assert!(!output.status.success(), "{}", text(&output.stdout));
    (told, output.status.code().unwrap())
}

fn rows(text: &str) -> Vec<serde_json::Value> {
    let each = text.lines().map(|line| serde_json::from_str(line).unwrap());
    each.collect()
}

/// Returns the rows of `esker ARGS --format ndjson`.
fn command_rows(folder: &Path, args: &[&str]) -> Vec<serde_json::Value> {
    rows(&good(&run(
        folder,
        &[args, &["--format", "ndjson"]].concat(),
    )))
}

fn names(rows: &[serde_json::Value]) -> Vec<&str> {
    rows.iter().filter_map(|row| row["name"].as_str()).collect()
}

#[test]
fn the_files_of_another_esker() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let served = Served::start(folder, &[]);
    let target = served.target();
    for args in [
        &["mkdir", &target, "-p", "/data/run7", "/data/odd \u{e9}"][..],
        &["touch", &target, "/data/run7/out.h5", "/data/a"],
        &["chmod", &target, "640", "/data/a"],
        &["ln", &target, "-s", "run7", "/data/latest"],
    ] {
        good(&run(folder, args));
    }
    let many: Vec<String> = (0..1500).map(|n| format!("/data/run7/n{n:04}")).collect();
    let touch: Vec<&str> = many.iter().map(String::as_str).collect();
    good(&run(
        folder,
        &[&["touch", target.as_str()], &touch[..]].concat(),
    ));
    let tier = Tier::start(
        folder,
        &format!("[cache]\nttl = \"1h\"\nttl_most = \"1h\"\n{ALL}"),
        &[],
    );
    let via = ["--via", tier.via.as_str()];
    let url = |path: &str| format!("{target}{path}");
    let far = |args: &[&str]| command_rows(folder, &[args, &via].concat());

    // Directly, and through the tier.
    for how in [&[][..], &via] {
        let listed = command_rows(folder, &[&["ls", &url("/data")], how].concat());
        assert_eq!(names(&listed), ["a", "latest", "odd \u{e9}", "run7"]);
        let listed = command_rows(folder, &[&["ls", &url("/data/run7")], how].concat());
        assert_eq!(names(&listed).len(), 1501);
        let of = command_rows(folder, &[&["stat", &url("/data/a")], how].concat());
        assert_eq!(
            (&of[0]["kind"], &of[0]["size"]),
            (&"file".into(), &0.into())
        );
        assert_eq!(of[0]["mode"], "-rw-r-----");
        let link = command_rows(folder, &[&["stat", &url("/data/latest")], how].concat());
        assert_eq!(link[0]["kind"], "symlink");
        let more = link[0]["more"].to_string();
        assert!(more.contains("target") && more.contains("run7"), "{more}");
        assert!(more.contains("vertex"), "{more}");
        let none = url("/data/none");
        let args = [&["stat", &none], how].concat();
        let (told, code) = bad(&run(folder, &args));
        assert!(told.contains("no such file or directory"), "{told}");
        assert_eq!(code, 1);
    }
    let found = far(&["find", &url("/data"), "name ~ '[.]h5$'"]);
    assert_eq!(found.len(), 1, "{found:?}");

    // A second request is a cache hit.
    let of = far(&["stat", &url("/data/a")]);
    assert_eq!(
        (&of[0]["hit"], &of[0]["subscribed"]),
        (&true.into(), &true.into())
    );
    // A change is notified soon.
    good(&run(folder, &["rm", &target, "/data/a"]));
    wait_until("a removal was not told", || {
        let stat = run(folder, &["stat", &url("/data/a"), via[0], via[1]]);
        !stat.status.success()
    });
    bad(&run(
        folder,
        &["stat", &url("/data/a"), via[0], via[1], "--max-age", "0"],
    ));
    good(&run(folder, &["touch", &target, "/data/b"]));
    good(&run(
        folder,
        &[&["site", "invalidate", &url("/data")], &via[..]].concat(),
    ));
    assert!(names(&far(&["ls", &url("/data")])).contains(&"b"));

    let warmed = run(folder, &[&["site", "warm", &url("/")], &via[..]].concat());
    good(&warmed);
    let told = text(&warmed.stderr);
    assert!(told.contains("names in 4 directories"), "{told}");
    let explained = good(&run(
        folder,
        &[&["site", "explain", &url("/data/run7")], &via[..]].concat(),
    ));
    assert!(
        explained.contains("1501 names, all there are"),
        "{explained}"
    );
    let status = far(&["site", "status"]);
    assert_eq!(status[0]["origins"][0]["origin"], target.as_str());
    let about = status[0]["origins"][0]["about"].as_str().unwrap();
    assert!(about.starts_with("Esker "), "{about}");

    // Without the server, only cached responses are available, and their changes are not notified.
    let b = url("/data/b");
    assert_eq!(far(&["stat", &b])[0]["kind"], "file");
    drop(served);
    let old = ["stat", &url("/data/run7/out.h5"), "--stale-if-error"];
    assert_eq!(far(&old)[0]["kind"], "file");
    let args = ["stat", &b, via[0], via[1], "--max-age", "0"];
    let (told, _) = bad(&run(folder, &args));
    assert!(told.contains("cannot be reached"), "{told}");
    let args = [&args[..], &["--stale-if-error"]].concat();
    assert_eq!(command_rows(folder, &args)[0]["kind"], "file");
}

#[test]
fn another_esker_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"])
        .args(["-pkeyopt", "ec_paramgen_curve:P-256", "-subj", "/CN=lab"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    let with = ["--tls-certificate", "cert.pem", "--tls-key", "key.pem"];
    let served = Served::start(folder, &with);
    let target = served.target();
    good(&run(
        folder,
        &["mkdir", &format!("{target}?tls=cert.pem"), "/x"],
    ));
    let url = target.replace("esker://", "esker+tls://");
    let ls = |url: &str, trusted: &str| {
        let mut command = esker(folder);
        command.args(["ls", url, "--format", "ndjson"]);
        command.env("SSL_CERT_FILE", trusted).output().unwrap()
    };
    assert_eq!(names(&rows(&good(&ls(&url, "cert.pem")))), ["x"]);
    for (url, trusted, why) in [
        (&url, "none.pem", "`none.pem`"),
        (&url, "key.pem", "certificates"),
        (&format!("{target}/x"), "cert.pem", "esker+tls://"),
    ] {
        let (told, _) = bad(&ls(url, trusted));
        assert!(told.contains(why), "{told}");
    }
}

/// OpenSSH's server with its own keys.
struct Sshd {
    process: Child,
    dir: tempfile::TempDir,
    url: String,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Sshd {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        for key in ["host_key", "user_key"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", &at(key)])
                .status();
            assert!(made.unwrap().success());
        }
        let port = free_port();
        let host_key = fs::read_to_string(at("host_key.pub")).unwrap();
        fs::write(at("known_hosts"), format!("[127.0.0.1]:{port} {host_key}")).unwrap();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nPidFile none\nUsePAM no\nStrictModes no\nAuthorizedKeysFile {}\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nUseDNS no\nSubsystem sftp internal-sftp\n",
            at("host_key"),
            at("user_key.pub"),
        );
        fs::write(at("sshd_config"), config).unwrap();
        // Only root's sshd needs the folder, and only root can create it.
        let _ = fs::create_dir_all("/run/sshd");
        let process = Command::new("/usr/sbin/sshd")
            .args(["-D", "-E", &at("log"), "-f", &at("sshd_config")])
            .stdin(Stdio::null())
            .spawn()
            .expect("sshd is there: `make setup` installs it");
        eventually(|| std::net::TcpStream::connect(("127.0.0.1", port)));
        let id = Command::new("id").arg("-un").output().unwrap();
        let url = format!("sftp://{}@127.0.0.1:{port}", text(&id.stdout).trim());
        Self { process, dir, url }
    }

    /// The value of `ESKER_SSH`.
    fn ssh(&self) -> String {
        let at = |name: &str| self.dir.path().join(name).display().to_string();
        format!(
            "ssh -F none -oIdentitiesOnly=yes -oGlobalKnownHostsFile=none -oIdentityFile={} -oUserKnownHostsFile={}",
            at("user_key"),
            at("known_hosts")
        )
    }
}

#[test]
fn the_files_of_an_sftp_server() {
    let sshd = Sshd::start();
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let tree: PathBuf = folder.join("tree");
    fs::create_dir_all(tree.join("sub/deep")).unwrap();
    fs::write(tree.join("a b"), "four").unwrap();
    fs::write(tree.join("sub/deep/x.h5"), "five!").unwrap();
    let ssh = sshd.ssh();
    let tier = Tier::start(folder, ALL, &[("ESKER_SSH", &ssh)]);
    let via = ["--via", tier.via.as_str()];
    let url = |below: &str| format!("{}{}{below}", sshd.url, tree.display());
    let far = |args: &[&str]| command_rows(folder, &[args, &via].concat());
    assert_eq!(names(&far(&["ls", &url("")])), ["a b", "sub"]);
    assert_eq!(far(&["stat", &url("/a%20b")])[0]["size"], 4);
    let found = far(&["find", &url(""), "size > 4 and kind = 'file'"]);
    assert_eq!(found.len(), 1, "{found:?}");
    good(&run(
        folder,
        &[&["site", "warm", &url("")], &via[..]].concat(),
    ));
    assert_eq!(far(&["stat", &url("/sub/deep/x.h5")])[0]["hit"], true);
    // Without a tier, the result is equal.
    let direct = esker(folder)
        .args(["ls", &url("/sub"), "--format", "ndjson"])
        .env("ESKER_SSH", &ssh)
        .output();
    assert_eq!(names(&rows(&good(&direct.unwrap()))), ["deep"]);
    // An unknown server is reported with advice.
    let (told, _) = bad(&run(folder, &["ls", &url("")]));
    assert!(told.contains("accept it"), "{told}");
}

/// Typical initial mistakes.
#[test]
fn mistakes_are_told_with_what_helps() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let nobody = "http://127.0.0.1:1";
    for (args, code, why) in [
        (
            &["ls", "sftp://h/x", "--via", nobody][..],
            1,
            "is it running (`esker site serve`)?",
        ),
        (
            &["site", "status", "--via", nobody],
            1,
            "nothing listens at 127.0.0.1:1",
        ),
        (
            &["site", "warm", "sftp://h/", "--via", "nonsense"],
            2,
            "`nonsense` is not a tier's address; give http://127.0.0.1:PORT",
        ),
        (
            &["ls", "gopher://h/x"],
            2,
            "`gopher://h/x`: no such protocol; there are ftp, ",
        ),
        (
            &["stat", "nfs://h/x", "--via", nobody],
            2,
            "no such protocol",
        ),
        (&["ls", "sftp:///x"], 2, "it names no host"),
        (&["ls", "file://host/x"], 2, "has no host: file:///PATH"),
        (
            &["ls", "sftp://h/x", "--max-age", "5"],
            2,
            "name one with --via URL",
        ),
        (
            &["ls", "sftp://h/x", "--via", nobody, "--max-age", "soon"],
            2,
            "expected seconds",
        ),
        (&["ls", "esker://ann@127.0.0.1:1/x"], 1, "has no logins"),
        (
            &["ls", "esker://127.0.0.1:1/x"],
            1,
            "nothing listens at 127.0.0.1:1",
        ),
        (&["ls", "sftp://h/x", "y"], 2, "`y` is not a URL"),
    ] {
        let (told, got) = bad(&run(folder, args));
        assert!(told.contains(why), "{args:?}: {told}");
        assert_eq!(got, code, "{args:?}: {told}");
    }
    let (told, code) = bad(&run(folder, &["ls", "sftp://ann:secret@h/x"]));
    assert!(
        told.contains("password") && !told.contains("secret"),
        "{told}"
    );
    assert_eq!(code, 2);
    for (config, why) in [
        (
            "[cache]\npredictor = \"magic\"\n",
            "site.toml:2:13: `cache.predictor` holds one of ",
        ),
        ("colour = 3\n", "site.toml:1:1: unknown key `colour`"),
        ("listen = 5\n", "site.toml:1:"),
        ("= =\n", "site.toml:1:"),
    ] {
        fs::write(folder.join("site.toml"), config).unwrap();
        let (told, code) = bad(&run(folder, &["site", "serve", "site.toml"]));
        assert!(told.contains(why), "{told}");
        assert_eq!(code, 2, "{told}");
    }
    let tier = Tier::start(folder, "[origins]\nallow = [\"sftp://far.example\"]\n", &[]);
    let (told, code) = bad(&run(folder, &["ls", "ftp://other/x", "--via", &tier.via]));
    assert!(told.contains("it asks sftp://far.example"), "{told}");
    assert_eq!(code, 2);
    drop(tier);
    let tier = Tier::start(folder, "", &[]);
    let (told, code) = bad(&run(folder, &["ls", "ftp://other/x", "--via", &tier.via]));
    assert!(told.contains("it asks none yet"), "{told}");
    assert!(told.contains("--allow ftp://other"), "{told}");
    assert_eq!(code, 2);
}

/// The program run as another user of this machine with this home; the program may be in a folder of root's.
fn as_other(home: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "54321", "--regid", "54321", "--clear-groups"])
        .args([
            "--inh-caps",
            "+dac_read_search",
            "--ambient-caps",
            "+dac_read_search",
        ])
        .arg(env!("CARGO_BIN_EXE_esker"))
        .current_dir("/")
        .env("HOME", home)
        .env_remove("SSH_AUTH_SOCK")
        .env_remove("ESKER_VIA")
        .stdin(Stdio::null());
    command
}

fn own(path: &Path) {
    std::os::unix::fs::chown(path, Some(54_321), Some(54_321)).unwrap();
}

/// A tier uses its owner's credentials: another user of this machine is refused, and admitted by a key to which the owner granted
/// access, on links that end with the grant.
#[test]
fn another_user_of_this_machine_needs_a_key() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (dir, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = dir.path();
    own(home.path());
    fs::create_dir(folder.join("tree")).unwrap();
    fs::write(folder.join("tree/s3cret"), "x").unwrap();
    let rights = folder.join("rights");
    let config = format!(
        "[origins]\nallow = [\"file://\"]\n[access]\nfolder = \"{}\"\n",
        rights.display()
    );
    let tier = Tier::start(folder, &config, &[]);
    let url = format!("file://{}/tree", folder.display());
    assert_eq!(
        names(&command_rows(folder, &["ls", &url, "--via", &tier.via])),
        ["s3cret"]
    );
    let other = |via: &str| {
        as_other(home.path())
            .args(["ls", &url, "--via", via])
            .output()
            .unwrap()
    };
    let (told, _) = bad(&other(&tier.via));
    assert!(told.contains("user 54321 does not own this tier"), "{told}");
    // By key: first the tier is unknown, then the key has no permissions, then it has.
    let keyed = tier.via.replace("http://", "esker://");
    let (told, _) = bad(&other(&keyed));
    assert!(told.contains("is not known"), "{told}");
    let trusted = format!("{keyed}?trust-new-host");
    let (told, _) = bad(&other(&trusted));
    assert!(told.contains("does not own this tier"), "{told}");
    let ssh = home.path().join(".ssh");
    fs::create_dir(&ssh).unwrap();
    let key = ssh.join("id_ed25519");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&key)
        .status();
    assert!(made.unwrap().success());
    let public = fs::read_to_string(ssh.join("id_ed25519.pub")).unwrap();
    own(&ssh);
    own(&key);
    let (told, _) = bad(&other(&keyed));
    assert!(!told.contains("s3cret"), "{told}");
    good(&run(
        folder,
        &["grant", "rights", "--key", public.trim(), "--role", "read"],
    ));
    let listed = eventually(|| {
        let output = other(&keyed);
        let (said, error) = (text(&output.stdout), text(&output.stderr));
        output.status.success().then_some(said).ok_or(error)
    });
    assert!(listed.contains("s3cret"), "{listed}");
    // Status requests are authenticated in the same way.
    let status = as_other(home.path())
        .args(["site", "status", "--via", &keyed])
        .output()
        .unwrap();
    good(&status);
    good(&run(folder, &["revoke", "rights", "--key", public.trim()]));
    wait_until("a key opens the tier that was revoked", || {
        !other(&keyed).status.success()
    });
}

/// Another user's process at a tier's port is not trusted.
#[test]
fn a_tier_of_another_user_is_not_believed() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (dir, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = dir.path();
    own(home.path());
    let port = home.path().join("port");
    let mut process = as_other(home.path())
        .args([
            "site",
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--allow",
            "file://",
            "--log",
            "error",
        ])
        .arg("--port-file")
        .arg(&port)
        .spawn()
        .unwrap();
    let via = format!("http://{}", address_in(&port, &mut process));
    let hostile = Tier { process, via };
    let (told, _) = bad(&run(folder, &["ls", "file:///", "--via", &hostile.via]));
    assert!(told.contains("belongs to another user"), "{told}");
    // It is not trusted as a parent tier, either.
    let above = format!("parents = [\"{}\"]\n", hostile.via);
    let tier = Tier::start(folder, &above, &[]);
    let (told, _) = bad(&run(folder, &["ls", "file:///", "--via", &tier.via]));
    assert!(told.contains("belongs to another user"), "{told}");
}

/// A hanging server: requests to it time out, cached responses stay available, and no client is blocked.
#[test]
fn a_server_that_hangs_holds_nobody_up() {
    if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root and /dev/fuse");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let served = Served::start(folder, &[]);
    let target = served.target();
    for args in [
        &["mkdir", &target, "-p", "/data/known", "/data/unknown"][..],
        &["touch", &target, "/data/known/a", "/data/unknown/b"],
    ] {
        good(&run(folder, args));
    }
    let patience =
        "[origins]\nallow = [\"*\"]\npatience = \"2s\"\n[cache]\nttl = \"1h\"\nttl_most = \"1h\"\n";
    let tier = Tier::start(folder, patience, &[]);
    let url = format!("{target}/data");
    let at = folder.join("mnt");
    fs::create_dir(&at).unwrap();
    let place = at.to_str().unwrap();
    let mount = ["mount", "--origin", &url, place, "--via", &tier.via];
    good(&run(
        folder,
        &[&mount[..], &["--background", "--attr-timeout", "0s"]].concat(),
    ));
    assert!(at.join("known/a").metadata().unwrap().is_file());
    served.signal("STOP");
    // Many concurrent requests, on all threads of the mount.
    let asking: Vec<_> = (0..8)
        .map(|n| {
            let path = at.join(format!("unknown/{n}"));
            std::thread::spawn(move || path.metadata().unwrap_err())
        })
        .collect();
    for answer in asking {
        let error = answer.join().unwrap();
        assert_eq!(error.raw_os_error(), Some(5), "{error}");
    }
    assert!(
        at.join("known/a").metadata().unwrap().is_file(),
        "it is known still"
    );
    served.signal("CONT");
    eventually(|| at.join("unknown/b").metadata());
    // The mount can be unmounted while the server hangs.
    served.signal("STOP");
    let path = at.join("unknown/c");
    let asking = std::thread::spawn(move || path.metadata().map(drop));
    good(&run(folder, &["umount", "--force", place]));
    assert!(asking.join().unwrap().is_err());
    served.signal("CONT");
}
