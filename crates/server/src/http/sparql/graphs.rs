//! The Graph Store Protocol: reads, replaces, extends and drops complete graphs, named by `?graph=IRI`, `?default`, or by the URL.

use super::body::{body_channel, unpack};
use super::plain::text_response;
use super::response_writer::ResponseWriter;
use super::{SparqlRequest, SparqlResult, accept, bad, error_response, form, stop};
use crate::call::CallState;
use crate::http::json_response;
use crate::service::Service;
use axum::body::Body;
use axum::response::Response;
use esker::rdf::engine::dictionary::Key;
use esker::rdf::engine::id::UNBOUND;
use esker::rdf::engine::parse::{Loaded, Loader};
use esker::rdf::engine::{self, Dataset, RdfFormat, check_iri, dump};
use esker::rdf::{AddQuads, AddReport, Compression, error};
use esker_model::Error;
use http::{HeaderValue, Method, StatusCode, header};
use serde_json::json;
use std::cell::Cell;
use std::io::Read;
use std::sync::Arc;

/// The graph of a request: an IRI, or `None` for the default graph.
fn graph(request: &SparqlRequest) -> Result<Option<String>, Response> {
    let named = request.parameters.one("graph").map_err(bad)?;
    let default = request.parameters.has("default");
    let iri = match (named, default) {
        (Some(_), true) => return Err(bad("`graph` and `default` are two graphs: name one")),
        (None, true) => return Ok(None),
        (Some(iri), false) => iri.to_owned(),
        (None, false) => {
            let path = request.uri.path().trim_end_matches('/');
            if path == "/rdf-graphs" {
                if request.method == Method::POST {
                    // The server names a new graph.
                    let seed = request
                        .service
                        .database
                        .rdf_opened()
                        .map_or(0, |l| l.seed());
                    let (_, moment) = esker::rdf::now_and_seed();
                    format!("{}/rdf-graphs/{:016x}", base(request), seed ^ moment)
                } else {
                    return Err(bad(
                        "which graph? Say ?graph=IRI, ?default, or a path below /rdf-graphs/, which is the graph's IRI then",
                    ));
                }
            } else {
                format!("{}{path}", base(request))
            }
        }
    };
    check_iri(&iri).map_err(|e| {
        bad(format!(
            "`{iri}` is not an IRI of a graph: {e}; expected one as in http://example.org/people"
        ))
    })?;
    Ok(Some(iri))
}

fn base(request: &SparqlRequest) -> String {
    let scheme = if request.service.settings.tls.is_some() {
        "https"
    } else {
        "http"
    };
    format!("{scheme}://{}", request.host)
}

pub(super) async fn answer(request: &SparqlRequest, body: Body) -> SparqlResult {
    let graph = graph(request)?;
    match request.method {
        Method::PUT | Method::POST => put(request, graph, body).await,
        Method::DELETE => delete(request, graph).await,
        _ => get(request, graph).await,
    }
}

fn absent(iri: &str) -> Response {
    text_response(StatusCode::NOT_FOUND, &format!("no graph <{iri}>"))
}

async fn get(request: &SparqlRequest, graph: Option<String>) -> SparqlResult {
    let (format, content_type) = accept::graphs(&request.accept())
        .map_err(|message| text_response(StatusCode::NOT_ACCEPTABLE, &message))?;
    let head_only = request.method == Method::HEAD;
    let timeout = SparqlRequest::timeout(&request.parameters)?;
    let principal = request.principal(&request.parameters)?;
    request
        .run_unlimited(timeout, move |service, call_state, mut out| {
            let database = service.database.on_behalf_of(principal.as_ref());
            let data = match database.rdf_snapshot_with(graph.as_deref(), &|| stop(call_state)) {
                // A client can put the graph again, so inferred triples are left out.
                Ok(data) => data.asserted(),
                Err(e) => return out.replace_with(error_response(&e)),
            };
            let id = match &graph {
                None => UNBOUND,
                Some(iri) => {
                    let id = data.dictionary.find(&Key::Iri(iri));
                    match id.filter(|id| data.graph(*id).is_some()) {
                        Some(id) => id,
                        None => return out.replace_with(absent(iri)),
                    }
                }
            };
            out.content_type(content_type);
            if head_only {
                return out.finish();
            }
            match dump(&data, Some(id), format, &mut out) {
                Ok(()) => out.finish(),
                Err(_) => out.abort(),
            }
        })
        .await
}

async fn delete(request: &SparqlRequest, graph: Option<String>) -> SparqlResult {
    request.may_write()?;
    let add = AddQuads {
        instead_of: Some(graph.clone()),
        into: graph.clone(),
        sync: request.parameters.flag("sync").map_err(bad)?,
        principal: request.principal(&request.parameters)?,
        ..AddQuads::default()
    };
    request
        .run_unlimited(None, move |service, _, out| {
            let done = service.database.rdf_live().and_then(|live| live.add(add));
            out.replace_with(match (done, graph) {
                (Err(e), _) => error_response(&e),
                (Ok(AddReport { existed: false, .. }), Some(iri)) => absent(&iri),
                (Ok(_), _) => empty(StatusCode::NO_CONTENT),
            });
        })
        .await
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Compression of a body.
pub(super) fn packing(request: &SparqlRequest) -> Result<Compression, Response> {
    match request.header(header::CONTENT_ENCODING).as_str() {
        "" | "identity" => Ok(Compression::None),
        "gzip" | "x-gzip" => Ok(Compression::Gzip),
        "zstd" => Ok(Compression::Zstd),
        other => Err(text_response(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            &format!("the encoding `{other}` is not known; expected gzip, zstd, or none"),
        )),
    }
}

/// Response to data that cannot be read.
pub(super) fn unreadable(e: engine::Error, call_state: &CallState, service: &Service) -> Response {
    match e {
        engine::Error::Stopped(_) => super::stopped(call_state, false),
        engine::Error::Data { message, .. } if message.contains("sparql.upload") => text_response(
            StatusCode::PAYLOAD_TOO_LARGE,
            &format!(
                "a body may have {} bytes, also when it is unpacked (sparql.upload): {message}",
                service.settings.sparql.upload_bytes
            ),
        ),
        e => error_response(&error(e)),
    }
}

/// Reads a graph into a dataset of its own.
fn read(
    source: GraphSource,
    graph: Option<&str>,
    base: &str,
    seed: u64,
    call_state: &CallState,
    most: usize,
) -> engine::Result<(Dataset, Loaded)> {
    let left = Cell::new(most as u64);
    let mut loader = Loader::new(Dataset::default(), &format!("f{seed:x}n"), false);
    loader.on_tick(Box::new(|_| stop(call_state).is_none()));
    match source {
        GraphSource::Document(from, packing, format) => {
            let mut from = unpack(from, packing, &left, most).map_err(|e| engine::Error::Data {
                place: "body".into(),
                message: e.to_string(),
            })?;
            loader.read("body", &mut *from, format, graph, Some(base))?;
        }
        GraphSource::Parts(parts) => {
            for (name, format, content) in parts {
                loader.read(&name, &mut &*content, format, graph, Some(base))?;
            }
        }
    }
    Ok(loader.finish())
}

/// Content of a request: one document that arrives while it is read, or the parts of a form.
enum GraphSource {
    Document(Box<dyn Read + Send>, Compression, RdfFormat),
    Parts(Vec<(String, RdfFormat, Vec<u8>)>),
}

async fn parts(
    request: &SparqlRequest,
    content_type: &str,
    body: Body,
) -> Result<GraphSource, Response> {
    let limit = request.service.settings.limits.request_bytes;
    let bytes = axum::body::to_bytes(body, limit).await.map_err(|_| {
        text_response(
            StatusCode::PAYLOAD_TOO_LARGE,
            &format!("a form of more than {limit} bytes is not taken: send one document, or use `esker rdf load`"),
        )
    })?;
    let mut parts = Vec::new();
    for part in form::parts(content_type, &bytes).map_err(bad)? {
        let Some(format) = accept::sent(&part.content_type) else {
            return Err(unknown(&part.content_type));
        };
        parts.push((part.name, format, part.content.to_vec()));
    }
    Ok(GraphSource::Parts(parts))
}

fn unknown(content_type: &str) -> Response {
    text_response(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        &format!(
            "a body of type `{content_type}` is not a graph; expected text/turtle, \
             application/n-triples, application/rdf+xml or application/ld+json"
        ),
    )
}

async fn put(request: &SparqlRequest, graph: Option<String>, body: Body) -> SparqlResult {
    request.may_write()?;
    let content_type = request.header(header::CONTENT_TYPE);
    let (source, body_sender) = if accept::name_of(&content_type) == "multipart/form-data" {
        (parts(request, &content_type, body).await?, None)
    } else {
        let Some(format) = accept::sent(&content_type) else {
            return Err(unknown(&content_type));
        };
        let packing = packing(request)?;
        let (body_sender, reader) =
            body_channel(body, request.service.settings.sparql.upload_bytes);
        let document = GraphSource::Document(Box::new(reader), packing, format);
        (document, Some(body_sender))
    };
    let replace = request.method == Method::PUT;
    let named_here = request.method == Method::POST
        && request.uri.path().trim_end_matches('/') == "/rdf-graphs"
        && !request.parameters.has("graph")
        && !request.parameters.has("default");
    let sync = request.parameters.flag("sync").map_err(bad)?;
    let principal = request.principal(&request.parameters)?;
    let base = match &graph {
        Some(iri) => iri.clone(),
        None => format!("{}{}", base(request), request.uri.path()),
    };
    let into = graph.clone();
    let work = move |service: &Arc<Service>, call_state: &Arc<CallState>, out: ResponseWriter| {
        let live = match service.database.rdf_live() {
            Ok(live) => live,
            Err(e) => return out.replace_with(error_response(&e)),
        };
        let most = service.settings.sparql.upload_bytes;
        let read = read(
            source,
            into.as_deref(),
            &base,
            live.seed(),
            call_state,
            most,
        );
        let (data, loaded) = match read {
            Ok(read) => read,
            Err(e) => return out.replace_with(unreadable(e, call_state, service)),
        };
        let done = live.add(AddQuads {
            data,
            instead_of: replace.then(|| into.clone()),
            into: into.clone(),
            sync,
            principal: principal.clone(),
            ..AddQuads::default()
        });
        out.replace_with(match done {
            Err(e) => error_response(&e),
            Ok(added) if replace && added.existed => empty(StatusCode::NO_CONTENT),
            Ok(added) => {
                let body = json!({"read": loaded.read, "new": added.new});
                let mut response = json_response(body.to_string());
                if !added.existed || named_here {
                    *response.status_mut() = StatusCode::CREATED;
                }
                if named_here
                    && let Some(location) = into.and_then(|i| HeaderValue::from_str(&i).ok())
                {
                    response.headers_mut().insert(header::LOCATION, location);
                }
                response
            }
        });
    };
    // The body arrives while the thread reads it.
    let arrive = async {
        if let Some(body_sender) = body_sender {
            body_sender.run().await;
        }
    };
    let (answer, ()) = tokio::join!(request.run_unlimited(None, work), arrive);
    answer
}

/// Converts an I/O error to the library's error.
pub(super) fn io(what: &str, e: std::io::Error) -> Error {
    Error::io(what, e)
}
