//! Values and properties: encoding and decoding are inverse, comparison is an order wherever it is defined.

use crate::strategies::{damaged, integer, properties, text, value};
use esker_model::codec::Reader;
use esker_model::limits::LIST_DEPTH_MAX;
use esker_model::{Properties, Value, ValueKind};
use proptest::prelude::*;
use std::cmp::Ordering::{self, Equal, Greater, Less};

fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut out);
    out
}

fn encoded_properties(properties: &Properties) -> Vec<u8> {
    let mut out = Vec::new();
    properties.encode(&mut out);
    out
}

/// Compares exactly, by 128-bit integers and the parts of the double.
fn reference_compare(a: i64, b: f64) -> Option<Ordering> {
    if b.is_nan() {
        return None;
    }
    if b.is_infinite() || b.abs() >= 1e30 {
        return Some(if b > 0.0 { Less } else { Greater });
    }
    let floor = b.floor();
    #[allow(clippy::cast_possible_truncation, reason = "whole and below 1e30")]
    let whole = floor as i128;
    Some(match i128::from(a).cmp(&whole) {
        Equal if b > floor => Less,
        order => order,
    })
}

proptest! {
    #[test]
    fn values_come_back_and_skip_as_far(value in value(true), behind in any::<u8>()) {
        let mut bytes = encoded(&value);
        let len = bytes.len();
        bytes.push(behind);
        let mut r = Reader::new(&bytes);
        let back = Value::decode(&mut r);
        prop_assert!(back.is_ok());
        prop_assert_eq!(r.position(), len);
        // NaN equals nothing, but its bits do.
        prop_assert_eq!(encoded(&back.unwrap()), encoded(&value));
        let mut r = Reader::new(&bytes);
        prop_assert_eq!(Value::skip(&mut r), Ok(()));
        prop_assert_eq!(r.position(), len);
    }

    #[test]
    fn any_bytes_decode_or_are_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..64),
        near in damaged(value(true).prop_map(|v| encoded(&v))),
        pairs in damaged(properties().prop_map(|p| encoded_properties(&p))),
    ) {
        for bytes in [bytes, near, pairs] {
            let mut skipper = Reader::new(&bytes);
            let skipped = Value::skip(&mut skipper);
            let mut reader = Reader::new(&bytes);
            if Value::decode(&mut reader).is_ok() {
                prop_assert_eq!(skipped, Ok(()));
                prop_assert_eq!(skipper.position(), reader.position());
            }
            if let Ok(properties) = Properties::decode(&mut Reader::new(&bytes)) {
                let names: Vec<_> = properties.iter().map(|(n, _)| n).collect();
                prop_assert!(names.is_sorted() && names.windows(2).all(|w| w[0] != w[1]));
            }
        }
    }

    #[test]
    fn comparison_is_antisymmetric(a in value(true), b in value(true)) {
        prop_assert_eq!(a.compare(&b), b.compare(&a).map(Ordering::reverse));
    }

    #[test]
    fn comparison_is_transitive(a in number(), b in number(), c in number()) {
        let (ab, bc) = (a.compare(&b), b.compare(&c));
        if let (Some(x), Some(y)) = (ab, bc)
            && (x == y || x == Equal || y == Equal)
        {
            let expected = if x == Equal { y } else { x };
            prop_assert_eq!(a.compare(&c), Some(expected), "{:?} {:?} {:?}", a, b, c);
        }
    }

    #[test]
    fn every_value_equals_itself(a in value(false)) {
        prop_assert_eq!(a.compare(&a), Some(Equal));
    }

    #[test]
    fn integers_and_doubles_compare_exactly(a in integer(), b in any::<f64>(), nudge in -2_i64..3) {
        let near = a.saturating_add(nudge) as f64;
        for b in [b, near, near + 0.5, near.next_down(), near.next_up()] {
            let expected = reference_compare(a, b);
            prop_assert_eq!(Value::I64(a).compare(&Value::F64(b)), expected, "{} {}", a, b);
        }
    }

    #[test]
    fn properties_come_back(properties in properties()) {
        let bytes = encoded_properties(&properties);
        let mut r = Reader::new(&bytes);
        prop_assert_eq!(Properties::decode(&mut r), Ok(properties));
        prop_assert_eq!(r.remaining(), 0);
    }

    #[test]
    fn properties_keep_the_last_value_of_a_name(
        pairs in proptest::collection::vec(("[a-d]", integer()), 0..12), gone in "[a-d]",
    ) {
        let mut reference = std::collections::BTreeMap::new();
        let mut properties = Properties::new();
        for (name, n) in &pairs {
            reference.insert(name.clone(), Value::I64(*n));
            properties.set(name.as_str(), *n);
        }
        prop_assert_eq!(properties.remove(&gone), reference.remove(&gone));
        prop_assert_eq!(properties.get(&gone), None);
        prop_assert_eq!(properties.len(), reference.len());
        let got: Vec<_> = properties.into_iter().collect();
        prop_assert_eq!(got, reference.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn depth_counts_lists(value in value(true)) {
        let wrapped = Value::List(vec![value.clone()]);
        prop_assert_eq!(wrapped.depth(), value.depth() + 1);
    }

    #[test]
    fn strings_of_any_kind_have_an_order(a in text(), b in text()) {
        let order = Value::from(a.as_str()).compare(&Value::from(b.as_str()));
        prop_assert_eq!(order, Some(a.cmp(&b)));
    }
}

/// Numbers of both kinds that are close together.
fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        integer().prop_map(Value::I64),
        integer().prop_map(|n| Value::F64(n as f64)),
        (integer(), -2_i64..3).prop_map(|(n, d)| Value::I64(n.saturating_add(d))),
        any::<f64>().prop_map(Value::F64),
    ]
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |inner, _| Value::List(vec![inner]))
}

#[test]
fn lists_nest_as_deep_as_the_limit_and_no_deeper() {
    let deepest = nested(LIST_DEPTH_MAX);
    assert_eq!(
        Value::decode(&mut Reader::new(&encoded(&deepest))),
        Ok(deepest)
    );
    let bytes = encoded(&nested(LIST_DEPTH_MAX + 1));
    let error = Value::decode(&mut Reader::new(&bytes)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "byte 17: expected a list nested at most 8 deep"
    );
}

/// `skip` must not follow lists deeper than `decode` does: damaged bytes could exhaust the stack.
#[test]
fn skipping_refuses_lists_that_decoding_refuses() {
    let bytes: Vec<u8> = [8, 1].repeat(500_000);
    assert!(Value::decode(&mut Reader::new(&bytes)).is_err());
    assert!(Value::skip(&mut Reader::new(&bytes)).is_err());
    let too_deep = encoded(&nested(LIST_DEPTH_MAX + 1));
    assert!(Value::skip(&mut Reader::new(&too_deep)).is_err());
    assert!(Value::skip(&mut Reader::new(&encoded(&nested(LIST_DEPTH_MAX)))).is_ok());
}

#[test]
fn a_damaged_length_allocates_nothing() {
    // A list, then a string, of 2^60 items: refused before any allocation.
    for kind in [8_u8, 5, 6] {
        let bytes = [
            &[kind][..],
            &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10],
        ]
        .concat();
        assert!(Value::decode(&mut Reader::new(&bytes)).is_err());
    }
}

#[test]
fn value_bytes_are_a_format() {
    let hex = |value: Value| {
        encoded(&value)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect::<String>()
    };
    assert_eq!(hex(Value::Null), "00");
    assert_eq!(hex(Value::Bool(false)), "01");
    assert_eq!(hex(Value::Bool(true)), "02");
    assert_eq!(hex(Value::I64(-1)), "0301");
    assert_eq!(hex(Value::I64(300)), "03d804");
    assert_eq!(hex(Value::F64(1.0)), "043ff0000000000000");
    assert_eq!(hex(Value::from("é")), "0502c3a9");
    assert_eq!(hex(Value::Bytes(vec![0, 255])), "060200ff");
    assert_eq!(hex(Value::Timestamp(1)), "0702");
    assert_eq!(
        hex(Value::List(vec![Value::Null, Value::I64(0)])),
        "0802000300"
    );
}

#[test]
fn kinds_have_stable_codes_and_names() {
    let expected = [
        "bool",
        "i64",
        "f64",
        "string",
        "bytes",
        "timestamp",
        "list",
        "any",
    ];
    for (code, name) in expected.into_iter().enumerate() {
        let kind = ValueKind::from_code(u8::try_from(code).unwrap()).unwrap();
        assert_eq!((kind.name(), usize::from(kind.code())), (name, code));
        assert_eq!(ValueKind::from_name(name), Some(kind));
    }
    assert_eq!(ValueKind::from_code(8), None);
    assert_eq!(ValueKind::from_name("int"), None);
}

#[test]
fn kinds_accept_their_own_and_null() {
    assert!(ValueKind::F64.accepts(&Value::I64(1)));
    assert!(!ValueKind::I64.accepts(&Value::F64(1.0)));
    assert!(ValueKind::Any.accepts(&Value::Bytes(Vec::new())));
    assert!(ValueKind::ALL.iter().all(|kind| kind.accepts(&Value::Null)));
    assert!(!ValueKind::Timestamp.accepts(&Value::I64(1)));
}
