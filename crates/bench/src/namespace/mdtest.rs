//! The operations of LLNL's `mdtest` (in the ior repository): directory trees created and removed, and in them
//! directories and files
//! created, stat'ed, read and removed one by one, by several tasks, each in its own working directory (`-u`).

use super::disk::Disk;
use super::files::Files;
use super::{ESKER, NamespaceBench, in_parallel};
use crate::machine;
use crate::report::{Figure, Unit, median};
use std::time::Instant;

/// Branching factor of a tree, and its depth below the task's directory (`-b`, `-z`).
const BRANCHES: u64 = 8;
const DEPTH: u32 = 2;

/// A file system or Esker, by paths below one directory.
pub(super) trait Tree: Sync {
    /// Creates a directory at `path`.
    fn mkdir(&self, path: &str) -> anyhow::Result<()>;
    /// Removes an empty directory.
    fn rmdir(&self, path: &str) -> anyhow::Result<()>;
    /// Creates a file with this content.
    fn write(&self, path: &str, content: &[u8]) -> anyhow::Result<()>;
    /// Reads the attributes of a file or a directory.
    fn stat_path(&self, path: &str) -> anyhow::Result<()>;
    /// Reads a file and returns its size in bytes.
    fn read(&self, path: &str) -> anyhow::Result<usize>;
    /// Removes a file at `path`.
    fn remove(&self, path: &str) -> anyhow::Result<()>;
}

/// A phase, completed by all tasks before the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MdtestPhase {
    TreeCreate,
    DirectoryCreate,
    DirectoryStat,
    DirectoryRemove,
    FileCreate,
    FileStat,
    FileRead,
    FileRemove,
    TreeRemove,
}

impl MdtestPhase {
    /// Phases in mdtest's order, with its names for them.
    const ALL: [(Self, &'static str); 9] = [
        (Self::TreeCreate, "tree creation"),
        (Self::DirectoryCreate, "directory creation"),
        (Self::DirectoryStat, "directory stat"),
        (Self::DirectoryRemove, "directory removal"),
        (Self::FileCreate, "file creation"),
        (Self::FileStat, "file stat"),
        (Self::FileRead, "file read"),
        (Self::FileRemove, "file removal"),
        (Self::TreeRemove, "tree removal"),
    ];
}

/// One task's directory tree with its items.
struct Task {
    /// The tree's directories, parents first.
    tree: Vec<String>,
    /// Number of items per directory.
    items: u64,
}

impl Task {
    fn new(number: u64, items: u64) -> Self {
        let mut tree = vec![format!("task.{number}")];
        let (mut begin, mut end) = (0, 1);
        for _ in 0..DEPTH {
            for parent in begin..end {
                let path = tree.get(parent).cloned().unwrap_or_default();
                tree.extend((0..BRANCHES).map(|n| format!("{path}/tree.{n}")));
            }
            (begin, end) = (end, tree.len());
        }
        let items = items.div_ceil(tree.len() as u64);
        Self { tree, items }
    }

    fn count(&self, phase: MdtestPhase) -> u64 {
        let directories = self.tree.len() as u64;
        match phase {
            MdtestPhase::TreeCreate | MdtestPhase::TreeRemove => directories,
            _ => directories * self.items,
        }
    }

    /// Applies an operation to the path of each item.
    fn each(
        &self,
        kind: &str,
        mut call: impl FnMut(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.tree.iter().try_for_each(|path| {
            (0..self.items).try_for_each(|n| call(&format!("{path}/{kind}.{n}")))
        })
    }

    fn run(&self, phase: MdtestPhase, side: &dyn Tree, content: &[u8]) -> anyhow::Result<()> {
        match phase {
            MdtestPhase::TreeCreate => self.tree.iter().try_for_each(|path| side.mkdir(path)),
            MdtestPhase::DirectoryCreate => self.each("dir", |path| side.mkdir(path)),
            MdtestPhase::DirectoryStat => self.each("dir", |path| side.stat_path(path)),
            MdtestPhase::DirectoryRemove => self.each("dir", |path| side.rmdir(path)),
            MdtestPhase::FileCreate => self.each("file", |path| side.write(path, content)),
            MdtestPhase::FileStat => self.each("file", |path| side.stat_path(path)),
            MdtestPhase::FileRead => self.each("file", |path| {
                let read = side.read(path)?;
                anyhow::ensure!(
                    read == content.len(),
                    "{path} has {read} bytes, expected {}: something else has written there",
                    content.len()
                );
                Ok(())
            }),
            MdtestPhase::FileRemove => self.each("file", |path| side.remove(path)),
            MdtestPhase::TreeRemove => self.tree.iter().rev().try_for_each(|path| side.rmdir(path)),
        }
    }
}

/// The measurement of one side in one phase.
struct PhaseRate {
    side: &'static str,
    phase: MdtestPhase,
    rate: f64,
    cpu_micros: f64,
}

pub(super) fn run(bench: &mut NamespaceBench<'_>) -> anyhow::Result<()> {
    let tasks: Vec<Task> = (0..u64::from(bench.args.threads))
        .map(|n| {
            Task::new(
                n,
                u64::from(bench.args.files) / u64::from(bench.args.threads),
            )
        })
        .collect();
    let mut measured = Vec::new();
    for round in 0..bench.args.rounds {
        for kind in bench.args.compared() {
            match Disk::make(*kind, bench.scratch) {
                Ok(disk) => phases(bench, kind.name(), &disk, &tasks, &mut measured)?,
                Err(e) if round == 0 => bench
                    .context
                    .warn(&format!("no figures of {}: {e:#}", kind.name())),
                Err(_) => {}
            }
        }
        let files = Files::make(bench)?;
        phases(bench, ESKER, &files, &tasks, &mut measured)?;
        files.close()?;
    }
    for (phase, text) in MdtestPhase::ALL {
        let of = |side: &str, value: fn(&PhaseRate) -> f64| {
            let mine = measured
                .iter()
                .filter(|m| m.side == side && m.phase == phase);
            let values: Vec<f64> = mine.map(value).collect();
            (!values.is_empty()).then(|| median(values))
        };
        let Some(esker) = of(ESKER, |m| m.rate) else {
            continue;
        };
        let cpu = of(ESKER, |m| m.cpu_micros).unwrap_or_default();
        let sides = bench.args.compared();
        for kind in sides {
            let mut figure = Figure::new(text, Unit::CallsPerSecond, esker)
                .note(format!("beside {}; {cpu:.2} CPU us each", kind.name()));
            if let Some(raw) = of(kind.name(), |m| m.rate) {
                figure = figure.raw(raw);
            }
            bench.report.add(figure);
        }
        if sides.is_empty() {
            let figure = Figure::new(text, Unit::CallsPerSecond, esker);
            bench
                .report
                .add(figure.note(format!("{cpu:.2} CPU us each")));
        }
    }
    Ok(())
}

fn phases(
    bench: &NamespaceBench<'_>,
    name: &'static str,
    side: &dyn Tree,
    tasks: &[Task],
    measured: &mut Vec<PhaseRate>,
) -> anyhow::Result<()> {
    let content = vec![b'x'; bench.args.bytes as usize];
    for (phase, text) in MdtestPhase::ALL {
        bench.check_interrupt()?;
        bench.context.note(&format!("{name}: {text}"));
        let (began, cpu) = (Instant::now(), machine::process_seconds());
        in_parallel(tasks.len() as u64, |n| match tasks.get(n as usize) {
            Some(task) => task.run(phase, side, &content),
            None => Ok(()),
        })?;
        let seconds = began.elapsed().as_secs_f64();
        let cpu = machine::process_seconds() - cpu;
        let count: u64 = tasks.iter().map(|task| task.count(phase)).sum();
        measured.push(PhaseRate {
            side: name,
            phase,
            rate: count as f64 / seconds,
            cpu_micros: cpu * 1e6 / count as f64,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError};

    /// The expected state: contents of files, `None` for directories.
    #[derive(Default)]
    struct Model(Mutex<BTreeMap<String, Option<Vec<u8>>>>);

    impl Model {
        fn with<T>(&self, call: impl FnOnce(&mut BTreeMap<String, Option<Vec<u8>>>) -> T) -> T {
            call(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
        }

        fn add(&self, path: &str, what: Option<Vec<u8>>) {
            self.with(|map| {
                let parent = path.rsplit_once('/');
                assert!(parent.is_none_or(|(p, _)| map.contains_key(p)), "{path}");
                assert!(map.insert(path.to_owned(), what).is_none(), "{path}");
            });
        }
    }

    impl Tree for Model {
        fn mkdir(&self, path: &str) -> anyhow::Result<()> {
            self.add(path, None);
            Ok(())
        }

        fn rmdir(&self, path: &str) -> anyhow::Result<()> {
            self.with(|map| {
                let below = format!("{path}/");
                assert!(!map.keys().any(|key| key.starts_with(&below)), "{path}");
                assert_eq!(map.remove(path), Some(None), "{path}");
            });
            Ok(())
        }

        fn write(&self, path: &str, content: &[u8]) -> anyhow::Result<()> {
            self.add(path, Some(content.to_vec()));
            Ok(())
        }

        fn stat_path(&self, path: &str) -> anyhow::Result<()> {
            self.with(|map| assert!(map.contains_key(path), "{path}"));
            Ok(())
        }

        fn read(&self, path: &str) -> anyhow::Result<usize> {
            Ok(self.with(|map| map[path].as_ref().map_or(usize::MAX, Vec::len)))
        }

        fn remove(&self, path: &str) -> anyhow::Result<()> {
            self.with(|map| assert!(matches!(map.remove(path), Some(Some(_))), "{path}"));
            Ok(())
        }
    }

    #[test]
    fn each_phase_does_what_the_next_one_needs_and_nothing_is_left() {
        let (model, task) = (Model::default(), Task::new(3, 200));
        assert_eq!(task.tree.len(), 1 + 8 + 64);
        assert_eq!(task.count(MdtestPhase::FileStat), 73 * 3);
        for (phase, _) in MdtestPhase::ALL {
            task.run(phase, &model, b"abc").unwrap();
            let there = model.with(|map| map.len()) as u64;
            let expected = match phase {
                MdtestPhase::TreeRemove => 0,
                MdtestPhase::TreeCreate
                | MdtestPhase::DirectoryRemove
                | MdtestPhase::FileRemove => 73,
                _ => 73 + task.count(phase),
            };
            assert_eq!(there, expected, "{phase:?}");
        }
    }
}
