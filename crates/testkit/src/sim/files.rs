//! Simulated shared storage with faults: slow, full, temporarily unavailable; files are torn, damaged, or vanish.

use super::exec::Shared;
use crate::rng::Rng;
use esker_cluster::node::{BoxFuture, SharedFiles};
use esker_model::{Error, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Probabilities of faults of files, in thousandths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileFaults {
    /// A write fails because storage is full.
    pub write_fails: usize,
    /// Only a part is written, without an error.
    pub torn: usize,
    /// One bit of a file is flipped.
    pub damaged: usize,
    /// A file is missing after it was written.
    pub vanishes: usize,
    /// A read of a file fails.
    pub read_fails: usize,
    /// An operation takes longer than any timeout.
    pub hangs: usize,
}

/// Parameters of storage that servers share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Number of rows from which partitions move as tables.
    pub least: u64,
    /// Probabilities of faults of files.
    pub faults: FileFaults,
    /// One of this many servers has no access; 0 if all have access.
    pub blind: usize,
}

impl Share {
    /// Draws parameters from a seed; without faults unless `wrong`.
    pub fn of(seed: u64, wrong: bool) -> Option<Self> {
        let mut rng = Rng::new(seed ^ 0x7368_6172);
        if rng.percent(20) {
            return None;
        }
        let mut often = |most: usize| if wrong { rng.number_below(most) } else { 0 };
        let faults = FileFaults {
            write_fails: often(100),
            torn: often(100),
            damaged: often(100),
            vanishes: often(100),
            read_fails: often(100),
            hangs: often(30),
        };
        Some(Self {
            least: *rng.pick(&[0, 1, 2, 4]),
            faults,
            blind: *rng.pick(&[0, 0, 0, 3]),
        })
    }

    /// Returns the parameters without hanging operations.
    #[must_use]
    pub fn prompt(mut self) -> Self {
        self.faults.hangs = 0;
        self
    }

    /// Whether that server has access.
    pub(crate) fn sees(&self, server: usize) -> bool {
        self.blind == 0 || server % self.blind != 1
    }
}

/// Simulated storage that servers share.
pub struct SimFiles {
    shared: Arc<Shared>,
    faults: FileFaults,
    inner: Mutex<FilesInner>,
}

struct FilesInner {
    rng: Rng,
    files: BTreeMap<String, Vec<u8>>,
    read: u64,
}

impl SimFiles {
    /// Creates storage without files.
    pub fn new(shared: &Arc<Shared>, seed: u64, faults: FileFaults) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::clone(shared),
            faults,
            inner: Mutex::new(FilesInner {
                rng: Rng::new(seed ^ 0x7461_626c),
                files: BTreeMap::new(),
                read: 0,
            }),
        })
    }

    fn inner(&self) -> MutexGuard<'_, FilesInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the names of existing files.
    pub fn names(&self) -> Vec<String> {
        self.inner().files.keys().cloned().collect()
    }

    /// Returns how often a whole file was read.
    pub fn read_count(&self) -> u64 {
        self.inner().read
    }

    fn draws(&self, permille: usize) -> bool {
        permille > 0 && self.inner().rng.number_below(1000) < permille
    }

    async fn delay(&self) {
        let micros = if self.draws(self.faults.hangs) {
            10_000_000
        } else {
            1 + self.inner().rng.number_below(3_000) as u64
        };
        self.shared.sleep(micros).await;
    }

    async fn write_now(self: Arc<Self>, name: String, mut bytes: Vec<u8>) -> Result<()> {
        self.delay().await;
        if self.draws(self.faults.write_fails) {
            return Err(failed("is full"));
        }
        let half = bytes.len() / 2;
        let first = bytes.get(..half).unwrap_or_default().to_vec();
        self.inner().files.insert(name.clone(), first);
        // A crash of the writer here leaves half of the file.
        self.delay().await;
        if self.draws(self.faults.torn) {
            return Ok(());
        }
        if self.draws(self.faults.vanishes) {
            self.inner().files.remove(&name);
            return Ok(());
        }
        if self.draws(self.faults.damaged) {
            let mut inner = self.inner();
            let at = inner.rng.number_below(bytes.len().max(1));
            let bit = inner.rng.number_below(8);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
        }
        self.inner().files.insert(name, bytes);
        Ok(())
    }

    async fn read_now(self: Arc<Self>, name: String, most: u64) -> Result<Vec<u8>> {
        self.delay().await;
        if self.draws(self.faults.read_fails) {
            return Err(failed("cannot be read"));
        }
        let mut inner = self.inner();
        let found = inner.files.get(&name).cloned();
        let found = found.filter(|file| file.len() as u64 <= most);
        inner.read += u64::from(found.is_some());
        found.ok_or_else(|| failed("does not have the file"))
    }
}

fn failed(why: &str) -> Error {
    Error::Unavailable(format!("the simulated storage {why}"))
}

/// The storage as one server uses it.
pub struct SimShare(pub Arc<SimFiles>);

impl SharedFiles for SimShare {
    fn write(&self, name: String, bytes: Vec<u8>) -> BoxFuture<'static, Result<()>> {
        Box::pin(Arc::clone(&self.0).write_now(name, bytes))
    }

    fn read(&self, name: String, most: u64) -> BoxFuture<'static, Result<Vec<u8>>> {
        Box::pin(Arc::clone(&self.0).read_now(name, most))
    }

    fn remove(&self, name: String) -> BoxFuture<'static, Result<()>> {
        let files = Arc::clone(&self.0);
        Box::pin(async move {
            files.inner().files.remove(&name);
            Ok(())
        })
    }

    fn list(&self) -> BoxFuture<'static, Result<Vec<String>>> {
        let files = Arc::clone(&self.0);
        Box::pin(async move { Ok(files.names()) })
    }
}
