//! Server-sent events of changes, as commits are made.

use super::super::query::Query;
use super::super::{ApiError, api::ApiRequest, failed, failure};
use super::home::{changes_out, distinct};
use crate::access::needs::READ;
use crate::access::{BoundUser, Requester};
use crate::call::CallState;
use crate::service::Service;
use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use esker_model::object::Principal;
use futures_util::stream;
use http::{HeaderValue, Request, Response, StatusCode, header};
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval at which the change feed is polled.
const POLL: Duration = Duration::from_millis(500);
/// Longest time without a message, after which a comment is sent to detect clients that are gone.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Largest number of changes in one event; if there are more, it has their number.
const CHANGES_MAX: usize = 200;

/// Path of the event stream, for access checks.
const PATH: &str = "/api/v1/events";

struct EventStream {
    service: Arc<Service>,
    /// Sender of the request: the stream ends when its rights end.
    requester: Requester,
    /// User to whom the answers are limited.
    bound: BoundUser,
    /// Principal of the request, if there is one.
    principal: Option<Principal>,
    place: u64,
    sent: Instant,
    first: bool,
}

/// Answers the request `GET /api/v1/events`.
pub(in super::super) async fn events(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Response<Body> {
    service.metrics.http.add(1);
    let Some(requester) = request.extensions().get::<Requester>().cloned() else {
        return failure(StatusCode::UNAUTHORIZED, "the caller is not known", None);
    };
    let query = match Query::parse(request.uri().query(), &["uid", "gids"]) {
        Ok(query) => query,
        Err(refused) => return refused.response(),
    };
    let bound = match super::super::bound_of(&request) {
        Ok(bound) => bound,
        Err(refused) => return refused,
    };
    let principal = match super::super::principal_of(&bound, query.principal()) {
        Ok(principal) => principal,
        Err(refused) => return refused.response(),
    };
    drop(request);
    if service.cluster.is_some() {
        let message = "the servers of a cluster know their own changes only, and there is no combined feed: reload what is shown";
        return ApiError::Status(StatusCode::BAD_REQUEST, message.into()).response();
    }
    let place = match service.database.engine() {
        Ok((engine, _)) => engine.follow(),
        Err(e) => return ApiError::Engine(e).response(),
    };
    let begun = EventStream {
        service,
        requester,
        bound,
        principal,
        place,
        sent: Instant::now(),
        first: true,
    };
    let body = stream::unfold(begun, |stream| async move {
        let (text, stream) = next(stream).await?;
        Some((Ok::<_, Infallible>(Bytes::from(text)), stream))
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns the next message; `None` once the server stops or the listener has lost its rights.
async fn next(mut stream: EventStream) -> Option<(String, EventStream)> {
    if stream.first {
        stream.first = false;
        return Some(("retry: 2000\n: connected\n\n".into(), stream));
    }
    loop {
        tokio::time::sleep(POLL).await;
        let access = &stream.service.access;
        let admitted = access.admit(&stream.requester, READ, PATH);
        if stream.service.closing()
            || !admitted.is_ok_and(|admitted| admitted.bound() == stream.bound)
        {
            return None;
        }
        let (from, service) = (stream.place, &stream.service);
        let principal = stream.principal.clone();
        let poll = move |service: &Service, call_state: &CallState| {
            poll_changes(service, call_state, principal, from)
        };
        match service.work(0, poll).await {
            Ok(Ok((place, Some(text)))) => {
                stream.place = place;
                stream.sent = Instant::now();
                return Some((text, stream));
            }
            Ok(Ok((place, None))) => stream.place = place,
            Ok(Err(refused)) => {
                let _ = refused.response();
                return None;
            }
            // The server is busy: try again.
            Err(busy) => drop(failed(&busy)),
        }
        if stream.sent.elapsed() >= HEARTBEAT {
            stream.sent = Instant::now();
            return Some((": here\n\n".into(), stream));
        }
    }
}

/// Returns the changes since a position as an event, if there are any, and the next position. Changes that the principal may not see are
/// left out and not counted.
fn poll_changes(
    service: &Service,
    call_state: &CallState,
    principal: Option<Principal>,
    place: u64,
) -> Result<(u64, Option<String>), ApiError> {
    let (engine, _) = service.database.engine()?;
    let Some(news) = engine.changes_since(place) else {
        let place = engine.follow();
        return Ok((place, Some("event: missed\ndata: {}\n\n".into())));
    };
    let schema = service.schema()?;
    let all = distinct(&news, &schema);
    if all.is_empty() {
        return Ok((news.until, None));
    }
    let request = ApiRequest {
        service,
        call_state,
        query: Query::parse(None, &[])?,
        body: "",
        principal,
    };
    if request.is_limited() {
        let changes = changes_out(&request, &schema, &all)?;
        if changes.is_empty() {
            return Ok((news.until, None));
        }
        // The newest come first. The position is omitted, because it counts hidden changes, too.
        let shown = &changes[..changes.len().min(CHANGES_MAX)];
        let data = json!({"changes": shown, "more": changes.len() - shown.len()});
        return Ok((news.until, Some(format!("event: change\ndata: {data}\n\n"))));
    }
    let latest = &all[all.len().saturating_sub(CHANGES_MAX)..];
    let changes = changes_out(&request, &schema, latest)?;
    let data = json!({"changes": changes, "more": all.len() - latest.len()});
    let text = format!("event: change\nid: {}\ndata: {data}\n\n", news.until);
    Ok((news.until, Some(text)))
}
