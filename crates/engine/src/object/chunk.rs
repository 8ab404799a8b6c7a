//! A chunk of a checkpoint: the objects of 4,096 slots, in columns as in memory, so that opening a database takes only the time
//! to fill its columns.
//!
//! ```text
//!  [count 4]
//!  [object ids 8 × n][identities' hashes 8 × n, twice: both halves][first 8 × n][latest 8 × n][static versions 8 × n]
//!  [a bit for each that is deleted]
//!  [columns]  ([name][predefined 1][sections])*          sections: a byte of kinds, then for each kind that is there:
//!                                                          [bits of slots][values]
//!  [shapes]   ([columns]([column])*)*  [shape of each 4 × n]   the columns that an object is in, in its own order
//! ```
//!
//! Arrays of numbers are big-endian and of fixed size; the store below compresses them.

use super::log::CHUNK;
use super::table::{ObjectField, Table};
use esker_model::codec::{DecodeError, Reader, put_bytes, put_u32, put_u64, put_varint};
use esker_model::value::ValueView;
use esker_model::{Value, Version};
use std::collections::HashMap;

const INTS: u8 = 1;
const FLOATS: u8 = 2;
const TIMES: u8 = 4;
const TEXTS: u8 = 8;
const NULLS: u8 = 16;
const OTHERS: u8 = 32;
const VERSIONS: u8 = 64;

/// Encodes a chunk of a table.
pub(super) fn write(table: &Table, chunk: u32) -> Vec<u8> {
    let from = (chunk * CHUNK) as usize;
    let until = (from + CHUNK as usize).min(table.slots());
    let slots = from as u32..until as u32;
    let mut out = Vec::with_capacity((until - from) * 128);
    put_u32(&mut out, slots.len() as u32);
    slots.clone().for_each(|s| put_u64(&mut out, table.id(s).0));
    for part in [
        ObjectField::HashHigh,
        ObjectField::HashLow,
        ObjectField::First,
        ObjectField::Latest,
        ObjectField::Static,
    ] {
        slots
            .clone()
            .for_each(|s| put_u64(&mut out, table.part(part, s)));
    }
    put_bits(&mut out, slots.clone().map(|s| !table.live.contains(s)));
    // Columns and shapes are renumbered to those in this chunk.
    let mut shapes: Vec<u32> = slots.clone().map(|s| table.shape_of_slot(s)).collect();
    let mut numbers = HashMap::<u32, u32>::new();
    let mut known = Vec::new();
    for shape in &mut shapes {
        let next = known.len() as u32;
        *shape = *numbers.entry(*shape).or_insert_with(|| {
            known.push(*shape);
            next
        });
    }
    let mut columns: Vec<u32> = known
        .iter()
        .flat_map(|s| table.shape(*s).to_vec())
        .collect();
    columns.sort_unstable();
    columns.dedup();
    put_varint(&mut out, columns.len() as u64);
    for column in &columns {
        if let Some(column) = table.columns.get(*column as usize) {
            put_column(&mut out, column, slots.clone());
        }
    }
    put_varint(&mut out, known.len() as u64);
    for shape in known {
        let shape = table.shape(shape);
        put_varint(&mut out, shape.len() as u64);
        for column in shape.iter() {
            let at = columns.partition_point(|c| c < column);
            put_varint(&mut out, at as u64);
        }
    }
    shapes.iter().for_each(|s| put_u32(&mut out, *s));
    out
}

fn put_bits(out: &mut Vec<u8>, bits: impl Iterator<Item = bool>) {
    let (mut byte, mut used) = (0_u8, 0);
    for bit in bits {
        byte |= u8::from(bit) << used;
        used += 1;
        if used == 8 {
            out.push(byte);
            (byte, used) = (0, 0);
        }
    }
    if used > 0 {
        out.push(byte);
    }
}

fn put_column(out: &mut Vec<u8>, column: &super::column::Column, slots: std::ops::Range<u32>) {
    put_bytes(out, column.name.as_bytes());
    out.push(u8::from(column.predefined));
    let at = out.len();
    out.push(0);
    let mut kinds = 0;
    let mut section =
        |out: &mut Vec<u8>, kind: u8, value: &mut dyn FnMut(u32, &mut Vec<u8>) -> bool| {
            let (mut bits, mut values) = (Vec::new(), Vec::new());
            let mut any = false;
            put_bits(
                &mut bits,
                slots.clone().map(|s| {
                    let there = value(s, &mut values);
                    any |= there;
                    there
                }),
            );
            if any {
                kinds |= kind;
                out.extend_from_slice(&bits);
                out.extend_from_slice(&values);
            }
        };
    let number = |v: Option<u64>, out: &mut Vec<u8>| {
        if let Some(v) = v {
            put_u64(out, v);
        }
        v.is_some()
    };
    if !column.ints.is_empty() || column.any_group(|v| matches!(v, Value::I64(_))) {
        section(out, INTS, &mut |s, o| match column.get(s) {
            Some(ValueView::I64(v)) => number(Some(v as u64), o),
            _ => false,
        });
    }
    if !column.floats.is_empty() || column.any_group(|v| matches!(v, Value::F64(_))) {
        section(out, FLOATS, &mut |s, o| match column.get(s) {
            Some(ValueView::F64(v)) => number(Some(v.to_bits()), o),
            _ => false,
        });
    }
    if !column.times.is_empty() || column.any_group(|v| matches!(v, Value::Timestamp(_))) {
        section(out, TIMES, &mut |s, o| match column.get(s) {
            Some(ValueView::Timestamp(v)) => number(Some(v as u64), o),
            _ => false,
        });
    }
    if !column.texts.is_empty() || column.any_group(|v| matches!(v, Value::String(_))) {
        // Each distinct text once, with a number local to the chunk.
        let mut numbers = HashMap::<u32, u32>::new();
        let mut texts = Vec::new();
        let mut codes = Vec::new();
        let mut count = 0_u32;
        section(&mut codes, TEXTS, &mut |s, o| {
            let Some(word) = column.word(s) else {
                return false;
            };
            let code = *numbers.entry(word).or_insert_with(|| {
                put_bytes(&mut texts, column.dictionary.get(word).as_bytes());
                count += 1;
                count - 1
            });
            put_u32(o, code);
            true
        });
        if count > 0 {
            put_varint(out, u64::from(count));
            out.extend_from_slice(&texts);
            out.extend_from_slice(&codes);
        }
    }
    if !column.nulls.is_empty() {
        section(out, NULLS, &mut |s, _| column.nulls.contains(s));
    }
    let other = |v: &Value| matches!(v, Value::Bool(_) | Value::Bytes(_) | Value::List(_));
    if !column.others.is_empty() || column.any_group(other) {
        section(out, OTHERS, &mut |s, o| match column.get(s) {
            Some(ValueView::Other(v)) => {
                v.encode(o);
                true
            }
            _ => false,
        });
    }
    section(out, VERSIONS, &mut |s, o| {
        number(column.version(s).map(|v| v.0), o)
    });
    if let Some(byte) = out.get_mut(at) {
        *byte = kinds;
    }
}

/// Whether the next `count` bits are all set; consumes them if so.
fn all_set(r: &mut Reader<'_>, count: u32) -> bool {
    let mut ahead = r.clone();
    let Ok(bytes) = ahead.take(count.div_ceil(8) as usize, "bits of slots") else {
        return false;
    };
    let (whole, rest) = bytes.split_at(count as usize / 8);
    let last = (1_u8 << (count % 8)) - 1;
    let all = whole.iter().all(|b| *b == u8::MAX) && rest.iter().all(|b| *b == last);
    if all {
        *r = ahead;
    }
    all
}

/// Decodes the positions of set bits.
fn set_bits<'a>(
    r: &mut Reader<'a>,
    count: u32,
) -> Result<impl Iterator<Item = u32> + use<'a>, DecodeError> {
    let bytes = r.take(count.div_ceil(8) as usize, "bits of slots")?;
    let each = |(at, byte): (usize, &u8)| {
        let byte = *byte;
        (0..8_u32)
            .filter(move |bit| byte >> bit & 1 == 1)
            .map(move |bit| at as u32 * 8 + bit)
    };
    Ok(bytes
        .iter()
        .enumerate()
        .flat_map(each)
        .filter(move |b| *b < count))
}

/// Decodes a chunk and appends its objects to a table.
pub(super) fn read(table: &mut Table, bytes: &[u8]) -> Result<(), DecodeError> {
    let mut r = Reader::new(bytes);
    let count = r.u32("a number of objects")?;
    if count > CHUNK || r.remaining() < count as usize * 48 {
        return Err(r.error("at most 4,096 objects"));
    }
    let base = table.slots() as u32;
    let n = count as usize;
    let mut numbers = |what| -> Result<Vec<u64>, DecodeError> {
        let bytes = r.take(n * 8, what)?;
        let number = |b: &[u8]| b.try_into().map_or(0, u64::from_be_bytes);
        Ok(bytes.chunks_exact(8).map(number).collect())
    };
    let ids = numbers("objects' numbers")?;
    let parts = [
        numbers("hashes")?,
        numbers("hashes")?,
        numbers("first versions")?,
        numbers("latest versions")?,
        numbers("static versions")?,
    ];
    let deleted: Vec<u32> = set_bits(&mut r, count)?.collect();
    table
        .extend(&ids, parts, &deleted)
        .map_err(|()| r.error("objects that are new"))?;
    let columns = r.count(3, "a number of columns")?;
    let mut here = Vec::with_capacity(columns);
    for _ in 0..columns {
        let name = r.str("a column's name")?;
        let predefined = r.u8("whether it is predefined")? == 1;
        let number = table.column_number(name, predefined);
        read_column(table, number, &mut r, (base, count))?;
        here.push(number);
    }
    let shapes = r.count(1, "a number of shapes")?;
    let mut known = Vec::with_capacity(shapes);
    for _ in 0..shapes {
        let len = r.count(1, "a shape's columns")?;
        let mut columns = Vec::with_capacity(len);
        for _ in 0..len {
            let at = r.varint("a column")? as usize;
            columns.push(
                *here
                    .get(at)
                    .ok_or_else(|| r.error("a column of this chunk"))?,
            );
        }
        known.push(table.shape_with(&columns));
    }
    for slot in base..base + count {
        let shape = r.u32("a shape")? as usize;
        let shape = known
            .get(shape)
            .ok_or_else(|| r.error("a shape of this chunk"))?;
        table.set_shape(slot, *shape);
    }
    r.finish()
}

fn read_column(
    table: &mut Table,
    number: u32,
    r: &mut Reader<'_>,
    (base, count): (u32, u32),
) -> Result<(), DecodeError> {
    let slots = (base + count) as usize;
    let Some(column) = table.columns.get_mut(number as usize) else {
        return Err(r.error("a column"));
    };
    let kinds = r.u8("kinds of values")?;
    if kinds & INTS != 0 && all_set(r, count) {
        let bytes = r.take(count as usize * 8, "integers")?;
        let number = |b: &[u8]| b.try_into().map_or(0, i64::from_be_bytes);
        column
            .ints
            .fill(base, bytes.chunks_exact(8).map(number), slots);
    } else if kinds & INTS != 0 {
        for slot in set_bits(r, count)? {
            let value = r.u64("an integer")? as i64;
            column.ints.set(base + slot, value, slots);
        }
    }
    if kinds & FLOATS != 0 {
        for slot in set_bits(r, count)? {
            let value = r.u64("a double")?;
            column.floats.set(base + slot, value, slots);
        }
    }
    if kinds & TIMES != 0 {
        for slot in set_bits(r, count)? {
            let value = r.u64("a time")? as i64;
            column.times.set(base + slot, value, slots);
        }
    }
    if kinds & TEXTS != 0 {
        let texts = r.count(1, "a number of texts")?;
        let mut words = Vec::with_capacity(texts);
        for _ in 0..texts {
            words.push(column.dictionary.number(r.str("a text")?));
        }
        let word = |code: u32| words.get(code as usize).copied();
        if all_set(r, count) {
            let bytes = r.take(count as usize * 4, "texts' numbers")?;
            let number = |b: &[u8]| b.try_into().map_or(u32::MAX, u32::from_be_bytes);
            let codes = bytes.chunks_exact(4).map(number);
            if codes.clone().any(|code| word(code).is_none()) {
                return Err(r.error("texts of this chunk"));
            }
            column
                .texts
                .fill(base, codes.map(|c| word(c).unwrap_or(0)), slots);
        } else {
            for slot in set_bits(r, count)? {
                let word = word(r.u32("a text's number")?)
                    .ok_or_else(|| r.error("a text of this chunk"))?;
                column.texts.set(base + slot, word, slots);
            }
        }
    }
    if kinds & NULLS != 0 {
        column
            .nulls
            .extend(set_bits(r, count)?.map(|slot| base + slot));
    }
    if kinds & OTHERS != 0 {
        for slot in set_bits(r, count)? {
            let value = Value::decode(r)?;
            column.others.insert(base + slot, value);
        }
    }
    if kinds & VERSIONS != 0 {
        for slot in set_bits(r, count)? {
            let version = Version(r.u64("a version")?);
            column.set_version(base + slot, version, slots);
        }
    }
    Ok(())
}
