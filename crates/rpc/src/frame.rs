//! Encoding of the messages of `Exchange` without intermediate copies.
//!
//! ```text
//!  ToServer   (0A hello)? (12 [length] call)*  (1A [length] cancel)* (22 [length] credit)*
//!  ToClient   (0A welcome)? (12 [length] answer)* (18 closing)?
//! ```
//!
//! Each caller or worker encodes its own call or answer in its own thread; the sending thread only joins the queued parts,
//! because repeated fields of a message may have any order and number. On arrival the receiving thread decodes only the
//! outer
//! message; the inner ones are slices of its bytes and are decoded by their consumers.

use crate::proto;
use crate::trace::TraceContext;
use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use prost::encoding::{
    WireType, decode_key, decode_varint, encode_key, encode_varint, encoded_len_varint,
};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

const CALLS: u32 = 2;
const CANCELS: u32 = 3;
const CREDITS: u32 = 4;
const REQUEST_OF_CALL: u32 = 2;
const ANSWERS: u32 = 2;

fn append(field: u32, message: &impl Message, out: &mut Vec<u8>) {
    let length = message.encoded_len();
    out.reserve(length + 12);
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(length as u64, out);
    message.encode_raw(out);
}

/// The fields of a call other than its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallHead {
    /// The client's number for the call.
    pub id: u64,
    /// Newest version that the client has received.
    pub at_least: u64,
    /// Time limit in milliseconds; 0 for the server's own limit.
    pub timeout_ms: u32,
    /// Trace to which the call belongs.
    pub trace: Option<TraceContext>,
}

impl CallHead {
    fn message(&self) -> proto::Call {
        proto::Call {
            id: self.id,
            request: None,
            at_least: self.at_least,
            timeout_ms: self.timeout_ms,
            typed_values: false,
            trace: self
                .trace
                .map_or_else(Vec::new, |trace| trace.to_bytes().to_vec()),
        }
    }
}

/// Number of bytes that [`put_call`] appends.
pub fn call_bytes(head: &CallHead, request: &proto::Request) -> usize {
    let inner = request.encoded_len();
    let rest = head.message().encoded_len();
    let length = rest + 1 + encoded_len_varint(inner as u64) + inner;
    1 + encoded_len_varint(length as u64) + length
}

/// Appends a call to a message: a [`proto::Call`], without moving the request into one.
pub fn put_call(head: &CallHead, request: &proto::Request, out: &mut Vec<u8>) {
    let rest = head.message();
    let inner = request.encoded_len();
    let length = rest.encoded_len() + 1 + encoded_len_varint(inner as u64) + inner;
    out.reserve(length + 12);
    encode_key(CALLS, WireType::LengthDelimited, out);
    encode_varint(length as u64, out);
    rest.encode_raw(out);
    encode_key(REQUEST_OF_CALL, WireType::LengthDelimited, out);
    encode_varint(inner as u64, out);
    request.encode_raw(out);
}

/// Appends a cancellation to a message.
pub fn put_cancel(cancel: proto::Cancel, out: &mut Vec<u8>) {
    append(CANCELS, &cancel, out);
}

/// Appends credit to a message.
pub fn put_credit(credit: proto::Credit, out: &mut Vec<u8>) {
    append(CREDITS, &credit, out);
}

/// Appends an answer to a message.
pub fn put_answer(answer: &proto::Answer, out: &mut Vec<u8>) {
    append(ANSWERS, answer, out);
}

/// A [`proto::Call`] with an encoded request.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RawCall {
    /// The `id` of [`proto::Call`].
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// An encoded [`proto::Request`].
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub request: Option<Bytes>,
    /// The `at_least` of [`proto::Call`].
    #[prost(fixed64, tag = "3")]
    pub at_least: u64,
    /// The `timeout_ms` of [`proto::Call`].
    #[prost(uint32, tag = "4")]
    pub timeout_ms: u32,
    /// The `typed_values` of [`proto::Call`].
    #[prost(bool, tag = "5")]
    pub typed_values: bool,
    /// The `trace` of [`proto::Call`].
    #[prost(bytes = "bytes", tag = "6")]
    pub trace: Bytes,
}

/// A [`proto::ToServer`] with encoded requests.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RawToServer {
    /// The `hello` of [`proto::ToServer`].
    #[prost(message, optional, tag = "1")]
    pub hello: Option<proto::Hello>,
    /// The `calls` of [`proto::ToServer`].
    #[prost(message, repeated, tag = "2")]
    pub calls: Vec<RawCall>,
    /// The `cancels` of [`proto::ToServer`].
    #[prost(message, repeated, tag = "3")]
    pub cancels: Vec<proto::Cancel>,
    /// The `credits` of [`proto::ToServer`].
    #[prost(message, repeated, tag = "4")]
    pub credits: Vec<proto::Credit>,
}

/// A [`proto::Answer`] with an encoded reply.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RawAnswer {
    /// The `id` of [`proto::Answer`].
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// The `more` of [`proto::Answer`].
    #[prost(bool, tag = "2")]
    pub more: bool,
    /// An encoded [`proto::Reply`].
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub reply: Option<Bytes>,
}

/// A [`proto::ToClient`] with encoded replies.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RawToClient {
    /// The `welcome` of [`proto::ToClient`].
    #[prost(message, optional, tag = "1")]
    pub welcome: Option<proto::Welcome>,
    /// The `answers` of [`proto::ToClient`].
    #[prost(message, repeated, tag = "2")]
    pub answers: Vec<RawAnswer>,
    /// The `closing` of [`proto::ToClient`].
    #[prost(bool, tag = "3")]
    pub closing: bool,
}

/// Kind of an encoded request, without decoding it: the number of its field in [`proto::Request`].
pub fn call_number(request: &[u8]) -> Option<u32> {
    field(request).map(|(number, _)| number)
}

/// The first field of a message and its content, if it has a length.
fn field(mut message: &[u8]) -> Option<(u32, &[u8])> {
    let (number, kind) = decode_key(&mut message).ok()?;
    let length = usize::try_from(decode_varint(&mut message).ok()?).ok()?;
    (kind == WireType::LengthDelimited)
        .then(|| message.get(..length))
        .flatten()
        .map(|content| (number, content))
}

/// Code of the call in an encoded request with the field `graph` of [`proto::Request`]: that of its variant in
/// [`esker_model::graph_read::GraphCall`].
pub fn graph_call_code(request: &[u8]) -> Option<u8> {
    field(request).and_then(|(_, call)| call.first().copied())
}

/// Codec for already encoded messages of `Exchange`.
#[derive(Debug, Clone, Copy, Default)]
pub struct FrameCodec;

/// Encoder that copies bytes unchanged.
#[derive(Debug, Clone, Copy)]
pub struct FrameEncoder;

/// Decoder that copies bytes unchanged.
#[derive(Debug, Clone, Copy)]
pub struct FrameDecoder;

impl Codec for FrameCodec {
    type Encode = Vec<u8>;
    type Decode = Bytes;
    type Encoder = FrameEncoder;
    type Decoder = FrameDecoder;

    fn encoder(&mut self) -> FrameEncoder {
        FrameEncoder
    }

    fn decoder(&mut self) -> FrameDecoder {
        FrameDecoder
    }
}

impl Encoder for FrameEncoder {
    type Item = Vec<u8>;
    type Error = Status;

    /// Buffer size that keeps a large message from being sent in many small pieces.
    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(8 << 10, 256 << 10)
    }

    fn encode(&mut self, item: Vec<u8>, dst: &mut EncodeBuf<'_>) -> Result<(), Status> {
        dst.reserve(item.len());
        dst.put_slice(&item);
        Ok(())
    }
}

impl Decoder for FrameDecoder {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, src: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(src.copy_to_bytes(src.remaining())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_joined_parts_are_what_the_definition_says() {
        let call = proto::Call {
            id: 7,
            request: Some(proto::Request {
                call: Some(proto::request::Call::Counts(proto::CountsRequest {})),
            }),
            at_least: 9,
            timeout_ms: 10,
            typed_values: false,
            trace: [[7; 24].as_slice(), &[1]].concat(),
        };
        let head = CallHead {
            id: 7,
            at_least: 9,
            timeout_ms: 10,
            trace: TraceContext::from_bytes(&call.trace),
        };
        let request = call.request.as_ref().unwrap();
        let cancel = proto::Cancel { id: 3, reason: 6 };
        let credit = proto::Credit { id: 4, bytes: 500 };
        let mut joined = Vec::new();
        put_call(&head, request, &mut joined);
        assert_eq!(joined.len(), call_bytes(&head, request));
        put_cancel(cancel, &mut joined);
        put_call(&head, request, &mut joined);
        put_credit(credit, &mut joined);
        let whole = proto::ToServer {
            hello: None,
            calls: vec![call.clone(), call.clone()],
            cancels: vec![cancel],
            credits: vec![credit],
        };
        assert_eq!(proto::ToServer::decode(&joined[..]).unwrap(), whole);
        let raw = RawToServer::decode(&joined[..]).unwrap();
        assert_eq!(raw.encode_to_vec(), whole.encode_to_vec());
        let request = raw.calls[0].request.clone().unwrap();
        assert_eq!(call_number(&request), Some(12));
        assert_eq!(proto::Request::decode(request).ok(), call.request);
    }

    #[test]
    fn answers_of_joined_parts_are_what_the_definition_says() {
        let answer = proto::Answer {
            id: 7,
            more: true,
            reply: Some(proto::Reply {
                reply: Some(proto::reply::Reply::Ping(proto::PingReply::default())),
            }),
        };
        let mut joined = Vec::new();
        put_answer(&answer, &mut joined);
        put_answer(&answer, &mut joined);
        let whole = proto::ToClient {
            welcome: None,
            answers: vec![answer.clone(), answer],
            closing: false,
        };
        assert_eq!(proto::ToClient::decode(&joined[..]).unwrap(), whole);
        let raw = RawToClient::decode(&joined[..]).unwrap();
        assert_eq!(raw.encode_to_vec(), whole.encode_to_vec());
    }
}
