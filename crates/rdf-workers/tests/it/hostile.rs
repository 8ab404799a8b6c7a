//! Clients that try to exhaust a worker's connections. They use other loopback addresses and connect to an address of this machine that is
//! no loopback address: there a worker identifies clients by address alone.

use crate::sources::{connect, outside};
use crate::{Workers, load};
use esker_rdf::Part;
use esker_rdf_workers::{Coordinator, Listener, Secret, Settings, WorkerData};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt as _;
use tonic::transport::Endpoint;
use tower::ServiceExt as _;

/// Timeout after which a test counts as hanging.
const HANG: Duration = Duration::from_mins(2);
const DATA: &str = "@prefix u: <http://u/> . u:a u:b u:c .";

fn secret() -> Secret {
    Secret::new("a secret of more than twenty characters").unwrap()
}

/// Returns the response to a request without the secret from 127.0.0.`last`.
async fn asks(last: u8, at: SocketAddr) -> String {
    let connector = tower::service_fn(move |_: http::Uri| async move {
        Ok::<_, std::io::Error>(TokioIo::new(connect(last, at).await?))
    });
    let endpoint = Endpoint::from_shared(format!("http://{at}")).unwrap();
    let channel = endpoint.connect_with_connector(connector).await.unwrap();
    let request = http::Request::post(format!("http://{at}/any/Method"))
        .header("content-type", "application/grpc")
        .body(tonic::body::Body::empty())
        .unwrap();
    let answer = channel.oneshot(request).await.unwrap();
    let said = answer.headers().get("grpc-message").unwrap();
    said.to_str().unwrap().replace("%20", " ")
}

#[test]
fn a_silent_address_leaves_slots_for_others() {
    let Some(host) = outside() else { return };
    let workers = Workers::none();
    let runtime = workers.runtime.as_ref().unwrap();
    let mut addresses = Vec::new();
    for n in 0..2 {
        let listener = runtime.block_on(Listener::bind(SocketAddr::new(host, 0)));
        let listener = listener.unwrap();
        addresses.push(listener.address());
        let part = Part::new(n, 2).unwrap();
        let held = WorkerData::new(Arc::new(load(DATA, Some(part))), part);
        runtime.spawn(listener.serve(held, secret(), std::future::pending()));
    }
    let at = addresses[0];
    let silent = runtime.block_on(async {
        let mut silent = Vec::new();
        for _ in 0..300 {
            silent.push(connect(2, at).await.unwrap());
        }
        silent
    });
    let settings = Settings {
        secret: secret(),
        ..Settings::default()
    };
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let coordinator = Coordinator::connect(&addresses, settings).unwrap();
    let query = "SELECT ?s { ?s ?p ?o }";
    assert_eq!(
        crate::answer_by_workers(&coordinator, query).unwrap().len(),
        1
    );
    runtime.block_on(async {
        for mut stream in silent {
            let mut rest = Vec::new();
            let ended = tokio::time::timeout(HANG, stream.read_to_end(&mut rest)).await;
            assert!(ended.is_ok(), "a silent connection is open still");
        }
        // A client with a wrong secret is refused, and after too many failures blocked.
        let until = Instant::now() + HANG;
        loop {
            let said = asks(2, at).await;
            if said.contains("127.0.0.2 has failed to prove who it is too often") {
                break;
            }
            assert!(
                said.contains("the secret is missing or another one"),
                "{said}"
            );
            assert!(Instant::now() < until, "failures are answered as one is");
        }
        let said = asks(3, at).await;
        assert!(
            said.contains("the secret is missing or another one"),
            "{said}"
        );
    });
    assert_eq!(
        crate::answer_by_workers(&coordinator, query).unwrap().len(),
        1
    );
}
