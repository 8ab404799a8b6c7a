//! `esker export prov`.

use super::super::run::deliver::open_with_runs;
use crate::args::{ExportProvArgs, ProvOutput};
use crate::graph::NamedVertex;
use anyhow::Context as _;
use esker::Database;
use esker_import::prov::{self, Encoding, Export};
use esker_model::{
    Cancel as _, Edge, EdgeSelect, EdgeTypeId, Error, GraphRead as _, Schema, Version,
    VersionRange, Versions, Vertex, VertexId, VertexSelect,
};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::progress::Progress;
use esker_terminal::units::counted;
use std::fs;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Number of vertices to read at once.
const PAGE: usize = 2048;

pub(crate) fn run(args: &ExportProvArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let stdout = args.file == Path::new("-");
    let by_name = || Encoding::of_file_name(&args.file.to_string_lossy());
    let encoding = match args
        .output_format
        .map(ProvOutput::encoding)
        .or_else(by_name)
    {
        Some(encoding @ (Encoding::Provn | Encoding::Json | Encoding::Turtle)) => encoding,
        None if stdout => Encoding::Provn,
        _ => {
            return Err(usage(format!(
                "{}: the file extension names no encoding that can be written; use .provn, .json, .ttl or .trig, or give one with --output",
                args.file.display()
            )));
        }
    };
    if !stdout && args.file.exists() && !args.force {
        return Err(usage(format!(
            "{} exists already; --force replaces it",
            args.file.display()
        )));
    }
    let database =
        open_with_runs(context, &args.target)?.on_behalf_of(args.principal.principal.as_ref());
    let schema = database.schema()?;
    let as_of = match args.as_of {
        Some(time) => time,
        None => database.stats()?.newest.unwrap_or(Version::MAX),
    };
    let mut source = ProvSource {
        database: &database,
        schema: &schema,
        as_of,
        context,
        progress: Progress::rows(context.globals.quiet, "vertices"),
        export: Export::new(&schema),
        executions: Vec::new(),
    };
    if args.vertices.is_empty() {
        source.export_all()?;
    } else {
        source.export_lineage(&args.vertices, args.depth)?;
    }
    let document = source.export.finish();
    drop(source.progress);
    let statements = document.all().count() as u64;
    let text = prov::write(&document, encoding)?;
    if stdout {
        context.out.write_all(text.as_bytes())?;
        context.out.flush()?;
    } else {
        let mut unfinished = args.file.as_os_str().to_owned();
        unfinished.push(".unfinished");
        let unfinished = PathBuf::from(unfinished);
        let writing = || format!("writing {}", unfinished.display());
        let written = fs::write(&unfinished, text).with_context(writing);
        let written = written.and_then(|()| {
            fs::rename(&unfinished, &args.file)
                .with_context(|| format!("writing {}", args.file.display()))
        });
        if written.is_err() {
            // The error is reported; the incomplete file is of no use.
            let _ = fs::remove_file(&unfinished);
        }
        written?;
    }
    context.note(&format!(
        "exported {} as of {}",
        counted(statements, "statement", "statements"),
        crate::times::format_version(as_of)
    ));
    Ok(Outcome::Done)
}

struct ProvSource<'a> {
    database: &'a Database,
    schema: &'a Schema,
    as_of: Version,
    context: &'a Context,
    progress: Progress,
    export: Export<'a>,
    /// Executions, whose writes are exported in all versions.
    executions: Vec<VertexId>,
}

impl ProvSource<'_> {
    fn check(&self) -> anyhow::Result<()> {
        if self.context.interrupt.cancelled() {
            return Err(Error::Interrupted.into());
        }
        Ok(())
    }

    fn vertex(&mut self, vertex: &Vertex) {
        let execution = self.schema.vertex_type_id("Execution");
        if execution.is_ok_and(|execution| self.schema.is_a(vertex.type_id, execution)) {
            self.executions.push(vertex.id);
        }
        self.export.vertex(vertex);
        self.progress.advance(1);
    }

    /// Exports everything: all vertices, then all edges.
    fn export_all(&mut self) -> anyhow::Result<()> {
        let mut ids = Vec::new();
        let roots = self
            .schema
            .vertex_types()
            .filter(|(_, t)| t.parent.is_none());
        for root in roots.map(|(id, _)| id) {
            let mut after = None;
            loop {
                let select = VertexSelect {
                    type_id: root,
                    after,
                    as_of: self.as_of,
                    deleted: true,
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
                let Some(last) = page.last() else { break };
                after = Some((last.type_id, last.id));
                for vertex in &page {
                    ids.push(vertex.id);
                    self.vertex(vertex);
                }
                self.check()?;
            }
        }
        let forward = self.schema.edge_types().filter(|(_, t)| t.forward);
        let types: Vec<EdgeTypeId> = forward.map(|(id, _)| id).collect();
        let write = self.write()?;
        let others = types.into_iter().filter(|id| *id != write).collect();
        self.edges(&ids, others, Versions::AsOf(self.as_of))?;
        let executions = std::mem::take(&mut self.executions);
        self.writes(&executions)
    }

    fn write(&self) -> anyhow::Result<EdgeTypeId> {
        Ok(self.schema.edge_type_id("write").map_err(Error::from)?)
    }

    /// Exports all versions of all writes, because each made a version of a file.
    fn writes(&mut self, executions: &[VertexId]) -> anyhow::Result<()> {
        let range = VersionRange {
            from: Version::ZERO,
            until: self.as_of.next(),
        };
        self.edges(executions, vec![self.write()?], Versions::Range(range))
    }

    fn edges(
        &mut self,
        ids: &[VertexId],
        types: Vec<EdgeTypeId>,
        versions: Versions,
    ) -> anyhow::Result<()> {
        let select = EdgeSelect {
            types,
            versions,
            properties: true,
            after: None,
        };
        for page in ids.chunks(PAGE) {
            let export = &mut self.export;
            self.database.scan_edges(page, &select, &mut |_, edge| {
                export.edge(edge);
                ControlFlow::Continue(())
            })?;
            self.check()?;
        }
        Ok(())
    }

    /// Exports the lineage of some vertices.
    fn export_lineage(&mut self, names: &[String], depth: Option<u32>) -> anyhow::Result<()> {
        let mut begin = Vec::new();
        for name in names {
            let named = NamedVertex::parse(name, self.database, self.schema)?;
            let found = self
                .database
                .read_vertices(&[named.vertex.id], self.as_of)?;
            if found.into_iter().flatten().next().is_none() {
                return Err(named.missing("").into());
            }
            begin.push(named.vertex.id);
        }
        let interrupt = &self.context.interrupt;
        let found = prov::lineage(
            self.database,
            self.schema,
            &begin,
            depth,
            self.as_of,
            interrupt,
        )?;
        let ids: Vec<VertexId> = found.vertices.into_iter().collect();
        for page in ids.chunks(PAGE) {
            let read = self.database.read_vertices(page, self.as_of)?;
            for vertex in read.into_iter().flatten() {
                self.vertex(&vertex);
            }
        }
        let write = self.write()?;
        let is_write = |edge: &Edge| edge.key.edge_type == write;
        for edge in found.edges.into_iter().filter(|edge| !is_write(edge)) {
            self.export.edge(edge);
        }
        let executions = std::mem::take(&mut self.executions);
        self.writes(&executions)
    }
}
