//! Totals of an import for programs: one object, or one row.

use super::{Cell, Rows};
use crate::args::RowFormat;
use crate::context::Context;
use std::io::Write as _;

/// Prints totals with their names.
pub fn figures<const N: usize>(
    told: [(&'static str, u64); N],
    format: RowFormat,
    context: &mut Context,
) -> anyhow::Result<()> {
    if format == RowFormat::Json {
        let pairs = told.map(|(name, figure)| (name.to_owned(), figure.into()));
        let object: serde_json::Map<_, _> = pairs.into_iter().collect();
        writeln!(context.out, "{}", serde_json::Value::Object(object))?;
        return Ok(());
    }
    let columns = told.map(|(name, _)| name);
    let mut rows = Rows::new(&mut context.out, format, context.style, &columns);
    rows.row(told.map(|(_, figure)| Cell::Count(figure)).into())?;
    rows.finish()?;
    Ok(())
}
