//! Sandbox with the access that a server needs.

use crate::settings::Settings;
use esker_sandbox::Sandbox;
use std::path::Path;

/// Files that system libraries read: names of hosts, users and time zones, certificates of authorities, facts about the machine.
const SYSTEM: [&str; 22] = [
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
    "/run/systemd/userdb",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/usr",
    "/var/lib/sss/mc",
];

/// Returns a sandbox for a server of the database in `folder`. It may write the folder, its spools and the folder of backups; read its
/// certificate, host key and the owner's `~/.esker`; listen at its port; and open TCP connections only if requests may use other servers
/// (`sparql.services`, `sparql.load`), the console shows site caches (`sites`), traces are sent (`tracing.otlp`),
/// or users log in by a provider (`oidc.issuer`).
///
/// The folder of the database must exist when the sandbox is entered.
pub fn sandbox(folder: &Path, settings: &Settings) -> Sandbox {
    let mut sandbox = Sandbox::new().write(folder).write("/dev/null").connect(
        !settings.sparql.services.is_empty()
            || !settings.sparql.load.is_empty()
            || !settings.sites.is_empty()
            || settings.tracing.is_on()
            || settings.oidc.is_some(),
    );
    for path in SYSTEM {
        sandbox = sandbox.read(path);
    }
    for spool in &settings.spools {
        sandbox = sandbox.write(spool);
    }
    if let Some(backups) = &settings.backups {
        sandbox = sandbox.write(backups);
    }
    if let Some(folder) = &settings.audit.folder {
        sandbox = sandbox.write(folder);
    }
    if let Some(tls) = &settings.tls {
        sandbox = sandbox.read(&tls.certificate).read(&tls.key);
    }
    if let Some(key) = &settings.host_key {
        sandbox = sandbox.read(key);
        // A key that does not exist is created at the first start.
        if !key.exists() {
            sandbox = sandbox.publish(parent_of(key));
        }
    }
    if let Some(own) = esker_access::home() {
        sandbox = sandbox.read(own);
    }
    // The secret has been read before; its folder may be another's.
    if let Some(secret) = settings
        .oidc
        .as_ref()
        .and_then(|o| o.client_secret_file.as_ref())
    {
        sandbox = sandbox.read(secret);
    }
    let port = settings.listen.rsplit(':').next();
    match port.and_then(|port| port.parse().ok()) {
        Some(port) => sandbox.listen(port),
        // An invalid address is reported when the server listens.
        None => sandbox,
    }
}

/// Folder that contains a file.
pub fn parent_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
