//! The `Exchange` stream as raw messages: other versions, malformed messages, messages out of order.

use crate::common::{Served, filled, settings};
use bytes::Bytes;
use esker_rpc::frame::FrameCodec;
use esker_rpc::{OLDEST_PROTOCOL, PROTOCOL, proto};
use prost::Message as _;
use tonic::codegen::tokio_stream;
use tonic::transport::Endpoint;
use tonic::{Code, Status, Streaming};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Sends these messages in order, and returns the messages of the server until the stream ends.
fn say(served: &Served, messages: Vec<Vec<u8>>) -> (Vec<proto::ToClient>, Option<Status>) {
    runtime().block_on(async {
        let uri = format!("http://{}", served.server.address());
        let channel = Endpoint::from_shared(uri).unwrap().connect().await.unwrap();
        let mut grpc = tonic::client::Grpc::new(channel);
        grpc.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static("/esker.v1.Esker/Exchange");
        let request = tonic::Request::new(tokio_stream::iter(messages));
        let mut stream: Streaming<Bytes> = match grpc.streaming(request, path, FrameCodec).await {
            Ok(response) => response.into_inner(),
            Err(status) => return (Vec::new(), Some(status)),
        };
        let mut heard = Vec::new();
        loop {
            match stream.message().await {
                Ok(Some(message)) => heard.push(proto::ToClient::decode(message).unwrap()),
                Ok(None) => return (heard, None),
                Err(status) => return (heard, Some(status)),
            }
        }
    })
}

fn hello(protocol: u32, version: &str) -> Vec<u8> {
    proto::ToServer {
        hello: Some(proto::Hello {
            protocol,
            version: version.into(),
            ..Default::default()
        }),
        ..Default::default()
    }
    .encode_to_vec()
}

fn calls(calls: Vec<proto::Call>) -> Vec<u8> {
    proto::ToServer {
        calls,
        ..Default::default()
    }
    .encode_to_vec()
}

fn call(id: u64, call: Option<proto::request::Call>) -> proto::Call {
    proto::Call {
        id,
        request: Some(proto::Request { call }),
        ..Default::default()
    }
}

fn answers(heard: &[proto::ToClient]) -> Vec<&proto::Answer> {
    heard.iter().flat_map(|m| &m.answers).collect()
}

fn failure(answer: &proto::Answer) -> &str {
    match answer.reply.as_ref().and_then(|r| r.reply.as_ref()) {
        Some(proto::reply::Reply::Failure(failure)) => &failure.message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_protocol_is_refused_with_both_releases() {
    let served = Served::start(settings());
    for protocol in [0, PROTOCOL + 1] {
        let (heard, status) = say(&served, vec![hello(protocol, "9.9.9\u{7}")]);
        assert!(heard.is_empty());
        let status = status.unwrap();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert_eq!(
            status.message(),
            format!(
                "the server is Esker {} (wire protocol {OLDEST_PROTOCOL} to {PROTOCOL}); the client is Esker 9.9.9 (protocol \
                 {protocol}): upgrade the older one",
                env!("CARGO_PKG_VERSION")
            )
        );
    }
    // The server still works.
    filled(&served);
}

/// A client of the next release offers the versions that it speaks, and the server answers with the newest one that it speaks, too.
#[test]
fn a_newer_client_that_speaks_the_servers_protocol_is_served() {
    let served = Served::start(settings());
    let newer = proto::ToServer {
        hello: Some(proto::Hello {
            protocol: PROTOCOL + 3,
            oldest_protocol: OLDEST_PROTOCOL,
            version: "9.9.9".into(),
            peer: None,
        }),
        ..Default::default()
    };
    let (heard, status) = say(&served, vec![newer.encode_to_vec()]);
    assert!(status.is_none(), "{status:?}");
    let welcome = heard.first().and_then(|m| m.welcome.as_ref()).unwrap();
    assert_eq!(welcome.protocol, PROTOCOL);
}

#[test]
fn what_does_not_begin_with_hello_is_refused() {
    let served = Served::start(settings());
    for (message, said) in [
        (calls(vec![]), "expected it first"),
        (vec![0xff, 0xff], "malformed message"),
        (b"\x0a\xff\xff\xff\xff\x0f".to_vec(), "malformed message"),
    ] {
        let (_, status) = say(&served, vec![message]);
        let status = status.unwrap();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(said), "{status}");
    }
    let (_, status) = say(&served, vec![]);
    assert!(status.unwrap().message().contains("before `hello`"));
}

/// A malformed call gets an error; the other calls of the stream continue.
#[test]
fn malformed_calls_are_answered_one_by_one() {
    use proto::request::Call;
    let served = Served::start(settings());
    filled(&served);
    let travel = proto::TravelRequest {
        chain: "v(".into(),
        ..Default::default()
    };
    let read = proto::ReadVerticesRequest {
        ids: vec![1],
        ..Default::default()
    };
    let messages = vec![
        hello(PROTOCOL, "1"),
        calls(vec![
            call(1, None),
            proto::Call {
                id: 2,
                ..Default::default()
            },
            call(3, Some(Call::Travel(travel))),
            call(4, Some(Call::ReadVertices(read))),
            call(
                5,
                Some(Call::Apply(proto::ApplyRequest {
                    mutations: vec![proto::Mutation::default()],
                    ..Default::default()
                })),
            ),
            call(6, Some(Call::Counts(proto::CountsRequest {}))),
            call(7, Some(Call::Ping(proto::PingRequest {}))),
        ]),
        // Cancellations and credit for unknown calls.
        proto::ToServer {
            cancels: vec![
                proto::Cancel { id: 99, reason: 6 },
                proto::Cancel { id: 6, reason: 77 },
            ],
            credits: vec![proto::Credit {
                id: 99,
                bytes: u64::MAX,
            }],
            ..Default::default()
        }
        .encode_to_vec(),
    ];
    let (heard, status) = say(&served, messages);
    assert!(status.is_none(), "{status:?}");
    assert_eq!(heard[0].welcome.as_ref().unwrap().protocol, PROTOCOL);
    let mut all = answers(&heard);
    all.sort_by_key(|a| a.id);
    assert_eq!(
        all.iter().map(|a| a.id).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6, 7]
    );
    assert!(
        failure(all[0]).contains("`request.call`"),
        "{}",
        failure(all[0])
    );
    assert!(failure(all[1]).contains("`request.call`"));
    assert!(
        failure(all[2]).contains("line 1, column"),
        "{}",
        failure(all[2])
    );
    assert!(failure(all[3]).contains("`ids`"));
    assert!(failure(all[4]).contains("`mutations[0].op`"));
    assert!(matches!(
        all[5].reply.as_ref().unwrap().reply,
        Some(proto::reply::Reply::Counts(_))
    ));
    assert!(matches!(
        all[6].reply.as_ref().unwrap().reply,
        Some(proto::reply::Reply::Ping(_))
    ));
}

/// Invalid bytes in the stream end this stream only.
#[test]
fn garbage_ends_its_own_stream() {
    use esker_model::GraphRead as _;
    let served = Served::start(settings());
    let database = filled(&served);
    let (heard, _) = say(&served, vec![hello(PROTOCOL, "1"), vec![0x12, 0x7f, 1]]);
    assert_eq!(heard.len(), 1);
    assert!(database.counts().is_ok());
}

/// A call beyond the limit gets an error; a message beyond the limit ends its stream.
#[test]
fn what_is_oversized_is_refused() {
    use proto::request::Call;
    let mut small = settings();
    small.limits.request_bytes = 1_000;
    let served = Served::start(small);
    let long = proto::TravelRequest {
        chain: "v".repeat(1_001),
        ..Default::default()
    };
    let messages = vec![
        hello(PROTOCOL, "1"),
        calls(vec![
            call(1, Some(Call::Travel(long))),
            call(2, Some(Call::Ping(proto::PingRequest {}))),
        ]),
    ];
    let (heard, status) = say(&served, messages);
    assert!(status.is_none(), "{status:?}");
    assert_eq!(heard[0].welcome.as_ref().unwrap().call_bytes_max, 1_000);
    let mut all = answers(&heard);
    all.sort_by_key(|a| a.id);
    assert!(
        failure(all[0]).starts_with("the size in bytes of one call to this server is 10"),
        "{}",
        failure(all[0])
    );
    assert!(all[1].reply.is_some());
    let (_, status) = say(&served, vec![vec![0; 2 << 20]]);
    let status = status.unwrap();
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
    filled(&served);
}

/// One producer with two connections: a batch that arrives on both counts once.
#[test]
fn a_numbered_batch_counts_once_over_all_connections() {
    use esker_model::GraphRead as _;
    use esker_model::idempotency::ProducerKey;
    use proto::request::Call;
    let served = Served::start(settings());
    let database = filled(&served);
    let (heard, _) = say(&served, vec![hello(PROTOCOL, "1")]);
    let made = heard[0].welcome.as_ref().unwrap().now_millis;
    assert!(made > 1_700_000_000_000);
    let apply = |id, number| {
        let numbered = ProducerKey {
            producer: [3; 16],
            sequence: number,
            settled_below: 0,
            created_millis: made,
        };
        let request = proto::ApplyRequest {
            idempotency_key: numbered.encode(),
            ..Default::default()
        };
        call(id, Some(Call::Apply(request)))
    };
    let applied = |numbers: &[u64]| -> Vec<bool> {
        let all = numbers.iter().zip(1..).map(|(n, id)| apply(id, *n));
        let (heard, _) = say(&served, vec![hello(PROTOCOL, "1"), calls(all.collect())]);
        let mut all = answers(&heard);
        all.sort_by_key(|a| a.id);
        let applied = all.iter().map(|a| match a.reply.as_ref().unwrap().reply {
            Some(proto::reply::Reply::Apply(reply)) => reply.applied,
            _ => panic!("{a:?}"),
        });
        applied.collect()
    };
    assert_eq!(applied(&[0, 2, 2, 1]), [true, true, false, true]);
    assert_eq!(applied(&[3, 2, 1, 0]), [true, false, false, false]);
    assert!(database.counts().is_ok());
}

/// A deadline that has passed while the call waited.
#[test]
fn an_answer_that_comes_too_late_is_not_made() {
    use proto::request::Call;
    let served = Served::start(settings());
    filled(&served);
    let chain = r#"v("user:1").e("run").v()"#.to_owned();
    let travel = proto::TravelRequest {
        chain,
        ..Default::default()
    };
    let late = proto::Call {
        timeout_ms: 1,
        ..call(1, Some(Call::Travel(travel)))
    };
    let (heard, _) = say(
        &served,
        vec![
            hello(PROTOCOL, "1"),
            calls(
                vec![late; 200]
                    .into_iter()
                    .zip(1..)
                    .map(|(c, id)| proto::Call { id, ..c })
                    .collect(),
            ),
        ],
    );
    let all = answers(&heard);
    // Each call gets its result or an error.
    let ids: std::collections::BTreeSet<_> = all.iter().map(|a| a.id).collect();
    assert_eq!(ids.len(), 200);
}
