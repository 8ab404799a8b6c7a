//! What a server needs of its machine.

use crate::settings::Settings;
use esker_sandbox::Sandbox;
use std::path::Path;

/// Files that the system's libraries read: names of hosts, users and time zones, authorities' certificates, facts about the machine.
const SYSTEM: [&str; 21] = [
    "/dev/urandom",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/machine-id",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki",
    "/etc/resolv.conf",
    "/etc/ssl",
    "/lib",
    "/lib64",
    "/proc",
    "/run/systemd/resolve",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/usr",
    "/var/lib/sss/mc",
];

/// The sandbox that leaves to a server of the database in `folder` what it needs: its folder, its spools and the folder of backups to
/// write; its certificate, host key and the owner's `~/.esker` to read; its port; and TCP connections only if queries may ask other
/// endpoints (`sparql.services`) or the console shows site caches (`sites`).
///
/// The folder of the database must exist when the sandbox is entered.
pub fn sandbox(folder: &Path, settings: &Settings) -> Sandbox {
    let mut sandbox = Sandbox::new()
        .write(folder)
        .write("/dev/null")
        .connect(!settings.sparql.services.is_empty() || !settings.sites.is_empty());
    for path in SYSTEM {
        sandbox = sandbox.read(path);
    }
    for spool in &settings.spools {
        sandbox = sandbox.write(spool);
    }
    if let Some(backups) = &settings.backups {
        sandbox = sandbox.write(backups);
    }
    if let Some(tls) = &settings.tls {
        sandbox = sandbox.read(&tls.certificate).read(&tls.key);
    }
    if let Some(key) = &settings.host_key {
        sandbox = sandbox.read(key);
        // A key that does not exist is made at the first start.
        if !key.exists() {
            sandbox = sandbox.publish(parent_of(key));
        }
    }
    if let Some(own) = esker_access::home() {
        sandbox = sandbox.read(own);
    }
    let port = settings.listen.rsplit(':').next();
    match port.and_then(|port| port.parse().ok()) {
        Some(port) => sandbox.listen(port),
        // Listening will say what is wrong with the address.
        None => sandbox,
    }
}

/// The folder in which a file lies.
pub fn parent_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
