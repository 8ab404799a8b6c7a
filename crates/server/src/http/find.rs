//! Searches: one JSON answer, or a line for each object as it is found.

use super::api::Answer;
use super::json::{found_out, report_out};
use super::json_body::{Fields, parse};
use super::query::{Query, unknown_value};
use super::{ApiError, failed, in_time, principal_of};
use crate::access::BoundUser;
use crate::call::{Call, CallOptions, CallState, Sink};
use crate::limits::JSON_ANSWER_BYTES;
use crate::objects::now_nanos;
use crate::service::Service;
use axum::body::Body;
use bytes::Bytes;
use esker_model::filter::Expr;
use esker_model::object::{Find, Share};
use esker_model::{Error, Schema};
use esker_rpc::convert;
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;
use esker_rpc::proto::request::Call as Request;
use http::{HeaderValue, Response, header};
use prost::Message as _;
use serde_json::{Value as Json, json};
use std::fmt::Write as _;
use std::io;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::Stream;

/// Number of the call `find` in `Request`.
const FIND: usize = 26;
/// Pieces of an answer that may wait for the client to receive them.
const PIECES: usize = 4;
/// Keys of a search, in the body or in the query string.
pub(super) const KEYS: [&str; 11] = [
    "filter", "select", "limit", "count", "explain", "uid", "gids", "rank", "of", "after", "format",
];

/// Parses a filter. An error shows the position in the text and has it as numbers.
pub(super) fn filter(text: &str) -> Result<Expr, ApiError> {
    if text.trim().is_empty() {
        return Ok(Expr::All);
    }
    Expr::parse(text, now_nanos()).map_err(|e| ApiError::filter(&e, text))
}

/// Format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Lines,
}

fn format(text: Option<&str>) -> Result<Format, ApiError> {
    match text {
        None | Some("json") => Ok(Format::Json),
        Some("ndjson") => Ok(Format::Lines),
        Some(other) => Err(ApiError::bad(unknown_value(
            "format",
            other,
            &["json", "ndjson"],
        ))),
    }
}

fn share(rank: Option<u64>, of: Option<u64>) -> Result<Option<Share>, ApiError> {
    let number = |n: u64| u32::try_from(n).ok();
    match (rank, of) {
        (None, None) => Ok(None),
        (Some(rank), Some(of)) if rank < of => match (number(rank), number(of)) {
            (Some(rank), Some(of)) => Ok(Some(Share { rank, of })),
            _ => Err(ApiError::bad("`of`: expected fewer than 2^32".into())),
        },
        _ => Err(ApiError::bad(
            "`rank` and `of` go together, and `rank` is below `of`: share 0 of 4, 1 of 4, …".into(),
        )),
    }
}

/// Reads a search from the query string.
fn find_of_query(query: &Query, bound: &BoundUser) -> Result<(Find, Format), ApiError> {
    let find = Find {
        filter: filter(query.get("filter").unwrap_or_default())?,
        select: query
            .get("select")
            .map(|list| list.split(',').map(str::to_owned).collect()),
        limit: query.number("limit")?,
        count: query.flag("count")?,
        explain: query.flag("explain")?,
        principal: principal_of(bound, query.principal())?,
        share: share(query.number("rank")?, query.number("of")?)?,
        after: query
            .get("after")
            .map(super::json_body::object_id)
            .transpose()?,
    };
    Ok((find, format(query.get("format"))?))
}

/// Reads a search from the body.
fn find_of_body(body: &str, bound: &BoundUser) -> Result<(Find, Format), ApiError> {
    let body = parse(body, &KEYS)?;
    let body = Fields {
        object: &body,
        schema: &Schema::empty(),
        paths: None,
    };
    let after = body.optional_text("after")?;
    let find = Find {
        filter: filter(body.optional_text("filter")?.unwrap_or_default())?,
        select: body.optional_names("select")?,
        limit: body.number("limit")?,
        count: body.flag("count")?,
        explain: body.flag("explain")?,
        principal: principal_of(bound, body.principal())?,
        share: share(body.number("rank")?, body.number("of")?)?,
        after: after.map(super::json_body::object_id).transpose()?,
    };
    Ok((find, format(body.optional_text("format")?)?))
}

/// `GET` and `POST /api/v1/find`.
pub(super) async fn find(
    service: &Arc<Service>,
    query: Query,
    body: String,
    (in_body, bound): (bool, BoundUser),
) -> Result<Response<Body>, Response<Body>> {
    let bytes = body.len();
    let read = move |service: &Service, _: &CallState| {
        let (find, format) = if in_body {
            find_of_body(&body, &bound)
        } else {
            find_of_query(&query, &bound)
        }?;
        find.filter.check_kinds_of_objects(&*service.schema()?)?;
        Ok::<_, ApiError>((find, format))
    };
    let asked = service.work(0, read).await.map_err(|e| failed(&e))?;
    let (find, format) = asked.map_err(|e| e.response())?;
    match format {
        Format::Json => {
            let work = move |service: &Service, call_state: &CallState| {
                in_time(service, call_state, page(service, call_state, find))
            };
            let answered = service.work(FIND, work).await.map_err(|e| failed(&e))?;
            answered.map(super::json_response).map_err(|e| e.response())
        }
        Format::Lines => lines(service, &find, bytes).await,
    }
}

/// Returns one page of results as JSON, with the cursor of the next page.
fn page(service: &Service, call_state: &CallState, mut find: Find) -> Answer {
    if !find.count && !find.explain {
        find.limit = Some(Query::limit_of(find.limit)? as u64);
    }
    let (mut objects, mut last) = (String::from("["), None);
    let report = service.graph_now().find(&find, call_state, &mut |found| {
        if last.is_some() {
            objects.push(',');
        }
        // Writing to a String cannot fail.
        let _ = write!(objects, "{}", found_out(&found));
        last = Some(found.id);
        if objects.len() > JSON_ANSWER_BYTES {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    objects.push(']');
    let next = last.filter(|_| !report.complete).map(|id| id.to_string());
    let mut out = report_out(&report);
    out["next"] = next.into();
    // The objects are JSON text already.
    let rest = out.to_string();
    let rest = rest.strip_prefix('{').unwrap_or_default();
    Ok(format!("{{\"objects\":{objects},{rest}"))
}

/// Streams a line for each object as it is found, and one for the report.
async fn lines(
    service: &Arc<Service>,
    find: &Find,
    bytes: usize,
) -> Result<Response<Body>, Response<Body>> {
    let request = convert::find_out(find);
    let deadline = service.deadline_of(FIND, None);
    let options = CallOptions {
        deadline,
        ..CallOptions::default()
    };
    let call_state = CallState::new(deadline, Arc::clone(&service.cut));
    let (sender, pieces) = mpsc::channel(PIECES);
    let sink = Sink::Channel(sender);
    let bytes = bytes.max(request.encoded_len());
    let call = Call::new(service, FIND, bytes, options, Arc::clone(&call_state), sink);
    service.request(Request::Find(request), FIND, call);
    let mut lines = Lines {
        pieces,
        call_state,
        first: None,
    };
    // A failure before the first result gets an HTTP status.
    let first = lines.pieces.recv().await.and_then(|r| r.reply);
    match first {
        Some(Reply::Failure(e)) => return Err(failed(&e)),
        Some(reply) => lines.first = Some(text(reply)),
        None => return Err(failed(&proto::Failure::default())),
    }
    let mut response = Response::new(Body::from_stream(lines));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/x-ndjson"),
    );
    Ok(response)
}

/// Converts a piece of the answer to lines.
fn text(reply: Reply) -> Bytes {
    let mut out = String::new();
    let mut line = |json: &Json| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{json}");
    };
    match reply {
        Reply::Find(piece) => {
            for object in piece.objects {
                line(&match convert::found_in(object) {
                    Ok(found) => found_out(&found),
                    Err(e) => json!({"error": Error::from(e).to_string()}),
                });
            }
            if let Some(report) = piece.report {
                let report = report_out(&convert::report_in(report));
                line(&json!({ "report": report }));
            }
        }
        Reply::Failure(e) => line(&json!({"error": e.message})),
        _ => line(&json!({"error": "an answer to another request"})),
    }
    out.into()
}

/// The lines of an answer. Dropping it cancels the call.
struct Lines {
    pieces: mpsc::Receiver<proto::Reply>,
    call_state: Arc<CallState>,
    /// The first piece, which was read before the head of the response was sent.
    first: Option<Bytes>,
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.call_state.abandon();
    }
}

impl Stream for Lines {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        let reply = match self.pieces.poll_recv(context) {
            Poll::Pending => return Poll::Pending,
            // The connection ends without an end of the body, so that the client sees that the answer is incomplete.
            Poll::Ready(None) if self.call_state.stalled() => {
                return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
            }
            Poll::Ready(None) => None,
            Poll::Ready(Some(reply)) => reply.reply,
        };
        Poll::Ready(reply.map(|reply| Ok(text(reply))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message must be as in `docs/book/server.md`.
    #[test]
    fn a_mistake_in_a_filter_has_its_place() {
        let Err(ApiError::Filter(message, more)) = filter("step BETWEN 1 AND 2") else {
            panic!("it does not parse")
        };
        let shown = "error: unknown operator `BETWEN`\n  step BETWEN 1 AND 2\n       ^^^^^^\n";
        assert!(message.starts_with(shown), "{message}");
        let at = json!({"byte": 5, "length": 6, "line": 1, "column": 6});
        assert_eq!(more, json!({"at": at, "suggestion": "BETWEEN"}));
        assert_eq!(filter(" ").unwrap(), Expr::All);
    }

    #[test]
    fn a_share_is_one_of_those_there_are() {
        assert_eq!(share(None, None).unwrap(), None);
        assert_eq!(
            share(Some(3), Some(4)).unwrap(),
            Some(Share { rank: 3, of: 4 })
        );
        for (rank, of) in [(Some(4), Some(4)), (Some(0), None), (None, Some(1))] {
            assert!(share(rank, of).is_err(), "{rank:?} {of:?}");
        }
        assert!(share(Some(0), Some(1 << 32)).is_err());
    }
}
