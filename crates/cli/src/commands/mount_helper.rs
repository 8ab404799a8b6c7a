//! `mount.esker`: this program as a helper of mount(8), so that lines of `/etc/fstab` mount databases.

use anyhow::Context as _;
use esker_terminal::exit::Outcome;
use esker_terminal::program::own_path;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Names under which mount(8) calls the helper, for the types `esker` and `fuse.esker`.
const NAMES: [&str; 2] = ["mount.esker", "mount.fuse.esker"];
/// Options of mount(8) that select mounts or ask for the properties that each Esker mount has.
const IGNORED: [&str; 16] = [
    "defaults",
    "rw",
    "exec",
    "nodev",
    "nosuid",
    "async",
    "noatime",
    "relatime",
    "nodiratime",
    "auto",
    "noauto",
    "nofail",
    "_netdev",
    "user",
    "users",
    "default_permissions",
];

/// Replaces this process by `esker mount` if mount(8) has called it as its helper; returns only otherwise, or with an error.
pub(crate) fn run(args: &[OsString]) -> anyhow::Result<Option<Outcome>> {
    let program = args.first().and_then(|p| Path::new(p).file_name());
    if !program.is_some_and(|program| NAMES.iter().any(|name| program == *name)) {
        return Ok(None);
    }
    let Some(line) = command_line(args.iter().skip(1).cloned()) else {
        return Ok(Some(Outcome::Done));
    };
    // The process in the background starts with the command line of this one.
    let failed = Command::new(own_path()?).args(line).exec();
    Err(failed).context("starting `esker mount`")
}

/// Translates the arguments of a helper (mount(8), "External helpers") into those of this program; `None` if nothing is to
/// be mounted (`-f`).
fn command_line(args: impl Iterator<Item = OsString>) -> Option<Vec<OsString>> {
    let mut line: Vec<OsString> = ["mount", "--background", "--quiet"].map(Into::into).into();
    let mut args = args;
    while let Some(arg) = args.next() {
        match arg.as_bytes() {
            b"-f" => return None,
            b"-s" | b"-n" | b"-v" => {}
            b"-t" => drop(args.next()),
            b"-o" => {
                let options = args.next().unwrap_or_default();
                let each = options.as_bytes().split(|b| *b == b',');
                line.extend(each.filter_map(option));
            }
            _ => line.push(arg),
        }
    }
    Some(line)
}

/// Translates `ro`, `attr_timeout=TIME` and the like into options of `esker mount`.
fn option(option: &[u8]) -> Option<OsString> {
    let (name, value) = match option.iter().position(|b| *b == b'=') {
        Some(at) => option.split_at(at),
        None => (option, &[][..]),
    };
    let ignored = name.is_empty()
        || name.starts_with(b"x-")
        || name.starts_with(b"X-")
        || IGNORED.iter().any(|other| name == other.as_bytes());
    if ignored {
        return None;
    }
    if name == b"ro" {
        return Some(OsStr::new("--read-only").to_owned());
    }
    let mut out = b"--".to_vec();
    out.extend(name.iter().map(|b| if *b == b'_' { b'-' } else { *b }));
    out.extend_from_slice(value);
    Some(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(args: &[&str]) -> Option<Vec<OsString>> {
        command_line(args.iter().map(Into::into))
    }

    #[test]
    fn options_of_mount_become_options_of_the_command() {
        let options = "rw,noatime,x-systemd.automount,allow_other,data=/a,data=/b,attr_timeout=2s";
        let line = translated(&[
            "lab.esker",
            "/mnt/lab",
            "-v",
            "-o",
            options,
            "-t",
            "fuse.esker",
        ]);
        let wanted = "mount --background --quiet lab.esker /mnt/lab --allow-other --data=/a --data=/b --attr-timeout=2s";
        assert_eq!(line.unwrap(), wanted.split(' ').collect::<Vec<_>>());
        let line = translated(&["lab.esker", "/mnt/lab", "-o", "ro,noexec"]);
        let wanted = "mount --background --quiet lab.esker /mnt/lab --read-only --noexec";
        assert_eq!(line.unwrap(), wanted.split(' ').collect::<Vec<_>>());
        assert_eq!(translated(&["lab.esker", "/mnt/lab", "-f"]), None);
    }
}
