//! Encoding of types on the socket: the trait, and its basic implementations.

#![deny(clippy::indexing_slicing)]

use esker_model::codec::{DecodeError, Reader, put_bytes, put_u64, put_varint};
use esker_process::text::intern;
use std::path::PathBuf;

/// A type with an encoding on the socket.
pub(crate) trait Wire: Sized {
    /// Appends the encoding to `out`.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads a value that [`Wire::put`] wrote.
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

/// Decodes a buffer that contains exactly one value.
pub(crate) fn decode<T: Wire>(bytes: &[u8]) -> Result<T, DecodeError> {
    let mut r = Reader::new(bytes);
    let value = T::take(&mut r)?;
    r.finish()?;
    Ok(value)
}

/// Implements [`Wire`] for a struct: its fields in the given order.
macro_rules! wire_struct {
    ($type:ident { $($field:ident),* $(,)? }) => {
        impl $crate::wire::encoding::Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($field.put(out);)*
            }
            fn take(r: &mut esker_model::codec::Reader<'_>) -> Result<Self, esker_model::codec::DecodeError> {
                Ok(Self { $($field: $crate::wire::encoding::Wire::take(r)?),* })
            }
        }
    };
}

/// Implements [`Wire`] for a tuple struct with one field.
macro_rules! wire_newtype {
    ($($type:ident),*) => {$(
        impl $crate::wire::encoding::Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }
            fn take(r: &mut esker_model::codec::Reader<'_>) -> Result<Self, esker_model::codec::DecodeError> {
                $crate::wire::encoding::Wire::take(r).map($type)
            }
        }
    )*};
}

/// Implements [`Wire`] for an enum: a code, then the fields of the variant.
macro_rules! wire_enum {
    ($type:ident { $($code:literal $variant:ident $(($($tuple:ident),*))? $({$($field:ident),*})?),* $(,)? }) => {
        impl $crate::wire::encoding::Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $(($($tuple),*))? $({$($field),*})? => {
                        out.push($code);
                        $($($tuple.put(out);)*)?
                        $($($field.put(out);)*)?
                    })*
                }
            }
            fn take(r: &mut esker_model::codec::Reader<'_>) -> Result<Self, esker_model::codec::DecodeError> {
                match r.u8(concat!("a code of ", stringify!($type)))? {
                    $($code => {
                        $($(let $tuple = $crate::wire::encoding::Wire::take(r)?;)*)?
                        $($(let $field = $crate::wire::encoding::Wire::take(r)?;)*)?
                        Ok(Self::$variant $(($($tuple),*))? $({$($field),*})?)
                    })*
                    _ => Err(r.error(concat!("a code of ", stringify!($type)))),
                }
            }
        }
    };
}

pub(crate) use {wire_enum, wire_newtype, wire_struct};

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

impl Wire for [u8; 16] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.array("16 bytes")
    }
}

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
        for item in self {
            item.put(out);
        }
    }
    fn take(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = r.count(1, "a count")?;
        let mut items = Self::with_capacity(count.min(1024));
        for _ in 0..count {
            items.push(T::take(r)?);
        }
        Ok(items)
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
