//! Named limits of the network protocol.

use std::time::Duration;

/// Default maximum size in bytes of a message that a server accepts. It bounds a batch and a frontier.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Maximum size in bytes of a message that a client accepts. Servers send responses in pieces of about [`PIECE_BYTES`].
pub const ANSWER_MESSAGE_BYTES_MAX: usize = 256 << 20;
/// Size in bytes from which a piece of a streamed response is sent.
pub const PIECE_BYTES: usize = 64 << 10;
/// Approximate size in bytes of messages that join queued calls.
pub const MESSAGE_BYTES: usize = 64 << 10;
/// Bytes of one response that a server may send before the client has consumed any.
pub const CREDIT_BYTES: u64 = 1 << 20;
/// Bytes of queued calls from which further callers wait.
pub const OUTGOING_BYTES_MAX: usize = 8 << 20;
/// Maximum size in bytes of a message between servers of a cluster: parts of working sets and of moving partitions.
pub const PEER_MESSAGE_BYTES_MAX: usize = 256 << 20;
/// Bytes of queued requests to one server from which further requests fail.
pub const PEER_WAITING_BYTES_MAX: usize = 512 << 20;
/// Bytes of batches that a client keeps until a checkpoint contains them; above this it waits for a checkpoint.
pub const KEPT_BYTES_MAX: usize = 64 << 20;
/// Interval at which a client with kept batches asks about checkpoints.
pub const WINDOW_POLL: Duration = Duration::from_millis(200);
/// Number of batches in flight when a client sends them again after a server's loss.
pub const REPLAYS_IN_FLIGHT: usize = 2_048;
/// Flow-control window of one HTTP/2 stream, in bytes.
pub const STREAM_WINDOW_BYTES: u32 = 8 << 20;
/// Flow-control window of one HTTP/2 connection, in bytes.
pub const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Maximum size of an HTTP/2 frame, in bytes.
pub const HTTP2_FRAME_BYTES: u32 = 256 << 10;
/// Time limit for connecting and for the greeting.
pub const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Default time for which a client retries while a server does not respond or cannot be reached.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Interval of keep-alive pings on an idle connection.
pub const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Interval at which a waiting caller checks for cancellation.
pub const CANCEL_POLL: Duration = Duration::from_millis(10);
/// Time that a caller waits for the partial result after it has cancelled a call.
pub const CANCEL_GRACE: Duration = Duration::from_secs(10);
/// Maximum nesting depth of decoded messages: lists nest at most 8 deep, two messages per level.
pub const NESTING_MAX: usize = 64;
