//! Requests of `esker rdf` to a server: load, dump, stats, checkpoint, drop.
//!
//! The body of a load is a sequence of files, each after a line of JSON:
//!
//! ```text
//!  {"name": "data.nt.gz", "format": "nt", "packing": "gzip", "base": "file:///x/data.nt.gz", "bytes": 123}
//!  123 bytes
//! ```

use super::super::query::unknown_value;
use super::body::{body_channel, unpack};
use super::graphs::{io, unreadable};
use super::plain::text_response;
use super::response_writer::ResponseWriter;
use super::{SparqlRequest, SparqlResult, bad, error_response, stop};
use crate::call::CallState;
use crate::http::json_response;
use crate::service::Service;
use axum::body::Body;
use esker::rdf::engine::dictionary::Key;
use esker::rdf::engine::id::UNBOUND;
use esker::rdf::engine::parse::{Loaded, Loader};
use esker::rdf::engine::{Dataset, Inference, RdfFormat, check_iri, dump as write};
use esker::rdf::{AddQuads, Compression, Rules};
use esker_model::namespace::Errno;
use esker_model::object::Principal;
use esker_model::{Error, ErrorKind};
use http::{Method, Response, StatusCode};
use serde_json::{Value as Json, json};
use std::cell::Cell;
use std::io::{BufRead as _, BufReader, Read as _};
use std::sync::Arc;

/// Largest size in bytes of the line before a file.
const LINE_MAX: u64 = 64 << 10;

pub(super) async fn answer(request: &SparqlRequest, body: Body) -> SparqlResult {
    let what = request.uri.path().rsplit('/').next().unwrap_or_default();
    match (what, &request.method) {
        ("dump", &Method::GET) => dump(request).await,
        ("stats", &Method::GET) => stats(request).await,
        ("load", &Method::POST) => load(request, body).await,
        ("checkpoint", &Method::POST) => {
            request.may_write()?;
            require_unlimited(request)?;
            request
                .run_unlimited(None, |service, _, out| {
                    let done = service.database.rdf_live().and_then(|live| {
                        let bytes = live.checkpoint()?;
                        let data = live.snapshot();
                        let quads = data.len() - data.inferred_len();
                        Ok(json!({"quads": quads, "bytes": bytes}))
                    });
                    respond(out, done);
                })
                .await
        }
        ("drop", &Method::POST) => {
            request.may_write()?;
            require_unlimited(request)?;
            request
                .run_unlimited(None, |service, _, out| {
                    let done = service.database.rdf_live().and_then(|live| live.drop_all());
                    respond(out, done.map(|quads| json!({ "dropped": quads })));
                })
                .await
        }
        _ => Err(text_response(
            StatusCode::NOT_FOUND,
            "expected GET /api/v1/rdf/dump or stats, or POST /api/v1/rdf/load, checkpoint or drop",
        )),
    }
}

/// Refuses operations on all RDF data for limited principals, as their results reveal its size.
fn require_unlimited(request: &SparqlRequest) -> Result<(), Response<Body>> {
    let principal = request.principal(&request.parameters)?;
    match Principal::limited(principal.as_ref()) {
        Some(_) => Err(error_response(&Errno::Access.at("all RDF data").into())),
        None => Ok(()),
    }
}

fn respond(out: ResponseWriter, done: Result<Json, Error>) {
    out.replace_with(match done {
        Ok(json) => json_response(json.to_string()),
        Err(e) => error_response(&e),
    });
}

async fn stats(request: &SparqlRequest) -> SparqlResult {
    let principal = request.principal(&request.parameters)?;
    request
        .run_unlimited(None, move |service, call_state, out| {
            if Principal::limited(principal.as_ref()).is_some() {
                // Numbers of terms and bytes would include hidden data.
                let database = service.database.on_behalf_of(principal.as_ref());
                let data = database.rdf_snapshot_with(None, &|| stop(call_state));
                return respond(
                    out,
                    data.map(
                        |data| json!({"quads": data.len(), "named_graphs": data.names().count()}),
                    ),
                );
            }
            let done = service.database.rdf_live().map(|live| {
                let data = live.snapshot();
                json!({
                    "quads": data.len(),
                    "inferred": data.inferred_len(),
                    "inference": data.inference().map(Inference::name),
                    "named_graphs": data.names().count(),
                    "terms": data.dictionary.len(),
                    "quad_bytes": data.quad_bytes() + data.inferred_bytes(),
                    "term_bytes": data.dictionary.bytes(),
                    "log_bytes": live.log_bytes(),
                    "meta_quads": live.meta_len(),
                })
            });
            respond(out, done);
        })
        .await
}

async fn dump(request: &SparqlRequest) -> SparqlResult {
    let graph = request
        .parameters
        .one("graph")
        .map_err(bad)?
        .map(str::to_owned);
    let inferred = request.parameters.flag("inferred").map_err(bad)?;
    let principal = request.principal(&request.parameters)?;
    let (format, content_type, one) = match request.parameters.one("format").map_err(bad)? {
        None | Some("nq") => (RdfFormat::NQuads, "application/n-quads", false),
        Some("trig") => (RdfFormat::TriG, "application/trig", false),
        Some("nt") => (RdfFormat::NTriples, "application/n-triples", true),
        Some("ttl") => (RdfFormat::Turtle, "text/turtle; charset=utf-8", true),
        Some(other) => {
            let known = ["nq", "trig", "nt", "ttl"];
            return Err(bad(unknown_value("format", other, &known)));
        }
    };
    request
        .run_unlimited(None, move |service, call_state, mut out| {
            let database = service.database.on_behalf_of(principal.as_ref());
            let data = match database.rdf_snapshot_with(graph.as_deref(), &|| stop(call_state)) {
                Ok(data) if inferred => data,
                Ok(data) => Arc::new(data.asserted()),
                Err(e) => return out.replace_with(error_response(&e)),
            };
            let id = match graph.as_deref() {
                None => None,
                Some("default") => Some(UNBOUND),
                Some(iri) => {
                    let id = data.dictionary.find(&Key::Iri(iri));
                    let Some(id) = id.filter(|id| data.graph(*id).is_some()) else {
                        let message = format!("no graph <{iri}>{}", data.show_names());
                        return out.replace_with(text_response(StatusCode::NOT_FOUND, &message));
                    };
                    Some(id)
                }
            };
            if one && id.is_none() && data.names().next().is_some() {
                return out.replace_with(bad(format!(
                    "that format holds one graph, and there are several: choose one (`default` is the default graph), or \
                     write nq or trig{}",
                    data.show_names()
                )));
            }
            out.content_type(content_type);
            match write(&data, id, format, &mut out) {
                Ok(()) => out.finish(),
                Err(_) => out.abort(),
            }
        })
        .await
}

async fn load(request: &SparqlRequest, body: Body) -> SparqlResult {
    request.may_write()?;
    let graph = request
        .parameters
        .one("graph")
        .map_err(bad)?
        .map(str::to_owned);
    if let Some(iri) = &graph {
        check_iri(iri).map_err(|e| bad(format!("`{iri}` is not an IRI of a graph: {e}")))?;
    }
    let lenient = request.parameters.flag("lenient").map_err(bad)?;
    let sync = request.parameters.flag("sync").map_err(bad)?;
    let principal = request.principal(&request.parameters)?;
    let infer = match request.parameters.one("infer").map_err(bad)? {
        None => Rules::AsBefore,
        Some("none") => Rules::Now(None),
        Some("rdfs") => Rules::Now(Some(Inference::Rdfs)),
        Some("owl-rl") => Rules::Now(Some(Inference::OwlRl)),
        Some(other) => {
            let known = ["none", "rdfs", "owl-rl"];
            return Err(bad(unknown_value("infer", other, &known)));
        }
    };
    let (source, reader) = body_channel(body, request.service.settings.sparql.upload_bytes);
    let work = move |service: &Arc<Service>, call_state: &Arc<CallState>, out: ResponseWriter| {
        let live = match service.database.rdf_live() {
            Ok(live) => live,
            Err(e) => return out.replace_with(error_response(&e)),
        };
        let prefix = format!("f{:x}n", live.seed());
        let mut loader = Loader::new(Dataset::default(), &prefix, lenient);
        loader.on_tick(Box::new(|_| stop(call_state).is_none()));
        let mut from = BufReader::with_capacity(1 << 18, reader);
        let most = service.settings.sparql.upload_bytes;
        let read = files(&mut from, &mut loader, graph.as_deref(), most);
        drop(from);
        let files = match read {
            Ok(files) => files,
            Err(LoadError::Data(e)) => return out.replace_with(unreadable(e, call_state, service)),
            Err(LoadError::Other(e)) if e.kind() == ErrorKind::Storage => {
                return out.replace_with(bad(e.to_string()));
            }
            Err(LoadError::Other(e)) => return out.replace_with(error_response(&e)),
        };
        let (data, loaded) = loader.finish();
        let added = live.add(AddQuads {
            data,
            into: graph.clone(),
            instead_of: None,
            infer,
            sync,
            principal: principal.clone(),
        });
        let done = added.and_then(|added| {
            // The number of inferred triples would reveal the size of hidden data.
            let database = service.database.on_behalf_of(principal.as_ref());
            let data = database.rdf_snapshot_with(None, &|| None)?;
            Ok(report(files, &loaded, added.new, &data))
        });
        respond(out, done);
    };
    let (answer, ()) = tokio::join!(request.run_unlimited(None, work), source.run());
    answer
}

fn report(files: u64, loaded: &Loaded, new: usize, data: &Dataset) -> Json {
    json!({
        "files": files,
        "read": loaded.read,
        "new": new,
        "inferred": data.inferred_len(),
        "inference": data.inference().map(Inference::name),
        "skipped": loaded.skipped_count,
        "skipped_lines": loaded.skipped,
    })
}

/// Reasons for which a load fails.
enum LoadError {
    Data(esker::rdf::engine::Error),
    Other(Error),
}

impl<E: Into<Error>> From<E> for LoadError {
    fn from(e: E) -> Self {
        Self::Other(e.into())
    }
}

/// Reads all files of a body; returns their number.
fn files(
    from: &mut BufReader<super::body::BodyReader>,
    loader: &mut Loader<'_>,
    graph: Option<&str>,
    most: usize,
) -> Result<u64, LoadError> {
    let left = Cell::new(most as u64);
    let mut count = 0;
    loop {
        let mut line = String::new();
        let n = from
            .by_ref()
            .take(LINE_MAX)
            .read_line(&mut line)
            .map_err(|e| io("receiving files", e))?;
        if n == 0 {
            return Ok(count);
        }
        let json: Json = serde_json::from_str(&line).map_err(|e| {
            Error::Invalid(format!(
                "file {}: expected a line of JSON with name, format and bytes before its content: {e}",
                count + 1
            ))
        })?;
        let text = |key: &str| json.get(key).and_then(Json::as_str);
        let name = text("name").unwrap_or("body");
        let expected = |what: &str| Error::Invalid(format!("file `{name}`: expected {what}"));
        let format = text("format")
            .and_then(|f| match f {
                "owl" => Some(RdfFormat::RdfXml),
                f => RdfFormat::from_extension(f),
            })
            .ok_or_else(|| expected("`format`: nt, nq, ttl, trig, rdf or jsonld"))?;
        let packing = match text("packing") {
            None | Some("") => Compression::None,
            Some("gzip") => Compression::Gzip,
            Some("zstd") => Compression::Zstd,
            Some(_) => return Err(expected("`packing`: gzip or zstd").into()),
        };
        let bytes = json
            .get("bytes")
            .and_then(Json::as_u64)
            .ok_or_else(|| expected("`bytes`: how many bytes its content has"))?;
        count += 1;
        let mut content = from.by_ref().take(bytes);
        let mut unpacked = unpack(&mut content, packing, &left, most)
            .map_err(|e| Error::Invalid(format!("`{name}`: {e}")))?;
        let read = loader.read(name, &mut *unpacked, format, graph, text("base"));
        drop(unpacked);
        read.map_err(LoadError::Data)?;
        // Skip bytes after the end of the document.
        std::io::copy(&mut content, &mut std::io::sink()).map_err(|e| io("receiving files", e))?;
        if content.limit() > 0 {
            return Err(Error::Invalid(format!(
                "`{name}` ended {} bytes early; nothing was loaded",
                content.limit()
            ))
            .into());
        }
    }
}
