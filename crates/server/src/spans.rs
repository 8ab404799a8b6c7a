//! Spans of requests and calls (RFC 0015). Attributes are of a closed list, and none has a text of a client or of the data.

use crate::access::needs::Needs;
use crate::calls::{CALLS, camel, number_of_message};
use axum::body::{Body, HttpBody};
use bytes::Bytes;
use esker_rpc::proto;
use esker_rpc::proto::failure::Kind as FailureKind;
use esker_rpc::proto::reply::Reply;
use esker_rpc::trace::{CallSpan, CallTracer, TraceContext};
use esker_telemetry::{Kind, Span, current, root};
use http::{HeaderMap, Method, Request, Response};
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};
use std::time::SystemTime;

/// Names of calls in traces, by their numbers.
static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let name = |name| format!("esker.v1.Esker/{}", camel(name));
    CALLS.iter().map(|call| name(call.name)).collect()
});

/// Name of a call in traces.
pub(crate) fn call_name(number: usize) -> &'static str {
    NAMES
        .get(number)
        .map_or("esker.v1.Esker/Unknown", String::as_str)
}

/// Reads the context in the header `traceparent`; an invalid one is ignored, and so is a header that is given twice.
pub(crate) fn parent_in(headers: &HeaderMap) -> Option<TraceContext> {
    let mut all = headers.get_all("traceparent").iter();
    let first = all.next()?;
    if all.next().is_some() {
        return None;
    }
    TraceContext::parse(first.to_str().ok()?)
}

/// Begins the span of an admitted request that is not gRPC's. Requests that everybody may make have none.
pub(crate) fn of_request<B>(
    request: &Request<B>,
    (route, needs): (&'static str, Needs),
    encrypted: bool,
) -> Option<Span> {
    if needs == Needs::Nothing {
        return None;
    }
    let method = method_name(request.method());
    let name = format!("{method} {route}");
    let parent = parent_in(request.headers());
    let span = Span::entering(Kind::Server, name, parent, SystemTime::now())?;
    span.set("http.request.method", method);
    span.set("http.route", route);
    span.set("url.scheme", if encrypted { "https" } else { "http" });
    Some(span)
}

fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "_OTHER",
    }
}

/// Body of a traced response: the span ends with it.
struct TracedBody {
    inner: Body,
    _span: Span,
}

impl HttpBody for TracedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Notes the status of a response. The span ends with the body; that of events, which have no end, ends now.
pub(crate) fn answered(span: Option<Span>, response: Response<Body>) -> Response<Body> {
    let Some(span) = span else {
        return response;
    };
    let status = response.status();
    span.set_number("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.set("error.type", status.as_str().to_owned());
        span.fail();
    }
    let kind = response.headers().get(http::header::CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
        span.end();
        return response;
    }
    response.map(|inner| Body::new(TracedBody { inner, _span: span }))
}

/// Begins the span of a call from outside of this process.
pub(crate) fn of_call(number: usize, parent: Option<TraceContext>) -> Option<Span> {
    let name = call_name(number);
    let span = Span::entering(Kind::Server, name, parent, SystemTime::now())?;
    span.set("rpc.system.name", "grpc");
    span.set("rpc.method", name);
    Some(span)
}

/// Begins the span of a request of another server, if that server traces it.
pub(crate) fn of_peer_request(parent: Option<TraceContext>, name: &str) -> Option<Span> {
    let name = format!("esker.v1.Peer/{name}");
    let span = Span::entering(Kind::Server, name.clone(), Some(parent?), SystemTime::now())?;
    span.set("rpc.system.name", "grpc");
    span.set("rpc.method", name);
    Some(span)
}

/// Begins the span of a request to another server, below the current one.
pub(crate) fn to_peer(name: &str, from: u32, to: u32) -> Option<Span> {
    let name = format!("esker.v1.Peer/{name}");
    let span = current()?.child(Kind::Client, name.clone())?;
    span.set("rpc.system.name", "grpc");
    span.set("rpc.method", name);
    span.set_number("esker.server", i64::from(from));
    span.set_number("esker.peer", i64::from(to));
    Some(span)
}

/// Begins the span of work on a thread pool, below the current one.
pub(crate) fn of_work(number: usize) -> Option<Span> {
    let name = match number {
        0 => "work",
        number => CALLS.get(number).map_or("work", |call| call.name),
    };
    current()?.child(Kind::Internal, name)
}

/// Status of a failed call in gRPC, and whether the server is at fault.
pub(crate) fn status_of(failure: &proto::Failure) -> (&'static str, bool) {
    match FailureKind::try_from(failure.kind) {
        Ok(FailureKind::Missing) => ("NOT_FOUND", false),
        Ok(FailureKind::Invalid) => ("INVALID_ARGUMENT", false),
        Ok(FailureKind::Interrupted) => ("CANCELLED", false),
        Ok(FailureKind::Busy) => ("RESOURCE_EXHAUSTED", false),
        Ok(FailureKind::Storage) => ("INTERNAL", true),
        Ok(FailureKind::Corrupt) => ("DATA_LOSS", true),
        Ok(FailureKind::Unavailable | FailureKind::Unspecified) | Err(_) => ("UNAVAILABLE", true),
    }
}

/// Ends the span of a call with the status of its answer.
pub(crate) fn end_call(span: &Span, reply: &Reply) {
    let (status, at_fault) = match reply {
        Reply::Failure(failure) => status_of(failure),
        _ => ("OK", false),
    };
    span.set("rpc.response.status_code", status);
    if at_fault {
        span.set("error.type", status);
        span.fail();
    }
    span.end();
}

/// Makes spans of the calls that this process sends to servers.
#[derive(Debug)]
pub struct ClientCalls;

/// Span of a call that was sent. It has no status: the caller reads the answer piece by piece.
#[derive(Debug)]
struct SentSpan(Span);

impl CallSpan for SentSpan {
    fn context(&self) -> TraceContext {
        self.0.context()
    }
}

impl Drop for SentSpan {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl CallTracer for ClientCalls {
    fn begin(&self, request: &proto::Request) -> Option<Box<dyn CallSpan>> {
        let parent = current().or_else(root)?;
        let name = call_name(request.call.as_ref().map_or(0, number_of_message));
        let span = parent.child(Kind::Client, name)?;
        span.set("rpc.system.name", "grpc");
        span.set("rpc.method", name);
        Some(Box::new(SentSpan(span)))
    }
}
