//! Status of the site cache tiers that the configuration names.

use crate::service::Service;
use axum::body::Body;
use axum::extract::State;
use esker_rpc::Address;
use esker_rpc::address::Encrypt;
use esker_rpc::http::{Endpoint, RequestBody};
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit of a tier's answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Largest answer in bytes.
const BYTES_MAX: usize = 1 << 20;

/// Answers the request `GET /api/v1/site`.
pub(in super::super) async fn sites(State(service): State<Arc<Service>>) -> Response<Body> {
    service.metrics.http.add(1);
    let asking = service.settings.sites.iter().map(|url| async move {
        match tokio::time::timeout(ANSWER_MAX, status(url)).await {
            Ok(Ok(status)) => json!({"url": url, "state": "up", "problem": null, "status": status}),
            Ok(Err(why)) => json!({"url": url, "state": "down", "problem": why, "status": null}),
            Err(_) => {
                let why = format!("it said nothing for {} s", ANSWER_MAX.as_secs());
                json!({"url": url, "state": "down", "problem": why, "status": null})
            }
        }
    });
    let tiers: Vec<Json> = futures_util::future::join_all(asking).await;
    super::super::json_response(json!({ "tiers": tiers }).to_string())
}

/// Reads the status of a tier with the SSH key of the user who runs this server.
async fn status_by_key(url: &str) -> Result<Json, String> {
    let mut address = Address::parse(url).map_err(|e| e.to_string())?;
    address.trust.encrypt = Encrypt::Always;
    address.patience = address.patience.min(ANSWER_MAX);
    let asked = tokio::task::spawn_blocking(move || {
        let place = Endpoint::from(&address);
        let until = Some(Instant::now() + ANSWER_MAX);
        let never = || false;
        let mut answer = place
            .request(
                "GET",
                "/v1/status",
                &[],
                RequestBody::Nothing,
                &never,
                until,
            )
            .map_err(|e| e.to_string())?;
        let text = answer
            .text(BYTES_MAX)
            .map_err(|e| format!("{place}: {e}"))?;
        if answer.status != 200 {
            return Err(format!(
                "{place} answered {}: is it a tier of a site cache?",
                answer.status
            ));
        }
        serde_json::from_str(&text).map_err(|e| format!("{place}: {e}"))
    });
    asked
        .await
        .map_err(|_| "the request could not be sent".to_owned())?
}

/// Reads the status of a tier.
async fn status(url: &str) -> Result<Json, String> {
    if Address::is_address(url) {
        return status_by_key(url).await;
    }
    let uri: Uri = url.parse().map_err(|_| format!("`{url}` is not a URL"))?;
    let host = uri.host().ok_or_else(|| format!("`{url}` names no host"))?;
    if uri.scheme_str() != Some("http") {
        return Err(format!(
            "`{url}`: tiers are reached by http://127.0.0.1:PORT on this machine, by esker://HOST:PORT elsewhere"
        ));
    }
    let port = uri.port_u16().unwrap_or(80);
    let failed = |e: &dyn std::fmt::Display| format!("{host}:{port}: {e}");
    let bare = host.trim_matches(['[', ']']);
    let stream = tokio::net::TcpStream::connect((bare, port))
        .await
        .map_err(|e| failed(&e))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| failed(&e))?;
    let under_way = tokio::spawn(connection);
    let request = Request::get("/v1/status")
        .header(header::HOST, format!("{host}:{port}"))
        .body(Empty::<bytes::Bytes>::new())
        .map_err(|e| failed(&e))?;
    let response = sender.send_request(request).await.map_err(|e| failed(&e))?;
    let code = response.status();
    let body = Limited::new(response.into_body(), BYTES_MAX)
        .collect()
        .await;
    under_way.abort();
    if code != StatusCode::OK {
        return Err(format!(
            "{host}:{port} answered {code}: is it a tier of a site cache?"
        ));
    }
    let body = body.map_err(|e| failed(&e))?.to_bytes();
    serde_json::from_slice(&body).map_err(|e| failed(&e))
}
