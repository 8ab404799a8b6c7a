//! Changes as they happen: server-sent events of what commits touch.

use super::super::{Refused, api::Asked, failed};
use super::home::{changes_out, distinct};
use crate::call::Watch;
use crate::service::Service;
use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
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

struct Stream {
    service: Arc<Service>,
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

/// What is sent next; nothing once the server stops.
async fn next(mut stream: Stream) -> Option<(String, Stream)> {
    if stream.first {
        stream.first = false;
        return Some(("retry: 2000\n: connected\n\n".into(), stream));
    }
    loop {
        tokio::time::sleep(LOOK).await;
        if stream.service.closing() {
            return None;
        }
        let (from, service) = (stream.place, &stream.service);
        let look = move |service: &Service, watch: &Watch| look(service, watch, from);
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

/// What was touched since a place, as an event, and the place after it.
fn look(service: &Service, watch: &Watch, place: u64) -> Result<(u64, Option<String>), Refused> {
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
    let latest = &all[all.len().saturating_sub(CHANGES_MAX)..];
    let asked = Asked {
        service,
        watch,
        query: super::super::query::Query::parse(None, &[])?,
        body: "",
    };
    let changes = changes_out(&asked, &schema, latest)?;
    let data = json!({"changes": changes, "more": all.len() - latest.len()});
    let text = format!("event: change\nid: {}\ndata: {data}\n\n", news.until);
    Ok((news.until, Some(text)))
}
