//! The record of an HTTP request, from its admission to the head of its response.

use super::queue::Audit;
use super::state::{PATH_BYTES_MAX, now_micros};
use crate::access::needs::{Needs, WRITE};
use axum::body::Body;
use esker_audit::record::cut;
use esker_audit::{Behalf, Entry, Outcome, QueryText, Subject};
use esker_model::object::Principal;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, Uri};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Header with the number of a request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Facts of a request that only its handler knows.
#[derive(Debug, Default)]
pub(crate) struct RequestNote {
    query: OnceLock<QueryText>,
    behalf: OnceLock<Behalf>,
    /// Whether the request turned out to change data.
    writes: AtomicBool,
    /// Whether its refusal is recorded already.
    refused: AtomicBool,
}

impl RequestNote {
    /// Notes the text of a query.
    pub(crate) fn query(&self, text: &str) {
        // A request has one query.
        let _ = self.query.set(QueryText::new(text));
    }

    /// Notes the user on whose behalf the request is answered.
    pub(crate) fn behalf(&self, principal: Option<&Principal>) {
        if let Some(principal) = principal {
            let _ = self.behalf.set(Behalf {
                uid: principal.uid,
                gids: principal.gids.clone(),
            });
        }
    }

    /// Notes that the request changes data.
    pub(crate) fn writes(&self) {
        self.writes.store(true, Ordering::Relaxed);
    }

    /// Notes that the refusal of the request is recorded.
    pub(crate) fn refused(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }
}

/// Makes the description of a sender.
type SubjectSource = Box<dyn Fn() -> Arc<Subject> + Send>;

/// A request in progress that may be recorded.
pub(crate) struct HttpRecord {
    pub(crate) audit: Arc<Audit>,
    /// Describes the sender; most requests need no description.
    pub(crate) subject: SubjectSource,
    pub(crate) request: u64,
    pub(crate) note: Arc<RequestNote>,
    pub(crate) method: Method,
    /// Pattern of the path, and the access that it needs.
    pub(crate) route: (&'static str, Needs),
    pub(crate) uri: Uri,
    began: Instant,
    time: i64,
    ended: bool,
}

impl HttpRecord {
    /// Begins the record of an admitted request.
    pub(crate) fn begin(
        audit: &Arc<Audit>,
        (subject, request, note): (SubjectSource, u64, Arc<RequestNote>),
        (method, uri): (&Method, &Uri),
        route: (&'static str, Needs),
    ) -> Self {
        Self {
            audit: Arc::clone(audit),
            subject,
            request,
            note,
            method: method.clone(),
            route,
            uri: uri.clone(),
            began: Instant::now(),
            time: now_micros(),
            ended: false,
        }
    }

    /// Records the end of the request with this status; `None` if its client was gone before.
    fn end(&mut self, status: Option<StatusCode>) {
        self.ended = true;
        if self.note.refused.load(Ordering::Relaxed) {
            return;
        }
        let (_, needs) = self.route;
        let is_refusal = matches!(
            status,
            Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
        );
        let needs = if self.note.writes.load(Ordering::Relaxed) {
            WRITE
        } else {
            needs
        };
        // Pages ask for their session to learn whether there is one.
        let is_question = needs == Needs::Nothing && self.method == Method::GET;
        if !self.audit.wants(needs) && (!is_refusal || is_question) {
            return;
        }
        let outcome = match status {
            Some(status) if is_refusal => Outcome::Refused {
                why: status.as_str().to_owned(),
                reason: status.canonical_reason().unwrap_or_default().to_owned(),
            },
            Some(status) if status.is_client_error() || status.is_server_error() => {
                Outcome::Failed(status.as_str().to_owned())
            }
            Some(_) => Outcome::Done,
            None => Outcome::Failed("CANCELLED".to_owned()),
        };
        let (pattern, _) = self.route;
        // The texts of RDF requests are noted by their handlers: an update has data.
        let is_rdf = ["/sparql", "/rdf-graphs", "/api/v1/rdf"]
            .iter()
            .any(|root| pattern.starts_with(root));
        let path = match self.uri.path_and_query() {
            Some(path) if !is_rdf => path.as_str(),
            _ => self.uri.path(),
        };
        let event = if is_refusal { "refusal" } else { "call" };
        let call = format!("{} {pattern}", self.method);
        let entry = Entry {
            time: self.time,
            request: self.request,
            protocol: "http",
            path: Some(cut(path, PATH_BYTES_MAX).to_owned()),
            on_behalf: self.note.behalf.get().cloned(),
            query: self.note.query.get().cloned(),
            status: status.map(|status| status.as_u16()),
            micros: Some(u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)),
            outcome,
            ..Entry::new(event, call, (self.subject)())
        };
        self.audit.record(entry);
    }

    /// Records the response to the request.
    pub(crate) fn answered(mut self, response: &Response<Body>) {
        self.end(Some(response.status()));
    }
}

impl Drop for HttpRecord {
    fn drop(&mut self) {
        if !self.ended {
            self.end(None);
        }
    }
}

/// Adds the number of the request to a response.
pub(crate) fn with_request_id(mut response: Response<Body>, request: u64) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, HeaderValue::from(request));
    response
}
