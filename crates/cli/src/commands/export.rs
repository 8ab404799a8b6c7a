//! `esker export vertices|edges`: writes tables page by page, all as of one version.

use super::export_record::run as described;
use super::note_if_stopped;
use crate::args::{ExportCommand, ExportTableArgs, TableKind};
use crate::graph::NameCache;
use anyhow::Context as _;
use esker::Database;
use esker_import::table::{self, Format, TableWriter};
use esker_model::{
    Cancel as _, EdgeSelect, EdgeTypeId, Error, GraphRead as _, Schema, Version, Versions, Vertex,
    VertexId, VertexSelect, VertexTypeId,
};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::progress::Progress;
use esker_terminal::units::counted;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

/// Number of vertices to read at once.
const PAGE: usize = 2048;
/// Number of edges per message to the writer.
const CHUNK: usize = 2048;

pub(crate) fn run(command: &ExportCommand, context: &mut Context) -> anyhow::Result<Outcome> {
    let (args, kind, deleted) = match command {
        ExportCommand::Vertices(args) => (&args.table, TableKind::Vertices, args.deleted),
        ExportCommand::Edges(args) => (args, TableKind::Edges, false),
        ExportCommand::Graphar(args) => return super::graphar::export(args, context),
        ExportCommand::Prov(args) => return super::prov::export(args, context),
        ExportCommand::Datacite(args) => return super::export_record::datacite(args, context),
        ExportCommand::SchemaOrg(args) => {
            return described(args, esker_catalogue::Format::SchemaOrg, context);
        }
        ExportCommand::Croissant(args) => {
            return described(args, esker_catalogue::Format::Croissant, context);
        }
        ExportCommand::Dcat(args) => {
            return described(args, esker_catalogue::Format::Dcat, context);
        }
        ExportCommand::RoCrate(args) => return super::export_ro_crate::run(args, context),
    };
    let format = format_of(args)?;
    let stdout = args.file == Path::new("-");
    if !stdout && args.file.exists() && !args.force {
        return Err(usage(format!(
            "{} exists already; --force replaces it",
            args.file.display()
        )));
    }
    let database = context.open(&args.target)?;
    let schema = database.schema()?;
    // "Now" is the newest existing version, so that later writes are not exported.
    let as_of = match args.as_of {
        Some(time) => time,
        None => database.stats()?.newest.unwrap_or(Version::MAX),
    };
    let export = Export {
        database: &database,
        schema: &schema,
        as_of,
        kind,
        deleted,
        context,
    };
    let types = export.select(&args.types)?;
    if stdout {
        let gone = Arc::new(AtomicBool::new(false));
        let out = Box::new(SharedOut(Arc::clone(&gone))) as Box<dyn Write + Send>;
        let written = export
            .write(out, format, &types)
            .and_then(|mut out| Ok(out.flush()?));
        // A closed output is not an error, however the table's writer reports it.
        if !gone.load(Ordering::Relaxed) {
            written?;
        }
    } else {
        write_file(&export, &args.file, format, &types)?;
    }
    Ok(note_if_stopped(context))
}

fn format_of(args: &ExportTableArgs) -> anyhow::Result<Format> {
    if let Some(format) = args.output_format {
        return Ok(format.format());
    }
    Format::of_file_name(&args.file.to_string_lossy()).ok_or_else(|| {
        usage(format!(
            "{}: the file extension does not name a format; give one with --output-format csv, tsv, ndjson or parquet",
            args.file.display()
        ))
    })
}

/// Writes to a temporary file and renames it at the end, so that a file of this name is complete.
fn write_file(
    export: &Export<'_>,
    file: &Path,
    format: Format,
    types: &ExportTypes,
) -> anyhow::Result<()> {
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    let doing = || format!("writing {}", unfinished.display());
    let out = File::create(&unfinished).with_context(doing)?;
    let out = Box::new(BufWriter::new(out)) as Box<dyn Write + Send>;
    let written = export
        .write(out, format, types)
        .and_then(|mut out| Ok(out.flush()?));
    let stopped = export.context.interrupt.cancelled();
    if let Err(error) = written {
        // The error is reported; the incomplete file is of no use.
        let _ = fs::remove_file(&unfinished);
        return Err(error.context(doing()));
    }
    if stopped {
        let _ = fs::remove_file(&unfinished);
        return Err(anyhow::anyhow!(
            "stopped before the end; {} was not written",
            file.display()
        ));
    }
    fs::rename(&unfinished, file).with_context(|| format!("writing {}", file.display()))
}

/// Standard output for writers that own their output; records whether its reader has closed it.
pub(crate) struct SharedOut(pub(crate) Arc<AtomicBool>);

impl SharedOut {
    fn watch<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && error.kind() == io::ErrorKind::BrokenPipe
        {
            self.0.store(true, Ordering::Relaxed);
        }
        result
    }
}

impl Write for SharedOut {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.watch(io::stdout().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.watch(io::stdout().flush())
    }
}

/// The types of vertices and edges to export.
struct ExportTypes {
    vertices: Vec<VertexTypeId>,
    edges: Vec<EdgeTypeId>,
}

struct Export<'a> {
    database: &'a Database,
    schema: &'a Schema,
    as_of: Version,
    kind: TableKind,
    /// Whether deleted vertices are exported, too.
    deleted: bool,
    context: &'a Context,
}

type Out = Box<dyn Write + Send>;

impl Export<'_> {
    fn select(&self, names: &[String]) -> anyhow::Result<ExportTypes> {
        let roots = || {
            let all = self.schema.vertex_types();
            all.filter(|(_, t)| t.parent.is_none())
                .map(|(id, _)| id)
                .collect()
        };
        match self.kind {
            TableKind::Vertices => {
                let named: Vec<VertexTypeId> = names
                    .iter()
                    .map(|n| self.schema.vertex_type_id(n))
                    .collect::<Result<_, _>>()
                    .map_err(Error::from)?;
                // A type is skipped if one of its supertypes is selected, so that its vertices are written once.
                let mut vertices: Vec<VertexTypeId> = Vec::new();
                for id in &named {
                    let covered = named
                        .iter()
                        .any(|other| other != id && self.schema.is_a(*id, *other));
                    if !covered && !vertices.contains(id) {
                        vertices.push(*id);
                    }
                }
                let vertices = if names.is_empty() { roots() } else { vertices };
                Ok(ExportTypes {
                    vertices,
                    edges: Vec::new(),
                })
            }
            TableKind::Edges => {
                let mut edges: Vec<EdgeTypeId> = names
                    .iter()
                    .map(|n| self.schema.edge_type_id(n))
                    .collect::<Result<_, _>>()
                    .map_err(Error::from)?;
                if names.is_empty() {
                    let all = self.schema.edge_types();
                    edges = all.filter(|(_, t)| t.forward).map(|(id, _)| id).collect();
                }
                edges.sort_unstable();
                edges.dedup();
                Ok(ExportTypes {
                    vertices: roots(),
                    edges,
                })
            }
        }
    }

    fn write(&self, out: Out, format: Format, types: &ExportTypes) -> anyhow::Result<Out> {
        let rows = match self.kind {
            TableKind::Vertices => table::Rows::Vertices,
            TableKind::Edges => table::Rows::Edges,
        };
        let mut writer = TableWriter::new(out, format, rows)?;
        let progress = Progress::rows(self.context.globals.quiet, "rows");
        for root in &types.vertices {
            let mut after = None;
            while let Some(page) = self.page(*root, after)? {
                after = page.last().map(|v| (v.type_id, v.id));
                match self.kind {
                    TableKind::Vertices => {
                        for vertex in &page {
                            writer.vertex(vertex, self.schema)?;
                        }
                    }
                    TableKind::Edges => self.edges(&page, &types.edges, &mut writer)?,
                }
                progress.at(writer.rows());
                if self.context.interrupt.cancelled() {
                    break;
                }
            }
        }
        drop(progress);
        let rows = counted(writer.rows(), "row", "rows");
        let out = writer.finish()?;
        self.context.note(&format!(
            "exported {rows} as of {}",
            crate::times::format_version(self.as_of)
        ));
        Ok(out)
    }

    /// Returns the page of a type's vertices after `after`; `None` at the end.
    fn page(
        &self,
        root: VertexTypeId,
        after: Option<(VertexTypeId, VertexId)>,
    ) -> anyhow::Result<Option<Vec<Vertex>>> {
        let select = match self.kind {
            TableKind::Vertices => VertexSelect {
                type_id: root,
                after,
                as_of: self.as_of,
                deleted: self.deleted,
            },
            // Edges outlive their deleted source vertices and may be older than them, so all vertices that ever existed are scanned.
            TableKind::Edges => VertexSelect {
                after,
                deleted: true,
                ..VertexSelect::of(root)
            },
        };
        let mut page = Vec::new();
        self.database.scan_vertices(&select, &mut |vertex| {
            page.push(vertex);
            if page.len() < PAGE {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        Ok((!page.is_empty()).then_some(page))
    }

    /// Reads the edges of a page of vertices on a thread of its own, because one vertex may have millions.
    fn edges(
        &self,
        page: &[Vertex],
        types: &[EdgeTypeId],
        writer: &mut TableWriter<Out>,
    ) -> anyhow::Result<()> {
        let frontier: Vec<VertexId> = page.iter().map(|v| v.id).collect();
        let select = EdgeSelect {
            types: types.to_vec(),
            versions: Versions::AsOf(self.as_of),
            properties: true,
            after: None,
        };
        let (database, schema, interrupt) = (self.database, self.schema, &self.context.interrupt);
        let mut names = NameCache::default();
        thread::scope(|scope| {
            let (sender, chunks) = mpsc::sync_channel::<Vec<(usize, esker_model::Edge)>>(4);
            let scan = scope.spawn(move || {
                let mut chunk = Vec::new();
                let scanned = database.scan_edges(&frontier, &select, &mut |at, edge| {
                    // An edge of a symmetric type is stored at both ends and exported at the lower one.
                    if edge.key.source <= edge.key.destination
                        || !is_symmetric(schema, edge.key.edge_type)
                    {
                        chunk.push((at, edge));
                    }
                    let gone =
                        chunk.len() >= CHUNK && sender.send(std::mem::take(&mut chunk)).is_err();
                    if gone || interrupt.cancelled() {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                });
                // The receiver is gone only if writing failed, and that failure is reported.
                let _ = sender.send(chunk);
                scanned
            });
            let mut written = Ok(());
            for chunk in chunks {
                written = self.write_edges(page, &chunk, &mut names, writer);
                if written.is_err() {
                    break;
                }
            }
            let scanned = scan.join();
            written?;
            match scanned {
                Ok(scanned) => Ok(scanned?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn write_edges(
        &self,
        page: &[Vertex],
        chunk: &[(usize, esker_model::Edge)],
        names: &mut NameCache,
        writer: &mut TableWriter<Out>,
    ) -> anyhow::Result<()> {
        let ends = chunk.iter().map(|(_, e)| e.key.destination);
        names.load(self.database, self.schema, ends)?;
        for (at, edge) in chunk {
            let source = page
                .get(*at)
                .map_or_else(String::new, |v| v.name(self.schema));
            writer.edge(edge, &source, &names.get(edge.key.destination), self.schema)?;
        }
        Ok(())
    }
}

fn is_symmetric(schema: &Schema, id: EdgeTypeId) -> bool {
    schema.inverse(id) == id
}
