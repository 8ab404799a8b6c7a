//! gRPC calls other than `Exchange`, for clients in other languages.

use crate::access::needs::Needs;
use crate::access::{Admitted, Requester, table};
use crate::audit::CallRecord;
use crate::call::{AtLeast, Call, CallOptions, CallState, Sink};
use crate::calls::{CALLS, number_named, number_of_message};
use crate::service::{Service, WATCH_FILES};
use crate::spans;
use esker_model::Version;
use esker_rpc::convert::Form;
use esker_rpc::failure::QUOTA;
use esker_rpc::proto;
use esker_rpc::proto::esker_server::{Esker, EskerServer};
use esker_rpc::proto::failure::Kind;
use esker_rpc::proto::reply::Reply;
use esker_rpc::proto::request::Call as Message;
use prost::Message as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::Stream;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Request, Response, Status, Streaming};

const PING: usize = number_named("ping");
/// Pieces of an answer that may wait for the client to receive them.
const PIECES: usize = 8;

/// The generated gRPC service over this server.
pub(crate) fn routes(service: &Arc<Service>) -> EskerServer<Unary> {
    let limit = service.settings.limits.request_bytes;
    EskerServer::new(Unary(Arc::clone(service))).max_decoding_message_size(limit)
}

/// Implementation of the single calls.
pub(crate) struct Unary(Arc<Service>);

/// Converts a failure to a gRPC status.
fn status_of(failure: &proto::Failure) -> Status {
    let code = match Kind::try_from(failure.kind) {
        Ok(Kind::Missing) => Code::NotFound,
        Ok(Kind::Invalid) if failure.code == QUOTA => Code::ResourceExhausted,
        Ok(Kind::Invalid) => Code::InvalidArgument,
        Ok(Kind::Storage) => Code::Internal,
        Ok(Kind::Corrupt) => Code::DataLoss,
        Ok(Kind::Interrupted) => Code::Cancelled,
        Ok(Kind::Busy) => Code::ResourceExhausted,
        Ok(Kind::Unavailable | Kind::Unspecified) | Err(_) => Code::Unavailable,
    };
    let mut metadata = MetadataMap::new();
    metadata.insert_bin(
        "esker-failure-bin",
        MetadataValue::from_bytes(&failure.encode_to_vec()),
    );
    if failure.retry_after_ms > 0 {
        metadata.insert("retry-after-ms", failure.retry_after_ms.into());
    }
    Status::with_metadata(code, failure.message.clone(), metadata)
}

fn timeout(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number.checked_mul(3_600)?),
        "M" => Duration::from_secs(number.checked_mul(60)?),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// The pieces of one answer. Dropping it cancels the call.
struct AnswerPieces {
    pieces: mpsc::Receiver<proto::Reply>,
    call_state: Arc<CallState>,
}

impl Drop for AnswerPieces {
    fn drop(&mut self) {
        self.call_state.abandon();
    }
}

impl Unary {
    fn start<T>(
        &self,
        request: Request<T>,
        call: impl FnOnce(T) -> Message,
    ) -> Result<AnswerPieces, Status> {
        let requester = request.extensions().get::<Requester>().cloned();
        let metadata = request.metadata();
        let parent = spans::parent_in(metadata.as_ref());
        let at_least = match metadata.get("esker-at-least") {
            None => Version::ZERO,
            Some(value) => {
                let number = value.to_str().ok().and_then(|t| t.parse().ok());
                Version(number.ok_or_else(|| {
                    Status::invalid_argument(
                        "metadata `esker-at-least`: expected a version, a decimal number",
                    )
                })?)
            }
        };
        let typed = metadata.get("esker-typed-values").is_some_and(|v| v == "1");
        let timeout = timeout(metadata);
        let mut options = CallOptions {
            at_least: AtLeast(at_least),
            deadline: None,
            form: if typed { Form::Typed } else { Form::Packed },
        };
        let request = proto::Request {
            call: Some(call(request.into_inner())),
        };
        let bytes = request.encoded_len();
        let number = request.call.as_ref().map_or(0, number_of_message);
        options.deadline = self.0.deadline_of(number, timeout);
        // The role that a call needs may depend on the content of the request.
        let needs = table::needs_of_message(number, request.call.as_ref());
        let requester = requester.ok_or_else(|| Status::internal("the caller is not known"))?;
        let what = CALLS.get(number).map_or("unknown", |call| call.name);
        let admitted = self.0.access.admit(&requester, needs, what);
        let admitted = admitted.map_err(|denied| denied.status())?;
        let request = admitted.bound().bind(request, what).map_err(|words| {
            let access = &self.0.access;
            access
                .refused_bound(&requester, requester.request, words, what)
                .status()
        })?;
        let record = self.record(&requester, &admitted, (needs, number), &request)?;
        let call_state = CallState::new(options.deadline, Arc::clone(&self.0.cut));
        let (sender, pieces) = mpsc::channel(PIECES);
        let sink = Sink::Channel(sender);
        let mut call = Call::new(
            &self.0,
            number,
            bytes,
            options,
            Arc::clone(&call_state),
            sink,
        );
        call.trace(spans::of_call(number, parent));
        if let Some(record) = record {
            call.audit(self.0.access.audit(), record);
        }
        call.requester = (number == WATCH_FILES).then_some(requester);
        self.0.metrics.received.add(bytes as u64);
        if let Some(request) = request.call {
            self.0.request(request, number, call);
        }
        Ok(AnswerPieces { pieces, call_state })
    }

    /// Begins the record of an admitted call, if it is recorded.
    fn record(
        &self,
        requester: &Requester,
        admitted: &Admitted,
        (needs, number): (Needs, usize),
        request: &proto::Request,
    ) -> Result<Option<Box<CallRecord>>, Status> {
        let access = &self.0.access;
        if number == PING || !access.audit().wants(needs) {
            return Ok(None);
        }
        if let Some(full) = access.audit().refusal() {
            return Err(status_of(&full));
        }
        let subject = requester.subject(access, admitted);
        let id = (requester.request, number);
        let record = CallRecord::begin(id, subject, &request.encode_to_vec());
        Ok(Some(Box::new(record)))
    }

    async fn one<T, M: Default>(
        &self,
        request: Request<T>,
        call: impl FnOnce(T) -> Message,
        mut take: impl FnMut(&mut M, Reply) -> bool,
    ) -> Result<Response<M>, Status> {
        let mut answer = self.start(request, call)?;
        let mut whole = M::default();
        while let Some(reply) = answer.pieces.recv().await {
            match reply.reply {
                Some(Reply::Failure(failure)) => return Err(status_of(&failure)),
                Some(reply) => {
                    if !take(&mut whole, reply) {
                        return Err(Status::internal("an answer to another request"));
                    }
                }
                None => return Err(Status::internal("an empty answer")),
            }
        }
        Ok(Response::new(whole))
    }

    fn many<T, M>(
        &self,
        request: Request<T>,
        call: impl FnOnce(T) -> Message,
        read: fn(Reply) -> Option<M>,
    ) -> Result<Response<Replies<M>>, Status> {
        let answer = self.start(request, call)?;
        Ok(Response::new(Replies {
            answer,
            read,
            ended: false,
        }))
    }
}

/// The pieces of an answer as a stream of one message type.
pub(crate) struct Replies<M> {
    answer: AnswerPieces,
    read: fn(Reply) -> Option<M>,
    /// Whether the client has been told that the answer is incomplete.
    ended: bool,
}

impl<M> Stream for Replies<M> {
    type Item = Result<M, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let reply = match self.answer.pieces.poll_recv(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) if self.answer.call_state.stalled() && !self.ended => {
                self.ended = true;
                return Poll::Ready(Some(Err(Status::deadline_exceeded(
                    "the answer ends here: the client read nothing of it for too long",
                ))));
            }
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(reply)) => reply.reply,
        };
        Poll::Ready(Some(match reply {
            Some(Reply::Failure(failure)) => Err(status_of(&failure)),
            Some(reply) => {
                (self.read)(reply).ok_or_else(|| Status::internal("an answer to another request"))
            }
            None => Err(Status::internal("an empty answer")),
        }))
    }
}

/// A call with an answer of one message; `$list` is the field in which the pieces are joined.
macro_rules! unary {
    ($name:ident, $kind:ident, $request:ident => $reply_kind:ident $reply:ident $(, $list:ident)?) => {
        fn $name<'a, 'async_trait>(
            &'a self,
            request: Request<proto::$request>,
        ) -> Pin<Box<dyn Future<Output = Result<Response<proto::$reply>, Status>> + Send + 'async_trait>>
        where
            'a: 'async_trait,
            Self: 'async_trait,
        {
            Box::pin(self.one(request, Message::$kind, |whole: &mut proto::$reply, reply| {
                let Reply::$reply_kind(piece) = reply else {
                    return false;
                };
                unary!(@join whole, piece $(, $list)?);
                true
            }))
        }
    };
    (@join $whole:ident, $piece:ident) => {
        *$whole = $piece
    };
    (@join $whole:ident, $piece:ident, $list:ident) => {
        $whole.$list.extend($piece.$list)
    };
}

/// A call with an answer of many messages.
macro_rules! streaming {
    ($name:ident, $kind:ident, $request:ident => $stream:ident $reply:ident) => {
        type $stream = Replies<proto::$reply>;

        fn $name<'a, 'async_trait>(
            &'a self,
            request: Request<proto::$request>,
        ) -> Pin<
            Box<dyn Future<Output = Result<Response<Self::$stream>, Status>> + Send + 'async_trait>,
        >
        where
            'a: 'async_trait,
            Self: 'async_trait,
        {
            let answer = self.many(request, Message::$kind, |reply| match reply {
                Reply::$kind(piece) => Some(piece),
                _ => None,
            });
            Box::pin(std::future::ready(answer))
        }
    };
}

impl Esker for Unary {
    type ExchangeStream = Replies<proto::ToClient>;

    fn exchange<'a, 'async_trait>(
        &'a self,
        _: Request<Streaming<proto::ToServer>>,
    ) -> Pin<
        Box<
            dyn Future<Output = Result<Response<Self::ExchangeStream>, Status>>
                + Send
                + 'async_trait,
        >,
    >
    where
        'a: 'async_trait,
        Self: 'async_trait,
    {
        // `Exchange` has a route of its own.
        Box::pin(std::future::ready(Err(Status::unimplemented("Exchange"))))
    }

    type AsStream = Replies<proto::Reply>;

    fn r#as<'a, 'async_trait>(
        &'a self,
        request: Request<proto::AsRequest>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Self::AsStream>, Status>> + Send + 'async_trait>>
    where
        'a: 'async_trait,
        Self: 'async_trait,
    {
        let call = |request| Message::As(Box::new(request));
        let answer = self.many(request, call, |reply| {
            // The answer is that of the inner call.
            let reply = Some(reply);
            Some(proto::Reply { reply })
        });
        Box::pin(std::future::ready(answer))
    }

    unary!(ping, Ping, PingRequest => Ping PingReply);
    unary!(schema, Schema, SchemaRequest => Schema SchemaReply);
    unary!(define, Define, DefineRequest => Schema SchemaReply);
    unary!(read_vertices, ReadVertices, ReadVerticesRequest => ReadVertices ReadVerticesReply, items);
    unary!(read_edges, ReadEdges, ReadEdgesRequest => ReadEdges ReadEdgesReply, items);
    streaming!(scan_edges, ScanEdges, ScanEdgesRequest => ScanEdgesStream ScanEdgesReply);
    streaming!(scan_vertices, ScanVertices, ScanVerticesRequest => ScanVerticesStream ScanVerticesReply);
    unary!(vertex_history, VertexHistory, VertexHistoryRequest => VertexHistory VertexHistoryReply, events);
    unary!(edge_history, EdgeHistory, EdgeHistoryRequest => EdgeHistory EdgeHistoryReply, events);
    unary!(degrees, Degrees, DegreesRequest => Degrees DegreesReply);
    unary!(top_degrees, TopDegrees, TopDegreesRequest => TopDegrees TopDegreesReply, top);
    unary!(counts, Counts, CountsRequest => Counts CountsReply);
    streaming!(diff, Diff, DiffRequest => DiffStream DiffReply);
    streaming!(travel, Travel, TravelRequest => TravelStream TravelReply);
    unary!(applied, Applied, AppliedRequest => Applied AppliedReply);
    unary!(apply, Apply, ApplyRequest => Apply ApplyReply);
    unary!(stats, Stats, StatsRequest => Stats StatsReply);
    streaming!(check, Check, CheckRequest => CheckStream CheckReply);
    unary!(compact, Compact, CompactRequest => Compact CompactReply);
    unary!(persist, Persist, PersistRequest => Persist PersistReply);
    unary!(backup, Backup, BackupRequest => Backup BackupReply);
    unary!(cluster, Cluster, ClusterRequest => Cluster ClusterReply);
    unary!(placement, Placement, PlacementRequest => Placement PlacementReply);
    unary!(read_objects, ReadObjects, ReadObjectsRequest => ReadObjects ReadObjectsReply, items);
    streaming!(find, Find, FindRequest => FindStream FindReply);
    unary!(tags, Tags, TagsRequest => Tags TagsReply, tags);
    unary!(tag_where, TagWhere, TagWhereRequest => TagWhere TagWhereReply);
    unary!(set_index, SetIndex, SetIndexRequest => SetIndex SetIndexReply);
    unary!(stat_file, StatFile, StatFileRequest => StatFile StatFileReply);
    streaming!(list_files, ListFiles, ListFilesRequest => ListFilesStream ListFilesReply);
    streaming!(walk_files, WalkFiles, WalkFilesRequest => WalkFilesStream WalkFilesReply);
    unary!(change_files, ChangeFiles, ChangeFilesRequest => ChangeFiles ChangeFilesReply);
    unary!(usage, Usage, UsageRequest => Usage UsageReply);
    streaming!(usages, Usages, UsagesRequest => UsagesStream UsagesReply);
    unary!(space, Space, SpaceRequest => Space SpaceReply, rows);
    unary!(partitions, Partitions, PartitionsRequest => Partitions PartitionsReply, partitions);
    unary!(left_out, LeftOut, LeftOutRequest => LeftOut LeftOutReply);
    unary!(look_file, LookFile, LookFileRequest => LookFile LookFileReply);
    streaming!(watch_files, WatchFiles, WatchFilesRequest => WatchFilesStream WatchFilesReply);
    unary!(shutdown, Shutdown, ShutdownRequest => Shutdown ShutdownReply);
    unary!(share, Share, ShareRequest => Share ShareReply);
    unary!(file_ids, FileIds, FileIdsRequest => FileIds FileIdsReply, items);
}
