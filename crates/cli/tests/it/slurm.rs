//! A cluster inside jobs of a real Slurm: its controller and two to four node daemons, on this machine.

use crate::cases::darshan_logs;
use esker_testkit::port::free_port;
use esker_testkit::wait::{HANG, eventually};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Time limit of a job in seconds.
const JOB_MAX: &str = "600";

/// Folder of Debian's unpacked Slurm (`crates/cli/tests/fetch-slurm.sh`).
fn unpacked() -> PathBuf {
    let here = std::path::absolute(".").unwrap();
    let folder = std::env::var_os("ESKER_SLURM_DIR")
        .map_or_else(|| here.join("../../target/slurm"), PathBuf::from);
    let fetched = Command::new(here.join("tests/fetch-slurm.sh"))
        .arg(&folder)
        .status();
    assert!(
        fetched.unwrap().success(),
        "no Slurm: see crates/cli/tests/fetch-slurm.sh"
    );
    fs::canonicalize(folder).unwrap().join("slurm")
}

/// Path of the plug-ins in a package tree.
const PLUGINS: &str = "usr/lib/x86_64-linux-gnu/slurm-wlm";
/// Path of the libraries in a package tree.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// A private Slurm, stopped on drop.
pub(crate) struct Slurm {
    folder: PathBuf,
    tree: PathBuf,
    /// Loopback network of the nodes: tests run concurrently.
    net: u8,
    daemons: Vec<Child>,
}

impl Slurm {
    fn start(folder: &Path, nodes: u8, net: u8) -> Self {
        Self::start_with(folder, nodes, net, "")
    }

    /// Starts Slurm with additional lines in slurm.conf.
    pub(crate) fn start_with(folder: &Path, nodes: u8, net: u8, more: &str) -> Self {
        let tree = unpacked();
        let folder = folder.join("slurm");
        for needed in ["state", "spool"] {
            fs::create_dir_all(folder.join(needed)).unwrap();
        }
        let said = |program: &str, word: &str| {
            let out = Command::new(program).arg(word).output().unwrap();
            String::from_utf8(out.stdout).unwrap().trim().to_owned()
        };
        let (host, user) = (said("uname", "-n"), said("id", "-un"));
        let at = folder.display();
        let plugins = format!(
            "{}:{}",
            tree.join(PLUGINS).display(),
            tree.with_file_name("slurm-elasticsearch")
                .join(PLUGINS)
                .display()
        );
        let ports: Vec<u16> = (0..=nodes).map(|_| free_port()).collect();
        let mut conf = format!(
            "ClusterName=esker\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nSlurmUser={user}\nSlurmdUser={user}\n\
             AuthType=auth/none\nCredType=cred/none\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
             JobAcctGatherType=jobacct_gather/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n\
             SlurmdParameters=config_overrides\nCommunicationParameters=NoCtldInAddrAny\nReturnToService=2\nMpiDefault=none\n\
             SwitchType=switch/none\nKillWait=10\nPluginDir={}\nStateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool/%n\n\
             SlurmctldPidFile={at}/controller.pid\nSlurmdPidFile={at}/%n.pid\nSlurmctldLogFile={at}/controller.log\n\
             SlurmdLogFile={at}/%n.log\n",
            ports[0], plugins
        );
        conf.push_str(more);
        for n in 1..=nodes {
            writeln!(
                conf,
                "NodeName=n{n} NodeHostname={host} NodeAddr=127.0.{net}.{n} Port={} CPUs=2 RealMemory=1000",
                ports[usize::from(n)]
            )
            .unwrap();
        }
        writeln!(
            conf,
            "PartitionName=all Nodes=n[1-{nodes}] Default=YES State=UP"
        )
        .unwrap();
        fs::write(folder.join("slurm.conf"), conf).unwrap();
        let mut slurm = Self {
            folder,
            tree,
            net,
            daemons: Vec::new(),
        };
        slurm.daemon("slurmctld-wlm", &["-D", "-c"]);
        let stepd = slurm.tree.join("usr/sbin/slurmstepd-wlm");
        for n in 1..=nodes {
            let (name, stepd) = (format!("n{n}"), stepd.to_str().unwrap());
            slurm.daemon("slurmd-wlm", &["-D", "-N", &name, "-d", stepd]);
        }
        eventually(|| {
            let told = slurm.run("sinfo", &["--noheader", "-N", "-o", "%T"]);
            let told = String::from_utf8(told.stdout).unwrap();
            if told.lines().filter(|l| *l == "idle").count() == usize::from(nodes) {
                return Ok(());
            }
            let log = fs::read_to_string(slurm.folder.join("controller.log")).unwrap_or_default();
            Err(format!("nodes are {told}; {log}"))
        });
        slurm
    }

    fn command(&self, program: &Path) -> Command {
        let libraries = self.tree.join(LIBRARIES);
        let more = self
            .tree
            .with_file_name("slurm-elasticsearch")
            .join(LIBRARIES);
        let own = Path::new(env!("CARGO_BIN_EXE_esker")).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        let bin = self.tree.join("usr/bin");
        let path = format!("{}:{}:{path}", own.display(), bin.display());
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.parent().unwrap())
            .env("PATH", path)
            .env("SLURM_CONF", self.folder.join("slurm.conf"))
            .env(
                "LD_LIBRARY_PATH",
                format!("{0}:{0}/slurm-wlm:{1}", libraries.display(), more.display()),
            );
        command
    }

    fn daemon(&mut self, program: &str, words: &[&str]) {
        let program = self.tree.join("usr/sbin").join(program);
        let daemon = self
            .command(&program)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.daemons.push(daemon.unwrap());
    }

    pub(crate) fn run(&self, program: &str, words: &[&str]) -> Output {
        let program = self.tree.join("usr/bin").join(program);
        self.command(&program).args(words).output().unwrap()
    }

    /// Submits a job and waits for it; returns its output and exit code.
    fn job(&self, nodes: u8, name: &str, script: &str) -> (String, i32) {
        let folder = self.folder.parent().unwrap();
        let (script_file, out) = (format!("{name}.sh"), format!("{name}.txt"));
        fs::write(folder.join(&script_file), format!("#!/bin/sh\n{script}\n")).unwrap();
        let sbatch = self.tree.join("usr/bin/sbatch");
        let status = self
            .command(Path::new("timeout"))
            .args(["-s", "INT", JOB_MAX])
            .arg(sbatch)
            .args(["--wait", "-N", &nodes.to_string(), "-o", &out, &script_file])
            .stdout(Stdio::null())
            .status();
        let printed = fs::read_to_string(folder.join(&out)).unwrap_or_default();
        (printed, status.unwrap().code().unwrap())
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        self.run("scancel", &["--full", "--state=RUNNING"]);
        // Limited in time, since the test may be panicking.
        let until = Instant::now() + HANG;
        while Instant::now() < until {
            let left = self.run("squeue", &["--noheader"]);
            if !left.status.success() || left.stdout.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// The demo's query from two nodes; then on three servers, by another job; then with a node for the server alone.
#[test]
fn a_job_brings_its_cluster() {
    let Some(logs) = darshan_logs() else {
        eprintln!("skipped: no Darshan logs; run crates/import/tests/fetch-darshan.sh");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let slurm = Slurm::start(dir.path(), 3, 21);
    let logs = logs.join("darshan/examples/darshan-graph");
    let c = "/home/pq/p/software/darshan-pydarshan/darshan-util/pydarshan/examples/darshan-graph/C";
    let question = format!(
        "srun --overlap -N2 -n2 --mem=0 sh -c 'echo $SLURMD_NODENAME $(esker lineage $ESKER_TARGET file:{c} --format json | grep -c app_readAB_writeC)'"
    );
    fs::write(
        dir.path().join("first-work.sh"),
        format!(
            "set -e\nesker import darshan $ESKER_TARGET {}\n{question}\nexit 7\n",
            logs.display()
        ),
    )
    .unwrap();
    let up = "esker cluster up --slurm --storage store";
    let (told, code) = slurm.job(2, "first", &format!("exec {up} -- sh first-work.sh"));
    assert_eq!(code, 7, "the exit code is the program's: {told}");
    assert!(told.contains("6 of 6"), "{told}");
    let net = slurm.net;
    assert!(
        told.contains(&format!("ready: esker://127.0.{net}.1:7400 (2 servers)")),
        "{told}"
    );
    for node in ["n1 1", "n2 1"] {
        assert!(told.lines().any(|l| l == node), "{node}: {told}");
    }
    // The cluster is stopped, and its address file removed.
    assert!(!dir.path().join("store/address").exists());
    // Another job has more nodes.
    fs::write(
        dir.path().join("second-work.sh"),
        format!("set -e\n{question}\ncat store/address\n"),
    )
    .unwrap();
    let (told, code) = slurm.job(3, "second", &format!("exec {up} -- sh second-work.sh"));
    assert_eq!(code, 0, "{told}");
    assert!(
        told.contains("was made for 2 servers, and this job has 3"),
        "{told}"
    );
    assert!(told.contains("(3 servers)"), "{told}");
    assert_eq!(
        told.lines()
            .filter(|l| l.starts_with('n') && l.ends_with(" 1"))
            .count(),
        2,
        "{told}"
    );
    assert!(
        told.lines()
            .any(|l| l == format!("esker://127.0.{net}.1:7400")),
        "{told}"
    );
    // A separate node for the server.
    fs::write(
        dir.path().join("third-work.sh"),
        "set -e\necho application: $ESKER_APP_NODES $ESKER_APP_NNODES\nesker stats $ESKER_TARGET\n",
    )
    .unwrap();
    let third = format!("exec {up} --dedicated 1 --port 7455 -- sh third-work.sh");
    let (told, code) = slurm.job(3, "third", &third);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("application: n1,n2 2"), "{told}");
    assert!(
        told.contains(&format!("esker://127.0.{net}.3:7455 (1 server)")),
        "{told}"
    );
}

/// The script in `packaging/slurm`, submitted as its comments say.
#[test]
fn the_batch_script_that_is_handed_out_works() {
    let dir = tempfile::tempdir().unwrap();
    let slurm = Slurm::start(dir.path(), 2, 29);
    let script = std::path::absolute("../../packaging/slurm/esker.sbatch").unwrap();
    let script = fs::canonicalize(script).unwrap();
    let work = "set -e\nesker put $ESKER_TARGET file:/a size=3\nesker get $ESKER_TARGET file:/a --format json\n";
    fs::write(dir.path().join("work.sh"), work).unwrap();
    for _ in 0..2 {
        let done = slurm.run(
            "sbatch",
            &[
                "--wait",
                "--time=4",
                "-N2",
                "-o",
                "handed.txt",
                script.to_str().unwrap(),
                "sh",
                "work.sh",
            ],
        );
        let told = fs::read_to_string(dir.path().join("handed.txt")).unwrap_or_default();
        assert!(done.status.success(), "{told}{done:?}");
        assert!(
            told.contains("(2 servers)") && told.contains("file:/a"),
            "{told}"
        );
    }
    assert!(dir.path().join("esker-storage").is_dir());
    assert!(!dir.path().join("esker-storage/address").exists());
}

/// A cancelled job stops its servers cleanly: acknowledged writes are available to the next job.
#[test]
fn a_cancelled_job_keeps_what_it_had() {
    let dir = tempfile::tempdir().unwrap();
    let slurm = Slurm::start(dir.path(), 2, 22);
    let up = "exec esker cluster up --slurm --storage store --";
    fs::write(
        dir.path().join("work.sh"),
        "esker put $ESKER_TARGET user:ada && touch put && sleep 600\n",
    )
    .unwrap();
    fs::write(
        dir.path().join("cut.sh"),
        format!("#!/bin/sh\n{up} sh work.sh\n"),
    )
    .unwrap();
    let submitted = slurm.run("sbatch", &["-N2", "-o", "cut.txt", "cut.sh"]);
    assert!(submitted.status.success(), "{submitted:?}");
    let told = || fs::read_to_string(dir.path().join("cut.txt")).unwrap_or_default();
    eventually(|| {
        let put = dir.path().join("put").exists();
        put.then_some(()).ok_or_else(told)
    });
    assert!(slurm.run("scancel", &["--state=RUNNING"]).status.success());
    eventually(|| {
        let over = slurm.run("squeue", &["--noheader"]).stdout.is_empty();
        over.then_some(()).ok_or_else(told)
    });
    let (told, code) = slurm.job(
        2,
        "again",
        // Without a target, the command takes that of its environment.
        &format!("{up} esker get user:ada"),
    );
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("user:ada"), "{told}");
    let (told, code) = slurm.job(
        2,
        "right",
        &format!("{up} sh -c 'esker get $ESKER_TARGET user:ada'"),
    );
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("user:ada"), "{told}");
}

#[test]
fn mistakes_are_told_with_what_helps() {
    let dir = tempfile::tempdir().unwrap();
    let esker = |words: &[&str], environment: &[(&str, &str)]| {
        let out = Command::new(env!("CARGO_BIN_EXE_esker"))
            .args(["cluster", "up"])
            .args(words)
            .current_dir(dir.path())
            .env_remove("SLURM_JOB_ID")
            .env_remove("SLURM_JOB_NODELIST")
            .envs(environment.iter().copied())
            .output()
            .unwrap();
        (
            String::from_utf8(out.stderr).unwrap(),
            out.status.code().unwrap(),
        )
    };
    let (told, code) = esker(&["--slurm", "--storage", "s"], &[]);
    assert!(
        told.contains("$SLURM_JOB_ID is not set: run it in a batch script"),
        "{told}"
    );
    assert_eq!(code, 2);
    let (told, code) = esker(&["--slurm"], &[]);
    assert!(told.contains("--storage"), "{told}");
    assert_eq!(code, 2);
    let (told, code) = esker(&[], &[]);
    assert!(told.contains("FILE"), "{told}");
    assert_eq!(code, 2);
    let job = [
        ("SLURM_JOB_ID", "1"),
        ("SLURM_JOB_NODELIST", "n[1-2]"),
        ("PATH", "/nowhere"),
    ];
    let (told, code) = esker(&["--slurm", "--storage", "s"], &job);
    assert!(told.contains("`scontrol` cannot be run"), "{told}");
    assert_eq!(code, 1);
}
