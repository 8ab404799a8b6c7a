//! OpenTelemetry traces of this process, sent by OTLP over gRPC (RFC 0015).
//!
//! A process has one tracer, because a process may have several servers. [`start`] starts it; without it no function here does anything.
//! The current span is a value of the task: [`scope`] sets it for a future, [`sync_scope`] for a closure on a thread.

mod endpoint;
mod limit;
mod span;
mod tracer;

pub use endpoint::{EndpointError, endpoint, is_endpoint};
pub use span::{Kind, Span, current, root, scope, set_root, sync_scope};
pub use tracer::{Options, is_on, start, stop};
