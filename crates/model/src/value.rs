//! Typed property values and their encoding.
//!
//! ```text
//!  [00] null          [01] false   [02] true
//!  [03][i64 zigzag LEB128]         [04][f64 bits, big-endian 8]
//!  [05][len][UTF-8]                [06][len][bytes]
//!  [07][i64 zigzag LEB128, nanoseconds since 1970-01-01 UTC]
//!  [08][count][value …]            lists nest at most LIST_DEPTH_MAX deep
//! ```

use crate::codec::{DecodeError, Reader, put_bytes, put_u64, put_varint};
use crate::filter::ValueRef;
use crate::limits::LIST_DEPTH_MAX;
use std::cmp::Ordering;

/// The value of a property or an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Null: the name exists and has no value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A signed 64-bit integer.
    I64(i64),
    /// An IEEE 754 double.
    F64(f64),
    /// A UTF-8 text.
    String(String),
    /// A string of raw bytes.
    Bytes(Vec<u8>),
    /// A time in nanoseconds since 1970-01-01T00:00:00Z.
    Timestamp(i64),
    /// An ordered list of values, possibly of different kinds.
    List(Vec<Value>),
}

/// The kind of a [`Value`], as schemas declare it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueKind {
    /// A truth value.
    Bool,
    /// A signed 64-bit integer.
    I64,
    /// An IEEE 754 double; integers are accepted and widened.
    F64,
    /// A UTF-8 text.
    String,
    /// A string of raw bytes.
    Bytes,
    /// A time in nanoseconds since 1970-01-01T00:00:00Z.
    Timestamp,
    /// An ordered list of values.
    List,
    /// Any kind of value.
    Any,
}

impl ValueKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [Self; 8] = [
        Self::Bool,
        Self::I64,
        Self::F64,
        Self::String,
        Self::Bytes,
        Self::Timestamp,
        Self::List,
        Self::Any,
    ];

    /// Returns the name of this kind in schemas and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I64 => "i64",
            Self::F64 => "f64",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "timestamp",
            Self::List => "list",
            Self::Any => "any",
        }
    }

    /// Returns the kind with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the stored code of this kind.
    pub fn code(self) -> u8 {
        Self::ALL
            .iter()
            .position(|kind| *kind == self)
            .map_or(u8::MAX, |i| i as u8)
    }

    /// Returns the kind with that stored code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Whether a value may be stored under a declaration of this kind (null always may).
    pub fn accepts(self, value: &Value) -> bool {
        match value.kind() {
            None => true,
            Some(kind) => {
                self == Self::Any || self == kind || (self == Self::F64 && kind == Self::I64)
            }
        }
    }
}

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const I64: u8 = 3;
const F64: u8 = 4;
const STRING: u8 = 5;
const BYTES: u8 = 6;
const TIMESTAMP: u8 = 7;
const LIST: u8 = 8;

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

impl Value {
    /// Returns the kind of this value; `None` for null.
    pub fn kind(&self) -> Option<ValueKind> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(_) => ValueKind::Bool,
            Self::I64(_) => ValueKind::I64,
            Self::F64(_) => ValueKind::F64,
            Self::String(_) => ValueKind::String,
            Self::Bytes(_) => ValueKind::Bytes,
            Self::Timestamp(_) => ValueKind::Timestamp,
            Self::List(_) => ValueKind::List,
        })
    }

    /// Returns the name of the value's kind, `null` included.
    pub fn kind_name(&self) -> &'static str {
        self.kind().map_or("null", ValueKind::name)
    }

    /// Compares as filters do: numbers by value whatever their kind, other kinds among themselves; `None` where no
    /// order is defined.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Null, Self::Null) => Some(Ordering::Equal),
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::I64(a), Self::I64(b)) | (Self::Timestamp(a), Self::Timestamp(b)) => {
                Some(a.cmp(b))
            }
            (Self::F64(a), Self::F64(b)) => a.partial_cmp(b),
            (Self::I64(a), Self::F64(b)) => compare_i64_f64(*a, *b),
            (Self::F64(a), Self::I64(b)) => compare_i64_f64(*b, *a).map(Ordering::reverse),
            (Self::String(a), Self::String(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::List(a), Self::List(b)) => {
                for (x, y) in a.iter().zip(b) {
                    match x.compare(y)? {
                        Ordering::Equal => {}
                        order => return Some(order),
                    }
                }
                Some(a.len().cmp(&b.len()))
            }
            _ => None,
        }
    }

    /// Appends the encoded value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.push(NULL),
            Self::Bool(false) => out.push(FALSE),
            Self::Bool(true) => out.push(TRUE),
            Self::I64(v) => {
                out.push(I64);
                put_varint(out, zigzag(*v));
            }
            Self::F64(v) => {
                out.push(F64);
                put_u64(out, v.to_bits());
            }
            Self::String(v) => {
                out.push(STRING);
                put_bytes(out, v.as_bytes());
            }
            Self::Bytes(v) => {
                out.push(BYTES);
                put_bytes(out, v);
            }
            Self::Timestamp(v) => {
                out.push(TIMESTAMP);
                put_varint(out, zigzag(*v));
            }
            Self::List(items) => {
                out.push(LIST);
                put_varint(out, items.len() as u64);
                for item in items {
                    item.encode(out);
                }
            }
        }
    }

    /// Decodes a single value.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::decode_at_depth(r, 0)
    }

    fn decode_at_depth(r: &mut Reader<'_>, depth: usize) -> Result<Self, DecodeError> {
        Ok(match r.u8("a value's kind")? {
            NULL => Self::Null,
            FALSE => Self::Bool(false),
            TRUE => Self::Bool(true),
            I64 => Self::I64(unzigzag(r.varint("an i64")?)),
            F64 => Self::F64(f64::from_bits(r.u64("an f64")?)),
            STRING => Self::String(r.str("a UTF-8 string")?.to_owned()),
            BYTES => Self::Bytes(r.bytes("bytes")?.to_owned()),
            TIMESTAMP => Self::Timestamp(unzigzag(r.varint("a timestamp")?)),
            LIST => {
                if depth >= LIST_DEPTH_MAX {
                    return Err(r.error("a list nested at most 8 deep"));
                }
                let count = r.count(1, "a list's length")?;
                let mut items = Vec::with_capacity(count);
                for _ in 0..count {
                    items.push(Self::decode_at_depth(r, depth + 1)?);
                }
                Self::List(items)
            }
            _ => return Err(r.error("a value's kind (0 to 8)")),
        })
    }

    /// Skips one value without building it.
    pub fn skip(r: &mut Reader<'_>) -> Result<(), DecodeError> {
        Self::skip_at_depth(r, 0)
    }

    fn skip_at_depth(r: &mut Reader<'_>, depth: usize) -> Result<(), DecodeError> {
        match r.u8("a value's kind")? {
            NULL | FALSE | TRUE => {}
            I64 | TIMESTAMP => {
                r.varint("an integer")?;
            }
            F64 => {
                r.u64("an f64")?;
            }
            STRING | BYTES => {
                r.bytes("bytes")?;
            }
            LIST => {
                if depth >= LIST_DEPTH_MAX {
                    return Err(r.error("a list nested at most 8 deep"));
                }
                for _ in 0..r.count(1, "a list's length")? {
                    Self::skip_at_depth(r, depth + 1)?;
                }
            }
            _ => return Err(r.error("a value's kind (0 to 8)")),
        }
        Ok(())
    }

    /// Returns the nesting depth of lists: 0 for any other kind.
    pub fn depth(&self) -> usize {
        match self {
            Self::List(items) => 1 + items.iter().map(Self::depth).max().unwrap_or(0),
            _ => 0,
        }
    }
}

/// A value that borrows its text from the buffer it was decoded from.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueView<'a> {
    /// Null: the name exists and has no value.
    Null,
    /// A signed 64-bit integer.
    I64(i64),
    /// An IEEE 754 double.
    F64(f64),
    /// A UTF-8 text, borrowed.
    Text(&'a str),
    /// A time in nanoseconds since 1970-01-01T00:00:00Z.
    Timestamp(i64),
    /// A value of any other kind, owned.
    Other(Value),
}

impl<'a> ValueView<'a> {
    /// Decodes a single value.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(match r.peek() {
            Some(STRING) => {
                r.u8("a value's kind")?;
                Self::Text(r.str("a UTF-8 string")?)
            }
            _ => match Value::decode(r)? {
                Value::Null => Self::Null,
                Value::I64(v) => Self::I64(v),
                Value::F64(v) => Self::F64(v),
                Value::Timestamp(v) => Self::Timestamp(v),
                other => Self::Other(other),
            },
        })
    }

    /// Returns the value in the form that filters test.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::I64(v) => ValueRef::I64(*v),
            Self::F64(v) => ValueRef::F64(*v),
            Self::Text(v) => ValueRef::String(v),
            Self::Timestamp(v) => ValueRef::Timestamp(*v),
            Self::Other(v) => ValueRef::from(v),
        }
    }

    /// Copies the value into an owned [`Value`].
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::I64(v) => Value::I64(*v),
            Self::F64(v) => Value::F64(*v),
            Self::Text(v) => Value::String((*v).to_owned()),
            Self::Timestamp(v) => Value::Timestamp(*v),
            Self::Other(v) => v.clone(),
        }
    }

    /// Appends the encoding of the value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => {
                out.push(STRING);
                put_bytes(out, text.as_bytes());
            }
            Self::Other(v) => v.encode(out),
            plain => plain.to_value().encode(out),
        }
    }
}

impl<'a> From<&'a Value> for ValueView<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::I64(v) => Self::I64(*v),
            Value::F64(v) => Self::F64(*v),
            Value::String(v) => Self::Text(v),
            Value::Timestamp(v) => Self::Timestamp(*v),
            other => Self::Other(other.clone()),
        }
    }
}

/// Compares exactly: an `i64` beyond 2^53 does not fit a double.
fn compare_i64_f64(a: i64, b: f64) -> Option<Ordering> {
    if b.is_nan() {
        return None;
    }
    if b >= 9_223_372_036_854_775_808.0 {
        return Some(Ordering::Less);
    }
    if b < -9_223_372_036_854_775_808.0 {
        return Some(Ordering::Greater);
    }
    let whole = b.trunc() as i64;
    Some(
        a.cmp(&whole)
            .then_with(|| 0.0_f64.total_cmp(&(b - b.trunc() + 0.0))),
    )
}

impl From<&str> for Value {
    fn from(v: &str) -> Self {
        Self::String(v.to_owned())
    }
}

impl From<String> for Value {
    fn from(v: String) -> Self {
        Self::String(v)
    }
}

impl From<i64> for Value {
    fn from(v: i64) -> Self {
        Self::I64(v)
    }
}

impl From<f64> for Value {
    fn from(v: f64) -> Self {
        Self::F64(v)
    }
}

impl From<bool> for Value {
    fn from(v: bool) -> Self {
        Self::Bool(v)
    }
}

/// Name-value pairs, sorted by name, each name once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Properties(Vec<(String, Value)>);

impl Properties {
    /// Creates an empty list of properties.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Sets one property, replacing the value of that name.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        let (name, value) = (name.into(), value.into());
        match self.0.binary_search_by(|(n, _)| n.as_str().cmp(&name)) {
            Ok(i) => self.0[i].1 = value,
            Err(i) => self.0.insert(i, (name, value)),
        }
    }

    /// Sets one property and returns the list, for building in one expression.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.set(name, value);
        self
    }

    /// Builds the list from pairs sorted by name, each name once; other input is sorted first.
    pub fn from_sorted(pairs: Vec<(String, Value)>) -> Self {
        if pairs.is_sorted_by(|a, b| a.0 < b.0) {
            Self(pairs)
        } else {
            pairs.into_iter().collect()
        }
    }

    /// Removes one property and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let i = self
            .0
            .binary_search_by(|(n, _)| n.as_str().cmp(name))
            .ok()?;
        Some(self.0.remove(i).1)
    }

    /// Returns the value of that name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let i = self
            .0
            .binary_search_by(|(n, _)| n.as_str().cmp(name))
            .ok()?;
        Some(&self.0[i].1)
    }

    /// Iterates over the pairs, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v))
    }

    /// Returns the number of properties.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends `[count]([len][name][value])*`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0.len() as u64);
        for (name, value) in &self.0 {
            put_bytes(out, name.as_bytes());
            value.encode(out);
        }
    }

    /// Decodes the output of [`Self::encode`].
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = r.count(2, "a property count")?;
        let mut pairs: Vec<(String, Value)> = Vec::with_capacity(count);
        for _ in 0..count {
            let name = r.str("a property's name")?;
            if pairs.last().is_some_and(|(last, _)| last.as_str() >= name) {
                return Err(r.error("property names in order"));
            }
            pairs.push((name.to_owned(), Value::decode(r)?));
        }
        Ok(Self(pairs))
    }
}

impl FromIterator<(String, Value)> for Properties {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(pairs: I) -> Self {
        let mut out = Self::new();
        for (name, value) in pairs {
            out.set(name, value);
        }
        out
    }
}

impl IntoIterator for Properties {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
