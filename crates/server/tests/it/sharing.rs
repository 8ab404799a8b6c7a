//! Shares of lineages through a server: who sees what over HTTP and SPARQL, at once, and who may share over gRPC.

use crate::common::{Served, http_by_token, settings};
use crate::sparql::QUERY;
use esker::Database;
use esker_access::token::TokenRights;
use esker_access::{Role, grants};
use esker_model::namespace::{Change, NamePath, Namespace as _, NewFile};
use esker_model::object::Principal;
use esker_model::sharing::{ShareRequest, SharedLineage, SharingTerms};
use esker_model::{
    Batch, GraphRead as _, GraphWrite as _, NeverCancel, Op, Properties, VertexName, VertexRef,
};
use esker_rpc::proto;
use esker_rpc::proto::esker_client::EskerClient;
use esker_rpc::proto::share_request::Call;
use esker_server::Settings;
use esker_server::settings::{AccessSettings, Loopback};
use esker_testkit::wait::wait_until;
use std::net::SocketAddr;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};

fn vertex(database: &Database, name: &str) -> VertexRef {
    let schema = database.schema().unwrap();
    VertexName::parse(name).unwrap().resolve(&schema).unwrap()
}

/// Fills a database: a job read `/in` of user 1001 and `/secret` of user 1003, and wrote `/out` of user 1001; only their owners read
/// them.
fn fill(database: &Database) {
    let mut batch = Batch::new();
    let job = vertex(database, "job:1");
    let key = "1".to_owned();
    batch.push(Op::EnsureVertex { vertex: job, key });
    for (at, uid, edge_type) in [
        ("/in", 1001, "read"),
        ("/secret", 1003, "read"),
        ("/out", 1001, "write"),
    ] {
        let make = NewFile::new(0o10_0600, uid, 0);
        let path = NamePath::parse(at.as_bytes()).unwrap();
        let made = database
            .change(None, &[Change::Create(path, make)])
            .unwrap();
        assert!(made.iter().all(Result::is_ok), "{made:?}");
        let file = vertex(database, &format!("file:{at}"));
        let key = at.to_owned();
        batch.push(Op::EnsureVertex { vertex: file, key });
        batch.push(Op::PutEdge {
            source: job,
            edge_type: database.schema().unwrap().edge_type_id(edge_type).unwrap(),
            destination: file,
            properties: Properties::new(),
        });
    }
    database.apply(batch).unwrap();
}

fn request(database: &Database, users: &[i64]) -> ShareRequest {
    ShareRequest {
        terms: SharingTerms {
            root: vertex(database, "file:/out").id,
            impact: false,
            users: users.to_vec(),
            groups: Vec::new(),
            until_millis: None,
        },
        depth: None,
        made_by: Vec::new(),
        used: Vec::new(),
    }
}

fn share(database: &Database, by: i64) -> SharedLineage {
    let by = Principal {
        uid: by,
        gids: Vec::new(),
    };
    let mine = database.on_behalf_of(Some(&by));
    mine.share(request(database, &[1002]), &NeverCancel)
        .unwrap()
}

/// Files that a user finds by search, in the metadata graph and by reading them.
fn found_files(served: &Served, uid: i64) -> [Vec<String>; 3] {
    let (_, found) = served.json("GET", &format!("/api/v1/search?type=File&uid={uid}"), "");
    let matches = found["matches"].as_u64().unwrap();
    let suggested = served
        .json("GET", &format!("/api/v1/suggest?q=/&uid={uid}"), "")
        .1;
    let mut suggested: Vec<String> = suggested["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["name"].as_str().unwrap().to_owned())
        .collect();
    suggested.sort_unstable();
    assert_eq!(matches, suggested.len() as u64, "{found}");
    let query = "SELECT DISTINCT ?l FROM <urn:esker:meta> { ?s <http://www.w3.org/2000/01/rdf-schema#label> ?l FILTER(STRSTARTS(STR(?l), \"file:\")) } ORDER BY ?l";
    let path = format!("/sparql?uid={uid}");
    let got = served.send("POST", &path, &[QUERY, ("accept", "text/csv")], query);
    assert_eq!(got.status, 200, "{}", got.body);
    let labels = got.body.lines().skip(1).map(str::to_owned).collect();
    let read = ["/in", "/out", "/secret"].into_iter().filter(|at| {
        let path = format!("/api/v1/vertex?id=file:{at}&uid={uid}");
        served.http("GET", &path, "").0 == 200
    });
    [
        suggested,
        labels,
        read.map(|at| format!("file:{at}")).collect(),
    ]
}

#[test]
fn shares_are_seen_at_once_and_no_longer_than_they_last() {
    let served = Served::start(settings());
    let database = served.open();
    fill(&database);
    let nothing: [Vec<String>; 3] = Default::default();
    let shared = [(); 3].map(|()| vec!["file:/in".to_owned(), "file:/out".to_owned()]);
    assert_eq!(found_files(&served, 1002), nothing);
    let made = share(&database, 1001);
    assert_eq!(made.items, 2);
    // Each answer is from before the share or from after it, never from a cache.
    assert_eq!(found_files(&served, 1002), shared);
    assert_eq!(found_files(&served, 1004), nothing);
    let ended = database.revoke_share(made.id).unwrap();
    assert_eq!(ended, Some(made));
    assert_eq!(found_files(&served, 1002), nothing);
    assert!(database.shares().unwrap().is_empty());
}

fn token(served: &Served, user: Option<&str>) -> String {
    let opens = TokenRights::new(Role::Read, user).unwrap();
    let token = grants::make_token(&served.folder(), &opens, 3_600, "portal").unwrap();
    wait_until("the token gives no access", || {
        let request = ("GET", "/api/v1/schema", "");
        http_by_token(served.server.address(), request, &token).0 == 200
    });
    token
}

/// Makes a call about shares with a token.
async fn call(
    address: SocketAddr,
    token: &str,
    principal: Option<i64>,
    call: Call,
) -> Result<Vec<proto::SharedLineage>, Code> {
    let at = format!("http://{address}");
    let channel = Endpoint::from_shared(at).unwrap().connect().await.unwrap();
    let bearer: tonic::metadata::MetadataValue<_> = format!("Bearer {token}").parse().unwrap();
    let show = move |mut request: Request<()>| -> Result<Request<()>, Status> {
        let all = request.metadata_mut();
        all.insert("authorization", bearer.clone());
        Ok(request)
    };
    let request = proto::ShareRequest {
        principal: principal.map(|uid| proto::Principal {
            uid,
            gids: Vec::new(),
        }),
        call: Some(call),
    };
    let answer = EskerClient::with_interceptor(channel, show)
        .share(request)
        .await;
    match answer {
        Ok(reply) => Ok(reply.into_inner().shares),
        Err(status) => Err(status.code()),
    }
}

#[test]
fn bound_users_share_in_their_own_name_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lab.esker");
    let options = esker::OpenOptions::new().create(true);
    let database = options.open(path.to_str().unwrap()).unwrap();
    fill(&database);
    let request = esker_rpc::convert::share_call_out(&esker_model::sharing::ShareCall::Share(
        request(&database, &[1002]),
    ));
    database.close().unwrap();
    let served = Served::of(
        dir,
        Settings {
            access: AccessSettings {
                loopback: Loopback::Off,
                ..AccessSettings::default()
            },
            ..settings()
        },
    );
    let (ada, cy, free) = (
        token(&served, Some("1001")),
        token(&served, Some("1004")),
        token(&served, None),
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let address = served.server.address();
    let made = runtime.block_on(async {
        let made = call(address, &ada, None, request.clone()).await.unwrap();
        let list = || Call::List(proto::ListShares {});
        let revoke = Call::Revoke(made[0].id);
        for (token, principal, asked) in [
            // Another user, a token without a user, and requests that name nobody.
            (&ada, Some(1003), request.clone()),
            (&free, Some(1001), request.clone()),
            (&free, None, list()),
            (&free, None, revoke.clone()),
        ] {
            let refused = call(address, token, principal, asked).await;
            assert_eq!(refused, Err(Code::PermissionDenied), "{principal:?}");
        }
        // A user who owns nothing of it has nothing to share; shares of others do not exist for that user.
        let missing = call(address, &cy, None, request.clone()).await;
        assert_eq!(missing, Err(Code::NotFound));
        assert_eq!(call(address, &cy, None, list()).await, Ok(Vec::new()));
        assert_eq!(
            call(address, &cy, None, revoke.clone()).await,
            Ok(Vec::new())
        );
        assert_eq!(call(address, &ada, None, list()).await, Ok(made.clone()));
        assert_eq!(call(address, &ada, None, revoke).await, Ok(made.clone()));
        assert_eq!(call(address, &ada, None, list()).await, Ok(Vec::new()));
        made
    });
    assert_eq!((made[0].by, made[0].items), (Some(1001), 2));
}
