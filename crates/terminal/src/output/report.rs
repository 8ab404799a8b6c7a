//! The result of a command: a sentence for users, one row for programs.

use super::{Cell, Rows};
use crate::args::RowFormat;
use crate::context::Context;
use std::io;

/// Prints the sentence in the table format (nothing with `--quiet`), else the row.
pub fn report(
    context: &mut Context,
    format: RowFormat,
    sentence: &str,
    columns: &'static [&'static str],
    cells: Vec<Cell>,
) -> io::Result<()> {
    if format == RowFormat::Table {
        if !context.globals.quiet {
            writeln!(context.out, "{}", Cell::from(sentence).table_text())?;
        }
        return Ok(());
    }
    let mut rows = Rows::new(&mut context.out, format, context.style, columns);
    rows.row(cells)?;
    rows.finish()?;
    Ok(())
}
