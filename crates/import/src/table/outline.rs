//! Names and kinds of the columns of a table, from its head.

use super::Format;
use esker_model::ValueKind;
use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use std::fs::File;
use std::io::Read as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Rows of a text that are read at most.
const ROWS: usize = 100_000;
/// Bytes of a text that are read at most.
const BYTES: u64 = 64 << 20;
/// Largest number of columns.
const COLUMNS_MAX: usize = 4_096;

/// Columns of a table with their kinds.
pub type Outline = Vec<(String, ValueKind)>;

/// Reads the names and kinds of the columns of a table in CSV, TSV or Parquet. A column with values of several kinds is text, and so are all columns
/// of a text that is too long to be read (100,000 rows, 64 MiB). Other formats have no columns.
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
        && bytes
            .iter()
            .take(10)
            .enumerate()
            .all(|(at, byte)| match at {
                4 | 7 => *byte == b'-',
                _ => byte.is_ascii_digit(),
            });
    Some(
        if is_date && esker_model::Version::parse_as_of(cell).is_ok() {
            ValueKind::Timestamp
        } else {
            ValueKind::String
        },
    )
}

/// Kind of a column that has values of two kinds.
fn joined(a: ValueKind, b: ValueKind) -> ValueKind {
    match (a, b) {
        (a, b) if a == b => a,
        (ValueKind::I64, ValueKind::F64) | (ValueKind::F64, ValueKind::I64) => ValueKind::F64,
        _ => ValueKind::String,
    }
}

/// Kinds of a column's cells so far.
#[derive(Debug, Clone, Copy, Default)]
struct CellKinds {
    kind: Option<ValueKind>,
    empty: bool,
}

impl CellKinds {
    fn add(&mut self, cell: &str) {
        match kind_of(cell) {
            None => self.empty = true,
            Some(kind) => self.kind = Some(self.kind.map_or(kind, |known| joined(known, kind))),
        }
    }

    /// Kind of the column. Of numbers, only those with a fraction have a value for an empty cell.
    fn kind(self) -> ValueKind {
        match (self.kind, self.empty) {
            (Some(ValueKind::I64 | ValueKind::F64), true) => ValueKind::F64,
            (None, _) | (Some(_), true) => ValueKind::String,
            (Some(kind), false) => kind,
        }
    }
}

fn of_text(file: File, delimiter: u8) -> Result<Outline, String> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .from_reader(file.take(BYTES));
    let heading = reader.headers().map_err(|e| e.to_string())?.clone();
    if heading.iter().all(|name| name.trim().is_empty()) {
        return Err("it has no heading".into());
    }
    let mut names: Vec<&str> = heading.iter().collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair.first() == pair.last()) {
        let name = twice.first().copied().unwrap_or_default();
        return Err(format!("two of its columns have the name `{name}`"));
    }
    let mut seen = vec![CellKinds::default(); heading.len()];
    let mut record = csv::StringRecord::new();
    let (mut rows, mut whole) = (0, true);
    loop {
        if rows == ROWS {
            whole = false;
            break;
        }
        match reader.read_record(&mut record) {
            Ok(false) => break,
            Ok(true) => {
                rows += 1;
                seen.iter_mut()
                    .zip(&record)
                    .for_each(|(seen, cell)| seen.add(cell));
            }
            // The limit of bytes has cut the record.
            Err(_) if reader.position().byte() >= BYTES => {
                whole = false;
                break;
            }
            Err(e) => return Err(e.to_string()),
        }
    }
    whole &= reader.position().byte() < BYTES;
    let columns = heading.iter().zip(seen);
    // The rows that were not read may have values of any kind.
    let kind = |seen: CellKinds| {
        if whole {
            seen.kind()
        } else {
            ValueKind::String
        }
    };
    Ok(columns
        .map(|(name, seen)| (name.to_owned(), kind(seen)))
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
        let text = "n,x,ok,day,word,mixed,none,holes\n1,2,true,2026-03-01,a,1,,7\n-7,2.5,FALSE,2026-03-01T10:00:00Z,2026-99-99,b,,\n";
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
                ("holes", ValueKind::F64),
            ]
        );
    }

    #[test]
    fn no_tables_are_refused() {
        assert_eq!(
            outline(file(""), Format::Csv).unwrap_err(),
            "it has no heading"
        );
        assert!(outline(file("PAR1 no"), Format::Parquet).is_err());
        for (text, expected) in [
            ("a,b,a\n1,2,3\n", "two of its columns have the name `a`"),
            ("a,b\n1,2,3\n", "found record with 3 fields"),
        ] {
            let refused = outline(file(text), Format::Csv).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        }
        let mut binary = tempfile::tempfile().unwrap();
        binary.write_all(b"a,b\n\xff\xfe,2\n").unwrap();
        binary.rewind().unwrap();
        assert!(outline(binary, Format::Csv).unwrap_err().contains("UTF-8"));
        assert_eq!(outline(file("{}"), Format::Ndjson), Ok(Vec::new()));
        let many = (0..=COLUMNS_MAX)
            .map(|n| format!("c{n}"))
            .collect::<Vec<_>>()
            .join(",");
        let long = "n\n".to_owned() + &"1\n".repeat(ROWS + 1);
        let found = outline(file(&long), Format::Csv).unwrap();
        assert_eq!(
            found,
            [("n".to_owned(), ValueKind::String)],
            "unread rows may differ"
        );
        assert!(
            outline(file(&many), Format::Csv)
                .unwrap_err()
                .contains("4097 columns")
        );
    }
}
