//! Output of found objects in any format, on standard output or into a file.

use crate::args::{FindFormat, RowFormat};
use crate::commands::export::SharedOut;
use anyhow::Context as _;
use esker_import::table::TypedWriter;
use esker_model::Value;
use esker_model::object::Found;
use esker_terminal::context::Context;
use esker_terminal::exit::usage;
use esker_terminal::output::{Cell, ObjectColumn, Rows, Style};
use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writer of objects, or of other rows with cells and values.
pub(super) struct ResultPrinter<'w> {
    columns: Vec<ObjectColumn>,
    sink: ResultSink<'w>,
    file: Option<PartialFile>,
}

enum ResultSink<'w> {
    Rows(Rows<'w>),
    /// The Parquet writer, and whether the reader of standard output has closed it, which is no error however the writer reports it.
    Parquet(Box<TypedWriter<Box<dyn Write + Send>>>, Arc<AtomicBool>),
}

/// A file that gets its name when it is complete.
struct PartialFile {
    temporary: PathBuf,
    name: PathBuf,
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // A finished file has been renamed already.
        let _ = fs::remove_file(&self.temporary);
    }
}

impl<'w> ResultPrinter<'w> {
    /// Creates a writer of objects with the selected attributes, or with the columns of the format.
    pub(super) fn new(
        select: Option<&[String]>,
        format: FindFormat,
        output: Option<PathBuf>,
        context: &'w mut Context,
    ) -> anyhow::Result<Self> {
        let columns = match select {
            Some(names) => ObjectColumn::of_names(names),
            None if format == FindFormat::Table => ObjectColumn::short(),
            None => ObjectColumn::all(matches!(format, FindFormat::Json | FindFormat::Ndjson)),
        };
        let names = columns.iter().map(ObjectColumn::name).collect();
        Ok(Self {
            columns,
            ..Self::with_columns(names, format, output, context)?
        })
    }

    /// Creates a writer of rows with any columns.
    pub(super) fn with_columns(
        names: Vec<Cow<'static, str>>,
        format: FindFormat,
        output: Option<PathBuf>,
        context: &'w mut Context,
    ) -> anyhow::Result<Self> {
        let rows = match format {
            FindFormat::Table => RowFormat::Table,
            FindFormat::Json => RowFormat::Json,
            FindFormat::Ndjson => RowFormat::Ndjson,
            FindFormat::Csv => RowFormat::Csv,
            FindFormat::Parquet => {
                let gone = Arc::new(AtomicBool::new(false));
                let (out, file): (Box<dyn Write + Send>, _) = match output {
                    Some(name) => {
                        let (out, file) = create(&name)?;
                        (Box::new(out), Some(file))
                    }
                    None if io::stdout().is_terminal() => {
                        return Err(usage("Parquet is not text: give --output FILE"));
                    }
                    None => (Box::new(SharedOut(Arc::clone(&gone))), None),
                };
                let names = names.into_iter().map(Cow::into_owned).collect();
                return Ok(Self {
                    columns: Vec::new(),
                    sink: ResultSink::Parquet(Box::new(TypedWriter::new(out, names)), gone),
                    file,
                });
            }
        };
        let (file, style) = match output {
            Some(name) => {
                let (out, file) = create(&name)?;
                context.out.flush()?;
                context.out = Box::new(out);
                (
                    Some(file),
                    Style::new(esker_terminal::args::Color::Never, false),
                )
            }
            None => (None, context.style),
        };
        Ok(Self {
            columns: Vec::new(),
            sink: ResultSink::Rows(Rows::named(&mut context.out, rows, style, names)),
            file,
        })
    }

    /// Writes one object as a row.
    pub(super) fn object(&mut self, found: &Found) -> anyhow::Result<()> {
        match &mut self.sink {
            ResultSink::Rows(rows) => {
                rows.row(self.columns.iter().map(|c| c.cell(found)).collect())?;
            }
            ResultSink::Parquet(table, gone) => {
                let values = self.columns.iter().map(|c| c.value(found)).collect();
                table
                    .row(values)
                    .or_else(|error| broken_pipe_or(gone, error))?;
            }
        }
        Ok(())
    }

    /// Writes one row of another kind: cells for tables and text formats, values for Parquet.
    pub(super) fn row(
        &mut self,
        cells: impl FnOnce() -> Vec<Cell>,
        values: impl FnOnce() -> Vec<Option<Value>>,
    ) -> anyhow::Result<()> {
        match &mut self.sink {
            ResultSink::Rows(rows) => rows.row(cells())?,
            ResultSink::Parquet(table, gone) => {
                table
                    .row(values())
                    .or_else(|error| broken_pipe_or(gone, error))?;
            }
        }
        Ok(())
    }

    /// Ends the output; a file gets its name, unless the answer is incomplete.
    pub(super) fn finish(self, incomplete_reason: Option<&str>) -> anyhow::Result<()> {
        let Self { sink, file, .. } = self;
        match sink {
            ResultSink::Rows(rows) => rows.finish_and_flush()?,
            ResultSink::Parquet(table, gone) => {
                let finished = table.finish().map_err(anyhow::Error::from);
                let flushed = finished.and_then(|mut out| Ok(out.flush()?));
                flushed.or_else(|error| broken_pipe_or(&gone, error))?;
            }
        }
        let Some(file) = file else {
            return Ok(());
        };
        if let Some(why) = incomplete_reason {
            return Err(anyhow::anyhow!(
                "{why}; {} was not written",
                file.name.display()
            ));
        }
        fs::rename(&file.temporary, &file.name)
            .with_context(|| format!("writing {}", file.name.display()))
    }
}

/// Returns the error; a closed output becomes the error that ends a command silently.
fn broken_pipe_or(gone: &AtomicBool, error: impl Into<anyhow::Error>) -> anyhow::Result<()> {
    if gone.load(Ordering::Relaxed) {
        return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
    }
    Err(error.into())
}

fn create(name: &Path) -> anyhow::Result<(BufWriter<File>, PartialFile)> {
    let mut temporary = name.as_os_str().to_owned();
    temporary.push(".unfinished");
    let temporary = PathBuf::from(temporary);
    let out =
        File::create(&temporary).with_context(|| format!("writing {}", temporary.display()))?;
    let file = PartialFile {
        temporary,
        name: name.to_path_buf(),
    };
    Ok((BufWriter::new(out), file))
}
