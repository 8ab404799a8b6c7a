//! Ownership of a database: one record per generation of owners, each created atomically.
//!
//! ```text
//!  owner/0000000000000007          the record of the seventh owner
//!  owner/0000000000000007.sock     its socket
//!
//!  esker-owner 1
//!  state serving                   opening, serving, closing or released; rewritten in place
//!  beat 000000000000002a           incremented every second; rewritten in place
//!  host, machine, boot, namespace, pid, start
//! ```
//!
//! The owner is the process that created the record with the highest number. A contender that finds the owner dead or its
//! record released creates the record with the next number by `link`, which fails if that record exists: exactly one
//! contender wins, on local disks and on NFS. Numbers only grow, and the highest record is never removed, not even on
//! release.
//!
//! A contender may be slow: between its check and its claim, other owners may have come and gone and have removed old
//! records, so that its `link` of an old number succeeds. Therefore (a) it checks again after its claim and gives way to
//! any higher number, and (b) the last [`GENERATIONS_KEPT`] records are kept, so that the second check finds a higher one
//! even if it races with clean-up.
//!
//! No lock of the file system and no shared memory is needed.

use super::process::Process;
use crate::folder::Folder;
use crate::limits::{DRAFT_AGE_MAX, GENERATIONS_KEPT};
use crate::modes;
use esker_model::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const HEADER: &str = "esker-owner ";
/// Prefix of the names of records before they are linked.
const DRAFT: &str = "new-";
const RECORD_FORMAT: u32 = 1;
/// Offset of the state in the file: after `esker-owner 1\nstate `.
const STATE_AT: u64 = 20;
const STATE_BYTES: usize = 8;
/// Offset of the heartbeat: after the state and `\nbeat `.
const BEAT_AT: u64 = STATE_AT + STATE_BYTES as u64 + 6;

/// Counter that distinguishes the contenders of one process.
static CONTENDERS: AtomicU64 = AtomicU64::new(0);

/// Phase of an owner's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnerState {
    /// Recovers the store; has no socket yet.
    Opening,
    /// Serves requests.
    Serving,
    /// Finishes requests in progress.
    Closing,
    /// Has ended and closed the store properly.
    Released,
}

impl OwnerState {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Opening, "opening "),
        (Self::Serving, "serving "),
        (Self::Closing, "closing "),
        (Self::Released, "released"),
    ];

    fn text(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(s, _)| *s == self)
            .map_or("", |(_, t)| t)
    }
}

/// The record of one owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Number of the owner since the database was created, from 1.
    pub(crate) generation: u64,
    /// Contents of the record; `None` if it is damaged, which only a crash of its host causes.
    pub(crate) owner: Option<OwnerInfo>,
}

/// Contents of a readable record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnerInfo {
    pub(crate) state: OwnerState,
    pub(crate) beat: u64,
    pub(crate) process: Process,
}

/// The owner records of one database.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    folder: Folder,
    path: PathBuf,
}

/// Ownership of a database. Dropping it without [`Claim::release`] leaves the record as a crash would.
#[derive(Debug)]
pub(crate) struct Claim {
    registry: Registry,
    generation: u64,
    beat: AtomicU64,
}

impl Registry {
    pub(crate) fn new(folder: &Folder) -> Self {
        Self {
            folder: folder.clone(),
            path: folder.owner(),
        }
    }

    /// Name of the socket of a generation.
    pub(crate) fn socket_name(generation: u64) -> String {
        format!("{generation:016}.sock")
    }

    /// Folder of the records.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn record_path(&self, generation: u64) -> PathBuf {
        self.path.join(format!("{generation:016}"))
    }

    fn generations(&self) -> Result<Vec<u64>> {
        let entries = match std::fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(self.folder.failed("opening", e)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| self.folder.failed("opening", e))?;
            let name = entry.file_name();
            if let Some(g) = name
                .to_str()
                .filter(|n| n.len() == 16)
                .and_then(|n| n.parse().ok())
            {
                found.push(g);
            }
        }
        Ok(found)
    }

    /// The record of the current owner, or of the last one.
    pub(crate) fn highest(&self) -> Result<Option<Record>> {
        loop {
            let Some(generation) = self.generations()?.into_iter().max() else {
                return Ok(None);
            };
            match std::fs::read_to_string(self.record_path(generation)) {
                Ok(text) => {
                    let owner = self.parse(&text)?;
                    return Ok(Some(Record { generation, owner }));
                }
                // Removed in the meantime: a higher one exists now.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) if e.kind() == ErrorKind::InvalidData => {
                    return Ok(Some(Record {
                        generation,
                        owner: None,
                    }));
                }
                Err(e) => return Err(self.folder.failed("opening", e)),
            }
        }
    }

    fn parse(&self, text: &str) -> Result<Option<OwnerInfo>> {
        let mut lines = text.lines();
        let format = lines
            .next()
            .and_then(|l| l.strip_prefix(HEADER))
            .and_then(|n| n.parse::<u32>().ok());
        match format {
            Some(n) if n > RECORD_FORMAT => {
                return Err(Error::Target(format!(
                    "`{}` was last opened by a newer Esker (owner record {n}; this build reads up to {RECORD_FORMAT}): \
                     upgrade Esker",
                    self.folder.path.display()
                )));
            }
            Some(_) => {}
            None => return Ok(None),
        }
        let fields: Vec<(&str, &str)> = lines.filter_map(|l| l.split_once(' ')).collect();
        let field = |name: &str| fields.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        let owner = || {
            let state = field("state")?.trim_end();
            Some(OwnerInfo {
                state: OwnerState::ALL
                    .iter()
                    .find(|(_, t)| t.trim_end() == state)?
                    .0,
                beat: u64::from_str_radix(field("beat")?, 16).ok()?,
                process: Process {
                    host: field("host")?.to_owned(),
                    machine: field("machine")?.to_owned(),
                    boot: field("boot")?.to_owned(),
                    namespace: field("namespace")?.to_owned(),
                    pid: field("pid")?.parse().ok()?,
                    start: field("start")?.parse().ok()?,
                },
            })
        };
        Ok(owner())
    }

    /// Tries to become the owner of this generation; `None` if another contender was faster.
    pub(crate) fn claim(&self, generation: u64, me: &Process) -> Result<Option<Claim>> {
        let failed = |e| self.folder.failed("opening", e);
        match modes::create_private(&self.path) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(failed(e)),
            _ => {}
        }
        // Unique among all contenders.
        let n = CONTENDERS.fetch_add(1, Ordering::Relaxed);
        let draft = self
            .path
            .join(format!("{DRAFT}{}-{}-{}-{n}", me.host, me.pid, me.start));
        let text = format!(
            "{HEADER}{RECORD_FORMAT}\nstate {}\nbeat {:016x}\nhost {}\nmachine {}\nboot {}\nnamespace {}\npid {}\nstart {}\n",
            OwnerState::Opening.text(),
            0,
            me.host,
            me.machine,
            me.boot,
            me.namespace,
            me.pid,
            me.start,
        );
        let linked = (|| {
            let mut file = File::create(&draft)?;
            // Users who may enter this folder can see which process has the database open.
            modes::readable(&file)?;
            file.write_all(text.as_bytes())?;
            // Closed before it is linked, so that other hosts see the complete contents.
            drop(file);
            let linked = std::fs::hard_link(&draft, self.record_path(generation));
            match linked {
                Ok(()) => Ok(true),
                // Over NFS the response to a successful link may be lost; the link count decides.
                Err(e) => match std::fs::metadata(&draft)?.nlink() {
                    2 => Ok(true),
                    _ if e.kind() == ErrorKind::AlreadyExists => Ok(false),
                    _ => Err(e),
                },
            }
        })();
        let removed = std::fs::remove_file(&draft);
        let linked = linked.map_err(failed)?;
        removed.map_err(failed)?;
        if !linked {
            return Ok(None);
        }
        let all = self.generations()?;
        if all.iter().any(|g| *g > generation) {
            // Another contender was faster. Its number is higher, so no process reads this record.
            std::fs::remove_file(self.record_path(generation)).map_err(failed)?;
            return Ok(None);
        }
        self.clean(generation, &all);
        Ok(Some(Claim {
            registry: self.clone(),
            generation,
            beat: AtomicU64::new(0),
        }))
    }

    /// Removes leftovers of old owners. Files that cannot be removed are left for the next owner.
    fn clean(&self, generation: u64, all: &[u64]) {
        for g in all.iter().filter(|g| **g + GENERATIONS_KEPT < generation) {
            let _ = std::fs::remove_file(self.record_path(*g));
        }
        let Ok(entries) = std::fs::read_dir(&self.path) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let socket = name.strip_suffix(".sock").and_then(|g| g.parse().ok());
            let old_socket = socket.is_some_and(|g: u64| g < generation);
            let modified = entry.metadata().and_then(|m| m.modified()).ok();
            let age = modified.and_then(|m| m.elapsed().ok()).unwrap_or_default();
            if old_socket || (name.starts_with(DRAFT) && age > DRAFT_AGE_MAX) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

impl Claim {
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    fn rewrite(&self, at: u64, text: &str) -> Result<()> {
        let path = self.registry.record_path(self.generation);
        // Opened and closed each time, because NFS shows writes to other hosts on close.
        let write = OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|f| f.write_all_at(text.as_bytes(), at));
        write.map_err(|e| self.registry.folder.failed("marking as open", e))
    }

    /// Writes the state of this owner into its record.
    pub(crate) fn set_state(&self, state: OwnerState) -> Result<()> {
        self.rewrite(STATE_AT, state.text())
    }

    /// Writes the next heartbeat for other hosts. False once another owner has taken over.
    pub(crate) fn beat(&self) -> Result<bool> {
        if self.generations_above()? {
            return Ok(false);
        }
        let beat = self.beat.fetch_add(1, Ordering::Relaxed) + 1;
        self.rewrite(BEAT_AT, &format!("{beat:016x}"))?;
        Ok(true)
    }

    fn generations_above(&self) -> Result<bool> {
        // The next owner's number is one higher, and its record is kept for a while.
        Ok(self
            .registry
            .generations()?
            .iter()
            .any(|g| *g > self.generation))
    }

    /// Releases the database for the next owner.
    pub(crate) fn release(&self) -> Result<()> {
        let _ = std::fs::remove_file(
            self.registry
                .path
                .join(Registry::socket_name(self.generation)),
        );
        self.set_state(OwnerState::Released)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    fn registry() -> (tempfile::TempDir, Registry) {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::new(&Folder::at(dir.path()));
        (dir, registry)
    }

    #[test]
    fn a_record_reads_back_as_written_and_as_rewritten() {
        let (_dir, registry) = registry();
        let me = Process::current();
        assert_eq!(registry.highest().unwrap(), None);
        let claim = registry.claim(1, &me).unwrap().unwrap();
        let read = || registry.highest().unwrap().unwrap();
        assert_eq!(
            read().owner,
            Some(OwnerInfo {
                state: OwnerState::Opening,
                beat: 0,
                process: me.clone()
            })
        );
        claim.set_state(OwnerState::Serving).unwrap();
        assert!(claim.beat().unwrap());
        assert_eq!(
            read().owner,
            Some(OwnerInfo {
                state: OwnerState::Serving,
                beat: 1,
                process: me.clone()
            })
        );
        claim.release().unwrap();
        assert_eq!(
            read().owner,
            Some(OwnerInfo {
                state: OwnerState::Released,
                beat: 1,
                process: me
            })
        );
    }

    #[test]
    fn an_owner_that_was_replaced_learns_it() {
        let (_dir, registry) = registry();
        let me = Process::current();
        let first = registry.claim(1, &me).unwrap().unwrap();
        assert!(first.beat().unwrap());
        let second = registry.claim(2, &me).unwrap().unwrap();
        assert!(!first.beat().unwrap());
        assert!(second.beat().unwrap());
    }

    #[test]
    fn a_contender_that_slept_through_many_generations_gives_way() {
        let (_dir, registry) = registry();
        let me = Process::current();
        for g in 1..=40 {
            registry.claim(g, &me).unwrap().unwrap().release().unwrap();
        }
        // The contender had looked when 3 was the highest; record 4 has been removed since.
        assert!(!registry.record_path(4).exists());
        assert!(registry.claim(4, &me).unwrap().is_none());
        assert!(!registry.record_path(4).exists());
        assert_eq!(registry.highest().unwrap().unwrap().generation, 40);
        assert_eq!(
            std::fs::read_dir(registry.path()).unwrap().count(),
            GENERATIONS_KEPT as usize + 1
        );
    }

    #[test]
    fn of_many_contenders_one_wins_each_generation() {
        let (_dir, registry) = registry();
        let me = Process::current();
        for generation in 1..=20 {
            let start = Barrier::new(8);
            let won: usize = std::thread::scope(|s| {
                let contenders: Vec<_> = (0..8)
                    .map(|_| {
                        s.spawn(|| {
                            start.wait();
                            usize::from(registry.claim(generation, &me).unwrap().is_some())
                        })
                    })
                    .collect();
                contenders.into_iter().map(|c| c.join().unwrap()).sum()
            });
            assert_eq!(won, 1);
        }
    }

    #[test]
    fn a_record_of_a_newer_esker_is_refused_and_a_damaged_one_is_nobodys() {
        let (_dir, registry) = registry();
        std::fs::create_dir(registry.path()).unwrap();
        std::fs::write(registry.record_path(1), "esker-owner 2\n").unwrap();
        let message = registry.highest().unwrap_err().to_string();
        assert!(
            message.ends_with("(owner record 2; this build reads up to 1): upgrade Esker"),
            "{message}"
        );
        std::fs::write(registry.record_path(2), "").unwrap();
        assert_eq!(
            registry.highest().unwrap(),
            Some(Record {
                generation: 2,
                owner: None
            })
        );
    }
}
