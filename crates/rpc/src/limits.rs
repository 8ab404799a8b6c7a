//! Every named maximum of the wire, in one place.

use std::time::Duration;

/// Largest message that a server takes unless its settings say otherwise, in bytes. It bounds a batch and a frontier.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Largest message that a client takes, in bytes. Servers send answers in pieces of about [`PIECE_BYTES`].
pub const ANSWER_MESSAGE_BYTES_MAX: usize = 256 << 20;
/// A piece of a streamed answer is sent once it fills this many bytes.
pub const PIECE_BYTES: usize = 64 << 10;
/// Calls that have piled up travel in messages of about this many bytes.
pub const MESSAGE_BYTES: usize = 64 << 10;
/// Bytes of one call's answer that a server may have sent before the client takes any in.
pub const CREDIT_BYTES: u64 = 1 << 20;
/// Bytes of calls that wait to be sent before further callers wait too.
pub const OUTGOING_BYTES_MAX: usize = 8 << 20;
/// Largest message between servers of a cluster, in bytes: parts of working sets and of partitions that move.
pub const PEER_MESSAGE_BYTES_MAX: usize = 256 << 20;
/// Bytes of questions that wait to be sent to one server before further ones fail.
pub const PEER_WAITING_BYTES_MAX: usize = 512 << 20;
/// Bytes of batches that a client keeps because no checkpoint holds them; with more, it waits for one.
pub const KEPT_BYTES_MAX: usize = 64 << 20;
/// How often a client that keeps batches asks what checkpoints hold.
pub const WINDOW_POLL: Duration = Duration::from_millis(200);
/// Batches that a client sends again at once, after a server died.
pub const REPLAYS_IN_FLIGHT: usize = 2_048;
/// Window of one HTTP/2 stream, in bytes.
pub const STREAM_WINDOW_BYTES: u32 = 8 << 20;
/// Window of one HTTP/2 connection, in bytes.
pub const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Largest HTTP/2 frame, in bytes.
pub const HTTP2_FRAME_BYTES: u32 = 256 << 10;
/// How long a client waits for a connection and for its greeting.
pub const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long a client bears with a server that does not answer or cannot be reached any more, unless its address says
/// otherwise.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How often each end asks a silent connection whether the other end is there.
pub const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// How often a caller that waits asks whether its answer is wanted still.
pub const CANCEL_POLL: Duration = Duration::from_millis(10);
/// How long a caller that asked for an answer to stop waits for what was found.
pub const CANCEL_GRACE: Duration = Duration::from_secs(10);
/// Deepest nesting of messages that is decoded: lists nest at most 8 deep, two messages a level.
pub const NESTING_MAX: usize = 64;
