//! Searches: one answer of JSON, or a line for each object as it is found.

use super::api::Answer;
use super::body::{Fields, parse};
use super::json::{found_out, report_out};
use super::query::Query;
use super::{Refused, asker_of, failed};
use crate::access::BoundUser;
use crate::call::{Call, Sink, Terms, Watch};
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

/// The number of the call `find` in `Request`.
const FIND: usize = 26;
/// Pieces of an answer that may wait for the client to take them.
const PIECES: usize = 4;
/// The keys of a search, in the body or behind the question mark.
pub(super) const KEYS: [&str; 11] = [
    "filter", "select", "limit", "count", "explain", "uid", "gids", "rank", "of", "after", "format",
];

/// Reads a filter. What is wrong with it is shown in its text, and said in numbers.
pub(super) fn filter(text: &str) -> Result<Expr, Refused> {
    if text.trim().is_empty() {
        return Ok(Expr::All);
    }
    Expr::parse(text, now_nanos()).map_err(|e| Refused::filter(&e, text))
}

/// Whether objects come as lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Lines,
}

fn format(text: Option<&str>) -> Result<Format, Refused> {
    match text {
        None | Some("json") => Ok(Format::Json),
        Some("ndjson") => Ok(Format::Lines),
        Some(other) => Err(Refused::bad(format!(
            "`format`: expected json or ndjson; got `{other}`"
        ))),
    }
}

fn share(rank: Option<u64>, of: Option<u64>) -> Result<Option<Share>, Refused> {
    let number = |n: u64| u32::try_from(n).ok();
    match (rank, of) {
        (None, None) => Ok(None),
        (Some(rank), Some(of)) if rank < of => match (number(rank), number(of)) {
            (Some(rank), Some(of)) => Ok(Some(Share { rank, of })),
            _ => Err(Refused::bad("`of`: expected fewer than 2^32".into())),
        },
        _ => Err(Refused::bad(
            "`rank` and `of` go together, and `rank` is below `of`: share 0 of 4, 1 of 4, …".into(),
        )),
    }
}

/// What is searched for, as the question mark says it.
fn asked_by_query(query: &Query, bound: &BoundUser) -> Result<(Find, Format), Refused> {
    let find = Find {
        filter: filter(query.get("filter").unwrap_or_default())?,
        select: query
            .get("select")
            .map(|list| list.split(',').map(str::to_owned).collect()),
        limit: query.number("limit")?,
        count: query.flag("count")?,
        explain: query.flag("explain")?,
        asker: asker_of(bound, query.asker())?,
        share: share(query.number("rank")?, query.number("of")?)?,
        after: query.get("after").map(super::body::object_id).transpose()?,
    };
    Ok((find, format(query.get("format"))?))
}

/// What is searched for, as a body says it.
fn asked_by_body(body: &str, bound: &BoundUser) -> Result<(Find, Format), Refused> {
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
        asker: asker_of(bound, body.asker())?,
        share: share(body.number("rank")?, body.number("of")?)?,
        after: after.map(super::body::object_id).transpose()?,
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
    let read = move |_: &Service, _: &Watch| {
        if in_body {
            asked_by_body(&body, &bound)
        } else {
            asked_by_query(&query, &bound)
        }
    };
    let asked = service.work(0, read).await.map_err(|e| failed(&e))?;
    let (find, format) = asked.map_err(|e| e.response())?;
    match format {
        Format::Json => {
            let work = move |service: &Service, watch: &Watch| page(service, watch, find);
            let answered = service.work(FIND, work).await.map_err(|e| failed(&e))?;
            answered.map(super::json_response).map_err(|e| e.response())
        }
        Format::Lines => lines(service, &find, bytes).await,
    }
}

/// One answer of JSON, with where the next one begins.
fn page(service: &Service, watch: &Watch, mut find: Find) -> Answer {
    if !find.count && !find.explain {
        find.limit = Some(Query::limit_of(find.limit)? as u64);
    }
    let (mut objects, mut last) = (String::from("["), None);
    let report = service.graph_now().find(&find, watch, &mut |found| {
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
    // The objects are text already.
    let rest = out.to_string();
    let rest = rest.strip_prefix('{').unwrap_or_default();
    Ok(format!("{{\"objects\":{objects},{rest}"))
}

/// A line for each object as it is found, and one for the report.
async fn lines(
    service: &Arc<Service>,
    find: &Find,
    bytes: usize,
) -> Result<Response<Body>, Response<Body>> {
    let request = convert::find_out(find);
    let deadline = service.deadline(None);
    let terms = Terms {
        deadline,
        ..Terms::default()
    };
    let watch = Watch::new(deadline, Arc::clone(&service.cut));
    let (sender, pieces) = mpsc::channel(PIECES);
    let sink = Sink::Channel(sender);
    let bytes = bytes.max(request.encoded_len());
    let call = Call::new(service, FIND, bytes, terms, Arc::clone(&watch), sink);
    service.request(Request::Find(request), FIND, call);
    let mut lines = Lines {
        pieces,
        watch,
        held: None,
    };
    // What fails before anything was found has a status.
    let first = lines.pieces.recv().await.and_then(|r| r.reply);
    match first {
        Some(Reply::Failure(e)) => return Err(failed(&e)),
        Some(reply) => lines.held = Some(text(reply)),
        None => return Err(failed(&proto::Failure::default())),
    }
    let mut response = Response::new(Body::from_stream(lines));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/x-ndjson"),
    );
    Ok(response)
}

/// A piece of the answer as lines.
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
        _ => line(&json!({"error": "an answer to another question"})),
    }
    out.into()
}

/// The lines of an answer. Whoever drops it wants no more of them.
struct Lines {
    pieces: mpsc::Receiver<proto::Reply>,
    watch: Arc<Watch>,
    /// What was looked at before the head of the response went.
    held: Option<Bytes>,
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.watch.abandon();
    }
}

impl Stream for Lines {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(held) = self.held.take() {
            return Poll::Ready(Some(Ok(held)));
        }
        let reply = match self.pieces.poll_recv(context) {
            Poll::Pending => return Poll::Pending,
            // The connection ends without an end of the body: what the client has is not the whole answer.
            Poll::Ready(None) if self.watch.stalled() => {
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

    /// As `docs/book/server.md` shows it.
    #[test]
    fn a_mistake_in_a_filter_has_its_place() {
        let Err(Refused::Filter(message, more)) = filter("step BETWEN 1 AND 2") else {
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
