//! Solutions as Arrow's columns. A variable has two: its term's *key* of 16 bytes, by which stars are joined, and its
//! *text*, which is carried only where it is asked for in the end.

use datafusion::arrow::array::{
    ArrayRef, FixedSizeBinaryBuilder, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
    StringBuilder,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use esker_rdf::Answer;
use esker_rdf::dictionary::Key;
use esker_rdf::exec::Table;
use esker_rdf::id::Id;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a key.
const KEY: i32 = 16;

/// Which of a variable's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Key,
    Text,
}

/// A column of a star: of which variable, and what.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Column {
    pub(crate) var: String,
    pub(crate) kind: Kind,
}

/// The name of a variable's column of the `star`th star: the same in no other star.
pub(crate) fn name(star: usize, kind: Kind, var: &str) -> String {
    let letter = match kind {
        Kind::Key => 'k',
        Kind::Text => 't',
    };
    format!("{letter}{star}_{var}")
}

/// The field of a column.
pub(crate) fn field(star: usize, column: &Column) -> Field {
    let kind = match column.kind {
        Kind::Key => DataType::FixedSizeBinary(KEY),
        Kind::Text => DataType::Utf8,
    };
    Field::new(name(star, column.kind, &column.var), kind, false)
}

/// Terms as they are put into columns; those that come often are put together once.
#[derive(Default)]
pub(crate) struct Terms {
    text: String,
    keys: HashMap<Id, [u8; KEY as usize]>,
}

/// Keys that are remembered: those of 16,384 terms.
const REMEMBERED: usize = 1 << 14;

impl Terms {
    fn text(&mut self, answer: &Answer<'_>, id: Id) -> &str {
        self.text.clear();
        answer.put(id, &mut self.text);
        &self.text
    }

    /// The first 16 bytes of the text's BLAKE3 hash: two terms that share them will not be met, not even by intent.
    fn key(&mut self, answer: &Answer<'_>, id: Id) -> [u8; KEY as usize] {
        if let Some(key) = self.keys.get(&id) {
            return *key;
        }
        let hash = blake3::hash(self.text(answer, id).as_bytes());
        let mut key = [0; KEY as usize];
        key.copy_from_slice(&hash.as_bytes()[..KEY as usize]);
        if self.keys.len() == REMEMBERED {
            self.keys.clear();
        }
        self.keys.insert(id, key);
        key
    }

    /// Some rows of an answer's table. `places` says which of its columns each of the schema's fields shows.
    pub(crate) fn batch(
        &mut self,
        answer: &Answer<'_>,
        table: &Table,
        rows: Range<usize>,
        places: &[(usize, Kind)],
        schema: &SchemaRef,
    ) -> Result<RecordBatch, ArrowError> {
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(places.len());
        for (at, kind) in places {
            let ids = &table.columns()[*at][rows.clone()];
            arrays.push(match kind {
                Kind::Key => {
                    let mut keys = FixedSizeBinaryBuilder::with_capacity(ids.len(), KEY);
                    for id in ids {
                        keys.append_value(self.key(answer, *id))?;
                    }
                    Arc::new(keys.finish())
                }
                Kind::Text => {
                    let mut texts = StringBuilder::with_capacity(ids.len(), ids.len() * 48);
                    for id in ids {
                        texts.append_value(self.text(answer, *id));
                    }
                    Arc::new(texts.finish())
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
    }
}

/// The schema of columns.
pub(crate) fn schema(star: usize, columns: &[Column]) -> SchemaRef {
    Arc::new(Schema::new(
        columns.iter().map(|c| field(star, c)).collect::<Vec<_>>(),
    ))
}

/// A column that came back: texts of terms, or counts, written out.
pub(crate) enum Back<'a> {
    Texts(&'a StringArray),
    Counts(Vec<String>),
}

impl<'a> Back<'a> {
    /// All columns of a batch; none if there is one of another type.
    pub(crate) fn of(batch: &'a RecordBatch) -> Option<Vec<Self>> {
        batch
            .columns()
            .iter()
            .map(|c| {
                if let Some(texts) = c.as_any().downcast_ref() {
                    return Some(Self::Texts(texts));
                }
                let counts: &Int64Array = c.as_any().downcast_ref()?;
                Some(Self::Counts(
                    counts.values().iter().map(ToString::to_string).collect(),
                ))
            })
            .collect()
    }

    /// The term of a row.
    pub(crate) fn key(&self, row: usize) -> Option<Key<'_>> {
        match self {
            Self::Texts(texts) => Key::take(texts.value(row)),
            Self::Counts(counts) => Some(Key::Typed(
                counts.get(row)?,
                "http://www.w3.org/2001/XMLSchema#integer",
            )),
        }
    }
}
