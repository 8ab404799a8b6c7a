//! The part of an encoded request that a record needs: the first items of each list, in a bounded number of bytes.

use esker_audit::record::TARGETS_MAX;
use esker_model::graph_read::{GraphCall, GraphCallAs};
use esker_model::wire::{decode, encode};
use esker_rpc::proto;
use esker_rpc::proto::request::Call;
use prost::Message as _;
use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint};

/// Requests up to this number of bytes are kept whole.
const WHOLE_BYTES: usize = 4 << 10;
/// Bytes that are kept of a larger request.
const KEPT_BYTES: usize = 8 << 10;
/// Numbers of the fields in `Request` that contain another encoding, or another request.
const AS: u32 = 41;
const GRAPH: u32 = 46;
const GRAPH_AS: u32 = 47;

/// A request without most of its items.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ShrunkRequest {
    /// An encoded `Request`; empty if the request cannot be shrunk.
    pub(super) bytes: Box<[u8]>,
    /// Number of items in its longest list, if not all were kept.
    pub(super) items: Option<u64>,
}

/// Shrinks an encoded `Request`.
pub(super) fn shrink(request: &[u8]) -> ShrunkRequest {
    if request.len() <= WHOLE_BYTES {
        return ShrunkRequest {
            bytes: request.into(),
            items: None,
        };
    }
    let mut out = Vec::new();
    let items = shrink_request(request, false, &mut out).unwrap_or_else(|| {
        out.clear();
        0
    });
    ShrunkRequest {
        bytes: out.into(),
        items: Some(items).filter(|items| *items > 0),
    }
}

/// One field of an encoded message.
struct EncodedField<'a> {
    number: u32,
    /// The whole field, with its key.
    whole: &'a [u8],
    /// The value of a field with a length.
    value: Option<&'a [u8]>,
}

/// Takes the next field off an encoded message.
fn next<'a>(message: &mut &'a [u8]) -> Option<EncodedField<'a>> {
    let begin = *message;
    let (number, kind) = decode_key(message).ok()?;
    let mut value = None;
    match kind {
        WireType::Varint => {
            decode_varint(message).ok()?;
        }
        WireType::SixtyFourBit => *message = message.get(8..)?,
        WireType::ThirtyTwoBit => *message = message.get(4..)?,
        WireType::LengthDelimited => {
            let length = usize::try_from(decode_varint(message).ok()?).ok()?;
            value = Some(message.get(..length)?);
            *message = message.get(length..)?;
        }
        WireType::StartGroup | WireType::EndGroup => return None,
    }
    let whole = begin.get(..begin.len() - message.len())?;
    Some(EncodedField {
        number,
        whole,
        value,
    })
}

fn put(number: u32, value: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// Shrinks a `Request`, and returns the length of its longest list; `None` if it is malformed.
fn shrink_request(mut request: &[u8], is_inner: bool, out: &mut Vec<u8>) -> Option<u64> {
    let call = next(&mut request)?;
    let value = call.value?;
    if matches!(call.number, GRAPH | GRAPH_AS) {
        return shrink_graph_call(call.number, value, out);
    }
    let has_request = call.number == AS;
    // A request on behalf of a user contains another request.
    if has_request && is_inner {
        return None;
    }
    let mut inner = Vec::new();
    let items = shrink_message(value, has_request, &mut inner)?;
    put(call.number, &inner, out);
    Some(items)
}

/// Keeps the first fields of each number.
fn shrink_message(mut message: &[u8], has_request: bool, out: &mut Vec<u8>) -> Option<u64> {
    let mut counts: Vec<(u32, u64)> = Vec::new();
    while !message.is_empty() {
        let field = next(&mut message)?;
        if has_request && field.number == 2 {
            if counts.iter().any(|(number, _)| *number == 0) {
                return None;
            }
            let mut inner = Vec::new();
            let items = shrink_request(field.value?, true, &mut inner)?;
            put(2, &inner, out);
            counts.push((0, items));
            continue;
        }
        let count = if let Some((_, count)) = counts.iter_mut().find(|(n, _)| *n == field.number) {
            *count += 1;
            *count
        } else {
            counts.push((field.number, 1));
            1
        };
        if count <= TARGETS_MAX as u64 && out.len() + field.whole.len() <= KEPT_BYTES {
            out.extend_from_slice(field.whole);
        }
    }
    counts.iter().map(|(_, count)| *count).max()
}

/// Shrinks a read of the graph by a client of the same release, whose encoding cannot be cut.
fn shrink_graph_call(number: u32, bytes: &[u8], out: &mut Vec<u8>) -> Option<u64> {
    let (call, items) = if number == GRAPH_AS {
        let mut read: GraphCallAs = decode(bytes).ok()?;
        let items = truncate(&mut read.call);
        (Call::GraphAs(encode(&read)), items)
    } else {
        let mut read: GraphCall = decode(bytes).ok()?;
        let items = truncate(&mut read);
        (Call::Graph(encode(&read)), items)
    };
    let request = proto::Request { call: Some(call) };
    if request.encoded_len() > 2 * KEPT_BYTES {
        return None;
    }
    request.encode(out).ok()?;
    Some(items)
}

fn truncate(read: &mut GraphCall) -> u64 {
    let items = read.named_rows() as u64;
    match read {
        GraphCall::ReadVertices(ids, _) | GraphCall::ScanEdges(ids, _) => ids.truncate(TARGETS_MAX),
        GraphCall::ReadEdges(keys, _) => keys.truncate(TARGETS_MAX),
        GraphCall::Degrees(of) => of.truncate(TARGETS_MAX),
        _ => {}
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_model::{Version, VertexId};
    use proptest::prelude::*;

    fn names(count: usize, bytes: usize) -> proto::Request {
        let names = (0..count).map(|n| format!("{n:0bytes$}")).collect();
        let call = proto::ReadVerticesRequest {
            names,
            as_of: Some(7),
            ..Default::default()
        };
        proto::Request {
            call: Some(Call::ReadVertices(call)),
        }
    }

    fn kept(request: &proto::Request) -> (proto::Request, Option<u64>) {
        let shrunk = shrink(&request.encode_to_vec());
        let decoded = proto::Request::decode(&*shrunk.bytes).unwrap();
        (decoded, shrunk.items)
    }

    #[test]
    fn a_large_request_keeps_its_first_items_and_their_number() {
        let small = names(5, 10);
        assert_eq!(kept(&small), (small, None));
        let (request, items) = kept(&names(1_000, 100));
        assert_eq!(items, Some(1_000));
        assert_eq!(request, names(16, 100));
        let inner = proto::Request {
            call: Some(Call::As(Box::new(proto::AsRequest {
                principal: None,
                request: Some(Box::new(names(1_000, 100))),
            }))),
        };
        let (request, items) = kept(&inner);
        let Some(Call::As(call)) = request.call else {
            panic!("{request:?}");
        };
        assert_eq!(
            (*call.request.unwrap(), items),
            (names(16, 100), Some(1_000))
        );
        let read = GraphCall::ReadVertices(vec![VertexId([7; 16]); 900], Version::MAX);
        let graph = proto::Request {
            call: Some(Call::Graph(encode(&read))),
        };
        let (request, items) = kept(&graph);
        let Some(Call::Graph(bytes)) = request.call else {
            panic!("{request:?}");
        };
        assert_eq!(decode::<GraphCall>(&bytes).unwrap().named_rows(), 16);
        assert_eq!(items, Some(900));
    }

    #[test]
    fn a_large_value_is_left_out() {
        let (request, items) = kept(&names(3, 5_000));
        assert_eq!((request, items), (names(1, 5_000), Some(3)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_shrunk_to_few(bytes in proptest::collection::vec(any::<u8>(), 0..20_000)) {
            prop_assert!(shrink(&bytes).bytes.len() <= 3 * KEPT_BYTES);
        }
    }
}
