//! A gRPC client as in other languages: generated stubs, names instead of ids, typed values.

use crate::common::{Served, filled, settings};
use esker_rpc::proto;
use esker_rpc::proto::esker_client::EskerClient;
use esker_rpc::proto::value::Kind;
use prost::Message as _;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

pub(crate) async fn connect(served: &Served) -> EskerClient<Channel> {
    connect_to(served.server.address()).await
}

pub(crate) async fn connect_to(address: std::net::SocketAddr) -> EskerClient<Channel> {
    let uri = format!("http://{address}");
    let channel = Endpoint::from_shared(uri).unwrap().connect().await.unwrap();
    EskerClient::new(channel)
}

pub(crate) fn typed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request
        .metadata_mut()
        .insert("esker-typed-values", "1".parse().unwrap());
    request
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "that is what a field of a message is"
)]
fn named(name: &str) -> Option<proto::VertexRef> {
    Some(proto::VertexRef {
        name: name.into(),
        ..Default::default()
    })
}

#[test]
fn writes_and_reads_by_name() {
    let served = Served::start(settings());
    runtime().block_on(async {
        let mut client = connect(&served).await;
        client.ping(proto::PingRequest {}).await.unwrap();
        let size = proto::Value {
            kind: Some(Kind::I64(42)),
        };
        let attributes = proto::Properties {
            fields: [("size".to_owned(), size.clone())].into_iter().collect(),
            ..Default::default()
        };
        let mutation = |op| proto::Mutation {
            version: None,
            op: Some(op),
        };
        let batch = proto::ApplyRequest {
            mutations: vec![
                mutation(proto::mutation::Op::PutVertex(proto::PutVertex {
                    vertex: named("file:/a"),
                    attributes: Some(attributes.clone()),
                    ..Default::default()
                })),
                mutation(proto::mutation::Op::EnsureVertex(proto::EnsureVertex {
                    vertex: named("job:1"),
                    ..Default::default()
                })),
                mutation(proto::mutation::Op::PutEdge(proto::PutEdge {
                    source: named("job:1"),
                    type_name: "write".into(),
                    destination: named("file:/a"),
                    properties: Some(attributes),
                    ..Default::default()
                })),
            ],
            idempotency_key: b"mine".to_vec(),
            sync: true,
            ..Default::default()
        };
        let done = client.apply(batch.clone()).await.unwrap().into_inner();
        assert!(done.applied);
        assert_eq!((done.vertices_created, done.edges_created), (2, 1));
        assert!(!client.apply(batch).await.unwrap().into_inner().applied);
        let idempotency_key = b"mine".to_vec();
        assert!(
            client
                .applied(proto::AppliedRequest { idempotency_key })
                .await
                .unwrap()
                .into_inner()
                .applied
        );

        let mut request = typed(proto::ReadVerticesRequest {
            names: vec!["file:/a".into(), "file:/b".into()],
            ..Default::default()
        });
        let seen = done.version.to_string();
        request
            .metadata_mut()
            .insert("esker-at-least", seen.parse().unwrap());
        let found = client
            .read_vertices(request)
            .await
            .unwrap()
            .into_inner()
            .items;
        assert_eq!(found.len(), 2);
        let vertex = found[0].vertex.as_ref().unwrap();
        assert_eq!(vertex.attributes.as_ref().unwrap().fields["size"], size);
        assert!(found[1].vertex.is_none());

        let request = typed(proto::ScanEdgesRequest {
            names: vec!["job:1".into()],
            type_names: vec!["write".into()],
            ..Default::default()
        });
        let mut stream = client.scan_edges(request).await.unwrap().into_inner();
        let piece = stream.message().await.unwrap().unwrap();
        assert_eq!(piece.edges.len(), 1);
        assert_eq!(
            piece.edges[0].properties.as_ref().unwrap().fields["size"],
            size
        );
        assert!(stream.message().await.unwrap().is_none());
    });
}

#[test]
fn streams_and_the_rest_of_the_service() {
    let served = Served::start(settings());
    filled(&served);
    runtime().block_on(async {
        let mut client = connect(&served).await;
        let schema = client
            .schema(proto::SchemaRequest {})
            .await
            .unwrap()
            .into_inner();
        let file = schema
            .vertex_types
            .iter()
            .position(|t| t.name == "File")
            .unwrap();
        let request = proto::ScanVerticesRequest {
            type_name: "File".into(),
            limit: 1,
            ..Default::default()
        };
        let mut stream = client.scan_vertices(request).await.unwrap().into_inner();
        let mut found = Vec::new();
        while let Some(piece) = stream.message().await.unwrap() {
            found.extend(piece.vertices);
        }
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].r#type as usize, file);

        let chain = r#"v("user:1").e("run").v().e("write").v()"#.to_owned();
        let request = proto::TravelRequest {
            chain,
            ..Default::default()
        };
        let mut stream = client.travel(request).await.unwrap().into_inner();
        let (mut vertices, mut end) = (0, None);
        while let Some(piece) = stream.message().await.unwrap() {
            vertices += piece
                .sets
                .iter()
                .map(|s| s.vertices.len() / 2)
                .sum::<usize>();
            end = piece.end.or(end);
        }
        assert_eq!(vertices, 1);
        assert!(end.unwrap().complete);

        let counts = client
            .counts(proto::CountsRequest {})
            .await
            .unwrap()
            .into_inner();
        assert_eq!(counts.vertices.iter().map(|c| c.count).sum::<u64>(), 4);
        let stats = client
            .stats(proto::StatsRequest {})
            .await
            .unwrap()
            .into_inner();
        assert_eq!(stats.store.unwrap().engine, "fjall");
        let mut check = client
            .check(proto::CheckRequest {
                repair: false,
                part: false,
            })
            .await
            .unwrap()
            .into_inner();
        let mut report = None;
        while let Some(piece) = check.message().await.unwrap() {
            report = piece.report.or(report);
        }
        assert_eq!(report.unwrap().problems_total, 0);
        let top = proto::TopDegreesRequest {
            r#type: None,
            limit: 3,
        };
        assert_eq!(
            client
                .top_degrees(top)
                .await
                .unwrap()
                .into_inner()
                .top
                .len(),
            3
        );
        client.persist(proto::PersistRequest {}).await.unwrap();
        let whole = proto::DiffRequest {
            before: 0,
            after: u64::MAX,
            start_after: None,
            limit: 0,
        };
        let mut diff = client.diff(whole).await.unwrap().into_inner();
        let mut differences = 0;
        while let Some(piece) = diff.message().await.unwrap() {
            differences += piece.differences.len();
        }
        assert_eq!(differences, 7);
        let history = proto::VertexHistoryRequest {
            vertex: named("user:1"),
            range: None,
        };
        assert_eq!(
            client
                .vertex_history(history)
                .await
                .unwrap()
                .into_inner()
                .events
                .len(),
            1
        );
    });
}

#[test]
fn refusals_have_a_status_and_details() {
    let served = Served::start(settings());
    runtime().block_on(async {
        let mut client = connect(&served).await;
        let request = proto::ReadVerticesRequest {
            names: vec!["fille:/a".into()],
            ..Default::default()
        };
        let status = client.read_vertices(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(
            status.message().starts_with("unknown vertex type `fille`"),
            "{status}"
        );
        let details = status
            .metadata()
            .get_bin("esker-failure-bin")
            .unwrap()
            .to_bytes()
            .unwrap();
        let failure = proto::Failure::decode(details).unwrap();
        assert_eq!(failure.code, "schema-unknown");

        let request = proto::ReadVerticesRequest {
            ids: vec![1, 2, 3],
            ..Default::default()
        };
        let status = client.read_vertices(request).await.unwrap_err();
        assert!(
            status.message().contains("`ids`: expected two numbers"),
            "{status}"
        );

        let mut request = Request::new(proto::PingRequest {});
        request
            .metadata_mut()
            .insert("esker-at-least", "soon".parse().unwrap());
        let status = client.ping(request).await.unwrap_err();
        assert!(status.message().contains("esker-at-least"), "{status}");

        // A version far in the future: the answer would have to wait indefinitely.
        let mut request = Request::new(proto::CountsRequest {});
        request.metadata_mut().insert(
            "esker-at-least",
            (u64::MAX - 1).to_string().parse().unwrap(),
        );
        let status = client.counts(request).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(
            status.message().contains("the client has seen version"),
            "{status}"
        );
    });
}
