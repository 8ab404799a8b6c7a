//! Every named maximum of the server that is not a setting, in one place; those of connections are in [`esker_access::slots`].

use std::time::Duration;

/// Calls of one connection that are under way at once; further ones wait in the connection.
pub const CALLS_PER_CONNECTION: usize = 4_096;
/// Questions of one other server that are under way at once.
pub const QUESTIONS_PER_CONNECTION: usize = 1 << 17;
/// Batches that one group commit takes in.
pub const GROUP_BATCHES_MAX: usize = 4_096;
/// Bytes of requests that one group commit takes in.
pub const GROUP_BYTES_MAX: usize = 8 << 20;
/// Requests of more bytes than this are decoded by a worker rather than by the thread that receives them.
pub const DECODE_HERE_BYTES: usize = 64 << 10;
/// How long an answer waits for a client that does not take it in.
pub const STALL_MAX: Duration = Duration::from_mins(1);
/// How long a read waits for a version that its client has seen elsewhere.
pub const AT_LEAST_MAX: Duration = Duration::from_secs(2);
/// Streams of one HTTP/2 connection: an `Exchange` carries all calls of an Esker client in one.
pub const STREAMS_MAX: u32 = 256;
/// The shortest and the longest time after which a client that was turned away is asked to come back.
pub const RETRY_MIN: Duration = Duration::from_millis(10);
/// See [`RETRY_MIN`].
pub const RETRY_MAX: Duration = Duration::from_secs(2);
/// How long the last answers may take to reach their clients when the server stops.
pub const FLUSH_MAX: Duration = Duration::from_secs(2);
/// Most bytes of answers that travel as one message.
pub const MESSAGE_BYTES: usize = 256 << 10;
/// A message of calls may have so many bytes, however small the limit on one call is: several calls travel in one.
pub const MESSAGE_BYTES_LEAST: usize = 1 << 20;
/// One answer of JSON to a search ends once it has more bytes than this, and says where to go on.
pub const JSON_ANSWER_BYTES: usize = 32 << 20;
/// Requests up to this size about what is in memory are answered by the thread that receives them.
pub const ANSWER_HERE_BYTES: usize = 1 << 10;
/// Batches of so many changes are written by the thread that receives them, where nobody else writes.
pub const WRITE_HERE_MUTATIONS: usize = 16;
/// Objects that are read by the thread that receives the request.
pub const READ_HERE_KEYS: usize = 16;
/// An answer of more bytes than this is given by a thread that may wait for the client to take it in.
pub const REPLY_HERE_BYTES: usize = 128 << 10;
