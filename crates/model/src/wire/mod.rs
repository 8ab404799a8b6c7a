//! The binary encoding of messages between processes of one release: attached processes and the owner of a folder, and
//! the servers of a cluster.
//!
//! A type gets its encoding from one line, [`wire_struct!`](crate::wire_struct) or
//! [`wire_enum!`](crate::wire_enum). The compiler refuses a line that lacks a field or a variant. Integers are big-endian,
//! lengths and integers of up to 32 bits LEB128, values as [`crate::value`] encodes them. A decoder refuses damaged bytes with a [`DecodeError`]; it
//! allocates no more than a small multiple of the bytes that it gets.

#![deny(clippy::indexing_slicing)]

mod error;
mod graph;
mod intern;
mod namespace;
mod object;
mod travel;

pub use intern::intern;
pub use travel::{TravelAssembly, TravelPiece, TravelSummary, pieces};

use crate::codec::{DecodeError, Reader, put_bytes, put_u64, put_varint};
use std::path::PathBuf;
use std::sync::Arc;

/// A type with a binary encoding for messages.
pub trait Wire: Sized {
    /// Appends the encoding to `out`.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads a value that [`Wire::put`] wrote.
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// Appends the encodings of many values.
    fn put_all(items: &[Self], out: &mut Vec<u8>) {
        items.iter().for_each(|item| item.put(out));
    }

    /// Reads `count` values; the caller has checked that each has a byte at least.
    fn take_all(count: usize, r: &mut Reader<'_>) -> Result<Vec<Self>, DecodeError> {
        let mut items = Vec::with_capacity(count.min(1024));
        for _ in 0..count {
            items.push(Self::take(r)?);
        }
        Ok(items)
    }
}

/// Encodes a value as a buffer that contains nothing else; [`decode`] reads it.
pub fn encode(value: &impl Wire) -> Vec<u8> {
    let mut out = Vec::new();
    value.put(&mut out);
    out
}

/// Decodes a buffer that contains exactly one value.
pub fn decode<T: Wire>(bytes: &[u8]) -> Result<T, DecodeError> {
    let mut r = Reader::new(bytes);
    let value = T::take(&mut r)?;
    r.finish()?;
    Ok(value)
}

/// Implements [`Wire`](crate::wire::Wire) for a struct: its fields in the given order.
#[macro_export]
macro_rules! wire_struct {
    ($type:ident { $($field:ident),* $(,)? }) => {
        impl $crate::wire::Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($field.put(out);)*
            }
            fn take(r: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::codec::DecodeError> {
                Ok(Self { $($field: $crate::wire::Wire::take(r)?),* })
            }
        }
    };
}

/// Implements [`Wire`](crate::wire::Wire) for a tuple struct with one field.
#[macro_export]
macro_rules! wire_newtype {
    ($($type:ident),*) => {$(
        impl $crate::wire::Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }
            fn take(r: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::codec::DecodeError> {
                $crate::wire::Wire::take(r).map($type)
            }
        }
    )*};
}

/// Implements [`Wire`](crate::wire::Wire) for an enum: a code, then the fields of the variant.
#[macro_export]
macro_rules! wire_enum {
    ($type:ident { $($code:literal $variant:ident $(($($tuple:ident),*))? $({$($field:ident),*})?),* $(,)? }) => {
        impl $crate::wire::Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $(($($tuple),*))? $({$($field),*})? => {
                        out.push($code);
                        $($($tuple.put(out);)*)?
                        $($($field.put(out);)*)?
                    })*
                }
            }
            fn take(r: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::codec::DecodeError> {
                match r.u8(concat!("a code of ", stringify!($type)))? {
                    $($code => {
                        $($(let $tuple = $crate::wire::Wire::take(r)?;)*)?
                        $($(let $field = $crate::wire::Wire::take(r)?;)*)?
                        Ok(Self::$variant $(($($tuple),*))? $({$($field),*})?)
                    })*
                    _ => Err(r.error(concat!("a code of ", stringify!($type)))),
                }
            }
        }
    };
}

impl Wire for () {
    fn put(&self, _out: &mut Vec<u8>) {}
    fn take(_r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(())
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match r.u8("a truth value")? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(r.error("a truth value (0 or 1)")),
        }
    }
}

impl Wire for u8 {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.u8("a byte")
    }
    fn put_all(items: &[Self], out: &mut Vec<u8>) {
        out.extend_from_slice(items);
    }
    fn take_all(count: usize, r: &mut Reader<'_>) -> Result<Vec<Self>, DecodeError> {
        r.take(count, "bytes").map(<[u8]>::to_vec)
    }
}

macro_rules! wire_varint {
    ($($type:ident),*) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                put_varint(out, u64::from(*self));
            }
            fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let value = r.varint("an integer")?;
                $type::try_from(value).map_err(|_| r.error("a smaller integer"))
            }
        }
    )*};
}
wire_varint!(u16, u32);

impl Wire for usize {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, *self as u64);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let value = r.varint("a size")?;
        Self::try_from(value).map_err(|_| r.error("a size that fits"))
    }
}

impl Wire for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, *self);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.u64("eight bytes")
    }
}

impl Wire for i64 {
    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, *self as u64);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(r.u64("eight bytes")? as i64)
    }
}

impl<const N: usize> Wire for [u8; N] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.array("bytes of a fixed number")
    }
}

macro_rules! wire_array {
    ($($type:ty),*) => {$(
        impl<const N: usize> Wire for [$type; N] {
            fn put(&self, out: &mut Vec<u8>) {
                self.iter().for_each(|item| item.put(out));
            }
            fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let mut items = [<$type>::default(); N];
                for item in &mut items {
                    *item = Wire::take(r)?;
                }
                Ok(items)
            }
        }
    )*};
}
wire_array!(i64, Option<i64>);

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.as_bytes());
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.str("a text").map(str::to_owned)
    }
}

impl Wire for PathBuf {
    fn put(&self, out: &mut Vec<u8>) {
        use std::os::unix::ffi::OsStrExt;
        put_bytes(out, self.as_os_str().as_bytes());
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        use std::os::unix::ffi::OsStrExt;
        r.bytes("a path")
            .map(|b| std::ffi::OsStr::from_bytes(b).into())
    }
}

impl Wire for &'static str {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.as_bytes());
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.str("a text").map(intern)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        bool::take(r)?.then(|| T::take(r)).transpose()
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.len() as u64);
        T::put_all(self, out);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = r.count(1, "a count")?;
        T::take_all(count, r)
    }
}

macro_rules! wire_pointer {
    ($($pointer:ident),*) => {$(
        impl<T: Wire> Wire for $pointer<T> {
            fn put(&self, out: &mut Vec<u8>) {
                (**self).put(out);
            }
            fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                T::take(r).map(Self::new)
            }
        }
    )*};
}
wire_pointer!(Arc);

impl<T: Wire, E: Wire> Wire for Result<T, E> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_ok().put(out);
        match self {
            Ok(value) => value.put(out),
            Err(e) => e.put(out),
        }
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(if bool::take(r)? {
            Ok(T::take(r)?)
        } else {
            Err(E::take(r)?)
        })
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok((A::take(r)?, B::take(r)?))
    }
}
