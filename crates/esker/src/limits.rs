//! Named limits of this crate.

#![allow(
    clippy::duration_suboptimal_units,
    reason = "from_mins is newer than the Rust that the workspace asks for"
)]

use std::time::Duration;

/// Maximum size of a frame on the socket, in bytes. A request is one frame, so this bounds a batch and a frontier.
pub const FRAME_BYTES_MAX: usize = 256 << 20;
/// Size in bytes from which buffered items of a streamed response are sent.
pub const CHUNK_BYTES: usize = 64 << 10;
/// Maximum size of a frame before the peer has identified itself, in bytes.
pub const HELLO_BYTES_MAX: usize = 64 << 10;
/// Maximum of connections that an owner serves at once, one thread each.
pub const CONNECTIONS_MAX: usize = 128;
/// Share of the connections for other users: all but the process's own user and user 0, for which the rest is reserved.
pub const OTHER_USERS_CONNECTIONS_MAX: usize = 96;
/// Maximum of connections for one such user.
pub const USER_CONNECTIONS_MAX: usize = 48;
/// Maximum bytes of requests of all other users that are being received at once.
pub const OTHER_USERS_BYTES_MAX: usize = 256 << 20;
/// Frames of other users up to this size are always received.
pub const OTHER_USERS_SMALL_BYTES: usize = 1 << 20;
/// Maximum time from the first to the last byte of a frame of another user.
pub const OTHER_USERS_FRAME_TIME: Duration = Duration::from_secs(60);
/// Maximum memory in bytes of one traversal of another user.
pub const OTHER_USERS_TRAVEL_BYTES_MAX: u64 = 64 << 20;
/// Maximum duration in milliseconds of one traversal of another user.
pub const OTHER_USERS_TRAVEL_MILLIS_MAX: u64 = 300_000;
/// Maximum of idle connections that an attached process keeps.
pub const IDLE_CONNECTIONS_MAX: usize = 16;
/// Interval between two heartbeats of an owner.
pub const HEARTBEAT: Duration = Duration::from_secs(1);
/// Time without a heartbeat after which an owner on another host counts as dead.
pub const OWNER_SILENT_MAX: Duration = Duration::from_secs(10);
/// Number of records of former owners kept in the folder. They make a slow contender's claim of an old generation fail.
pub const GENERATIONS_KEPT: u64 = 16;
/// Time that a closing owner waits for responses in progress before it cuts them off.
pub const DRAIN_MAX: Duration = Duration::from_secs(3);
/// Interval at which a waiting process checks whether its caller has cancelled the call.
pub const CANCEL_POLL: Duration = Duration::from_millis(10);
/// Time that a process waits for the partial result after it has cancelled a call.
pub const CANCEL_GRACE: Duration = Duration::from_secs(10);
/// Maximum time for an owner's greeting; a stopped process accepts connections and sends nothing.
pub const GREETING_MAX: Duration = Duration::from_secs(10);
/// Age from which a contender's draft is abandoned.
pub const DRAFT_AGE_MAX: Duration = Duration::from_secs(600);
/// Maximum wait for a live owner that is opening, closing or not accepting connections.
pub const OWNER_ANSWER_MAX: Duration = Duration::from_secs(60);
/// Maximum wait of a new owner for the store's lock, which a dying owner may still have.
pub const STORE_LOCK_MAX: Duration = Duration::from_secs(5);
/// Interval at which an owner forgets producers that have been silent ([`esker_model::idempotency::PRODUCER_RETENTION_MILLIS`]).
pub const FORGET_INTERVAL: Duration = Duration::from_secs(3600);
/// Retention of idempotency keys of single requests, which earlier builds wrote.
pub const REQUEST_KEY_MAX: Duration = Duration::from_secs(3600);
/// Rows of the archive in memory at once while it is written.
pub const ARCHIVE_ROWS_PER_GROUP: usize = 8_192;
/// Number of archive files from which they are merged into one.
pub const ARCHIVE_FILES_MAX: usize = 16;
/// Objects of the first page that a search iterator requests; each further page has four times as many.
pub const FIND_PAGE_FIRST: u64 = 256;
/// Maximum of objects in one page.
pub const FIND_PAGE_MAX: u64 = 8_192;
/// Size in bytes from which the window of an ephemeral store is written out.
pub const WINDOW_BYTES: usize = 32 << 20;
/// Pause before a checkpoint is retried after no storage accepted it.
pub const WINDOW_RETRY: Duration = Duration::from_millis(100);
/// Number of segments from which they are replaced by a base with all rows.
pub const WINDOW_SEGMENTS_MAX: u64 = 4_096;
