//! Checks of this machine: space for the spool, Slurm, git, FUSE, the right to trace.

use super::Finding;
use esker_record::{Spool, SpoolFile, SpoolSelection};
use esker_terminal::units::{counted, size};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Minimum free space for a spool, in bytes.
const SPACE_MIN: u64 = 16 << 20;

/// Returns the first line of a program's output, if it exists and succeeds.
fn first_line(program: &str, words: &[&str]) -> Option<String> {
    let out = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&out.stdout);
    let line = text.lines().next().unwrap_or_default().trim();
    out.status.success().then(|| line.to_owned())
}

/// Returns the nearest existing folder above a path.
fn existing(path: &Path) -> PathBuf {
    let there = path.ancestors().find(|p| p.is_dir());
    there.unwrap_or_else(|| Path::new("/")).to_owned()
}

pub(super) fn spool(spool: &Spool, out: &mut Vec<Finding>) {
    let folder = spool.folder();
    let shown = folder.display();
    let alternative =
        "name another one: --spool DIR or $ESKER_SPOOL; runs go straight to the database meanwhile";
    let near = existing(folder);
    let probe = near.join(format!(".esker-doctor-{}", std::process::id()));
    let tried = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&probe)
        .and_then(|mut file| file.write_all(&[0; 4096]).and_then(|()| file.sync_data()));
    let _ = std::fs::remove_file(&probe);
    if let Err(e) = tried {
        let found = format!("{shown} cannot be written: {e}");
        out.push(Finding::wrong("spool", found, alternative));
        return;
    }
    if let Ok(space) = rustix::fs::statvfs(&near) {
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if free < SPACE_MIN {
            let found = format!("{shown}: {} are free", size(free));
            out.push(Finding::wrong(
                "spool",
                found,
                format!("make room there, or {alternative}"),
            ));
            return;
        }
    }
    let found = match spool.files(SpoolSelection::All) {
        Ok(found) => found,
        Err(e) => {
            let found = format!("{shown} cannot be read: {e}");
            out.push(Finding::wrong("spool", found, alternative));
            return;
        }
    };
    let (mut waiting, mut going, mut broken, mut others) = (0_u64, 0_u64, 0_u64, 0_u64);
    for found in found.only_of(rustix::process::getuid().as_raw()) {
        *match found {
            SpoolFile::Run(_) => &mut waiting,
            SpoolFile::Active(_) => &mut going,
            SpoolFile::Broken(..) => &mut broken,
            SpoolFile::OtherUser(..) => &mut others,
        } += 1;
    }
    let mut told = format!(
        "{shown}: {}, {going} running, {broken} broken",
        counted(waiting, "run waits", "runs wait")
    );
    if others > 0 {
        let files = counted(others, "file is", "files are");
        told = format!("{told}, {files} other users'");
    }
    let deliver = format!("esker spool deliver --spool {shown} --target DATABASE");
    out.push(if broken > 0 {
        let remedy = format!("esker spool list --spool {shown} shows which; remove them");
        Finding::wrong("spool", told, remedy)
    } else if waiting > 0 {
        Finding::wrong("spool", told, deliver)
    } else {
        Finding::fine("spool", told)
    });
}

pub(super) fn slurm(out: &mut Vec<Finding>) {
    let job = std::env::var("SLURM_JOB_ID").ok();
    let version = first_line("scontrol", &["--version"]);
    let plug_in = first_line("scontrol", &["show", "config"])
        .is_some()
        .then(|| {
            let all = Command::new("scontrol").args(["show", "config"]).output();
            let all = all.map_or_else(|_| Vec::new(), |o| o.stdout);
            let all = String::from_utf8_lossy(&all).into_owned();
            let value = |key: &str| {
                let line = all.lines().find(|line| line.trim_start().starts_with(key));
                line.and_then(|l| l.split_once('='))
                    .map(|(_, v)| v.trim().to_owned())
            };
            (value("JobCompType"), value("JobCompLoc"))
        });
    let inside = job.map_or_else(
        || "not inside a job".to_owned(),
        |j| format!("inside job {j}"),
    );
    match (version, plug_in) {
        (None, _) => out.push(Finding::absent(
            "slurm",
            format!("no scontrol in $PATH; {inside}"),
            "only needed to record jobs as Slurm sees them",
        )),
        (Some(version), None) => out.push(Finding::wrong(
            "slurm",
            format!("{version}, but its controller does not answer; {inside}"),
            "see `scontrol ping`",
        )),
        (Some(version), Some((Some(kind), location))) if kind.contains("elasticsearch") => {
            let location = location.unwrap_or_default();
            let found = format!("{version}; {inside}; finished jobs go to {location}");
            out.push(Finding::fine("slurm", found));
        }
        (Some(version), Some(_)) => out.push(Finding::absent(
            "slurm",
            format!("{version}; {inside}; finished jobs are not sent to Esker"),
            "two lines of slurm.conf: docs/book/import.md; or `esker import sacct`",
        )),
    }
}

pub(super) fn git(out: &mut Vec<Finding>) {
    out.push(match first_line("git", &["--version"]) {
        Some(version) => Finding::fine("git", version),
        None => Finding::absent(
            "git",
            "no git in $PATH",
            "install it: without it runs record the commit, but not whether files were changed since",
        ),
    });
}

pub(super) fn fuse(out: &mut Vec<Finding>) {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let helper = first_line("fusermount3", &["--version"]);
    let root = rustix::process::geteuid().is_root();
    out.push(match (device, helper) {
        (Err(e), _) => Finding::absent(
            "mount",
            format!("/dev/fuse: {e}"),
            "modprobe fuse; in a container --device /dev/fuse --cap-add SYS_ADMIN; or libesker_preload.so without a mount",
        ),
        (Ok(_), None) if !root => Finding::absent(
            "mount",
            "/dev/fuse is there, fusermount3 is not",
            "install fuse3, so that users can mount",
        ),
        (Ok(_), helper) => {
            let helper = helper.unwrap_or_else(|| "as root, without fusermount3".into());
            Finding::fine("mount", format!("/dev/fuse; {helper}"))
        }
    });
}

pub(super) fn trace(out: &mut Vec<Finding>) {
    out.push(match esker_trace::check() {
        Ok(()) => Finding::fine("trace", "programs can be observed: ptrace and seccomp"),
        Err(why) => Finding::absent(
            "trace",
            format!("esker run --trace observes nothing here: {why}"),
            "in a container --cap-add SYS_PTRACE and a seccomp profile that allows ptrace; kernel.yama.ptrace_scope below 2",
        ),
    });
}
