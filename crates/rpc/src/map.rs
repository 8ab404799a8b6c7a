//! The map of a cluster with failover: addresses of servers that are not at their configured addresses. A file in the
//! cluster's
//! storage, shared by all servers and by clients that can read it.
//!
//! ```text
//!  esker cluster map 1
//!  epoch 3
//!  server 2 127.0.0.2:40123
//! ```
//!
//! A server that is not listed is at the address in the cluster file. Each change increments the epoch. The file is written
//! under a temporary name and renamed, so that readers see one consistent state; writers lock a separate file.

use crate::address::Address;
use esker_model::{Error, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the map file in the cluster's storage.
pub const MAP_FILE: &str = "map";
/// First line of the file.
const HEAD: &str = "esker cluster map 1";

/// The servers that are not at their configured addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Map {
    /// Number of changes of the map so far.
    pub epoch: u64,
    /// Addresses `HOST:PORT` by server number.
    pub moved: BTreeMap<u32, String>,
}

impl Map {
    /// Reads the map. An absent file means that all servers are at their configured addresses.
    pub fn read(file: &Path) -> Result<Self> {
        match std::fs::read_to_string(file) {
            Ok(text) => Self::parse(&text).map_err(|what| {
                Error::Target(format!(
                    "`{}` is not a cluster map that this build knows: {what}; with all servers stopped it may be removed",
                    file.display()
                ))
            }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(e) => Err(Error::io(format!("reading `{}`", file.display()), e)),
        }
    }

    /// Address of a server, if it is not the configured one.
    pub fn address(&self, server: u32) -> Option<&str> {
        self.moved.get(&server).map(String::as_str)
    }

    /// Sets the address of a server; `None` for the configured one. Returns the new map.
    pub fn set(file: &Path, server: u32, address: Option<&str>) -> Result<Self> {
        let failed = |what: &str, e| Error::io(format!("{what} `{}`", file.display()), e);
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(sibling(file, "lock"))
            .map_err(|e| failed("opening the lock of", e))?;
        lock.lock().map_err(|e| failed("locking", e))?;
        let mut map = Self::read(file)?;
        let now = address.map(str::to_owned);
        if map.moved.get(&server) == now.as_ref() {
            return Ok(map);
        }
        match now {
            Some(address) => map.moved.insert(server, address),
            None => map.moved.remove(&server),
        };
        map.epoch += 1;
        let draft = sibling(file, "new");
        std::fs::write(&draft, map.text()).map_err(|e| failed("writing", e))?;
        std::fs::rename(&draft, file).map_err(|e| failed("writing", e))?;
        Ok(map)
    }

    fn text(&self) -> String {
        let mut text = format!("{HEAD}\nepoch {}\n", self.epoch);
        for (server, address) in &self.moved {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "server {server} {address}");
        }
        text
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(format!("expected `{HEAD}` in its first line"));
        }
        let epoch = lines
            .next()
            .and_then(|l| l.strip_prefix("epoch ")?.parse().ok());
        let epoch = epoch.ok_or("expected `epoch` and a number in its second line")?;
        let mut moved = BTreeMap::new();
        for line in lines {
            let server = line.strip_prefix("server ").and_then(|l| {
                let (server, address) = l.split_once(' ')?;
                let known = Address::parse(&format!("esker://{address}")).ok()?;
                (known.authority() == address).then_some((server.parse().ok()?, address.to_owned()))
            });
            let (server, address) = server
                .ok_or_else(|| format!("expected `server NUMBER HOST:PORT`, got `{line}`"))?;
            moved.insert(server, address);
        }
        Ok(Self { epoch, moved })
    }
}

fn sibling(file: &Path, extension: &str) -> PathBuf {
    file.with_extension(extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(MAP_FILE);
        assert_eq!(Map::read(&file).unwrap(), Map::default());
        Map::set(&file, 2, Some("127.0.0.2:40123")).unwrap();
        let map = Map::set(&file, 3, Some("[::1]:7")).unwrap();
        assert_eq!(map.epoch, 2);
        assert_eq!(map.address(3), Some("[::1]:7"));
        assert_eq!(Map::read(&file).unwrap(), map);
        // Setting the present address changes nothing.
        assert_eq!(Map::set(&file, 3, Some("[::1]:7")).unwrap().epoch, 2);
        let map = Map::set(&file, 2, None).unwrap();
        assert_eq!((map.epoch, map.address(2)), (3, None));
    }

    #[test]
    fn what_is_no_map_is_refused() {
        for (text, expected) in [
            ("", "in its first line"),
            ("esker cluster map 2\n", "in its first line"),
            ("esker cluster map 1\nepoch x\n", "`epoch` and a number"),
            (
                "esker cluster map 1\nepoch 1\nserver 2\n",
                "`server NUMBER HOST:PORT`",
            ),
            (
                "esker cluster map 1\nepoch 1\nserver 2 here\n",
                "got `server 2 here`",
            ),
            (
                "esker cluster map 1\nepoch 1\nserver -2 a:1\n",
                "`server NUMBER",
            ),
        ] {
            let why = Map::parse(text).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}
