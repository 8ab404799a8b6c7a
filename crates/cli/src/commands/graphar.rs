//! `esker export graphar`, `esker import graphar`: the graph as a folder of Parquet files that other engines read.

use super::import_table;
use crate::args::{ExportGrapharArgs, ImportGrapharArgs, ImportTableArgs, TableKind};
use anyhow::Context as _;
use esker_import::graphar::{self, GrapharError, Host, Out};
use esker_import::table::Format;
use esker_model::{Cancel as _, Error, Version};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::interrupt::Interrupt;
use esker_terminal::progress::Progress;
use esker_terminal::units::counted;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// Name of the exported graph.
const NAME: &str = "esker";

struct Folder<'a> {
    at: &'a Path,
    progress: Progress,
    interrupt: Interrupt,
}

impl Host for Folder<'_> {
    fn create(&mut self, path: &str) -> io::Result<Out> {
        let path = self.at.join(path);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above)?;
        }
        Ok(Box::new(BufWriter::new(File::create_new(path)?)))
    }

    fn go_on(&mut self, rows: u64) -> bool {
        self.progress.at(rows);
        !self.interrupt.cancelled()
    }
}

pub(super) fn export(args: &ExportGrapharArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let folder = &args.folder;
    if folder.symlink_metadata().is_ok() {
        return Err(usage(format!(
            "{} exists already: expected a new folder",
            folder.display()
        )));
    }
    let database = context.open(&args.target)?;
    // Later writes are newer than this version and are not exported.
    let as_of = match args.as_of {
        Some(time) => time,
        None => database.stats()?.newest.unwrap_or(Version::MAX),
    };
    // The folder is renamed at the end, so that a folder of this name is complete.
    let mut unfinished = folder.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    if unfinished.symlink_metadata().is_ok() {
        return Err(usage(format!(
            "{} exists: if no other export is running, remove it; else wait for that export",
            unfinished.display()
        )));
    }
    let making = || format!("making {}", unfinished.display());
    fs::create_dir_all(&unfinished).with_context(making)?;
    let mut host = Folder {
        at: &unfinished,
        progress: Progress::rows(context.globals.quiet, "rows"),
        interrupt: context.interrupt.clone(),
    };
    let written = graphar::export(&database, as_of, NAME, args.chunk_size as usize, &mut host);
    drop(host);
    let written = match written {
        Ok(written) => written,
        Err(error) => {
            // An incomplete graph is of no use.
            let _ = fs::remove_dir_all(&unfinished);
            return Err(match error {
                GrapharError::Graph(Error::Interrupted) => anyhow::anyhow!(
                    "stopped before the end; {} was not written",
                    folder.display()
                ),
                GrapharError::Graph(error) => error.into(),
                error => anyhow::anyhow!("{}: {error}", unfinished.display()),
            });
        }
    };
    fs::rename(&unfinished, folder).with_context(|| format!("making {}", folder.display()))?;
    if written.dangling > 0 {
        context.warn(&format!(
            "{} to vertices that were never inserted: left out, because the layout cannot represent them",
            counted(written.dangling, "edge leads", "edges lead")
        ));
    }
    context.note(&format!(
        "exported {} and {} as of {} to {}",
        counted(written.vertices, "vertex", "vertices"),
        counted(written.edges, "edge", "edges"),
        crate::times::format_version(as_of),
        folder.display()
    ));
    Ok(Outcome::partly_if(written.dangling > 0))
}

pub(super) fn import(args: ImportGrapharArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let folder = &args.folder;
    let described = fs::read_dir(folder)
        .with_context(|| format!("reading {}", folder.display()))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    if !described
        .into_iter()
        .any(|name| name.ends_with(".graph.yml"))
    {
        return Err(usage(format!(
            "{} has no NAME.graph.yml: it is not a graph in this layout, or an incomplete one",
            folder.display()
        )));
    }
    let vertices = chunks(&folder.join("vertex"), &["all"])?;
    let edges = chunks(&folder.join("edge"), &["ordered_by_source", "all"])?;
    let mut inputs = Vec::new();
    for (files, kind) in [(&vertices, TableKind::Vertices), (&edges, TableKind::Edges)] {
        inputs.extend(
            files
                .iter()
                .map(|file| (file.as_path(), Format::Parquet, kind)),
        );
    }
    let table = ImportTableArgs {
        target: args.target,
        files: Vec::new(),
        input_format: None,
        vertex_type: None,
        edge_type: None,
        at: None,
        strict: false,
        bulk: false,
        whole_only: true,
        format: args.format,
    };
    import_table::run_all(&table, inputs, context)
}

/// Returns all chunk files in each of the subfolders, in the order of their numbers.
fn chunks(folder: &Path, below: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for kind in sorted(folder)? {
        let place = below.iter().fold(kind, |at, part| at.join(part));
        for entry in sorted(&place)? {
            if entry.is_dir() {
                all.extend(sorted(&entry)?);
            } else {
                all.push(entry);
            }
        }
    }
    Ok(all)
}

/// Returns the entries of a folder in the order of the numbers that end their names; none if the folder does not exist.
fn sorted(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let reading = || format!("reading {}", folder.display());
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).with_context(reading)? {
        all.push(entry.with_context(reading)?.path());
    }
    all.sort_by_key(|path| {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
        (digits.parse::<u64>().unwrap_or(0), name)
    });
    Ok(all)
}
