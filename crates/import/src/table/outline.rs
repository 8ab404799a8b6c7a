//! Names and kinds of the columns of a table, from its head.

use super::Format;
use esker_model::ValueKind;
use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use std::fs::File;
use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Rows of a text from which the kinds of columns are derived.
const ROWS: usize = 1_000;
/// Bytes of a text that are read at most.
const BYTES: u64 = 4 << 20;
/// Largest number of columns.
const COLUMNS_MAX: usize = 4_096;

/// Columns of a table with their kinds.
pub type Outline = Vec<(String, ValueKind)>;

/// Reads the names and kinds of the columns of a table in CSV, TSV or Parquet. The kinds of a text are those of its first 1,000 rows; a column
/// with values of several kinds is text. Other formats have no columns.
///
/// # Errors
/// Returns the reason why the file is no table of this format.
pub fn outline(file: File, format: Format) -> Result<Outline, String> {
    let columns = match format {
        Format::Csv => of_text(file, b',')?,
        Format::Tsv => of_text(file, b'\t')?,
        Format::Parquet => of_parquet(file)?,
        Format::Ndjson | Format::EdgeList => Vec::new(),
    };
    if columns.len() > COLUMNS_MAX {
        return Err(format!(
            "it has {} columns; expected at most {COLUMNS_MAX}",
            columns.len()
        ));
    }
    Ok(columns)
}

/// Kind of a cell of a text; `None` for an empty one.
fn kind_of(cell: &str) -> Option<ValueKind> {
    let cell = cell.trim();
    if cell.is_empty() {
        return None;
    }
    if cell.parse::<i64>().is_ok() {
        return Some(ValueKind::I64);
    }
    if cell.parse::<f64>().is_ok() {
        return Some(ValueKind::F64);
    }
    if cell.eq_ignore_ascii_case("true") || cell.eq_ignore_ascii_case("false") {
        return Some(ValueKind::Bool);
    }
    let bytes = cell.as_bytes();
    let is_date = bytes.len() >= 10
        && bytes.iter().take(10).enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    Some(if is_date && esker_model::Version::parse_as_of(cell).is_ok() {
        ValueKind::Timestamp
    } else {
        ValueKind::String
    })
}

/// Kind of a column that has values of two kinds.
fn joined(a: ValueKind, b: ValueKind) -> ValueKind {
    match (a, b) {
        (a, b) if a == b => a,
        (ValueKind::I64, ValueKind::F64) | (ValueKind::F64, ValueKind::I64) => ValueKind::F64,
        _ => ValueKind::String,
    }
}

fn of_text(file: File, delimiter: u8) -> Result<Outline, String> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .flexible(true)
        .from_reader(file.take(BYTES));
    let heading = reader.headers().map_err(|e| e.to_string())?.clone();
    if heading.iter().all(|name| name.trim().is_empty()) {
        return Err("it has no heading".into());
    }
    let mut kinds: Vec<Option<ValueKind>> = vec![None; heading.len()];
    // A record that the limit of bytes cuts is not used.
    for record in reader.records().take(ROWS).map_while(Result::ok) {
        for (known, cell) in kinds.iter_mut().zip(&record) {
            let Some(kind) = kind_of(cell) else { continue };
            *known = Some(known.map_or(kind, |known| joined(known, kind)));
        }
    }
    let columns = heading.iter().zip(kinds);
    Ok(columns
        .map(|(name, kind)| (name.to_owned(), kind.unwrap_or(ValueKind::String)))
        .collect())
}

fn of_parquet(file: File) -> Result<Outline, String> {
    // The library checks some pages by assertions; damage must not end the process.
    let opened = catch_unwind(AssertUnwindSafe(|| SerializedFileReader::new(file)));
    let reader = match opened {
        Ok(Ok(reader)) => reader,
        Ok(Err(e)) => return Err(e.to_string()),
        Err(_) => return Err("the bytes do not decode".into()),
    };
    let schema = reader.metadata().file_metadata().schema_descr();
    let fields = schema.root_schema().get_fields();
    let columns = fields.iter().map(|field| {
        let info = field.get_basic_info();
        let is_time = matches!(
            info.logical_type_ref(),
            Some(LogicalType::Timestamp(_) | LogicalType::Date)
        ) || matches!(
            info.converted_type(),
            ConvertedType::DATE | ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIMESTAMP_MICROS
        );
        let kind = if is_time {
            ValueKind::Timestamp
        } else if field.is_primitive() {
            match field.get_physical_type() {
                Physical::BOOLEAN => ValueKind::Bool,
                Physical::INT32 | Physical::INT64 => ValueKind::I64,
                Physical::FLOAT | Physical::DOUBLE => ValueKind::F64,
                Physical::INT96 => ValueKind::Timestamp,
                Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY => ValueKind::String,
            }
        } else {
            ValueKind::List
        };
        (field.name().to_owned(), kind)
    });
    Ok(columns.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek as _, Write as _};

    fn file(text: &str) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.rewind().unwrap();
        file
    }

    #[test]
    fn kinds_of_a_text_are_those_of_its_cells() {
        let text = "n,x,ok,day,word,mixed,none\n1,2,true,2026-03-01,a,1,\n-7,2.5,FALSE,2026-03-01T10:00:00Z,2026-99-99,b,\n";
        let found = outline(file(text), Format::Csv).unwrap();
        let kinds: Vec<(&str, ValueKind)> = found.iter().map(|(n, k)| (n.as_str(), *k)).collect();
        assert_eq!(
            kinds,
            [
                ("n", ValueKind::I64),
                ("x", ValueKind::F64),
                ("ok", ValueKind::Bool),
                ("day", ValueKind::Timestamp),
                ("word", ValueKind::String),
                ("mixed", ValueKind::String),
                ("none", ValueKind::String),
            ]
        );
    }

    #[test]
    fn no_tables_are_refused() {
        assert_eq!(outline(file(""), Format::Csv).unwrap_err(), "it has no heading");
        assert!(outline(file("PAR1 no"), Format::Parquet).is_err());
        assert_eq!(outline(file("{}"), Format::Ndjson), Ok(Vec::new()));
        let many = vec!["c"; COLUMNS_MAX + 1].join(",");
        assert!(outline(file(&many), Format::Csv).unwrap_err().contains("4097 columns"));
    }
}
