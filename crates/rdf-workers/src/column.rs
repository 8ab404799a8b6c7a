//! Solutions as Arrow columns. A variable has up to two: the 16-byte *key* of its term, on which stars are joined, and the *text* of its
//! term, transferred only where the result needs the text.

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

/// Bytes of a key column's value.
const KEY: i32 = 16;

/// Kind of a variable's column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Key,
    Text,
}

/// A column of a star: its variable and its kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Column {
    pub(crate) var: String,
    pub(crate) kind: Kind,
}

/// Returns the name of a variable's column of star number `star`; unique over all stars of a component.
pub(crate) fn name(star: usize, kind: Kind, var: &str) -> String {
    let letter = match kind {
        Kind::Key => 'k',
        Kind::Text => 't',
    };
    format!("{letter}{star}_{var}")
}

/// Returns the Arrow field of a column.
pub(crate) fn field(star: usize, column: &Column) -> Field {
    let kind = match column.kind {
        Kind::Key => DataType::FixedSizeBinary(KEY),
        Kind::Text => DataType::Utf8,
    };
    Field::new(name(star, column.kind, &column.var), kind, false)
}

/// Encoder of terms into column values, with a cache of keys.
#[derive(Default)]
pub(crate) struct Terms {
    text: String,
    keys: HashMap<Id, [u8; KEY as usize]>,
}

/// Entries of the key cache; when it is full, it is cleared.
const REMEMBERED: usize = 1 << 14;

impl Terms {
    fn text(&mut self, answer: &Answer<'_>, id: Id) -> &str {
        self.text.clear();
        answer.put(id, &mut self.text);
        &self.text
    }

    /// Returns the first 16 bytes of the text's BLAKE3 hash. Collisions are infeasible, even deliberate ones.
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

    /// Encodes a range of rows of an answer's table. For each field of the schema, `places` has the index of the table's column and its
    /// kind.
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

/// Returns the Arrow schema of a star's columns.
pub(crate) fn schema(star: usize, columns: &[Column]) -> SchemaRef {
    Arc::new(Schema::new(
        columns.iter().map(|c| field(star, c)).collect::<Vec<_>>(),
    ))
}

/// A result column: texts of terms, or counts as decimal texts.
pub(crate) enum ResultColumn<'a> {
    Texts(&'a StringArray),
    Counts(Vec<String>),
}

impl<'a> ResultColumn<'a> {
    /// Returns all columns of a batch; `None` if one has another Arrow type.
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

    /// Returns the term in a row.
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
