//! The Graph Store Protocol: graphs read, replaced, added to and dropped whole, named by `?graph=IRI`, `?default`, or by
//! the URL itself.

use super::body::{arriving, unpack};
use super::out::Out;
use super::{Answered, Asked, accept, bad, form, refused, said, stop};
use crate::call::Watch;
use crate::http::json_response;
use crate::service::Service;
use axum::body::Body;
use axum::response::Response;
use esker::rdf::engine::dictionary::Key;
use esker::rdf::engine::id::UNBOUND;
use esker::rdf::engine::parse::{Loaded, Loader};
use esker::rdf::engine::{self, Dataset, RdfFormat, check_iri, dump};
use esker::rdf::{Add, Added, Packing, error};
use esker_model::Error;
use http::{HeaderValue, Method, StatusCode, header};
use serde_json::json;
use std::cell::Cell;
use std::io::Read;
use std::sync::Arc;

/// The graph that a request is about: an IRI, or the default graph.
fn graph(asked: &Asked) -> Result<Option<String>, Response> {
    let named = asked.parameters.one("graph").map_err(bad)?;
    let default = asked.parameters.has("default");
    let iri = match (named, default) {
        (Some(_), true) => return Err(bad("`graph` and `default` are two graphs: name one")),
        (None, true) => return Ok(None),
        (Some(iri), false) => iri.to_owned(),
        (None, false) => {
            let path = asked.uri.path().trim_end_matches('/');
            if path == "/rdf-graphs" {
                if asked.method == Method::POST {
                    // A new graph, which the server names.
                    let seed = asked.service.database.rdf_opened().map_or(0, |l| l.seed());
                    let (_, moment) = esker::rdf::moment();
                    format!("{}/rdf-graphs/{:016x}", base(asked), seed ^ moment)
                } else {
                    return Err(bad(
                        "which graph? Say ?graph=IRI, ?default, or a path below /rdf-graphs/, which is the graph's IRI then",
                    ));
                }
            } else {
                format!("{}{path}", base(asked))
            }
        }
    };
    check_iri(&iri).map_err(|e| {
        bad(format!(
            "`{iri}` is no IRI of a graph: {e}; expected one as in http://example.org/people"
        ))
    })?;
    Ok(Some(iri))
}

fn base(asked: &Asked) -> String {
    let scheme = if asked.service.settings.tls.is_some() {
        "https"
    } else {
        "http"
    };
    format!("{scheme}://{}", asked.host)
}

pub(super) async fn answer(asked: &Asked, body: Body) -> Answered {
    let graph = graph(asked)?;
    match asked.method {
        Method::PUT | Method::POST => put(asked, graph, body).await,
        Method::DELETE => delete(asked, graph).await,
        _ => get(asked, graph).await,
    }
}

fn absent(iri: &str) -> Response {
    said(StatusCode::NOT_FOUND, &format!("no graph <{iri}>"))
}

async fn get(asked: &Asked, graph: Option<String>) -> Answered {
    let (format, content_type) = accept::graphs(&asked.accept())
        .map_err(|message| said(StatusCode::NOT_ACCEPTABLE, &message))?;
    let head_only = asked.method == Method::HEAD;
    let timeout = Asked::timeout(&asked.parameters)?;
    let asker = asked.asker(&asked.parameters)?;
    asked
        .move_on_thread(timeout, move |service, watch, mut out| {
            let database = service.database.on_behalf_of(asker.as_ref());
            let data = match database.rdf_snapshot_with(graph.as_deref(), &|| stop(watch)) {
                // What comes back from a graph can be put again: what is inferred is not a part.
                Ok(data) => data.asserted(),
                Err(e) => return out.instead(refused(&e)),
            };
            let id = match &graph {
                None => UNBOUND,
                Some(iri) => {
                    let id = data.dictionary.find(&Key::Iri(iri));
                    match id.filter(|id| data.graph(*id).is_some()) {
                        Some(id) => id,
                        None => return out.instead(absent(iri)),
                    }
                }
            };
            out.content_type(content_type);
            if head_only {
                return out.finish();
            }
            match dump(&data, Some(id), format, &mut out) {
                Ok(()) => out.finish(),
                Err(_) => out.cut(),
            }
        })
        .await
}

async fn delete(asked: &Asked, graph: Option<String>) -> Answered {
    asked.may_write()?;
    let add = Add {
        instead_of: Some(graph.clone()),
        into: graph.clone(),
        sync: asked.parameters.flag("sync").map_err(bad)?,
        asker: asked.asker(&asked.parameters)?,
        ..Add::default()
    };
    asked
        .move_on_thread(None, move |service, _, out| {
            let done = service.database.rdf_live().and_then(|live| live.add(add));
            out.instead(match (done, graph) {
                (Err(e), _) => refused(&e),
                (Ok(Added { existed: false, .. }), Some(iri)) => absent(&iri),
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

/// How a body is packed.
pub(super) fn packing(asked: &Asked) -> Result<Packing, Response> {
    match asked.header(header::CONTENT_ENCODING).as_str() {
        "" | "identity" => Ok(Packing::None),
        "gzip" | "x-gzip" => Ok(Packing::Gzip),
        "zstd" => Ok(Packing::Zstd),
        other => Err(said(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            &format!("the encoding `{other}` is not known; expected gzip, zstd, or none"),
        )),
    }
}

/// What is wrong with data that a client sent.
pub(super) fn unreadable(e: engine::Error, watch: &Watch, service: &Service) -> Response {
    match e {
        engine::Error::Stopped(_) => super::stopped(watch, false),
        engine::Error::Data { message, .. } if message.contains("sparql.upload") => said(
            StatusCode::PAYLOAD_TOO_LARGE,
            &format!(
                "a body may have {} bytes, also when it is unpacked (sparql.upload): {message}",
                service.settings.sparql.upload_bytes
            ),
        ),
        e => refused(&error(e)),
    }
}

/// Reads a graph aside.
fn read(
    brought: Brought,
    graph: Option<&str>,
    base: &str,
    seed: u64,
    watch: &Watch,
    most: usize,
) -> engine::Result<(Dataset, Loaded)> {
    let left = Cell::new(most as u64);
    let mut loader = Loader::new(Dataset::default(), &format!("f{seed:x}n"), false);
    loader.on_tick(Box::new(|_| stop(watch).is_none()));
    match brought {
        Brought::Document(from, packing, format) => {
            let mut from = unpack(from, packing, &left, most).map_err(|e| engine::Error::Data {
                place: "body".into(),
                message: e.to_string(),
            })?;
            loader.read("body", &mut *from, format, graph, Some(base))?;
        }
        Brought::Parts(parts) => {
            for (name, format, content) in parts {
                loader.read(&name, &mut &*content, format, graph, Some(base))?;
            }
        }
    }
    Ok(loader.finish())
}

/// What a request brings: one document that arrives while it is read, or parts of a form.
enum Brought {
    Document(Box<dyn Read + Send>, Packing, RdfFormat),
    Parts(Vec<(String, RdfFormat, Vec<u8>)>),
}

async fn parts(asked: &Asked, content_type: &str, body: Body) -> Result<Brought, Response> {
    let limit = asked.service.settings.limits.request_bytes;
    let bytes = axum::body::to_bytes(body, limit).await.map_err(|_| {
        said(
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
    Ok(Brought::Parts(parts))
}

fn unknown(content_type: &str) -> Response {
    said(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        &format!(
            "a body of type `{content_type}` is no graph; expected text/turtle, application/n-triples, \
             application/rdf+xml or application/ld+json"
        ),
    )
}

async fn put(asked: &Asked, graph: Option<String>, body: Body) -> Answered {
    asked.may_write()?;
    let content_type = asked.header(header::CONTENT_TYPE);
    let (brought, source) = if accept::name_of(&content_type) == "multipart/form-data" {
        (parts(asked, &content_type, body).await?, None)
    } else {
        let Some(format) = accept::sent(&content_type) else {
            return Err(unknown(&content_type));
        };
        let packing = packing(asked)?;
        let (source, arriving) = arriving(body, asked.service.settings.sparql.upload_bytes);
        let document = Brought::Document(Box::new(arriving), packing, format);
        (document, Some(source))
    };
    let replace = asked.method == Method::PUT;
    let named_here = asked.method == Method::POST
        && asked.uri.path().trim_end_matches('/') == "/rdf-graphs"
        && !asked.parameters.has("graph")
        && !asked.parameters.has("default");
    let sync = asked.parameters.flag("sync").map_err(bad)?;
    let asker = asked.asker(&asked.parameters)?;
    let base = match &graph {
        Some(iri) => iri.clone(),
        None => format!("{}{}", base(asked), asked.uri.path()),
    };
    let into = graph.clone();
    let work = move |service: &Arc<Service>, watch: &Arc<Watch>, out: Out| {
        let live = match service.database.rdf_live() {
            Ok(live) => live,
            Err(e) => return out.instead(refused(&e)),
        };
        let most = service.settings.sparql.upload_bytes;
        let read = read(brought, into.as_deref(), &base, live.seed(), watch, most);
        let (data, loaded) = match read {
            Ok(read) => read,
            Err(e) => return out.instead(unreadable(e, watch, service)),
        };
        let done = live.add(Add {
            data,
            instead_of: replace.then(|| into.clone()),
            into: into.clone(),
            sync,
            asker: asker.clone(),
            ..Add::default()
        });
        out.instead(match done {
            Err(e) => refused(&e),
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
    // The body arrives while it is read.
    let arrive = async {
        if let Some(source) = source {
            source.run().await;
        }
    };
    let (answer, ()) = tokio::join!(asked.move_on_thread(None, work), arrive);
    answer
}

/// An error of reading as the library has them.
pub(super) fn io(what: &str, e: std::io::Error) -> Error {
    Error::io(what, e)
}
