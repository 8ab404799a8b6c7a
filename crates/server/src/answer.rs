//! Answers one request, on a thread that may wait for the disk and for the client.

use crate::admin::{check_out, stats_out};
use crate::call::Call;
use crate::calls::reads_graph;
use crate::limits::AT_LEAST_MAX;
use crate::names;
use crate::objects;
use crate::pieces::{Pieces, Stop, check_cancelled, check_count, end, send_all};
use crate::read_graph;
use crate::service::Service;
use crate::settings::QuotaKind;
use crate::sharing;
use crate::stop_request::StopRequest;
use esker::CheckOptions;
use esker_model::namespace::resolve;
use esker_model::object::Principal;
use esker_model::{
    Cancel as _, Edge, Error, GraphRead, Result, Schema, Version, VertexId, VertexName, VertexRef,
    VertexSelect, VertexTypeId,
};
use esker_rpc::convert::{self, Form};
use esker_rpc::proto;
use esker_rpc::proto::reply::Reply;
use esker_rpc::proto::request::Call as Request;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Executes a request and sends its answer.
pub(crate) fn answer(service: &Service, request: Request, call: Call) {
    let late = call.options.deadline.is_some_and(|d| Instant::now() >= d);
    let outcome = if late {
        Err(Stop::Failed(Error::Busy(
            "the call waited for a thread until its deadline passed: the server is busy".into(),
        )))
    } else {
        wait_for_version(service, call.options.at_least.0)
            .map_err(Stop::from)
            .and_then(|()| run(service, request, &call))
    };
    // An answer that was cut off at the limit may be incomplete.
    if call.slot.is_some()
        && let Some(message) = call.state.over_time()
    {
        return call.over_quota(QuotaKind::QueryTime, message);
    }
    match outcome {
        Ok(last) => call.done(last),
        Err(Stop::Failed(Error::Interrupted)) if call.state.cut_off() => call.cut_off(),
        Err(Stop::Failed(e)) if service.cluster.is_some() => call.failed_for_now(&e),
        Err(Stop::Failed(e)) => call.failed(&e),
        Err(Stop::ClientGone) => drop(call),
    }
}

/// Waits until the database has a version that the client has seen, perhaps through another process.
fn wait_for_version(service: &Service, version: Version) -> Result<()> {
    // The servers of a cluster wait for each other where it matters.
    if service.cluster.is_some() {
        return Ok(());
    }
    let until = Instant::now() + AT_LEAST_MAX;
    while !service.has(version) {
        let newest = service.database.stats()?.newest.unwrap_or(Version::ZERO);
        service.note_version(newest);
        if service.has(version) {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(Error::Unavailable(format!(
                "the client has seen version {version}, and the newest here is {newest}: this is \
                 another database, or one that lost its last writes to a power failure; reopen it"
            )));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Splits a request into the call and the principal on whose behalf it is made.
fn split_principal(request: Request) -> Result<(Request, Option<Principal>), Stop> {
    let Request::As(on_behalf) = request else {
        return Ok((request, None));
    };
    let inner = on_behalf.request.unwrap_or_default();
    if !reads_graph(&inner) {
        return Err(Stop::Failed(Error::Invalid(
            "malformed message: `as.request`: expected a call that reads the graph; other calls have their own principal".into(),
        )));
    }
    let principal = convert::principal_in(on_behalf.principal);
    if principal.is_none() {
        return Err(Stop::Failed(Error::Invalid(
            "malformed message: `as.principal`: expected a principal, but it is absent".into(),
        )));
    }
    inner
        .call
        .map(|call| (call, principal))
        .ok_or(Stop::ClientGone)
}

fn run(service: &Service, request: Request, call: &Call) -> Result<Reply, Stop> {
    match request {
        Request::Graph(read) => read_graph::answer(service, &read, call),
        Request::GraphAs(read) => read_graph::answer_as(service, &read, call),
        request => run_message(service, request, call),
    }
}

/// Answers a call in messages that programs in other languages can read, or one that changes something.
fn run_message(service: &Service, request: Request, call: &Call) -> Result<Reply, Stop> {
    let (request, principal) = split_principal(request)?;
    let principal = principal.as_ref();
    let graph = service.graph(call.options.at_least.0, principal);
    let graph = &*graph;
    let files = service.names(call.options.at_least.0);
    let form = call.options.form;
    Ok(match request {
        Request::Ping(_) => ping_reply(),
        Request::Schema(_) => Reply::Schema(convert::schema_out(&*graph.schema()?)),
        Request::Define(request) => {
            let changes: Result<Vec<_>, _> = request
                .changes
                .into_iter()
                .map(convert::change_in)
                .collect();
            Reply::Schema(convert::schema_out(&*service.define(&changes?)?))
        }
        Request::ReadVertices(request) => {
            read_vertices(service, graph, &request, (call, principal))?
        }
        Request::ReadEdges(request) => {
            check_count(service, "edges", request.keys.len())?;
            let keys: Result<Vec<_>, _> =
                request.keys.into_iter().map(convert::edge_key_in).collect();
            let edges = graph.read_edges(&keys?, convert::as_of_in(request.as_of))?;
            let item = |edge: &Option<Edge>| proto::read_edges_reply::Item {
                edge: edge.as_ref().map(|e| convert::edge_out(e, form)),
            };
            send_all(call, edges, item, |items| {
                Reply::ReadEdges(proto::ReadEdgesReply { items })
            })?
        }
        Request::ScanEdges(request) => scan_edges(service, graph, &request, (call, principal))?,
        Request::ScanVertices(request) => {
            scan_vertices(service, graph, &request, (call, principal))?
        }
        Request::VertexHistory(request) => {
            let vertex = request.vertex.unwrap_or_default();
            let vertex = vertex_of(service, &vertex, &*graph.schema()?, (call, principal))?;
            let events = graph.vertex_history(vertex.id, convert::range_in(request.range))?;
            send_all(
                call,
                events,
                |e| convert::vertex_event_out(e, form),
                |events| Reply::VertexHistory(proto::VertexHistoryReply { events }),
            )?
        }
        Request::EdgeHistory(request) => {
            let key = convert::edge_key_in(request.key.unwrap_or_default())?;
            let events = graph.edge_history(key, convert::range_in(request.range))?;
            send_all(
                call,
                events,
                |e| convert::edge_event_out(e, form),
                |events| Reply::EdgeHistory(proto::EdgeHistoryReply { events }),
            )?
        }
        Request::Degrees(request) => {
            check_count(service, "degrees", request.of.len())?;
            let of: Result<Vec<_>, _> = request.of.into_iter().map(convert::degree_of_in).collect();
            let degrees = graph.degrees(&of?)?;
            Reply::Degrees(proto::DegreesReply { degrees })
        }
        Request::TopDegrees(request) => {
            let number = |n| convert::edge_type_in(n, "", &Schema::empty());
            let edge_type = request.r#type.map(number).transpose()?;
            let top = graph.top_degrees(edge_type, request.limit as usize)?;
            send_all(call, top, convert::degree_out, |top| {
                Reply::TopDegrees(proto::TopDegreesReply { top })
            })?
        }
        Request::Counts(_) => Reply::Counts(convert::counts_out(&graph.counts()?)),
        Request::Diff(request) => diff(graph, &request, call)?,
        Request::Travel(request) => travel(service, graph, &request, (call, principal))?,
        Request::Applied(request) => Reply::Applied(proto::AppliedReply {
            applied: graph.applied(&request.idempotency_key)?,
        }),
        Request::Apply(_) | Request::ChangeFiles(_) => {
            return Err(Stop::Failed(Error::Invalid(
                "a batch goes through the writer".into(),
            )));
        }
        Request::Stats(_) => Reply::Stats(stats_out(&service.stats(graph, principal)?)),
        Request::Check(request) => {
            if !request.part {
                require_single_server(
                    service,
                    "`check`",
                    "its servers' databases are parts of one: `esker cluster check` looks at all of them",
                )?;
            }
            check(service, request, call)?
        }
        Request::Compact(request) => {
            require_single_server(
                service,
                "`compact`",
                "versions stay where they are; give the servers more room",
            )?;
            let retain_after = request.retain_after.map(Version);
            let done = service.database.compact(retain_after, &*call.state)?;
            Reply::Compact(proto::CompactReply {
                archived: done.archived,
                kept: done.kept,
            })
        }
        Request::Persist(_) => {
            match &service.cluster {
                None => service.database.persist()?,
                Some(cluster) if cluster.has_window() => {
                    cluster.windows(true)?;
                }
                // Acknowledged writes are on disk already.
                Some(cluster) if cluster.is_sync() => {}
                Some(_) => require_single_server(
                    service,
                    "writing everything to disk at once",
                    "set durability = \"sync\" in the cluster file, or write with --durability relaxed",
                )?,
            }
            Reply::Persist(proto::PersistReply {})
        }
        Request::Backup(request) => backup(service, &request.directory)?,
        Request::Shutdown(request) => {
            tracing::warn!(
                restart = request.restart,
                "an owner asks this process to stop"
            );
            service.stop_flag.request(if request.restart {
                StopRequest::Restart
            } else {
                StopRequest::Stop
            });
            Reply::Shutdown(proto::ShutdownReply {
                pid: std::process::id(),
            })
        }
        Request::Cluster(_) => Reply::Cluster(match &service.cluster {
            None => proto::ClusterReply::default(),
            Some(cluster) => cluster.report(&service.database, &service.metrics)?,
        }),
        Request::Placement(request) => {
            let vertex = request.vertex.unwrap_or_default();
            let vertex = vertex_of(service, &vertex, &*graph.schema()?, (call, principal))?;
            Reply::Placement(match &service.cluster {
                None => proto::PlacementReply::default(),
                Some(cluster) => cluster.placement(vertex.id)?,
            })
        }
        Request::ReadObjects(request) => objects::read(service, graph, request, call)?,
        Request::Find(request) => objects::find(graph, request, call)?,
        Request::Tags(request) => objects::tags(graph, request, call)?,
        Request::TagWhere(request) => objects::tag_where(service, request, call)?,
        Request::Share(request) => sharing::answer(service, request, call)?,
        Request::SetIndex(request) => objects::set_index(service, &request)?,
        Request::StatFile(request) => {
            names::stat_routed(service, &*files, &request, call.options.at_least.0)?
        }
        Request::ListFiles(request) => {
            let watcher = service.watchers.get(request.watcher);
            names::list(&*files, watcher.as_deref(), request, call)?
        }
        Request::WalkFiles(request) => names::walk(&*files, request, call)?,
        Request::Usage(request) => names::usage(&*files, request)?,
        Request::Usages(request) => names::usages(&*files, request, call)?,
        Request::Space(request) => names::space(&*files, request, call)?,
        Request::Partitions(request) => names::partitions(&*files, &request, call)?,
        Request::FileIds(request) => names::ids(service, &*files, request, call)?,
        Request::LookFile(request) => names::look_file(&*files, request)?,
        Request::LeftOut(request) => {
            // A count of hidden rows would reveal that they exist.
            drop(request);
            Reply::LeftOut(proto::LeftOutReply { count: 0 })
        }
        Request::As(_) | Request::Graph(_) | Request::GraphAs(_) | Request::WatchFiles(_) => {
            return Err(Stop::Failed(Error::Invalid(
                "malformed message: `as.request`: a call within a call, or one without a principal"
                    .into(),
            )));
        }
        Request::Window(request) => Reply::Window(match &service.cluster {
            Some(cluster) => cluster.windows(request.persist)?,
            None => proto::WindowReply::default(),
        }),
        Request::Peer(_) => {
            return Err(Stop::Failed(Error::Invalid(
                "only servers of a cluster send each other that".into(),
            )));
        }
    })
}

/// Refuses an operation that only a single server can do.
fn require_single_server(service: &Service, what: &str, instead: &str) -> Result<(), Stop> {
    match &service.cluster {
        None => Ok(()),
        Some(cluster) => Err(Stop::Failed(cluster.refuse(what, instead))),
    }
}

/// Resolves vertex names in text; a path means the file that it names now.
fn resolve_names(
    service: &Service,
    schema: &Schema,
    names: &[String],
    (call, principal): (&Call, Option<&Principal>),
) -> Result<Vec<VertexId>, Stop> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let names = names.iter().map(|name| VertexName::parse(name));
    let names = names.collect::<Result<Vec<_>, _>>().map_err(Error::from)?;
    let files = service.names(call.options.at_least.0);
    let found = resolve(&*files, principal, schema, &names)?;
    Ok(found.into_iter().map(|vertex| vertex.id).collect())
}

/// Resolves a vertex given by its id or by its name.
fn vertex_of(
    service: &Service,
    vertex: &proto::VertexRef,
    schema: &Schema,
    by: (&Call, Option<&Principal>),
) -> Result<VertexRef, Stop> {
    let mut found = convert::vertex_ref_in(vertex, schema)?;
    if !vertex.name.is_empty() {
        let name = std::slice::from_ref(&vertex.name);
        found.id = resolve_names(service, schema, name, by)?
            .pop()
            .unwrap_or(found.id);
    }
    Ok(found)
}

fn read_vertices(
    service: &Service,
    graph: &dyn GraphRead,
    request: &proto::ReadVerticesRequest,
    (call, principal): (&Call, Option<&Principal>),
) -> Result<Reply, Stop> {
    check_count(
        service,
        "vertices",
        request.ids.len() / 2 + request.names.len(),
    )?;
    let schema = graph.schema()?;
    let mut ids = convert::ids_in(&request.ids, "ids")?;
    ids.extend(resolve_names(
        service,
        &schema,
        &request.names,
        (call, principal),
    )?);
    let vertices = graph.read_vertices(&ids, convert::as_of_in(request.as_of))?;
    let form = call.options.form;
    let item = |vertex: &Option<esker_model::Vertex>| proto::read_vertices_reply::Item {
        vertex: vertex.as_ref().map(|v| convert::vertex_out(v, form)),
    };
    send_all(call, vertices, item, |items| {
        Reply::ReadVertices(proto::ReadVerticesReply { items })
    })
}

fn scan_edges(
    service: &Service,
    graph: &dyn GraphRead,
    request: &proto::ScanEdgesRequest,
    (call, principal): (&Call, Option<&Principal>),
) -> Result<Reply, Stop> {
    check_count(
        service,
        "vertices",
        request.frontier.len() / 2 + request.names.len(),
    )?;
    let schema = graph.schema()?;
    let (mut frontier, select) = convert::select_in(request, &schema)?;
    frontier.extend(resolve_names(
        service,
        &schema,
        &request.names,
        (call, principal),
    )?);
    let form = call.options.form;
    let mut pieces = Pieces::new(call, |edges| {
        Reply::ScanEdges(proto::ScanEdgesReply { edges })
    });
    let mut gone = false;
    let (mut seen, mut stopped) = (0_u32, false);
    graph.scan_edges(&frontier, &select, &mut |index, edge| {
        seen = seen.wrapping_add(1);
        if seen.is_multiple_of(1024) && call.state.cancelled() {
            stopped = true;
            return ControlFlow::Break(());
        }
        pieces.flow(convert::scanned_out(index, &edge, form), &mut gone)
    })?;
    end(pieces, gone, stopped)
}

fn scan_vertices(
    service: &Service,
    graph: &dyn GraphRead,
    request: &proto::ScanVerticesRequest,
    (call, principal): (&Call, Option<&Principal>),
) -> Result<Reply, Stop> {
    let schema: Arc<Schema> = graph.schema()?;
    let type_id: VertexTypeId = convert::type_in(request.r#type, &request.type_name, &schema)?;
    let after = request
        .after
        .as_ref()
        .map(|v| vertex_of(service, v, &schema, (call, principal)))
        .transpose()?;
    let form: Form = call.options.form;
    let mut pieces = Pieces::new(call, |vertices| {
        Reply::ScanVertices(proto::ScanVerticesReply { vertices })
    });
    let (mut gone, mut stopped, mut seen) = (false, false, 0_u64);
    let select = VertexSelect {
        type_id,
        after: after.map(|v| (v.type_id, v.id)),
        as_of: convert::as_of_in(request.as_of),
        deleted: request.deleted,
    };
    graph.scan_vertices(&select, &mut |vertex| {
        seen += 1;
        if seen.is_multiple_of(256) && call.state.cancelled() {
            stopped = true;
            return ControlFlow::Break(());
        }
        let flow = pieces.flow(convert::vertex_out(&vertex, form), &mut gone);
        if seen == request.limit {
            return ControlFlow::Break(());
        }
        flow
    })?;
    end(pieces, gone, stopped)
}

fn diff(graph: &dyn GraphRead, request: &proto::DiffRequest, call: &Call) -> Result<Reply, Stop> {
    let select = convert::diff_select_in(request)?;
    let form = call.options.form;
    let mut pieces = Pieces::new(call, |differences| {
        Reply::Diff(proto::DiffReply { differences })
    });
    let (mut gone, mut stopped, mut seen) = (false, false, 0_u64);
    graph.diff(&select, &mut |difference| {
        seen += 1;
        if seen.is_multiple_of(256) && call.state.cancelled() {
            stopped = true;
            return ControlFlow::Break(());
        }
        let flow = pieces.flow(convert::difference_out(&difference, form), &mut gone);
        if seen == request.limit {
            return ControlFlow::Break(());
        }
        flow
    })?;
    end(pieces, gone, stopped)
}

fn travel(
    service: &Service,
    graph: &dyn GraphRead,
    request: &proto::TravelRequest,
    (call, principal): (&Call, Option<&Principal>),
) -> Result<Reply, Stop> {
    let traversal = convert::traversal_in(request)?;
    let budget = convert::budget_in(request);
    let result = read_graph::run_traversal(service, graph, &traversal, budget, (call, principal))?;
    let mut held: Option<proto::TravelReply> = None;
    convert::pieces(result, |piece| match held.replace(piece) {
        Some(before) => call.piece(Reply::Travel(before)),
        None => Ok(()),
    })?;
    Ok(Reply::Travel(held.unwrap_or_default()))
}

fn check(service: &Service, request: proto::CheckRequest, call: &Call) -> Result<Reply, Stop> {
    check_cancelled(call)?;
    let options = CheckOptions {
        repair: request.repair,
        part: request.part,
    };
    let mut last_progress = Instant::now();
    let report = service
        .database
        .check(&options, &*call.state, &mut |rows_so_far| {
            if last_progress.elapsed() < Duration::from_millis(100) {
                return;
            }
            last_progress = Instant::now();
            // A client that is gone is detected by the state of the call.
            let _ = call.piece(Reply::Check(proto::CheckReply {
                rows_so_far,
                report: None,
            }));
        })?;
    Ok(Reply::Check(proto::CheckReply {
        rows_so_far: report.rows,
        report: Some(check_out(report)),
    }))
}

fn backup(service: &Service, directory: &str) -> Result<Reply, Stop> {
    let refuse = |message: String| Stop::Failed(Error::Target(message));
    let Some(below) = &service.settings.backups else {
        return Err(refuse(
            match &service.cluster {
                None => {
                    "this server makes no backups for clients: run `esker backup` on its machine with the folder that it serves \
                     (it may be in use), or set `backups` in its configuration"
                }
                Some(_) => {
                    "this cluster makes no backups: name a folder that all its servers see in its file, as in backups = \"/pfs/backups\", \
                     and restart its servers one after the other (`esker cluster restart`)"
                }
            }
            .into(),
        ));
    };
    let wanted = Path::new(directory);
    let plain = wanted.components().all(|c| {
        matches!(
            c,
            std::path::Component::RootDir | std::path::Component::Normal(_)
        )
    });
    if !plain || !wanted.starts_with(below) || wanted == below {
        return Err(refuse(format!(
            "backups of this server are on its own machine below `{}`; got `{directory}`",
            below.display()
        )));
    }
    if let Some(cluster) = &service.cluster {
        return crate::cluster::backup::back_up_all(cluster, wanted).map_err(Stop::Failed);
    }
    let done = service.database.backup(wanted)?;
    Ok(Reply::Backup(proto::BackupReply {
        bytes: done.bytes,
        newest: done.newest.map(|v| v.0),
    }))
}

/// Version and clock of this server.
pub(crate) fn ping_reply() -> Reply {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Reply::Ping(proto::PingReply {
        clock_millis: now.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}
