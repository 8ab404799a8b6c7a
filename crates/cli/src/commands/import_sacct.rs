//! `esker import sacct`: imports jobs of Slurm's accounting as vertices.
//!
//! Jobs are applied in batches. If the database refuses a batch, its jobs are applied one by one, so that only the bad ones are skipped,
//! each with its number.

use crate::args::{ImportSacctArgs, RowFormat};
use anyhow::Context as _;
use esker::Database;
use esker_import::jobs::{LinkTypes, settle};
use esker_import::slurm::{self, JobTypes, Sacct, SlurmJob};
use esker_model::{
    Batch, Cancel as _, Error, ErrorKind, GraphRead as _, GraphWrite as _, VertexId,
};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, figures};
use esker_terminal::progress::Progress;
use esker_terminal::units::{counted, elapsed};
use jiff::tz::TimeZone;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::time::Instant;

/// Mutations per batch, not counting those of its last job.
const BATCH_MUTATIONS: usize = 8192;
/// Maximum number of bad records that are printed; all are counted.
const PROBLEMS_SHOWN: u64 = 100;

#[derive(Debug, Default)]
struct JobTotals {
    jobs: u64,
    steps: u64,
    bad: u64,
    vertices_created: u64,
    edges_created: u64,
}

struct JobImport<'a> {
    database: &'a Database,
    types: JobTypes,
    links: LinkTypes,
    cluster: Option<&'a str>,
    context: &'a Context,
    progress: &'a Progress,
    sums: JobTotals,
    waiting: Vec<WaitingJob>,
    mutations: usize,
}

/// A job that was read and not applied yet.
struct WaitingJob {
    id: String,
    vertex: VertexId,
    batch: Batch,
}

pub(crate) fn run(args: &ImportSacctArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    for path in &args.files {
        if path != Path::new("-") && !path.is_file() {
            return Err(usage(format!("{}: there is no such file", path.display())));
        }
    }
    let database = context.open_or_create(&args.target)?;
    let schema = database.schema()?;
    let types = JobTypes::resolve(&schema).map_err(Error::from)?;
    let links = LinkTypes::resolve(&schema).map_err(Error::from)?;
    let began = Instant::now();
    let progress = Progress::rows(context.globals.quiet, "jobs");
    let mut import = JobImport {
        database: &database,
        types,
        links,
        cluster: args.cluster.as_deref(),
        context,
        progress: &progress,
        sums: JobTotals::default(),
        waiting: Vec::new(),
        mutations: 0,
    };
    let zone = args.zone.clone().unwrap_or_else(TimeZone::system);
    for path in &args.files {
        import.file(path, &zone)?;
        if context.interrupt.cancelled() {
            break;
        }
    }
    import.flush()?;
    let sums = import.sums;
    drop(progress);
    if sums.bad > PROBLEMS_SHOWN {
        let more = counted(sums.bad - PROBLEMS_SHOWN, "bad record", "bad records");
        context.warn(&format!("{more} more"));
    }
    print(&sums, args.format.format, context, began)?;
    let stopped = super::note_if_stopped(context);
    Ok(if sums.bad > 0 {
        Outcome::Partly
    } else {
        stopped
    })
}

impl JobImport<'_> {
    fn file(&mut self, path: &Path, zone: &TimeZone) -> anyhow::Result<()> {
        let stdin = path == Path::new("-");
        let name = if stdin {
            "standard input".to_owned()
        } else {
            path.display().to_string()
        };
        let input: Box<dyn Read> = if stdin {
            Box::new(std::io::stdin())
        } else {
            Box::new(File::open(path).with_context(|| format!("reading {name}"))?)
        };
        // The first byte that is not blank tells JSON from a table.
        let mut input = BufReader::new(input);
        let mut first = Vec::new();
        loop {
            let mut byte = [0];
            if input
                .read(&mut byte)
                .with_context(|| format!("reading {name}"))?
                == 0
            {
                break;
            }
            first.extend(byte);
            if !byte[0].is_ascii_whitespace() {
                break;
            }
        }
        let is_listing = first.last() == Some(&b'{');
        let mut whole = first.as_slice().chain(input);
        if is_listing {
            let mut bytes = Vec::new();
            whole
                .read_to_end(&mut bytes)
                .with_context(|| format!("reading {name}"))?;
            let jobs = slurm::listing(&bytes).map_err(|e| usage(format!("{name}: {e}")))?;
            for job in jobs {
                match job {
                    Ok(job) => self.job(&job)?,
                    Err(e) => self.bad(&format!("{name}: {e}")),
                }
                if self.context.interrupt.cancelled() {
                    break;
                }
            }
            return Ok(());
        }
        let sacct = Sacct::new(whole, &name, zone.clone()).map_err(|e| usage(e.to_string()))?;
        for job in sacct {
            match job {
                Ok(job) => self.job(&job)?,
                Err(e) => self.bad(&e.to_string()),
            }
            if self.context.interrupt.cancelled() {
                break;
            }
        }
        Ok(())
    }

    fn bad(&mut self, text: &str) {
        self.sums.bad += 1;
        if self.sums.bad <= PROBLEMS_SHOWN {
            let line = Cell::from(text).table_text();
            self.progress.above(|| self.context.warn(&line));
        }
    }

    fn job(&mut self, job: &SlurmJob) -> anyhow::Result<()> {
        let batch = slurm::batch(job, &self.types, self.cluster);
        self.mutations += batch.len();
        self.sums.jobs += 1;
        self.sums.steps += job.steps.len() as u64;
        self.waiting.push(WaitingJob {
            id: job.id.clone(),
            vertex: slurm::vertex(job, self.cluster),
            batch,
        });
        if self.mutations >= BATCH_MUTATIONS {
            self.flush()?;
        }
        self.progress.advance(1);
        Ok(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.mutations = 0;
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return Ok(());
        }
        let mut all = Batch::new();
        for job in &waiting {
            all.mutations.extend(job.batch.mutations.iter().cloned());
        }
        let mut vertices: Vec<VertexId> = waiting.iter().map(|job| job.vertex).collect();
        match self.apply(all) {
            None => return Ok(()),
            Some(Ok(())) => {}
            Some(Err(e)) if !is_about_input(&e) => return Err(e.into()),
            Some(Err(_)) => {
                for job in waiting {
                    if let Some(Err(e)) = self.apply(job.batch) {
                        if !is_about_input(&e) {
                            return Err(e.into());
                        }
                        self.bad(&format!("job {}: {e}", job.id));
                    }
                }
            }
        }
        vertices.sort_unstable();
        vertices.dedup();
        let links = settle(self.database, &self.links, &vertices)?;
        if links.is_empty() {
            return Ok(());
        }
        self.apply(links).unwrap_or(Ok(())).map_err(Into::into)
    }

    /// Applies a batch; `None` after an interrupt.
    fn apply(&mut self, batch: Batch) -> Option<esker_model::Result<()>> {
        if self.context.interrupt.cancelled() {
            return None;
        }
        Some(self.database.apply(batch).map(|commit| {
            self.sums.vertices_created += commit.vertices_created;
            self.sums.edges_created += commit.edges_created;
        }))
    }
}

/// Whether the record caused the error, so that other records may succeed.
fn is_about_input(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Missing)
}

fn print(
    sums: &JobTotals,
    format: RowFormat,
    context: &mut Context,
    began: Instant,
) -> anyhow::Result<()> {
    if format == RowFormat::Table {
        if !context.globals.quiet {
            writeln!(
                context.out,
                "imported {} with {} in {}; new: {}, {}; {} left out",
                counted(sums.jobs, "job", "jobs"),
                counted(sums.steps, "step", "steps"),
                elapsed(began.elapsed()),
                counted(sums.vertices_created, "vertex", "vertices"),
                counted(sums.edges_created, "edge", "edges"),
                counted(sums.bad, "bad record", "bad records"),
            )?;
        }
        return Ok(());
    }
    figures(
        [
            ("jobs", sums.jobs),
            ("steps", sums.steps),
            ("bad", sums.bad),
            ("vertices_created", sums.vertices_created),
            ("edges_created", sums.edges_created),
        ],
        format,
        context,
    )
}
