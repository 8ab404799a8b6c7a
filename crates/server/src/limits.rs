//! Every named maximum of the server that is not a setting, in one place; those of connections are in [`esker_access::slots`].

use std::time::Duration;

/// Calls of one connection in progress at once; further ones wait in the connection.
pub const CALLS_PER_CONNECTION: usize = 4_096;
/// Requests of one other server in progress at once.
pub const PEER_REQUESTS_PER_CONNECTION: usize = 1 << 17;
/// Batches in one group commit.
pub const GROUP_BATCHES_MAX: usize = 4_096;
/// Bytes of requests in one group commit.
pub const GROUP_BYTES_MAX: usize = 8 << 20;
/// Requests of more bytes than this are decoded by a worker, not by the thread that receives them.
pub const INLINE_DECODE_BYTES: usize = 64 << 10;
/// Longest wait for a client that does not read its answer.
pub const STALL_MAX: Duration = Duration::from_mins(1);
/// Longest wait of a read for a version that its client has seen elsewhere.
pub const AT_LEAST_MAX: Duration = Duration::from_secs(2);
/// Streams of one HTTP/2 connection: an `Exchange` carries all calls of an Esker client in one.
pub const STREAMS_MAX: u32 = 256;
/// Shortest time after which a rejected client is asked to retry.
pub const RETRY_MIN: Duration = Duration::from_millis(10);
/// Longest time after which a rejected client is asked to retry.
pub const RETRY_MAX: Duration = Duration::from_secs(2);
/// Time that the last answers may take to reach their clients when the server stops.
pub const FLUSH_MAX: Duration = Duration::from_secs(2);
/// Largest number of bytes of answers in one message.
pub const MESSAGE_BYTES: usize = 256 << 10;
/// Size in bytes that a message of calls may have, however small the limit on one call is: a message has several calls.
pub const MESSAGE_BYTES_LEAST: usize = 1 << 20;
/// A JSON answer to a search ends once it has more bytes than this, and has a cursor to continue from.
pub const JSON_ANSWER_BYTES: usize = 32 << 20;
/// Requests up to this size for data in memory are answered by the thread that receives them.
pub const INLINE_REQUEST_BYTES: usize = 1 << 10;
/// Batches of up to this number of mutations are written by the thread that receives them, if no other write is in progress.
pub const INLINE_WRITE_MUTATIONS: usize = 16;
/// Small batches of one message are written in groups of at least this number of mutations by the thread that receives them.
pub const INLINE_GROUP_MUTATIONS: usize = 64;
/// Requests for up to this number of objects are answered by the thread that receives them.
pub const INLINE_READ_KEYS: usize = 16;
/// Answers of more bytes than this are sent by a thread that may wait for the client.
pub const INLINE_REPLY_BYTES: usize = 128 << 10;
