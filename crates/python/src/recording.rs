//! Recording of runs of Python programs, like `esker run` for commands: the basis of `esker.run`.

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

/// Maximum time to wait for the state of a source tree once the run has ended.
const GIT_MAX: Duration = Duration::from_millis(300);

/// Part, name, change, before, after.
type DiffRow = (
    &'static str,
    String,
    &'static str,
    Option<String>,
    Option<String>,
);

/// A run that is being recorded.
#[pyclass(frozen, module = "esker._esker")]
pub(crate) struct Recording {
    active: Mutex<ActiveRun>,
}

struct ActiveRun {
    run: Run,
    /// File in the spool; `None` if it could not be written, or after the end.
    entry: Option<Entry>,
    outputs: Vec<Output>,
    state: Receiver<Option<Git>>,
}

/// An output file; it is examined at the end.
struct Output {
    path: PathBuf,
    tags: BTreeMap<String, String>,
    /// Whether the process was observed to write it, rather than the program declaring it.
    observed: bool,
}

impl Recording {
    fn lock(&self) -> MutexGuard<'_, ActiveRun> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Recording {
    /// Records the start of a run; returns the recording, and the reason if it is not in the spool.
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
        // Runs concurrently with the program; if the thread cannot start, the source state is unknown.
        let _ = std::thread::Builder::new()
            .name("esker-git".into())
            .spawn(move || sender.send(git(&folder)));
        let active = ActiveRun {
            run,
            entry,
            outputs: Vec::new(),
            state,
        };
        let active = Mutex::new(active);
        (Self { active }, problem)
    }

    /// Whether a word names a run rather than a time.
    #[staticmethod]
    fn is_run(text: &str) -> bool {
        is_run(text)
    }

    /// Returns the differences between two runs: their names, and rows of part, name, change, before, after; either all rows, or only the
    /// unexpected differences.
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

    /// Name of the run, `execution:ID`.
    #[getter]
    fn id(&self) -> String {
        format!("execution:{}", self.lock().run.id)
    }

    /// Records a file that it reads, in its current state. A declared file replaces an observed one.
    #[pyo3(signature = (path, tags, observed=false))]
    fn read(&self, path: PathBuf, tags: Vec<(String, String)>, observed: bool) {
        let used = Use {
            tags: tags.into_iter().collect(),
            observed,
            ..Use::of(&path)
        };
        let mut active = self.lock();
        if !observed {
            let is_other = |known: &Use| !known.observed || known.path != used.path;
            active.run.inputs.retain(is_other);
        }
        active.run.inputs.push(used);
    }

    /// Records a file that it writes, in its state at the end of the run.
    #[pyo3(signature = (path, tags, observed=false))]
    fn write(&self, path: PathBuf, tags: Vec<(String, String)>, observed: bool) {
        let output = Output {
            path: std::path::absolute(&path).unwrap_or(path),
            tags: tags.into_iter().collect(),
            observed,
        };
        self.lock().outputs.push(output);
    }

    /// Records settings and tags.
    fn note(&self, parameters: Vec<(String, String)>, tags: Vec<(String, String)>) {
        let mut active = self.lock();
        active
            .run
            .params
            .extend(settings(parameters, &Redactor::default()));
        active.run.tags.extend(tags);
    }

    /// Ends the run and delivers it to the open database, or to its target. Returns a message if recording failed.
    fn end(
        &self,
        py: Python<'_>,
        exit: Option<i32>,
        why: Option<String>,
        open: Option<&Core>,
    ) -> PyResult<Option<String>> {
        let at = now();
        let (run, entry) = {
            let mut active = self.lock();
            if active.run.ended.is_some() {
                return Err(raise(py, &invalid("this run has ended already")));
            }
            active.run.ended = Some(Ended {
                at,
                exit,
                signal: None,
                why,
            });
            active.run.git = active.state.recv_timeout(GIT_MAX).ok().flatten();
            let outputs = std::mem::take(&mut active.outputs);
            let outputs = outputs.into_iter().map(|output| Use {
                tags: output.tags,
                observed: output.observed,
                ..Use::of(&output.path)
            });
            active.run.outputs = outputs.collect();
            (active.run.clone(), active.entry.take())
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
                // Another process may have delivered it already.
                for file in kept.ok().into_iter().chain(begun) {
                    let _ = std::fs::remove_file(file);
                }
                None
            }
            (Err(why), Ok(file)) => Some(format!(
                "this run waits in {} for {}: {why}; `esker spool deliver --target {}` delivers it",
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

/// Makes a target independent of the working directory.
fn target_of(target: &str) -> String {
    if target.contains("://") {
        return target.to_owned();
    }
    let whole = std::path::absolute(target);
    whole.map_or_else(|_| target.to_owned(), |p| p.to_string_lossy().into_owned())
}
