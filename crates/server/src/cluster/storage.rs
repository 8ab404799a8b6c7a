//! The folder of a cluster's databases: the settings that it was made with, and its change to another number of servers.
//!
//! ```text
//!  lab.cluster/
//!    CLUSTER         permanent settings: name, placement, vnodes, number of servers
//!    server-0/ …     databases
//!    server-0.new/ … new databases of `cluster resize`; unused until complete
//!    RESIZE          exists while the new databases replace the old ones: servers do not start
//!    server-0.old/ … replaced databases, to be removed
//! ```
//!
//! Until the file `RESIZE` exists, the old databases are the cluster; from then on the new ones are, and the next resize completes the
//! change ([`ClusterConfig::switch`]).

use super::config::ClusterConfig;
use esker_cluster::ServerId;
use esker_model::{Error, Result};
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

const RESIZE_FILE: &str = "RESIZE";
const HEAD: &str = "esker cluster resize 1";

/// A replacement of a cluster's databases by those for another number of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// Previous number of servers; 0 for a new cluster.
    pub from: u32,
    /// New number of servers.
    pub to: u32,
}

fn parse(text: &str) -> Option<Switch> {
    let mut lines = text.lines();
    let known = lines.next() == Some(HEAD);
    let mut number = |name: &str| lines.next()?.strip_prefix(name)?.parse().ok();
    let (from, to) = (number("from ")?, number("to ")?);
    known.then_some(Switch { from, to })
}

fn failed(what: &str, path: &Path, e: std::io::Error) -> Error {
    Error::io(format!("{what} `{}`", path.display()), e)
}

/// Syncs a folder, so that renames in it survive a power failure.
fn sync(folder: &Path) -> Result<()> {
    let synced = File::open(folder).and_then(|f| f.sync_all());
    synced.map_err(|e| failed("syncing", folder, e))
}

/// Writes a file atomically.
fn write(path: &Path, text: &str) -> Result<()> {
    let draft = path.with_extension(format!("{}.new", std::process::id()));
    let written = File::create(&draft).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&draft, path)
    });
    written.map_err(|e| failed("writing", path, e))?;
    path.parent().map_or(Ok(()), sync)
}

fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(failed("removing", folder, e)),
        _ => Ok(()),
    }
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    std::fs::rename(from, to).map_err(|e| {
        let what = format!("renaming `{}` to `{}`", from.display(), to.display());
        Error::io(what, e)
    })
}

impl ClusterConfig {
    /// Folder in which a server's new database is made.
    pub fn new_folder(&self, server: ServerId) -> PathBuf {
        self.storage.join(format!("server-{}.new", server.0))
    }

    fn old_folder(&self, server: ServerId) -> PathBuf {
        self.storage.join(format!("server-{}.old", server.0))
    }

    fn resize_file(&self) -> PathBuf {
        self.storage.join(RESIZE_FILE)
    }

    /// Number of servers that the storage was made for; `None` if there is no storage. Fails if another permanent setting differs from
    /// the file.
    pub fn stored_servers(&self) -> Result<Option<u32>> {
        let file = self.storage.join(esker::CLUSTER_FILE);
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed("reading", &file, e)),
        };
        self.compare_but_servers(&file, &text)?;
        let servers = text.lines().find_map(|l| l.strip_prefix("servers "));
        let servers = servers.and_then(|n| n.parse().ok());
        servers.map(Some).ok_or_else(|| {
            Error::Target(format!(
                "`{}` does not say how many servers there are",
                file.display()
            ))
        })
    }

    /// The unfinished replacement of databases, if there is one.
    pub fn switching(&self) -> Result<Option<Switch>> {
        let file = self.resize_file();
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed("reading", &file, e)),
        };
        parse(&text).map(Some).ok_or_else(|| {
            Error::Target(format!(
                "this build does not understand the contents of `{}`; was it written by a newer Esker?",
                file.display()
            ))
        })
    }

    /// Fails if servers must not start now because of an unfinished replacement.
    pub(super) fn check_not_switching(&self) -> Result<()> {
        match self.switching()? {
            None => Ok(()),
            Some(switch) => Err(Error::InUse(format!(
                "the cluster in `{}` is being resized to {} servers; if no process is doing that, \
                 complete it with `esker cluster resize FILE --servers {}`",
                self.storage.display(),
                switch.to,
                switch.to
            ))),
        }
    }

    /// Marks the new databases as complete: from now on they are the cluster.
    pub fn begin_switch(&self, switch: Switch) -> Result<()> {
        let text = format!("{HEAD}\nfrom {}\nto {}\n", switch.from, switch.to);
        write(&self.resize_file(), &text)
    }

    /// Moves the new databases to the places of the old ones. Can be repeated after an interruption at any point. No process may have any
    /// of the databases open.
    pub fn switch(&self, switch: Switch) -> Result<()> {
        self.switch_until(switch, &mut || true)
    }

    /// Switches as long as `step`, called before each step, returns true.
    fn switch_until(&self, switch: Switch, step: &mut dyn FnMut() -> bool) -> Result<()> {
        for server in (0..switch.from.max(switch.to)).map(ServerId) {
            let [place, new, old] = [
                self.folder(server),
                self.new_folder(server),
                self.old_folder(server),
            ];
            // After the rename, `place` has the new database.
            let waits = server.0 >= switch.to || new.exists();
            if server.0 < switch.from && waits && place.exists() && !old.exists() {
                if !step() {
                    return Ok(());
                }
                rename(&place, &old)?;
            }
            if server.0 < switch.to && new.exists() {
                if !step() {
                    return Ok(());
                }
                rename(&new, &place)?;
            }
        }
        sync(&self.storage)?;
        // The addresses of servers that were taken over do not apply to the new servers.
        let map = self.storage.join(esker_rpc::map::MAP_FILE);
        match std::fs::remove_file(&map) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed("removing", &map, e)),
            _ => {}
        }
        if !step() {
            return Ok(());
        }
        let file = self.storage.join(esker::CLUSTER_FILE);
        write(&file, &self.storage_description(switch.to as usize))?;
        if !step() {
            return Ok(());
        }
        let file = self.resize_file();
        std::fs::remove_file(&file).map_err(|e| failed("removing", &file, e))?;
        sync(&self.storage)
    }

    /// Removes incomplete and replaced databases that changes of the number of servers have left. Must not be called during a
    /// replacement.
    pub fn remove_leftovers(&self) -> Result<()> {
        self.check_not_switching()?;
        let entries = match std::fs::read_dir(&self.storage) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(failed("reading", &self.storage, e)),
        };
        for entry in entries {
            let entry = entry.map_err(|e| failed("reading", &self.storage, e))?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let number = name.strip_prefix("server-");
            let number = number.and_then(|n| n.strip_suffix(".new").or(n.strip_suffix(".old")));
            if number.is_some_and(|n| n.parse::<u32>().is_ok()) {
                esker::remove_checkpoint(&entry.path())?;
                remove(&entry.path())?;
            }
        }
        if let Some(servers) = self.stored_servers()? {
            self.unused_stores(servers)
                .iter()
                .try_for_each(|l| remove(l))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(storage: &Path) -> Vec<String> {
        let read = |name: &str| std::fs::read_to_string(storage.join(name).join("who"));
        let names = (0..6).map(|n| format!("server-{n}"));
        names.filter_map(|name| read(&name).ok()).collect()
    }

    /// After an interruption before any step and one or two repetitions, all new databases are in place.
    #[test]
    fn a_switch_can_be_cut_short_anywhere() {
        for (from, to) in [(4, 2), (2, 4), (1, 3), (3, 1), (0, 2), (3, 3)] {
            for cut in 0.. {
                let dir = tempfile::tempdir().unwrap();
                let file = dir.path().join("lab.toml");
                let config = |servers: u32| {
                    let text = format!("servers = {servers}\n");
                    ClusterConfig::from_toml(&file, &text).unwrap()
                };
                let make = |folder: PathBuf, who: String| {
                    std::fs::create_dir_all(&folder).unwrap();
                    std::fs::write(folder.join("who"), who).unwrap();
                };
                let (old, new) = (config(from.max(1)), config(to));
                if from > 0 {
                    old.claim_storage().unwrap();
                }
                for n in 0..from {
                    make(old.folder(ServerId(n)), format!("old {n}"));
                }
                for n in 0..to {
                    make(new.new_folder(ServerId(n)), format!("new {n}"));
                }
                let switch = Switch { from, to };
                new.begin_switch(switch).unwrap();
                let mut steps = 0;
                new.switch_until(switch, &mut || {
                    steps += 1;
                    steps <= cut
                })
                .unwrap();
                let whole = new.switching().unwrap().is_none();
                assert_eq!(whole, steps <= cut);
                if !whole {
                    let refused = old.claim_storage().unwrap_err().to_string();
                    assert!(refused.contains("is being resized"), "{refused}");
                    assert_eq!(new.switching().unwrap(), Some(switch));
                    assert!(new.remove_leftovers().is_err());
                    new.switch(switch).unwrap();
                }
                new.remove_leftovers().unwrap();
                let expected: Vec<_> = (0..to).map(|n| format!("new {n}")).collect();
                assert_eq!(folders(&new.storage), expected, "{from} to {to}, {cut}");
                new.claim_storage().unwrap();
                assert_eq!(new.stored_servers().unwrap(), Some(to));
                let left = std::fs::read_dir(&new.storage).unwrap().count();
                assert_eq!(left, to as usize + 1, "{from} to {to}, {cut}");
                if whole {
                    break;
                }
            }
        }
    }
}
