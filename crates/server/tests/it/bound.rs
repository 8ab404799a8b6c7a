//! A request with a token that is bound to a user is answered on behalf of that user, over HTTP and gRPC, or refused. `visibility` tests
//! that the answers are those of the user.

use crate::common::{Served, filled, http_by_token, settings};
use esker_access::token::TokenRights;
use esker_access::{Role, grants};
use esker_model::graph_read::{GraphCall, GraphCallAs};
use esker_model::namespace::{Change, NamePath, Namespace as _, NewFile};
use esker_model::object::Principal;
use esker_model::wire::encode;
use esker_rpc::proto;
use esker_rpc::proto::esker_client::EskerClient;
use esker_rpc::proto::reply::Reply;
use esker_rpc::proto::request::Call;
use esker_server::Settings;
use esker_server::settings::{AccessSettings, Loopback};
use esker_testkit::wait::wait_until;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};

fn served() -> (Served, String) {
    let served = Served::start(settings());
    drop(filled(&served));
    let token = token(&served);
    (served, token)
}

fn token(served: &Served) -> String {
    let opens = TokenRights::new(Role::Read, Some("1001:100,7")).unwrap();
    let token = grants::make_token(&served.folder(), &opens, 3_600, "portal").unwrap();
    wait_until("the token gives no access", || {
        let request = ("GET", "/api/v1/schema", "");
        http_by_token(served.server.address(), request, &token).0 == 200
    });
    token
}

#[test]
fn another_user_is_refused_and_so_is_what_is_nobody_s_alone() {
    let (served, token) = served();
    let get = |path: &str| {
        let (status, _, body) = http_by_token(served.server.address(), ("GET", path, ""), &token);
        (status, body)
    };
    for path in [
        "/metrics",
        "/api/v1/site",
        "/api/v1/sessions",
        "/api/v1/stats?uid=0",
        "/api/v1/tags?uid=1002&gids=100",
        "/api/v1/find?uid=0",
        "/api/v1/events?uid=0",
        "/sparql?uid=0&query=ASK%20%7B%7D",
        "/rdf-graphs?default&uid=0",
    ] {
        let (status, body) = get(path);
        assert_eq!(status, 403, "{path}: {body}");
        assert!(
            body.contains("bound to user 1001") || path == "/api/v1/sessions",
            "{path}: {body}"
        );
    }
    let post = |path: &str, body: &str| {
        http_by_token(served.server.address(), ("POST", path, body), &token).0
    };
    assert_eq!(post("/api/v1/find", r#"{"filter":"","uid":0}"#), 403);
    assert_eq!(
        post("/api/v1/find", r#"{"filter":"","uid":1001,"gids":[0]}"#),
        200
    );
    assert_eq!(post("/api/v1/objects", r#"{"name":"x"}"#), 403);
    assert_eq!(post("/api/v1/tag", r#"{"filter":"","set":{"x":1}}"#), 403);
    // A session that begins with the token is bound, too.
    let (status, _, made) = http_by_token(
        served.server.address(),
        ("POST", "/api/v1/session/ticket", ""),
        &token,
    );
    assert_eq!(status, 200, "{made}");
    let made: Json = serde_json::from_str(&made).unwrap();
    let body = serde_json::json!({ "ticket": made["ticket"] }).to_string();
    let (status, head, body) = served.http("POST", "/api/v1/session", &body);
    assert_eq!(status, 200, "{body}");
    assert!(head.contains("esker_session"), "{head}");
    let sessions = served.json("GET", "/api/v1/sessions", "").1;
    assert_eq!(sessions["sessions"][0]["user"], "1001:100,7", "{sessions}");
}

/// A drawn lineage tells how many of its vertices are hidden, unless a setting forbids that, and never which.
#[test]
fn a_drawn_lineage_counts_hidden_vertices() {
    for (conceal_counts, expected) in [(false, 2), (true, 0)] {
        let access = AccessSettings {
            conceal_counts,
            ..AccessSettings::default()
        };
        let served = Served::start(Settings {
            access,
            ..settings()
        });
        let database = served.open();
        for (path, mode) in [("/open", 0o644), ("/secret", 0o600), ("/hidden", 0o640)] {
            let make = NewFile::new(0o10_0000 | mode, 5, 5);
            let create = Change::Create(NamePath::parse(path.as_bytes()).unwrap(), make);
            database.change(None, &[create]).unwrap().remove(0).unwrap();
        }
        let edge = |(edge_type, path)| {
            format!(r#"{{"op":"put_edge","src":"job:1","type":"{edge_type}","dst":"file:{path}"}}"#)
        };
        let edges = [("read", "/secret"), ("read", "/hidden"), ("write", "/open")].map(edge);
        let body = [
            vec![r#"{"op":"ensure_vertex","id":"job:1"}"#.into()],
            edges.to_vec(),
        ]
        .concat()
        .join("\n");
        let (status, _, answer) = served.http("POST", "/api/v1/apply", &body);
        assert_eq!(status, 200, "{answer}");
        let path = "/api/v1/view/lineage?id=file:/open";
        let request = ("GET", path, "");
        let (status, _, body) = http_by_token(served.server.address(), request, &token(&served));
        assert_eq!(status, 200, "{body}");
        assert!(
            !body.contains("secret") && !body.contains("hidden"),
            "{body}"
        );
        let picture: Json = serde_json::from_str(&body).unwrap();
        assert_eq!(picture["left_out"], expected, "{body}");
        assert_eq!(picture["boxes"].as_array().unwrap().len(), 2, "{body}");
        let (_, of_owner) = served.json("GET", path, "");
        assert_eq!(of_owner["left_out"], 0, "{of_owner}");
    }
}

#[test]
fn calls_are_answered_as_the_user_s() {
    let served = Served::start(Settings {
        access: AccessSettings {
            loopback: Loopback::Off,
            ..AccessSettings::default()
        },
        ..settings()
    });
    let token = token(&served);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let codes = runtime.block_on(async {
        let at = format!("http://{}", served.server.address());
        let channel = Endpoint::from_shared(at).unwrap().connect().await.unwrap();
        let bearer = format!("Bearer {token}").parse().unwrap();
        let show = move |mut request: Request<()>| -> Result<Request<()>, Status> {
            let bearer: &tonic::metadata::MetadataValue<_> = &bearer;
            request
                .metadata_mut()
                .insert("authorization", bearer.clone());
            Ok(request)
        };
        let mut client = EskerClient::with_interceptor(channel, show);
        client.ping(proto::PingRequest {}).await.unwrap();
        client
            .counts(proto::CountsRequest::default())
            .await
            .unwrap();
        let other = proto::TagsRequest {
            principal: Some(proto::Principal::default()),
        };
        let reads = [
            Call::Graph(encode(&GraphCall::Counts)),
            Call::GraphAs(encode(&GraphCallAs {
                call: GraphCall::Counts,
                principal: Principal {
                    uid: 1001,
                    gids: vec![7],
                },
            })),
            // Another user, and a call whose answer is nobody's alone.
            Call::GraphAs(encode(&GraphCallAs {
                call: GraphCall::Counts,
                principal: Principal::default(),
            })),
            Call::Graph(encode(&GraphCall::Applied(vec![1]))),
        ];
        let hello = proto::ToServer {
            hello: Some(proto::Hello {
                protocol: esker_rpc::PROTOCOL,
                ..Default::default()
            }),
            ..Default::default()
        };
        let call = |(id, call)| proto::Call {
            id,
            request: Some(proto::Request { call: Some(call) }),
            ..Default::default()
        };
        let calls = proto::ToServer {
            calls: (0..).zip(reads).map(call).collect(),
            ..Default::default()
        };
        let sent = tonic::codegen::tokio_stream::iter([hello, calls]);
        let mut received = client.exchange(sent).await.unwrap().into_inner();
        let mut answered = BTreeMap::new();
        while let Some(message) = received.message().await.unwrap() {
            for answer in message.answers {
                let reply = answer.reply.and_then(|reply| reply.reply);
                answered.insert(answer.id, matches!(reply, Some(Reply::Graph(_))));
            }
        }
        let expected = [(0, true), (1, true), (2, false), (3, false)];
        assert_eq!(answered, expected.into());
        let codes = [
            client
                .stats(proto::StatsRequest::default())
                .await
                .map(|_| ()),
            client
                .space(proto::SpaceRequest::default())
                .await
                .map(|_| ()),
            client
                .look_file(proto::LookFileRequest::default())
                .await
                .map(|_| ()),
            client
                .apply(proto::ApplyRequest::default())
                .await
                .map(|_| ()),
            client.tags(other).await.map(|_| ()),
        ];
        codes.map(|answer| answer.map_err(|status| status.code()))
    });
    assert_eq!(codes, [Err(Code::PermissionDenied); 5]);
}
