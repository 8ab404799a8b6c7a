//! Rows in one of four formats, written while they are produced.
//!
//! A table needs the widths of its columns: it takes them from the first [`LOOKAHEAD`] rows, and a later cell that is wider shifts only
//! its own line. On a terminal, long texts are cut so that the line fits. JSON is one array with an element per line; NDJSON is one
//! object per line.

use super::{Cell, Style};
use crate::args::RowFormat;
use std::borrow::Cow;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr as _;

/// Number of rows from which a table takes its column widths.
const LOOKAHEAD: usize = 256;
/// Blanks between two columns.
const GAP: &str = "  ";
/// Minimum width of a column of texts that do not fit the terminal.
const TEXT_MIN: usize = 12;

/// A writer of rows with the same columns.
pub struct Rows<'w> {
    out: &'w mut dyn Write,
    format: RowFormat,
    columns: Vec<Cow<'static, str>>,
    style: Style,
    waiting: Vec<Vec<Cell>>,
    widths: Option<Vec<usize>>,
    count: u64,
}

impl<'w> Rows<'w> {
    /// Starts a list of rows with fixed columns.
    pub fn new(
        out: &'w mut dyn Write,
        format: RowFormat,
        style: Style,
        columns: &[&'static str],
    ) -> Self {
        let columns = columns.iter().map(|c| Cow::Borrowed(*c)).collect();
        Self::named(out, format, style, columns)
    }

    /// Starts a list of rows with columns that the user selected.
    pub fn named(
        out: &'w mut dyn Write,
        format: RowFormat,
        style: Style,
        columns: Vec<Cow<'static, str>>,
    ) -> Self {
        Self {
            out,
            format,
            columns,
            style,
            waiting: Vec::new(),
            widths: None,
            count: 0,
        }
    }

    /// Writes one row with one cell for each column.
    pub fn row(&mut self, cells: Vec<Cell>) -> io::Result<()> {
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        let first = self.count == 0;
        self.count += 1;
        match self.format {
            RowFormat::Table => {
                if let Some(widths) = &self.widths {
                    return write_line(self.out, widths, &cells, self.style.width().is_some());
                }
                self.waiting.push(cells);
                if self.waiting.len() >= LOOKAHEAD {
                    self.begin_table()?;
                }
                Ok(())
            }
            RowFormat::Csv => {
                if first {
                    self.csv_header()?;
                }
                let fields: Vec<_> = cells.iter().map(Cell::csv_text).collect();
                self.csv_record(&fields)
            }
            RowFormat::Ndjson => {
                let object = self.object(&cells);
                writeln!(self.out, "{object}")
            }
            RowFormat::Json => {
                self.out.write_all(if first { b"[\n" } else { b",\n" })?;
                let object = self.object(&cells);
                write!(self.out, "{object}")
            }
        }
    }

    fn object(&self, cells: &[Cell]) -> serde_json::Value {
        let pairs = self.columns.iter().zip(cells);
        serde_json::Value::Object(
            pairs
                .map(|(name, cell)| (name.clone().into_owned(), cell.json()))
                .collect(),
        )
    }

    /// Writes buffered rows, before a pause or if rows come slowly.
    fn begin_table(&mut self) -> io::Result<()> {
        let mut widths: Vec<usize> = self.columns.iter().map(|c| c.width()).collect();
        for row in &self.waiting {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.table_text().width());
            }
        }
        if let Some(width) = self.style.width() {
            let is_text = |at: usize| {
                self.waiting
                    .iter()
                    .all(|row| row.get(at).is_some_and(Cell::may_be_cut))
            };
            let texts: Vec<bool> = (0..widths.len()).map(is_text).collect();
            fit(&mut widths, &texts, width);
        }
        let headings: Vec<String> = self
            .columns
            .iter()
            .map(|name| name.to_uppercase().replace('_', " "))
            .collect();
        let mut line = String::new();
        for (i, (heading, width)) in headings.iter().zip(&widths).enumerate() {
            let number = self
                .waiting
                .first()
                .is_some_and(|row| row.get(i).is_some_and(Cell::is_number));
            push_padded(&mut line, heading, *width, number, i == 0);
        }
        writeln!(self.out, "{}", self.style.bold(line.trim_end()))?;
        for row in std::mem::take(&mut self.waiting) {
            write_line(self.out, &widths, &row, self.style.width().is_some())?;
        }
        self.widths = Some(widths);
        Ok(())
    }

    fn csv_header(&mut self) -> io::Result<()> {
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|c| c.clone().into_owned())
            .collect();
        self.csv_record(&columns)
    }

    fn csv_record(&mut self, fields: &[String]) -> io::Result<()> {
        let mut line = String::new();
        for (i, field) in fields.iter().enumerate() {
            if i > 0 {
                line.push(',');
            }
            push_csv(&mut line, field);
        }
        line.push('\n');
        self.out.write_all(line.as_bytes())
    }

    /// Ends the list and flushes the output.
    pub fn finish_and_flush(mut self) -> io::Result<()> {
        self.end()?;
        self.out.flush()
    }

    /// Ends the list and returns the number of rows.
    pub fn finish(mut self) -> io::Result<u64> {
        self.end()?;
        Ok(self.count)
    }

    fn end(&mut self) -> io::Result<()> {
        match self.format {
            RowFormat::Table => {
                if !self.waiting.is_empty() {
                    self.begin_table()?;
                }
            }
            RowFormat::Csv => {
                if self.count == 0 {
                    self.csv_header()?;
                }
            }
            RowFormat::Ndjson => {}
            RowFormat::Json => {
                self.out
                    .write_all(if self.count == 0 { b"[]\n" } else { b"\n]\n" })?;
            }
        }
        Ok(())
    }
}

/// Narrows the widest of the columns that are texts, until a line fits or each of them has the minimum width.
fn fit(widths: &mut [usize], texts: &[bool], line: usize) {
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    let room = line.saturating_sub(gaps);
    let fixed: usize = widths
        .iter()
        .zip(texts)
        .filter(|(_, is_text)| !**is_text)
        .map(|(width, _)| *width)
        .sum();
    let with_limit = |limit: usize| -> usize {
        let of_texts = widths.iter().zip(texts).filter(|(_, is_text)| **is_text);
        fixed
            + of_texts
                .map(|(width, _)| (*width).min(limit))
                .sum::<usize>()
    };
    let widest = widths.iter().copied().max().unwrap_or_default();
    let limit = (TEXT_MIN..=widest)
        .rev()
        .find(|limit| with_limit(*limit) <= room);
    let limit = limit.unwrap_or(TEXT_MIN);
    for (width, _) in widths
        .iter_mut()
        .zip(texts)
        .filter(|(_, is_text)| **is_text)
    {
        *width = (*width).min(limit);
    }
}

/// Cuts the middle out of a text that is too wide: a path keeps its type, its first directories and its name.
fn cut(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    let room = width.saturating_sub(1);
    let tail_room = room - room / 3;
    let tail = text.char_indices().rev().map(|(at, _)| at);
    let tail = tail
        .take_while(|at| text.get(*at..).is_some_and(|t| t.width() <= tail_room))
        .last();
    let tail = text.get(tail.unwrap_or(text.len())..).unwrap_or_default();
    let head_room = room - tail.width();
    let head = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let head = head
        .take_while(|at| text.get(..*at).is_some_and(|t| t.width() <= head_room))
        .last();
    let head = text.get(..head.unwrap_or(0)).unwrap_or_default();
    Cow::Owned(format!("{head}…{tail}"))
}

fn write_line(
    out: &mut dyn Write,
    widths: &[usize],
    cells: &[Cell],
    may_cut: bool,
) -> io::Result<()> {
    let mut line = String::new();
    for (i, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let text = cell.table_text();
        let text = if cell.may_be_cut() && may_cut {
            cut(&text, *width)
        } else {
            Cow::Owned(text)
        };
        push_padded(&mut line, &text, *width, cell.is_number(), i == 0);
    }
    writeln!(out, "{}", line.trim_end())
}

/// Appends a field as RFC 4180 has it: quoted, with inner quotes doubled, if it would break the record.
fn push_csv(line: &mut String, field: &str) {
    if !field.contains([',', '"', '\n', '\r']) {
        return line.push_str(field);
    }
    line.push('"');
    line.push_str(&field.replace('"', "\"\""));
    line.push('"');
}

fn push_padded(line: &mut String, text: &str, width: usize, right: bool, first: bool) {
    if !first {
        line.push_str(GAP);
    }
    let padding = width.saturating_sub(text.width());
    if right {
        line.extend(std::iter::repeat_n(' ', padding));
        line.push_str(text);
    } else {
        line.push_str(text);
        line.extend(std::iter::repeat_n(' ', padding));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: RowFormat, rows: Vec<Vec<Cell>>) -> String {
        let mut out = Vec::new();
        let mut writer = Rows::new(&mut out, format, Style::PLAIN, &["name", "edges"]);
        for row in rows {
            writer.row(row).unwrap();
        }
        writer.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    fn two() -> Vec<Vec<Cell>> {
        vec![
            vec!["file:/ä".into(), Cell::Count(1234)],
            vec!["a,\"b\"".into(), Cell::Count(5)],
        ]
    }

    #[test]
    fn the_same_rows_in_four_formats() {
        assert_eq!(
            written(RowFormat::Table, two()),
            "NAME     EDGES\nfile:/ä  1,234\na,\"b\"        5\n"
        );
        assert_eq!(
            written(RowFormat::Csv, two()),
            "name,edges\nfile:/ä,1234\n\"a,\"\"b\"\"\",5\n"
        );
        assert_eq!(
            written(RowFormat::Ndjson, two()),
            "{\"name\":\"file:/ä\",\"edges\":1234}\n{\"name\":\"a,\\\"b\\\"\",\"edges\":5}\n"
        );
        let json: serde_json::Value =
            serde_json::from_str(&written(RowFormat::Json, two())).unwrap();
        assert_eq!(json[1]["edges"], 5);
    }

    #[test]
    fn texts_are_cut_to_the_width_of_a_terminal() {
        let mut out = Vec::new();
        let style = Style::PLAIN.with_width(Some(40));
        let mut writer = Rows::new(&mut out, RowFormat::Table, style, &["id", "edges", "name"]);
        for path in ["file:/scratch/campaign/2026/run7/ä/member1.nc", "user:1001"] {
            writer
                .row(vec![path.into(), Cell::Count(1234), "short".into()])
                .unwrap();
        }
        writer
            .row(vec![
                "x".into(),
                Cell::Count(5),
                "a longer text than fits into its column".into(),
            ])
            .unwrap();
        writer.finish().unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.width() <= 40), "{text}");
        assert!(text.contains("file…member1.nc  1,234  short"), "{text}");
        assert!(text.contains("user:1001        1,234  short"), "{text}");
        assert_eq!(cut("日本語日本語", 7), "日…本語");
        assert_eq!(cut("abc", 0), "…");
    }

    #[test]
    fn no_rows() {
        assert_eq!(written(RowFormat::Table, vec![]), "");
        assert_eq!(written(RowFormat::Csv, vec![]), "name,edges\n");
        assert_eq!(written(RowFormat::Ndjson, vec![]), "");
        assert_eq!(written(RowFormat::Json, vec![]), "[]\n");
    }

    #[test]
    fn a_long_table_is_written_before_it_ends() {
        let mut out = Vec::new();
        let mut rows = Rows::new(&mut out, RowFormat::Table, Style::PLAIN, &["name", "edges"]);
        for i in 0..LOOKAHEAD {
            rows.row(vec!["x".into(), Cell::Count(i as u64)]).unwrap();
        }
        assert!(rows.waiting.is_empty());
        rows.row(vec!["much wider than before".into(), Cell::Count(1)])
            .unwrap();
        rows.finish().unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap().lines().count(),
            LOOKAHEAD + 2
        );
    }
}
