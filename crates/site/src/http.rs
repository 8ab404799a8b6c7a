//! HTTP interface of a tier, for programs without Esker.

mod json;

use crate::access::RequestSender;
use crate::answer::Refused;
use crate::node::{MetadataQuery, Node};
use crate::serve::RunningTier;
use axum::Extension;
use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use axum::routing::{get, post};
use esker_origin::origin_url::{percent_decode, percent_encode};
use esker_origin::{OriginUrl, PathMetadata};
use esker_site_cache::entry::Wants;
use foldhash::fast::FixedState;
use http::{StatusCode, header};
use serde_json::{Value as Json, json};
use std::hash::BuildHasher as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

type Shared = State<Arc<RunningTier>>;

pub(crate) fn router(tier: Arc<RunningTier>) -> Router {
    Router::new()
        .route("/v1/stat", get(stat))
        .route("/v1/list", get(list))
        .route("/v1/status", get(status))
        .route("/v1/explain", get(explain))
        .route("/v1/invalidate", post(invalidate))
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .with_state(tier)
}

/// Query parameters of a request.
struct Query {
    origin: String,
    path: Vec<u8>,
    max_age: Option<Duration>,
    stale_if_error: bool,
    client: Option<Vec<u8>>,
}

fn pairs(text: &str) -> impl Iterator<Item = (&str, Vec<u8>)> {
    let parts = text.split('&').filter(|p| !p.is_empty());
    parts.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name, percent_decode(value.replace('+', "%20").as_bytes()))
    })
}

impl Query {
    fn parse(text: Option<&str>) -> Result<Self, String> {
        let mut origin = None;
        let mut path = None;
        let mut query = Self {
            origin: String::new(),
            path: Vec::new(),
            max_age: None,
            stale_if_error: false,
            client: None,
        };
        for (name, value) in pairs(text.unwrap_or_default()) {
            let as_text = || {
                String::from_utf8(value.clone()).map_err(|_| format!("`{name}` is not UTF-8 text"))
            };
            match name {
                "origin" => origin = Some(as_text()?),
                "path" => path = Some(value),
                "url" => {
                    // Bytes that are not text are `%FF` in a URL; they may have been encoded once or twice.
                    let url = percent_encode(&value, b":/@[]%+,;=!*'()&$");
                    let (place, below) = OriginUrl::parse(&url).map_err(|e| e.to_string())?;
                    origin = Some(place.to_string());
                    path = Some(below);
                }
                "max_age" => {
                    let seconds: Option<f64> = as_text()?.parse().ok();
                    let age = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
                    let wrong = || "`max_age` is in seconds, as in 2.5".to_owned();
                    query.max_age = Some(age.ok_or_else(wrong)?);
                }
                "stale_if_error" => {
                    query.stale_if_error = match as_text()?.as_str() {
                        "1" | "true" | "" => true,
                        "0" | "false" => false,
                        _ => return Err("`stale_if_error` is true or false".into()),
                    }
                }
                "client" => query.client = Some(value),
                _ => {
                    return Err(format!(
                        "`{name}` is not a parameter: there are origin and path (or url), max_age, stale_if_error, client"
                    ));
                }
            }
        }
        query.origin =
            origin.ok_or("`origin` is missing, as in origin=sftp%3A%2F%2Fhost, or `url`")?;
        query.path = path.ok_or("`path` is missing: an absolute path below the origin")?;
        Ok(query)
    }
}

fn answer(status: StatusCode, age: Option<Duration>, body: &Json) -> Response {
    let mut response = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CACHE_CONTROL, "no-store")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    if let Some(age) = age {
        response = response.header(header::AGE, age.as_secs());
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response = response.header(header::RETRY_AFTER, 1);
    }
    let built = response.body(Body::from(body.to_string()));
    built.unwrap_or_default()
}

fn bad(why: &str) -> Response {
    answer(StatusCode::BAD_REQUEST, None, &json!({ "error": why }))
}

fn failed(refused: &Refused) -> Response {
    let status = match refused {
        Refused::Named(_) => StatusCode::BAD_REQUEST,
        Refused::Denied(_) => StatusCode::FORBIDDEN,
        Refused::Origin(_) => StatusCode::BAD_GATEWAY,
        Refused::Busy | Refused::Changing => StatusCode::SERVICE_UNAVAILABLE,
    };
    answer(status, None, &json!({ "error": refused.to_string() }))
}

async fn answer_query(
    node: &Arc<Node>,
    from: IpAddr,
    text: Option<String>,
    wants: Wants,
) -> Response {
    let query = match Query::parse(text.as_deref()) {
        Ok(query) => query,
        Err(why) => return bad(&why),
    };
    let asked = MetadataQuery {
        max_age: query.max_age,
        stale_if_error: query.stale_if_error,
        ..MetadataQuery::new(&query.origin, &query.path, wants)
    };
    // Links are numbered from zero, so few of these hashes collide with one.
    let client = FixedState::with_seed(5).hash_one((from, &query.client)) as u32 | 1 << 31;
    let given = match node.query(client, asked).await {
        Ok(given) => given,
        Err(refused) => return failed(&refused),
    };
    let status = match &given.found {
        PathMetadata::Absent => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    };
    let body = json::answer(&query.origin, &query.path, &given);
    answer(status, Some(given.age), &body)
}

async fn stat(
    State(tier): Shared,
    Extension(sender): Extension<RequestSender>,
    RawQuery(text): RawQuery,
) -> Response {
    answer_query(&tier.node, sender.caller().ip(), text, Wants::Stat).await
}

async fn list(
    State(tier): Shared,
    Extension(sender): Extension<RequestSender>,
    RawQuery(text): RawQuery,
) -> Response {
    answer_query(&tier.node, sender.caller().ip(), text, Wants::List).await
}

async fn status(State(tier): Shared) -> Response {
    answer(StatusCode::OK, None, &json::status(&tier))
}

async fn explain(State(tier): Shared, RawQuery(text): RawQuery) -> Response {
    let query = match Query::parse(text.as_deref()) {
        Ok(query) => query,
        Err(why) => return bad(&why),
    };
    match tier.node.explain(&query.origin, &query.path) {
        Ok(explanation) => {
            let body = json::explanation(&query.origin, &query.path, &explanation);
            answer(StatusCode::OK, None, &body)
        }
        Err(refused) => failed(&refused),
    }
}

async fn invalidate(State(tier): Shared, RawQuery(text): RawQuery) -> Response {
    let query = match Query::parse(text.as_deref()) {
        Ok(query) => query,
        Err(why) => return bad(&why),
    };
    match tier.node.invalidate(&query.origin, &query.path) {
        Ok(()) => answer(StatusCode::OK, None, &json!({ "forgotten": true })),
        Err(refused) => failed(&refused),
    }
}

async fn metrics(State(tier): Shared) -> Response {
    let built = Response::builder()
        .header(header::CONTENT_TYPE, "text/plain; version=0.0.4")
        .body(Body::from(json::metrics(&tier)));
    built.unwrap_or_default()
}

async fn health() -> &'static str {
    "ok\n"
}
