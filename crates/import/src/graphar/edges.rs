//! Files of one edge type, in the order of the sources.

use super::{Files, Out, Result, end, int};
use crate::table::TypedWriter;
use esker_model::{Value, ValueKind};

/// Property columns of edges.
pub(super) const COLUMNS: [&str; 5] = ["source", "type", "destination", "version", "properties"];

/// Writer of edges whose sources are in order.
pub(super) struct EdgeFiles {
    /// Path prefix `edge/A_type_B`.
    folder: String,
    /// Number of the source chunk being written.
    part: usize,
    /// Offset of each source's first edge, as far as known.
    offsets: Vec<u64>,
    /// Number of edges in this part so far.
    count: u64,
    tables: Option<[(TypedWriter<Out>, String); 2]>,
}

impl EdgeFiles {
    pub(super) fn new(folder: &str) -> Self {
        Self {
            folder: folder.to_owned(),
            part: 0,
            offsets: Vec::new(),
            count: 0,
            tables: None,
        }
    }

    fn at(&self, what: &str) -> String {
        format!("{}/ordered_by_source/{what}", self.folder)
    }

    /// Adds an edge: the part and the index in the part of its source, and the row of its destination.
    pub(super) fn edge(
        &mut self,
        (part, place): (usize, usize),
        destination: usize,
        properties: Vec<Option<Value>>,
        files: &mut Files<'_>,
    ) -> Result<()> {
        while self.part < part {
            self.end_part(files.chunk, files)?;
        }
        while self.offsets.len() <= place {
            self.offsets.push(self.count);
        }
        if self.count.is_multiple_of(files.edge_chunk()) {
            self.end_tables()?;
            let chunk = self.count / files.edge_chunk();
            let of = |name: &str, kind| (name.to_owned(), kind);
            let ends = ["_graphArSrcIndex", "_graphArDstIndex"].map(|n| of(n, ValueKind::I64));
            let texts = COLUMNS.map(|n| of(n, ValueKind::String));
            let paths = ["adj_list", "all"]
                .map(|group| self.at(&format!("{group}/part{part}/chunk{chunk}")));
            let [list, all] = paths;
            self.tables = Some([
                (files.table(&list, &ends)?, list),
                (files.table(&all, &texts)?, all),
            ]);
        }
        self.count += 1;
        if let Some([(list, _), (all, _)]) = &mut self.tables {
            list.row(vec![int(part * files.chunk + place), int(destination)])?;
            all.row(properties)?;
        }
        Ok(())
    }

    fn end_tables(&mut self) -> Result<()> {
        for (table, path) in self.tables.take().into_iter().flatten() {
            end(table, &path)?;
        }
        Ok(())
    }

    /// Ends the part, which has `sources` sources.
    fn end_part(&mut self, sources: usize, files: &mut Files<'_>) -> Result<()> {
        self.end_tables()?;
        while self.offsets.len() <= sources {
            self.offsets.push(self.count);
        }
        let path = self.at(&format!("offset/chunk{}", self.part));
        let columns = [("_graphArOffset".to_owned(), ValueKind::I64)];
        let mut table = files.table(&path, &columns)?;
        for offset in self.offsets.drain(..) {
            table.row(vec![i64::try_from(offset).ok().map(Value::I64)])?;
        }
        end(table, &path)?;
        files.number(&self.at(&format!("edge_count{}", self.part)), self.count)?;
        self.part += 1;
        self.count = 0;
        Ok(())
    }

    /// Ends all parts; there are `sources` sources in total.
    pub(super) fn finish(mut self, sources: usize, files: &mut Files<'_>) -> Result<()> {
        while self.part * files.chunk < sources {
            let left = sources - self.part * files.chunk;
            self.end_part(left.min(files.chunk), files)?;
        }
        files.number(&self.at("vertex_count"), sources as u64)
    }
}
