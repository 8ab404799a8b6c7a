//! Every named maximum of the facade, in one place.

#![allow(
    clippy::duration_suboptimal_units,
    reason = "from_mins is newer than the Rust that the workspace asks for"
)]

use std::time::Duration;

/// Largest frame on the socket, in bytes. A request is one frame, so it bounds a batch and a frontier.
pub const FRAME_BYTES_MAX: usize = 256 << 20;
/// Items of a streamed answer are sent once they fill this many bytes.
pub const CHUNK_BYTES: usize = 64 << 10;
/// Largest frame before a process has said who it is, in bytes.
pub const HELLO_BYTES_MAX: usize = 64 << 10;
/// Connections that an owner serves at once, one thread each.
pub const CONNECTIONS_MAX: usize = 128;
/// Connections of them for users who neither own the process nor are user 0: the rest is kept for those.
pub const OTHERS_CONNECTIONS_MAX: usize = 96;
/// Connections of them for one such user.
pub const USER_CONNECTIONS_MAX: usize = 48;
/// Bytes of requests of all such users that are received at once.
pub const OTHERS_BYTES_MAX: usize = 256 << 20;
/// Frames of such users up to this size are received in any case.
pub const OTHERS_SMALL_BYTES: usize = 1 << 20;
/// How long a frame of such a user may take from its first byte to its last.
pub const OTHERS_FRAME_TIME: Duration = Duration::from_secs(60);
/// Bytes that one traversal of such a user may hold in memory.
pub const OTHERS_TRAVEL_BYTES_MAX: u64 = 64 << 20;
/// Milliseconds that one traversal of such a user may take.
pub const OTHERS_TRAVEL_MILLIS_MAX: u64 = 300_000;
/// Idle connections that an attached process keeps.
pub const IDLE_CONNECTIONS_MAX: usize = 16;
/// How often an owner bumps its heartbeat.
pub const HEARTBEAT: Duration = Duration::from_secs(1);
/// An owner on another host whose heartbeat stands still for this long is dead.
pub const OWNER_SILENT_MAX: Duration = Duration::from_secs(10);
/// Records of former owners kept in the folder. They make a slow contender's claim of an old generation fail.
pub const GENERATIONS_KEPT: u64 = 16;
/// How long an owner that closes waits for answers under way before it cuts them off.
pub const DRAIN_MAX: Duration = Duration::from_secs(3);
/// How often a process that waits for an answer asks whether its caller wants it still.
pub const CANCEL_POLL: Duration = Duration::from_millis(10);
/// How long a process that asked for an answer to stop waits for what was found.
pub const CANCEL_GRACE: Duration = Duration::from_secs(10);
/// How long an owner may take to greet; a stopped process accepts and says nothing.
pub const GREETING_MAX: Duration = Duration::from_secs(10);
/// A contender's draft that is this old belongs to nobody any more.
pub const DRAFT_AGE_MAX: Duration = Duration::from_secs(600);
/// How long to wait for a live owner that opens, closes or does not accept.
pub const OWNER_ANSWER_MAX: Duration = Duration::from_secs(60);
/// How long a new owner waits for the store's own lock, which a dying one may hold a moment longer.
pub const STORE_LOCK_MAX: Duration = Duration::from_secs(5);
/// How often an owner forgets senders that have been silent for long ([`esker_model::once::KEPT_MILLIS`]).
pub const FORGET_INTERVAL: Duration = Duration::from_secs(3600);
/// Markers of single requests, which earlier builds wrote, are forgotten after this long.
pub const REQUEST_MARKER_MAX: Duration = Duration::from_secs(3600);
/// Rows of the archive held in memory at once while it is written.
pub const ARCHIVE_ROWS_PER_GROUP: usize = 8_192;
/// Archive files before they are merged into one.
pub const ARCHIVE_FILES_MAX: usize = 16;
/// Objects of the first page that an iterator over a search asks for; each further page has four times as many.
pub const FIND_PAGE_FIRST: u64 = 256;
/// Most objects of one page.
pub const FIND_PAGE_MAX: u64 = 8_192;
/// A window of writes that no checkpoint holds is written once it has so many bytes.
pub const WINDOW_BYTES: usize = 32 << 20;
/// How long after no storage took a checkpoint it is tried again.
pub const WINDOW_RETRY: Duration = Duration::from_millis(100);
/// Checkpoints of single windows are replaced by one of all rows once there are so many of them.
pub const WINDOW_SEGMENTS_MAX: u64 = 4_096;
