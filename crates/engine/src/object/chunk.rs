//! A chunk of a checkpoint: the objects of 4,096 slots, in columns as in memory, so that opening a database takes only the time
//! to fill its columns.
//!
//! ```text
//!  [01][count 4]
//!  [object ids n][identities' hashes n, twice: both halves][first n][latest n][static versions n]
//!  [a bit for each that is deleted]
//!  [columns]  ([name][predefined 1][sections])*          sections: a byte of kinds, then for each kind that is there:
//!                                                          [bits of slots][values]
//!  [shapes]   ([columns]([column])*)*  [shape of each n]       the columns that an object is in, in its own order
//!
//!  numbers    [width 1][least][(number - least) width × n]     width: 0, 1, 2, 4 or 8 bytes
//! ```
//!
//! Arrays of numbers are big-endian; the store below compresses them. Chunks of earlier builds lack the first byte, and their
//! arrays have a fixed width and neither `width` nor `least`.

use super::cells::Cells;
use super::column::{Column, ValueGroup};
use super::table::{ObjectField, Table};
use esker_model::codec::{DecodeError, Reader, put_bytes, put_u32, put_varint};
use esker_model::{Value, Version};
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::ops::Range;

/// Slots of a chunk.
pub(super) const CHUNK: u32 = 4_096;

const INTS: u8 = 1;
const FLOATS: u8 = 2;
const TIMES: u8 = 4;
const TEXTS: u8 = 8;
const NULLS: u8 = 16;
const OTHERS: u8 = 32;
const VERSIONS: u8 = 64;

/// First byte of a chunk whose numbers have individual widths. Earlier chunks begin with the zero byte of their count.
const PACKED: u8 = 1;

/// Encodes a chunk of a table.
pub(super) fn write(table: &Table, chunk: u32) -> Vec<u8> {
    let from = chunk * CHUNK;
    let until = (from + CHUNK).min(table.slots() as u32);
    let mut out = Vec::new();
    write_slots(table, from..until, &mut out);
    out
}

/// Appends the objects of at most 4,096 consecutive slots.
pub(super) fn write_slots(table: &Table, slots: Range<u32>, out: &mut Vec<u8>) {
    out.reserve(slots.len() * 96);
    out.push(PACKED);
    put_u32(out, slots.len() as u32);
    let mut numbers: Vec<u64> = slots.clone().map(|s| table.id(s).0).collect();
    put_numbers(out, &numbers);
    for part in [
        ObjectField::HashHigh,
        ObjectField::HashLow,
        ObjectField::First,
        ObjectField::Latest,
        ObjectField::Static,
    ] {
        numbers.clear();
        numbers.extend(slots.clone().map(|s| table.part(part, s)));
        put_numbers(out, &numbers);
    }
    let deleted = slots.clone().filter(|s| !table.live.contains(*s));
    put_bits(out, &slots, deleted);
    // Columns and shapes are renumbered to those in this chunk.
    let mut shapes = Numbering::default();
    numbers.clear();
    numbers.extend(slots.clone().map(|s| shapes.number(table.shape_of_slot(s))));
    let known = shapes.all;
    let mut columns: Vec<u32> = known
        .iter()
        .flat_map(|s| table.shape(*s).to_vec())
        .collect();
    columns.sort_unstable();
    columns.dedup();
    put_varint(out, columns.len() as u64);
    for column in &columns {
        if let Some(column) = table.columns.get(*column as usize) {
            put_column(out, column, &slots);
        }
    }
    put_varint(out, known.len() as u64);
    for shape in known {
        let shape = table.shape(shape);
        put_varint(out, shape.len() as u64);
        for column in shape.iter() {
            let at = columns.partition_point(|c| c < column);
            put_varint(out, at as u64);
        }
    }
    put_numbers(out, &numbers);
}

/// Numbers from zero, in the order of first use.
#[derive(Default)]
struct Numbering {
    all: Vec<u32>,
    numbers: HashMap<u32, u32, FixedState>,
    /// The last one looked up, which the next one often equals.
    last: Option<(u32, u32)>,
}

impl Numbering {
    fn number(&mut self, of: u32) -> u64 {
        if let Some((last, number)) = self.last
            && last == of
        {
            return u64::from(number);
        }
        let next = self.all.len() as u32;
        let number = *self.numbers.entry(of).or_insert(next);
        if number == next {
            self.all.push(of);
        }
        self.last = Some((of, number));
        u64::from(number)
    }
}

/// Appends numbers as differences from the least (as signed numbers), in as few bytes as the largest difference needs.
fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    let signed = || numbers.iter().map(|n| *n as i64);
    let least = signed().min().unwrap_or(0);
    let most = signed().max().unwrap_or(0).wrapping_sub(least) as u64;
    let above = numbers.iter().map(|n| n.wrapping_sub(least as u64));
    let width = match most {
        0 => 0,
        1..=0xFF => 1,
        0x100..=0xFFFF => 2,
        0x1_0000..=0xFFFF_FFFF => 4,
        _ => 8,
    };
    out.push(width);
    out.extend_from_slice(&least.to_be_bytes());
    match width {
        0 => {}
        1 => out.extend(above.map(|n| n as u8)),
        2 => above.for_each(|n| out.extend_from_slice(&(n as u16).to_be_bytes())),
        4 => above.for_each(|n| out.extend_from_slice(&(n as u32).to_be_bytes())),
        _ => above.for_each(|n| out.extend_from_slice(&n.to_be_bytes())),
    }
}

/// Appends a bit for each slot: set for those of `some`, which are in order.
fn put_bits(out: &mut Vec<u8>, slots: &Range<u32>, some: impl Iterator<Item = u32>) {
    let from = out.len();
    out.resize(from + slots.len().div_ceil(8), 0);
    for slot in some {
        let at = slot - slots.start;
        if let Some(byte) = out.get_mut(from + at as usize / 8) {
            *byte |= 1 << (at % 8);
        }
    }
}

/// Values of one kind in a range of slots, in order: those in cells, and those of groups, as `of_group` encodes them.
fn values<T: Copy + Default>(
    column: &Column,
    slots: &Range<u32>,
    cells: &Cells<T>,
    number: impl Fn(T) -> u64,
    of_group: impl Fn(&ValueGroup) -> Option<u64>,
) -> (Vec<u32>, Vec<u64>) {
    let mut all = (Vec::new(), Vec::new());
    cells.for_each_in(slots.clone(), |slot, value| {
        all.0.push(slot);
        all.1.push(number(value));
    });
    let mut pairs = Vec::new();
    for group in &column.groups {
        if let Some(number) = of_group(group) {
            pairs.extend(group.slots.range(slots.clone()).map(|slot| (slot, number)));
        }
    }
    if !pairs.is_empty() {
        pairs.extend(all.0.into_iter().zip(all.1));
        pairs.sort_unstable();
        all = pairs.into_iter().unzip();
    }
    all
}

fn put_column(out: &mut Vec<u8>, column: &Column, slots: &Range<u32>) {
    put_bytes(out, column.name.as_bytes());
    out.push(u8::from(column.predefined));
    let at = out.len();
    out.push(0);
    let mut kinds = 0;
    let mut section = |out: &mut Vec<u8>, kind: u8, (some, numbers): (Vec<u32>, Vec<u64>)| {
        if !some.is_empty() {
            kinds |= kind;
            put_bits(out, slots, some.into_iter());
            put_numbers(out, &numbers);
        }
    };
    let ints = values(
        column,
        slots,
        &column.ints,
        |v| v as u64,
        |g| match g.value {
            Value::I64(v) => Some(v as u64),
            _ => None,
        },
    );
    section(out, INTS, ints);
    let floats = values(
        column,
        slots,
        &column.floats,
        |v| v,
        |g| match g.value {
            Value::F64(v) => Some(v.to_bits()),
            _ => None,
        },
    );
    section(out, FLOATS, floats);
    let times = values(
        column,
        slots,
        &column.times,
        |v| v as u64,
        |g| match g.value {
            Value::Timestamp(v) => Some(v as u64),
            _ => None,
        },
    );
    section(out, TIMES, times);
    let mut texts = values(column, slots, &column.texts, u64::from, |g| match g.value {
        Value::String(_) => Some(u64::from(g.word)),
        _ => None,
    });
    if !texts.0.is_empty() {
        // Each distinct text once, with a number local to the chunk.
        let mut words = Numbering::default();
        texts
            .1
            .iter_mut()
            .for_each(|word| *word = words.number(*word as u32));
        put_varint(out, words.all.len() as u64);
        for word in &words.all {
            put_bytes(out, column.dictionary.get(*word).as_bytes());
        }
    }
    section(out, TEXTS, texts);
    let nulls: Vec<u32> = column.nulls.range(slots.clone()).collect();
    if !nulls.is_empty() {
        kinds |= NULLS;
        put_bits(out, slots, nulls.into_iter());
    }
    let versions = values(
        column,
        slots,
        &column.versions,
        |v| v,
        |g| Some(g.version.0),
    );
    let mut others: Vec<(u32, &Value)> = Vec::new();
    if !column.others.is_empty() {
        let some = column.others.iter().map(|(slot, value)| (*slot, value));
        others.extend(some.filter(|(slot, _)| slots.contains(slot)));
    }
    for group in &column.groups {
        if let Value::Bool(_) | Value::Bytes(_) | Value::List(_) = group.value {
            let some = group.slots.range(slots.clone());
            others.extend(some.map(|slot| (slot, &group.value)));
        }
    }
    if !others.is_empty() {
        others.sort_unstable_by_key(|(slot, _)| *slot);
        kinds |= OTHERS;
        put_bits(out, slots, others.iter().map(|(slot, _)| *slot));
        others.iter().for_each(|(_, value)| value.encode(out));
    }
    if !versions.0.is_empty() {
        kinds |= VERSIONS;
        put_bits(out, slots, versions.0.into_iter());
        put_numbers(out, &versions.1);
    }
    if let Some(byte) = out.get_mut(at) {
        *byte = kinds;
    }
}

/// Reads arrays of numbers in the layout of a chunk.
#[derive(Clone, Copy)]
struct NumberLayout {
    /// Whether arrays have individual widths.
    packed: bool,
}

impl NumberLayout {
    /// Reads `n` numbers; `width` is their width in the layout without individual ones, in bytes.
    fn read<'a>(
        self,
        r: &mut Reader<'a>,
        n: usize,
        width: usize,
        what: &'static str,
    ) -> Result<impl ExactSizeIterator<Item = u64> + Clone + use<'a>, DecodeError> {
        let (width, least) = if self.packed {
            (usize::from(r.u8(what)?), r.u64(what)?)
        } else {
            (width, 0)
        };
        if !matches!(width, 0 | 1 | 2 | 4 | 8) {
            return Err(r.error("a width of 0, 1, 2, 4 or 8 bytes"));
        }
        let bytes = r.take(n * width, what)?;
        Ok((0..n).map(move |i| {
            let number = bytes.get(i * width..(i + 1) * width).unwrap_or_default();
            least.wrapping_add(match *number {
                [byte] => u64::from(byte),
                [high, low] => u64::from(u16::from_be_bytes([high, low])),
                [_, _, _, _] => number
                    .try_into()
                    .map_or(0, |bytes| u64::from(u32::from_be_bytes(bytes))),
                _ => number.try_into().map_or(0, u64::from_be_bytes),
            })
        }))
    }
}

/// The slots of a chunk that is read, and the layout of its numbers.
#[derive(Clone, Copy)]
struct ChunkFrame {
    base: u32,
    count: u32,
    layout: NumberLayout,
}

impl ChunkFrame {
    /// Decodes the positions of set bits.
    fn set_bits(self, r: &mut Reader<'_>) -> Result<Vec<u32>, DecodeError> {
        let bytes = r.take(self.count.div_ceil(8) as usize, "bits of slots")?;
        let mut set = Vec::with_capacity(self.count as usize);
        for (at, byte) in (0..).zip(bytes) {
            let mut byte = *byte;
            while byte != 0 {
                let slot = at * 8 + byte.trailing_zeros();
                if slot < self.count {
                    set.push(slot);
                }
                byte &= byte - 1;
            }
        }
        Ok(set)
    }

    /// Decodes a section of numbers into cells; `of` maps a number to a value, if it is valid.
    fn fill<T: Copy + Default>(
        self,
        r: &mut Reader<'_>,
        (width, what): (usize, &'static str),
        cells: &mut Cells<T>,
        (room, of): (usize, impl Fn(u64) -> Option<T>),
    ) -> Result<(), DecodeError> {
        let set = self.set_bits(r)?;
        let slots = (self.base + self.count) as usize;
        let numbers = self.layout.read(r, set.len(), width, what)?;
        if numbers.clone().any(|n| of(n).is_none()) {
            return Err(r.error(what));
        }
        let values = numbers.map(|n| of(n).unwrap_or_default());
        if set.len() == self.count as usize {
            cells.fill(self.base, values, slots, room);
        } else {
            for (slot, value) in set.into_iter().zip(values) {
                cells.set(self.base + slot, value, slots);
            }
        }
        Ok(())
    }
}

/// Decodes a chunk and appends its objects to a table. [`Table::index_all`] must follow before any look-up.
pub(super) fn read(table: &mut Table, bytes: &[u8]) -> Result<(), DecodeError> {
    let mut r = Reader::new(bytes);
    let packed = r.peek() == Some(PACKED);
    if packed {
        r.u8("a layout")?;
    }
    let count = r.u32("a number of objects")?;
    if count > CHUNK {
        return Err(r.error("at most 4,096 objects"));
    }
    let frame = ChunkFrame {
        base: table.slots() as u32,
        count,
        layout: NumberLayout { packed },
    };
    let n = count as usize;
    let mut numbers = |what| frame.layout.read(&mut r, n, 8, what);
    let ids = numbers("objects' numbers")?;
    let parts = [
        numbers("hashes")?,
        numbers("hashes")?,
        numbers("first versions")?,
        numbers("latest versions")?,
        numbers("static versions")?,
    ];
    let deleted = frame.set_bits(&mut r)?;
    table.extend(ids, parts, &deleted);
    let columns = r.count(3, "a number of columns")?;
    let mut here = Vec::with_capacity(columns);
    for _ in 0..columns {
        let name = r.str("a column's name")?;
        let predefined = r.u8("whether it is predefined")? == 1;
        let number = table.column_number(name, predefined);
        let room = table.ids.capacity();
        match table.columns.get_mut(number as usize) {
            Some(column) => read_column(column, &mut r, frame, room)?,
            None => return Err(r.error("a column")),
        }
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
    let shapes = frame.layout.read(&mut r, n, 4, "shapes")?;
    for (slot, shape) in (frame.base..).zip(shapes) {
        let shape = known
            .get(shape as usize)
            .ok_or_else(|| r.error("a shape of this chunk"))?;
        table.set_shape(slot, *shape);
    }
    r.finish()
}

fn read_column(
    column: &mut Column,
    r: &mut Reader<'_>,
    frame: ChunkFrame,
    room: usize,
) -> Result<(), DecodeError> {
    let slots = (frame.base + frame.count) as usize;
    let kinds = r.u8("kinds of values")?;
    if kinds & INTS != 0 {
        let of = |n| Some(n as i64);
        frame.fill(r, (8, "integers"), &mut column.ints, (room, of))?;
    }
    if kinds & FLOATS != 0 {
        frame.fill(r, (8, "doubles"), &mut column.floats, (room, Some))?;
    }
    if kinds & TIMES != 0 {
        let of = |n| Some(n as i64);
        frame.fill(r, (8, "times"), &mut column.times, (room, of))?;
    }
    if kinds & TEXTS != 0 {
        let texts = r.count(1, "a number of texts")?;
        let mut words = Vec::with_capacity(texts);
        for _ in 0..texts {
            words.push(column.dictionary.append(r.str("a text")?));
        }
        let of = |code: u64| words.get(code as usize).copied();
        let what = (4, "texts of this chunk");
        frame.fill(r, what, &mut column.texts, (room, of))?;
    }
    if kinds & NULLS != 0 {
        let slots = frame.set_bits(r)?.into_iter();
        column.nulls.extend(slots.map(|slot| frame.base + slot));
    }
    if kinds & OTHERS != 0 {
        for slot in frame.set_bits(r)? {
            let value = Value::decode(r)?;
            column.others.insert(frame.base + slot, value);
        }
    }
    if kinds & VERSIONS != 0 {
        let set = frame.set_bits(r)?;
        let versions = frame.layout.read(r, set.len(), 8, "versions")?;
        for (slot, version) in set.into_iter().zip(versions) {
            column.set_version(frame.base + slot, Version(version), slots);
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use esker_model::VertexTypeId;
    use esker_model::codec::put_u64;
    use esker_model::object::ObjectId;
    use esker_model::record::{UserAttribute, VertexRecord};
    use esker_model::value::ValueView;
    use esker_model::{Properties, Value};
    use roaring::RoaringBitmap;

    pub(in crate::object) const TYPE: VertexTypeId = VertexTypeId(3);

    fn id(n: u64) -> ObjectId {
        ObjectId(n << 40 | n)
    }

    fn value(n: u64, kind: u64) -> Value {
        match kind {
            0 => Value::I64(n as i64 - 3000),
            1 => Value::F64(n as f64 / -7.0),
            2 => Value::Timestamp((n * n) as i64),
            3 => Value::String(format!("text {}", n % 50)),
            4 => Value::Null,
            5 => Value::List(vec![Value::Bool(true), Value::from("in a list")]),
            _ => Value::String(format!("text {n}")),
        }
    }

    fn record(n: u64) -> VertexRecord {
        let version = |n| Version::new(1_700_000_000_000, n);
        let user = |name: &str, value| UserAttribute {
            name: name.into(),
            version: version(if n.is_multiple_of(90) { 8 } else { 5 }),
            value,
        };
        VertexRecord {
            deleted: n % 77 == 5,
            mentioned: false,
            first: version(5),
            latest: version(if n.is_multiple_of(90) { 8 } else { 5 }),
            static_version: version(5),
            type_id: TYPE,
            key: id(n).to_string(),
            attributes: Properties::new()
                .with("location", value(n, 6))
                .with("mixed", value(n, n % 7)),
            user: if n.is_multiple_of(3) {
                vec![user("rare", value(n, 3)), user("some", value(n, 0))]
            } else {
                vec![user("some", value(n, n % 2))]
            },
        }
    }

    /// Objects with values of all kinds, some of them deleted, and tags of many.
    pub(in crate::object) fn table(objects: u64) -> Table {
        let mut table = Table::new(TYPE, 64);
        for n in 0..objects {
            let mut row = Vec::new();
            record(n).encode(&mut row);
            table
                .apply(id(n), &row, u128::from(n + 1) << 90 | u128::from(n))
                .unwrap();
        }
        let tags = [Value::from("text 7"), Value::I64(-1), Value::Bool(true)];
        for (n, tag) in (1_u16..).zip(tags) {
            let slots: RoaringBitmap = (0..objects as u32)
                .filter(|s| s % 9 == u32::from(n))
                .collect();
            let version = Version::new(1_700_000_000_001, n);
            table.tag(&slots, "rare", Some(&ValueView::from(&tag)), version);
        }
        table
    }

    pub(in crate::object) fn check_same(table: &Table, read: &Table) {
        assert_eq!(table.slots(), read.slots());
        for slot in 0..table.slots() as u32 {
            let (mut expected, mut got) = (Vec::new(), Vec::new());
            table.encode(slot, &mut expected);
            read.encode(slot, &mut got);
            assert_eq!(got, expected, "slot {slot}");
            let id = table.id(slot);
            assert_eq!(read.slot_of(id), Some(slot));
            let hash = table.hash_of(id).to_be_bytes();
            assert_eq!(read.with_identity(&hash), table.with_identity(&hash));
        }
        // Equal texts have one number.
        for column in &read.columns {
            for word in (0..read.slots() as u32).filter_map(|s| column.texts.get(s)) {
                let text = column.dictionary.get(word);
                assert_eq!(column.dictionary.find(text), Some(word));
            }
        }
    }

    #[test]
    fn chunks_are_the_table() {
        let table = table(u64::from(CHUNK) * 2 + 500);
        for sizes in [false, true] {
            let mut read_back = Table::new(TYPE, 64);
            if sizes {
                read_back.reserve_sizes(&table.sizes());
            }
            for chunk in 0..3 {
                read(&mut read_back, &write(&table, chunk)).unwrap();
            }
            read_back.index_all().unwrap();
            check_same(&table, &read_back);
            // Equal texts of different chunks have one number.
            for (own, other) in table.columns.iter().zip(&read_back.columns) {
                assert!(other.dictionary.len() <= own.dictionary.len());
            }
            // Later objects get numbers beyond those of the texts, and are found.
            let mut row = Vec::new();
            record(9_000).encode(&mut row);
            read_back.apply(id(9_000), &row, 1 << 127).unwrap();
            let (mut got, slot) = (Vec::new(), read_back.slot_of(id(9_000)).unwrap());
            read_back.encode(slot, &mut got);
            assert_eq!(got, row);
        }
    }

    #[test]
    fn two_objects_with_one_number_are_refused() {
        let table = table(10);
        let mut twice = Table::new(TYPE, 64);
        for _ in 0..2 {
            read(&mut twice, &write(&table, 0)).unwrap();
        }
        twice.index_all().unwrap_err();
    }

    #[test]
    fn damaged_chunks_are_refused() {
        let whole = write(&table(20), 0);
        for len in 0..whole.len() {
            read(&mut Table::new(TYPE, 64), &whole[..len]).unwrap_err();
        }
    }

    /// Writes two objects as builds before `PACKED` did.
    fn earlier_layout() -> Vec<u8> {
        let mut out = Vec::new();
        put_u32(&mut out, 2);
        // Numbers, both halves of the hashes, the three versions.
        for pair in [[7, 9], [1, 2], [3, 4], [50, 60], [55, 60], [50, 60]] {
            pair.into_iter().for_each(|n| put_u64(&mut out, n));
        }
        out.push(0b10);
        put_varint(&mut out, 2);
        put_bytes(&mut out, b"location");
        out.extend_from_slice(&[1, TEXTS]);
        put_varint(&mut out, 2);
        put_bytes(&mut out, b"/a");
        put_bytes(&mut out, b"/b");
        out.push(0b11);
        [1, 0].into_iter().for_each(|code| put_u32(&mut out, code));
        put_bytes(&mut out, b"n");
        out.extend_from_slice(&[0, INTS | VERSIONS, 0b01]);
        put_u64(&mut out, -4_i64 as u64);
        out.push(0b01);
        put_u64(&mut out, 55);
        put_varint(&mut out, 2);
        out.extend_from_slice(&[2, 0, 1, 1, 0]);
        [0, 1]
            .into_iter()
            .for_each(|shape| put_u32(&mut out, shape));
        out
    }

    #[test]
    fn chunks_of_earlier_builds_are_read() {
        let mut table = Table::new(TYPE, 64);
        read(&mut table, &earlier_layout()).unwrap();
        table.index_all().unwrap();
        let row = |slot| {
            let mut row = Vec::new();
            table.encode(slot, &mut row);
            VertexRecord::decode(&row).unwrap()
        };
        let (first, second) = (row(0), row(1));
        assert_eq!((first.deleted, second.deleted), (false, true));
        assert_eq!((first.first, first.latest), (Version(50), Version(55)));
        assert_eq!(first.attributes.get("location"), Some(&Value::from("/b")));
        assert_eq!(second.attributes.get("location"), Some(&Value::from("/a")));
        let tag = UserAttribute {
            name: "n".into(),
            version: Version(55),
            value: Value::I64(-4),
        };
        assert_eq!(first.user, [tag]);
        assert!(second.user.is_empty());
        assert_eq!(
            table.with_identity(&(1_u128 << 64 | 3).to_be_bytes()),
            Some(0)
        );
        assert_eq!(table.slot_of(ObjectId(9)), Some(1));
    }
}
