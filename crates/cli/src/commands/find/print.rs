//! Objects as they are found, in whatever format, on standard output or into a file.

use crate::args::{FindFormat, RowFormat};
use crate::commands::export::SharedOut;
use crate::context::Context;
use crate::exit::usage;
use crate::output::{Cell, ObjectColumn, Rows, Style};
use anyhow::Context as _;
use esker_import::table::TypedWriter;
use esker_model::Value;
use esker_model::object::Found;
use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes objects, or whatever else has cells and values.
pub(super) struct Printer<'w> {
    columns: Vec<ObjectColumn>,
    sink: Sink<'w>,
    file: Option<Unfinished>,
}

enum Sink<'w> {
    Rows(Rows<'w>),
    /// With whether the reader of standard output has left: that is no error, in whatever words the writer puts it.
    Parquet(Box<TypedWriter<Box<dyn Write + Send>>>, Arc<AtomicBool>),
}

/// A file that gets its name once it is whole.
struct Unfinished {
    under_way: PathBuf,
    name: PathBuf,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Gone by then if it was finished.
        let _ = fs::remove_file(&self.under_way);
    }
}

impl<'w> Printer<'w> {
    /// For objects: the attributes that were selected, or what the format shows.
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

    /// For rows of any columns.
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
                        return Err(usage("Parquet is no text: give --output FILE"));
                    }
                    None => (Box::new(SharedOut(Arc::clone(&gone))), None),
                };
                let names = names.into_iter().map(Cow::into_owned).collect();
                return Ok(Self {
                    columns: Vec::new(),
                    sink: Sink::Parquet(Box::new(TypedWriter::new(out, names)), gone),
                    file,
                });
            }
        };
        let (file, style) = match output {
            Some(name) => {
                let (out, file) = create(&name)?;
                context.out.flush()?;
                context.out = Box::new(out);
                (Some(file), Style::new(crate::args::Color::Never, false))
            }
            None => (None, context.style),
        };
        Ok(Self {
            columns: Vec::new(),
            sink: Sink::Rows(Rows::named(&mut context.out, rows, style, names)),
            file,
        })
    }

    /// One object.
    pub(super) fn object(&mut self, found: &Found) -> anyhow::Result<()> {
        match &mut self.sink {
            Sink::Rows(rows) => {
                rows.row(self.columns.iter().map(|c| c.cell(found)).collect())?;
            }
            Sink::Parquet(table, gone) => {
                let values = self.columns.iter().map(|c| c.value(found)).collect();
                table.row(values).or_else(|error| unless(gone, error))?;
            }
        }
        Ok(())
    }

    /// One row of another kind: cells for people and text formats, values for Parquet.
    pub(super) fn row(
        &mut self,
        cells: impl FnOnce() -> Vec<Cell>,
        values: impl FnOnce() -> Vec<Option<Value>>,
    ) -> anyhow::Result<()> {
        match &mut self.sink {
            Sink::Rows(rows) => rows.row(cells())?,
            Sink::Parquet(table, gone) => {
                table.row(values()).or_else(|error| unless(gone, error))?;
            }
        }
        Ok(())
    }

    /// Ends the answer; a file gets its name, unless the answer lacks something.
    pub(super) fn finish(self, lacking: Option<&str>) -> anyhow::Result<()> {
        let Self { sink, file, .. } = self;
        match sink {
            Sink::Rows(rows) => rows.finish_and_flush()?,
            Sink::Parquet(table, gone) => {
                let finished = table.finish().map_err(anyhow::Error::from);
                let flushed = finished.and_then(|mut out| Ok(out.flush()?));
                flushed.or_else(|error| unless(&gone, error))?;
            }
        }
        let Some(file) = file else {
            return Ok(());
        };
        if let Some(why) = lacking {
            return Err(anyhow::anyhow!(
                "{why}; {} was not written",
                file.name.display()
            ));
        }
        fs::rename(&file.under_way, &file.name)
            .with_context(|| format!("writing {}", file.name.display()))
    }
}

/// The error, but where nobody reads any more: then the words that end a command without complaint.
fn unless(gone: &AtomicBool, error: impl Into<anyhow::Error>) -> anyhow::Result<()> {
    if gone.load(Ordering::Relaxed) {
        return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
    }
    Err(error.into())
}

fn create(name: &Path) -> anyhow::Result<(BufWriter<File>, Unfinished)> {
    let mut under_way = name.as_os_str().to_owned();
    under_way.push(".unfinished");
    let under_way = PathBuf::from(under_way);
    let out =
        File::create(&under_way).with_context(|| format!("writing {}", under_way.display()))?;
    let file = Unfinished {
        under_way,
        name: name.to_path_buf(),
    };
    Ok((BufWriter::new(out), file))
}
