//! Runs of Python programs, recorded as `esker run` records commands: `esker.run` is made of it.

use crate::cancel::work;
use crate::database::Core;
use crate::error::{invalid, raise};
use esker::{Database, OpenOptions};
use esker_record::{
    Begin, Ended, Entry, Git, Redactor, Row, Run, Spool, Use, begin, deliver_one, diff_runs,
    find_run, git, is_run, now, settings,
};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the state of a source tree may still take once the run has ended.
const GIT_MAX: Duration = Duration::from_millis(300);

/// Part, name, change, before, after.
type DiffRow = (
    &'static str,
    String,
    &'static str,
    Option<String>,
    Option<String>,
);

/// A run that goes on.
#[pyclass(frozen, module = "esker._esker")]
pub(crate) struct Recording {
    held: Mutex<Held>,
}

struct Held {
    run: Run,
    /// Its file in the spool; none if there is no room for one, and none once it has ended.
    entry: Option<Entry>,
    /// What it writes, with tags: looked at when it ends.
    outputs: Vec<(PathBuf, BTreeMap<String, String>)>,
    state: Receiver<Option<Git>>,
}

impl Recording {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Recording {
    /// Notes that a run begins: the recording, and why it is not in the spool, if so.
    #[staticmethod]
    fn begin(
        target: String,
        name: String,
        command: Vec<String>,
        parameters: Vec<(String, String)>,
        tags: Vec<(String, String)>,
        keep: Vec<String>,
        parent: Option<String>,
        spool: Option<PathBuf>,
    ) -> (Self, Option<String>) {
        let environment: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(n, v)| Some((n.into_string().ok()?, v.to_string_lossy().into_owned())))
            .collect();
        let what = Begin {
            target: target_of(&target),
            name: Some(name),
            command,
            variables: keep,
            redactor: Redactor::default(),
        };
        let mut run = begin(what, &environment, now());
        run.params = settings(parameters, &Redactor::default());
        run.tags = tags.into_iter().collect();
        run.parent = parent.or(run.parent);
        let spool = spool.map_or_else(Spool::usual, Spool::new);
        let (entry, problem) = match spool.begin(&run) {
            Ok(entry) => (Some(entry), None),
            Err(e) => (None, Some(format!("{}: {e}", spool.folder().display()))),
        };
        let (sender, state) = channel();
        let folder = PathBuf::from(&run.cwd);
        // Asked beside the program; without it nothing is known of the source.
        let _ = std::thread::Builder::new()
            .name("esker-git".into())
            .spawn(move || sender.send(git(&folder)));
        let held = Held {
            run,
            entry,
            outputs: Vec::new(),
            state,
        };
        let held = Mutex::new(held);
        (Self { held }, problem)
    }

    /// Whether a word names a run rather than a time.
    #[staticmethod]
    fn is_run(text: &str) -> bool {
        is_run(text)
    }

    /// What differs between two runs: their names, and rows of part, name, change, before, after; all rows, or those that differ
    /// otherwise than any two runs do.
    #[staticmethod]
    fn diff(
        py: Python<'_>,
        core: &Core,
        before: String,
        after: String,
        all: bool,
    ) -> PyResult<(String, String, Vec<DiffRow>)> {
        let database = core.database(py)?;
        work(py, |_| {
            let ids = [find_run(&database, &before)?, find_run(&database, &after)?];
            let found = diff_runs(&database, ids[0], ids[1])?;
            let row = |row: &Row| {
                (
                    row.part.name(),
                    row.name.clone(),
                    row.change.name(),
                    row.before.clone(),
                    row.after.clone(),
                )
            };
            let rows = if all {
                found.rows.iter().map(row).collect()
            } else {
                found.differing().map(row).collect()
            };
            Ok((found.before.clone(), found.after.clone(), rows))
        })
    }

    /// What the run is known by: `execution:ID`.
    #[getter]
    fn id(&self) -> String {
        format!("execution:{}", self.held().run.id)
    }

    /// Notes a file that it reads, as it is now.
    fn read(&self, path: PathBuf, tags: Vec<(String, String)>) {
        let tags = tags.into_iter().collect();
        let used = Use {
            tags,
            ..Use::of(&path)
        };
        self.held().run.inputs.push(used);
    }

    /// Notes a file that it writes, as it will be when the run ends.
    fn write(&self, path: PathBuf, tags: Vec<(String, String)>) {
        let path = std::path::absolute(&path).unwrap_or(path);
        self.held().outputs.push((path, tags.into_iter().collect()));
    }

    /// Notes settings and tags.
    fn note(&self, parameters: Vec<(String, String)>, tags: Vec<(String, String)>) {
        let mut held = self.held();
        held.run
            .params
            .extend(settings(parameters, &Redactor::default()));
        held.run.tags.extend(tags);
    }

    /// The run is over: brings it to the database that is open, or to the one that it is for. What went wrong with recording it.
    fn end(
        &self,
        py: Python<'_>,
        exit: Option<i32>,
        why: Option<String>,
        open: Option<&Core>,
    ) -> PyResult<Option<String>> {
        let at = now();
        let (run, entry) = {
            let mut held = self.held();
            if held.run.ended.is_some() {
                return Err(raise(py, &invalid("this run has ended already")));
            }
            held.run.ended = Some(Ended {
                at,
                exit,
                signal: None,
                why,
            });
            held.run.git = held.state.recv_timeout(GIT_MAX).ok().flatten();
            let outputs = std::mem::take(&mut held.outputs);
            let outputs = outputs.into_iter().map(|(path, tags)| Use {
                tags,
                ..Use::of(&path)
            });
            held.run.outputs = outputs.collect();
            (held.run.clone(), held.entry.take())
        };
        let (begun, kept) = match entry {
            None => (None, Err("it is not in the spool".to_owned())),
            Some(entry) => {
                let begun = entry.path().to_owned();
                (Some(begun), entry.end(&run).map_err(|e| e.to_string()))
            }
        };
        let database = open.map(|core| core.database(py)).transpose();
        let delivered = match database {
            Err(e) => Err(e.to_string()),
            Ok(database) => work(py, |_| Ok(deliver(database.as_ref(), &run)))?,
        };
        Ok(match (delivered, kept) {
            (Ok(()), kept) => {
                // Somebody else may have brought it already.
                for file in kept.ok().into_iter().chain(begun) {
                    let _ = std::fs::remove_file(file);
                }
                None
            }
            (Err(why), Ok(file)) => Some(format!(
                "this run waits in {} for {}: {why}; `esker spool deliver --target {}` brings it there",
                folder_of(&file),
                run.target,
                run.target
            )),
            (Err(why), Err(spool)) => Some(format!(
                "this run is not recorded: {}: {why}; {spool}",
                run.target
            )),
        })
    }
}

fn folder_of(file: &Path) -> String {
    file.parent().unwrap_or(file).display().to_string()
}

fn deliver(database: Option<&Database>, run: &Run) -> Result<(), String> {
    let done = match database {
        Some(database) => deliver_one(database, run),
        None => OpenOptions::new()
            .create(true)
            .open(&run.target)
            .and_then(|database| {
                let applied = deliver_one(&database, run);
                database.close()?;
                applied
            }),
    };
    done.map_err(|e| e.to_string())
}

/// A target that means the same from any folder.
fn target_of(target: &str) -> String {
    if target.contains("://") {
        return target.to_owned();
    }
    let whole = std::path::absolute(target);
    whole.map_or_else(|_| target.to_owned(), |p| p.to_string_lossy().into_owned())
}
