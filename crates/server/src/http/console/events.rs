//! Changes as they happen: server-sent events of what commits touch.

use super::super::query::Query;
use super::super::{Refused, api::Asked, failed, failure};
use super::home::{changes_out, distinct};
use crate::access::table::READ;
use crate::access::{Asking, BoundUser};
use crate::call::Watch;
use crate::service::Service;
use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use esker_model::object::Asker;
use futures_util::stream;
use http::{HeaderValue, Request, Response, StatusCode, header};
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// Something is sent at least that often, so that who went away is noticed.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Changes of one event; of more it is said how many there were.
const CHANGES_MAX: usize = 200;

/// Where they are asked for.
const PATH: &str = "/api/v1/events";

struct Stream {
    service: Arc<Service>,
    /// Who listens: whoever loses their rights is told nothing more.
    asking: Asking,
    /// As whom they may ask.
    bound: BoundUser,
    /// On whose behalf.
    asker: Option<Asker>,
    place: u64,
    sent: Instant,
    first: bool,
}

/// `GET /api/v1/events`.
pub(in super::super) async fn events(
    State(service): State<Arc<Service>>,
    request: Request<Body>,
) -> Response<Body> {
    service.metrics.http.add(1);
    let Some(asking) = request.extensions().get::<Asking>().cloned() else {
        return failure(StatusCode::UNAUTHORIZED, "it is not known who asks", None);
    };
    let query = match Query::parse(request.uri().query(), &["uid", "gids"]) {
        Ok(query) => query,
        Err(refused) => return refused.response(),
    };
    let bound = match super::super::bound_of(&request) {
        Ok(bound) => bound,
        Err(refused) => return refused,
    };
    let asker = match super::super::asker_of(&bound, query.asker()) {
        Ok(asker) => asker,
        Err(refused) => return refused.response(),
    };
    drop(request);
    if service.cluster.is_some() {
        let message = "the servers of a cluster know their own changes only, and nobody tells them together: ask again for what is shown";
        return Refused::Said(StatusCode::BAD_REQUEST, message.into()).response();
    }
    let place = match service.database.engine() {
        Ok((engine, _)) => engine.follow(),
        Err(e) => return Refused::Failed(e).response(),
    };
    let begun = Stream {
        service,
        asking,
        bound,
        asker,
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

/// What is sent next; nothing once the server stops, or whoever listens may not ask any more.
async fn next(mut stream: Stream) -> Option<(String, Stream)> {
    if stream.first {
        stream.first = false;
        return Some(("retry: 2000\n: connected\n\n".into(), stream));
    }
    loop {
        tokio::time::sleep(LOOK).await;
        let access = &stream.service.access;
        let admitted = access.admit(&stream.asking, READ, PATH);
        if stream.service.closing() || !admitted.is_ok_and(|bound| bound == stream.bound) {
            return None;
        }
        let (from, service) = (stream.place, &stream.service);
        let asker = stream.asker.clone();
        let look = move |service: &Service, watch: &Watch| look(service, watch, asker, from);
        match service.work(0, look).await {
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
            // The server is busy: it is asked again.
            Err(busy) => drop(failed(&busy)),
        }
        if stream.sent.elapsed() >= HEARTBEAT {
            stream.sent = Instant::now();
            return Some((": here\n\n".into(), stream));
        }
    }
}

/// What was touched since a place, as an event, and the place after it. What whoever asks may not see is no event, and counts for none.
fn look(
    service: &Service,
    watch: &Watch,
    asker: Option<Asker>,
    place: u64,
) -> Result<(u64, Option<String>), Refused> {
    let (engine, _) = service.database.engine()?;
    let Some(news) = engine.news_since(place) else {
        let place = engine.follow();
        return Ok((place, Some("event: missed\ndata: {}\n\n".into())));
    };
    let schema = service.schema()?;
    let all = distinct(&news, &schema);
    if all.is_empty() {
        return Ok((news.until, None));
    }
    let asked = Asked {
        service,
        watch,
        query: Query::parse(None, &[])?,
        body: "",
        asker,
    };
    if asked.is_limited() {
        let changes = changes_out(&asked, &schema, &all)?;
        if changes.is_empty() {
            return Ok((news.until, None));
        }
        // The newest come first. Places of the feed count what is hidden, too.
        let shown = &changes[..changes.len().min(CHANGES_MAX)];
        let data = json!({"changes": shown, "more": changes.len() - shown.len()});
        return Ok((news.until, Some(format!("event: change\ndata: {data}\n\n"))));
    }
    let latest = &all[all.len().saturating_sub(CHANGES_MAX)..];
    let changes = changes_out(&asked, &schema, latest)?;
    let data = json!({"changes": changes, "more": all.len() - latest.len()});
    let text = format!("event: change\nid: {}\ndata: {data}\n\n", news.until);
    Ok((news.until, Some(text)))
}
