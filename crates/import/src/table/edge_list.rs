//! Edge lists as published by graph collections: two ends per line, and optionally a weight.
//!
//! ```text
//!  # Directed graph: Amazon0302.txt
//!  # FromNodeId    ToNodeId
//!  0    1
//!  0    2
//! ```

use super::columns::Column;
use super::record::{Cell, Row};
use super::text::{LineReader, line_error};
use super::{ReadOptions, RecordError, RowSource, Rows, file_error};
use std::io::BufRead;
use std::sync::Arc;

pub(super) struct EdgeList<R> {
    lines: LineReader<R>,
    columns: [Arc<Column>; 3],
    file: String,
}

impl<R: BufRead> EdgeList<R> {
    pub(super) fn new(input: R, options: &ReadOptions) -> Result<Self, RecordError> {
        if options.rows != Rows::Edges {
            return Err(file_error(
                options,
                "a list of edges holds no vertices of its own: import it as edges",
            ));
        }
        if options.edge_type.is_none() {
            return Err(file_error(
                options,
                "a list of edges does not say what they are: give an edge type, and a vertex type for bare ids",
            ));
        }
        let columns = [
            Column::Source,
            Column::Destination,
            Column::Named("weight".into(), None),
        ];
        Ok(Self {
            lines: LineReader::new(input),
            columns: columns.map(Arc::new),
            file: options.file.clone(),
        })
    }
}

impl<R: BufRead + Send> RowSource for EdgeList<R> {
    fn next_row(&mut self) -> Option<Result<Row, RecordError>> {
        loop {
            let (line, byte, text) = self.lines.next_line()?;
            let text = match text {
                Ok(text) => text,
                Err(e) => return Some(Err(line_error(&self.file, line, byte, &e))),
            };
            let error = |message: String| RecordError {
                file: self.file.clone(),
                line,
                byte: Some(byte),
                message,
                fatal: false,
            };
            let Ok(text) = std::str::from_utf8(text) else {
                return Some(Err(error("the line is not UTF-8".into())));
            };
            let text = text.trim();
            if text.is_empty() || text.starts_with(['#', '%']) {
                continue;
            }
            let tabs = text.contains('\t');
            let separates = |c: char| {
                if tabs {
                    c == '\t'
                } else {
                    c.is_whitespace() || c == ',' || c == ';'
                }
            };
            let fields: Vec<&str> = text.split(separates).filter(|f| !f.is_empty()).collect();
            if !(2..=3).contains(&fields.len()) {
                let got = fields.len();
                return Some(Err(error(format!(
                    "expected two ends, and perhaps a weight; got {got} words"
                ))));
            }
            let cells = self
                .columns
                .iter()
                .zip(fields)
                .map(|(column, field)| (Arc::clone(column), Cell::Text(field.trim().to_owned())))
                .collect();
            return Some(Ok(Row {
                line,
                byte: Some(byte),
                cells,
            }));
        }
    }
}
