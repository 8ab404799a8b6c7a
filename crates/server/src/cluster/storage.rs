//! The folder of a cluster's databases: what it was made for, and how it changes when the number of servers does.
//!
//! ```text
//!  lab.cluster/
//!    CLUSTER         what must stay as it was: name, placement, vnodes, number of servers
//!    server-0/ …     databases
//!    server-0.new/ … what `cluster resize` makes; of no use until it is whole
//!    RESIZE          all new ones are whole and take the old ones' places: servers do not start meanwhile
//!    server-0.old/ … what is to be removed
//! ```
//!
//! Until `RESIZE` is there, the old databases are the cluster; from then on the new ones are, and whoever resizes again brings
//! it to its end ([`ClusterConfig::switch`]).

use super::config::ClusterConfig;
use esker_cluster::ServerId;
use esker_model::{Error, Result};
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

const RESIZE_FILE: &str = "RESIZE";
const HEAD: &str = "esker cluster resize 1";

/// New databases that are about to take the places of old ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// How many servers there were; 0 if the cluster is new.
    pub from: u32,
    /// How many there are to be.
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

/// Makes renames in a folder survive power failure.
fn sync(folder: &Path) -> Result<()> {
    let synced = File::open(folder).and_then(|f| f.sync_all());
    synced.map_err(|e| failed("syncing", folder, e))
}

/// Writes a file whole or not at all.
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
    /// Where the database is made that is to be a server's.
    pub fn new_folder(&self, server: ServerId) -> PathBuf {
        self.storage.join(format!("server-{}.new", server.0))
    }

    fn old_folder(&self, server: ServerId) -> PathBuf {
        self.storage.join(format!("server-{}.old", server.0))
    }

    fn resize_file(&self) -> PathBuf {
        self.storage.join(RESIZE_FILE)
    }

    /// How many servers the storage has been made for; `None` if there is none. Fails if it differs from the file in anything
    /// else that must stay.
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

    /// The change of the number of servers that was begun and is to be brought to its end.
    pub fn switching(&self) -> Result<Option<Switch>> {
        let file = self.resize_file();
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed("reading", &file, e)),
        };
        parse(&text).map(Some).ok_or_else(|| {
            Error::Target(format!(
                "`{}` does not say what this build would understand; was it written by a newer Esker?",
                file.display()
            ))
        })
    }

    /// Why servers must not start now, if so.
    pub(super) fn check_not_switching(&self) -> Result<()> {
        match self.switching()? {
            None => Ok(()),
            Some(switch) => Err(Error::Unavailable(format!(
                "the cluster in `{}` is getting {} servers; if nobody is at it, repeat `esker cluster resize FILE --servers {}`, \
                 which brings it to its end",
                self.storage.display(),
                switch.to,
                switch.to
            ))),
        }
    }

    /// Says that the new databases are whole: from now on they are the cluster.
    pub fn begin_switch(&self, switch: Switch) -> Result<()> {
        let text = format!("{HEAD}\nfrom {}\nto {}\n", switch.from, switch.to);
        write(&self.resize_file(), &text)
    }

    /// Puts the new databases in the places of the old ones. Can be done again after it was cut short anywhere; nobody may have any
    /// of them open.
    pub fn switch(&self, switch: Switch) -> Result<()> {
        self.switch_until(switch, &mut || true)
    }

    /// The same; `step` says before each step whether to do it.
    fn switch_until(&self, switch: Switch, step: &mut dyn FnMut() -> bool) -> Result<()> {
        for server in (0..switch.from.max(switch.to)).map(ServerId) {
            let [place, new, old] = [
                self.folder(server),
                self.new_folder(server),
                self.old_folder(server),
            ];
            // Once the new one is in its place, that is what lies there.
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
        // Where servers were that had been taken over says nothing of those to come.
        let map = self.storage.join(esker_rpc::map::MAP_FILE);
        match std::fs::remove_file(&map) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed("removing", &map, e)),
            _ => {}
        }
        if !step() {
            return Ok(());
        }
        let file = self.storage.join(esker::CLUSTER_FILE);
        write(&file, &self.described(switch.to as usize))?;
        if !step() {
            return Ok(());
        }
        let file = self.resize_file();
        std::fs::remove_file(&file).map_err(|e| failed("removing", &file, e))?;
        sync(&self.storage)
    }

    /// Removes what changes of the number of servers left: databases that are not whole, and those that were replaced. Only
    /// while none is being switched.
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
            self.dead_stores(servers)
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

    /// Cut short before any of its steps and done again, once or twice, all new databases are in their places.
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
                    assert!(refused.contains("is getting"), "{refused}");
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
