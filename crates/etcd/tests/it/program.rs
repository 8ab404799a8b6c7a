//! Location of the etcd program for tests: Debian's package, downloaded if missing.

use std::path::PathBuf;
use std::process::Command;

pub(crate) fn program() -> PathBuf {
    let root = std::path::absolute("../..").unwrap();
    let folder = std::env::var_os("ESKER_FTP_SERVERS_DIR")
        .map_or_else(|| root.join("target/ftp-servers"), PathBuf::from);
    let etcd = folder.join("etcd-server/usr/bin/etcd");
    if !etcd.exists() {
        let fetch = root.join("crates/origin/tests/fetch-ftp-servers.sh");
        assert!(Command::new(fetch).status().unwrap().success());
    }
    etcd
}
