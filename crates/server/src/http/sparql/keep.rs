//! What `esker rdf` does to a server: load, dump, stats, checkpoint, drop.
//!
//! The body of a load is files one after another, each behind a line of JSON:
//!
//! ```text
//!  {"name": "data.nt.gz", "format": "nt", "packing": "gzip", "base": "file:///x/data.nt.gz", "bytes": 123}
//!  123 bytes
//! ```

use super::body::{arriving, unpack};
use super::graphs::{io, unreadable};
use super::out::Out;
use super::{Answered, Asked, bad, refused, said, stop};
use crate::call::Watch;
use crate::http::json_response;
use crate::service::Service;
use axum::body::Body;
use esker::rdf::engine::dictionary::Key;
use esker::rdf::engine::id::UNBOUND;
use esker::rdf::engine::parse::{Loaded, Loader};
use esker::rdf::engine::{Dataset, Inference, RdfFormat, check_iri, dump as write};
use esker::rdf::{Add, Packing, Rules};
use esker_model::namespace::Errno;
use esker_model::object::Asker;
use esker_model::{Error, ErrorKind};
use http::{Method, Response, StatusCode};
use serde_json::{Value as Json, json};
use std::cell::Cell;
use std::io::{BufRead as _, BufReader, Read as _};
use std::sync::Arc;

/// Bytes that the line before a file may have.
const LINE_MAX: u64 = 64 << 10;

pub(super) async fn answer(asked: &Asked, body: Body) -> Answered {
    let what = asked.uri.path().rsplit('/').next().unwrap_or_default();
    match (what, &asked.method) {
        ("dump", &Method::GET) => dump(asked).await,
        ("stats", &Method::GET) => stats(asked).await,
        ("load", &Method::POST) => load(asked, body).await,
        ("checkpoint", &Method::POST) => {
            asked.may_write()?;
            of_all(asked)?;
            asked
                .move_on_thread(None, |service, _, out| {
                    let done = service.database.rdf_live().and_then(|live| {
                        let bytes = live.checkpoint()?;
                        let data = live.snapshot();
                        let quads = data.len() - data.inferred_len();
                        Ok(json!({"quads": quads, "bytes": bytes}))
                    });
                    tell(out, done);
                })
                .await
        }
        ("drop", &Method::POST) => {
            asked.may_write()?;
            of_all(asked)?;
            asked
                .move_on_thread(None, |service, _, out| {
                    let done = service.database.rdf_live().and_then(|live| live.drop_all());
                    tell(out, done.map(|quads| json!({ "dropped": quads })));
                })
                .await
        }
        _ => Err(said(
            StatusCode::NOT_FOUND,
            "expected GET /api/v1/rdf/dump or stats, or POST /api/v1/rdf/load, checkpoint or drop",
        )),
    }
}

/// Refuses those who may not see all RDF data what is done with all of it, and tells how much that is.
fn of_all(asked: &Asked) -> Result<(), Response<Body>> {
    let asker = asked.asker(&asked.parameters)?;
    match Asker::limited(asker.as_ref()) {
        Some(_) => Err(refused(&Errno::Access.at("all RDF data").into())),
        None => Ok(()),
    }
}

fn tell(out: Out, done: Result<Json, Error>) {
    out.instead(match done {
        Ok(json) => json_response(json.to_string()),
        Err(e) => refused(&e),
    });
}

async fn stats(asked: &Asked) -> Answered {
    let asker = asked.asker(&asked.parameters)?;
    asked
        .move_on_thread(None, move |service, watch, out| {
            if Asker::limited(asker.as_ref()).is_some() {
                // Terms and bytes are of what is hidden, too.
                let database = service.database.on_behalf_of(asker.as_ref());
                let data = database.rdf_snapshot_with(None, &|| stop(watch));
                return tell(
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
            tell(out, done);
        })
        .await
}

async fn dump(asked: &Asked) -> Answered {
    let graph = asked
        .parameters
        .one("graph")
        .map_err(bad)?
        .map(str::to_owned);
    let inferred = asked.parameters.flag("inferred").map_err(bad)?;
    let asker = asked.asker(&asked.parameters)?;
    let (format, content_type, one) = match asked.parameters.one("format").map_err(bad)? {
        None | Some("nq") => (RdfFormat::NQuads, "application/n-quads", false),
        Some("trig") => (RdfFormat::TriG, "application/trig", false),
        Some("nt") => (RdfFormat::NTriples, "application/n-triples", true),
        Some("ttl") => (RdfFormat::Turtle, "text/turtle; charset=utf-8", true),
        Some(other) => {
            return Err(bad(format!(
                "parameter `format`: expected nq, trig, nt or ttl; got `{other}`"
            )));
        }
    };
    asked
        .move_on_thread(None, move |service, watch, mut out| {
            let database = service.database.on_behalf_of(asker.as_ref());
            let data = match database.rdf_snapshot_with(graph.as_deref(), &|| stop(watch)) {
                Ok(data) if inferred => data,
                Ok(data) => Arc::new(data.asserted()),
                Err(e) => return out.instead(refused(&e)),
            };
            let id = match graph.as_deref() {
                None => None,
                Some("default") => Some(UNBOUND),
                Some(iri) => {
                    let id = data.dictionary.find(&Key::Iri(iri));
                    let Some(id) = id.filter(|id| data.graph(*id).is_some()) else {
                        let message = format!("no graph <{iri}>{}", data.show_names());
                        return out.instead(said(StatusCode::NOT_FOUND, &message));
                    };
                    Some(id)
                }
            };
            if one && id.is_none() && data.names().next().is_some() {
                return out.instead(bad(format!(
                    "that format holds one graph, and there are several: choose one (`default` is the default graph), or \
                     write nq or trig{}",
                    data.show_names()
                )));
            }
            out.content_type(content_type);
            match write(&data, id, format, &mut out) {
                Ok(()) => out.finish(),
                Err(_) => out.cut(),
            }
        })
        .await
}

async fn load(asked: &Asked, body: Body) -> Answered {
    asked.may_write()?;
    let graph = asked
        .parameters
        .one("graph")
        .map_err(bad)?
        .map(str::to_owned);
    if let Some(iri) = &graph {
        check_iri(iri).map_err(|e| bad(format!("`{iri}` is no IRI of a graph: {e}")))?;
    }
    let lenient = asked.parameters.flag("lenient").map_err(bad)?;
    let sync = asked.parameters.flag("sync").map_err(bad)?;
    let asker = asked.asker(&asked.parameters)?;
    let infer = match asked.parameters.one("infer").map_err(bad)? {
        None => Rules::AsBefore,
        Some("none") => Rules::Now(None),
        Some("rdfs") => Rules::Now(Some(Inference::Rdfs)),
        Some("owl-rl") => Rules::Now(Some(Inference::OwlRl)),
        Some(other) => {
            return Err(bad(format!(
                "parameter `infer`: expected none, rdfs or owl-rl; got `{other}`"
            )));
        }
    };
    let (source, arriving) = arriving(body, asked.service.settings.sparql.upload_bytes);
    let work = move |service: &Arc<Service>, watch: &Arc<Watch>, out: Out| {
        let live = match service.database.rdf_live() {
            Ok(live) => live,
            Err(e) => return out.instead(refused(&e)),
        };
        let prefix = format!("f{:x}n", live.seed());
        let mut loader = Loader::new(Dataset::default(), &prefix, lenient);
        loader.on_tick(Box::new(|_| stop(watch).is_none()));
        let mut from = BufReader::with_capacity(1 << 18, arriving);
        let most = service.settings.sparql.upload_bytes;
        let read = files(&mut from, &mut loader, graph.as_deref(), most);
        drop(from);
        let files = match read {
            Ok(files) => files,
            Err(Wrong::Data(e)) => return out.instead(unreadable(e, watch, service)),
            Err(Wrong::Other(e)) if e.kind() == ErrorKind::Storage => {
                return out.instead(bad(e.to_string()));
            }
            Err(Wrong::Other(e)) => return out.instead(refused(&e)),
        };
        let (data, loaded) = loader.finish();
        let added = live.add(Add {
            data,
            into: graph.clone(),
            instead_of: None,
            infer,
            sync,
            asker: asker.clone(),
        });
        let done = added.and_then(|added| {
            // How much is inferred in all says how much there is.
            let database = service.database.on_behalf_of(asker.as_ref());
            let data = database.rdf_snapshot_with(None, &|| None)?;
            Ok(report(files, &loaded, added.new, &data))
        });
        tell(out, done);
    };
    let (answer, ()) = tokio::join!(asked.move_on_thread(None, work), source.run());
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

/// What ends a load.
enum Wrong {
    Data(esker::rdf::engine::Error),
    Other(Error),
}

impl<E: Into<Error>> From<E> for Wrong {
    fn from(e: E) -> Self {
        Self::Other(e.into())
    }
}

/// Reads all files of a body. How many.
fn files(
    from: &mut BufReader<super::body::Arriving>,
    loader: &mut Loader<'_>,
    graph: Option<&str>,
    most: usize,
) -> Result<u64, Wrong> {
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
            None | Some("") => Packing::None,
            Some("gzip") => Packing::Gzip,
            Some("zstd") => Packing::Zstd,
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
        read.map_err(Wrong::Data)?;
        // What stands behind the end of a document.
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
