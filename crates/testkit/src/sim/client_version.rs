//! Clients that say they have seen versions of the future: the clock of a cluster does not follow them.

use super::cluster::{Cluster, Subject};
use super::request::{ClientRequest, ClientResponse};
use super::scenario::{FaultLevel, Scenario, started};
use crate::rng::Rng;
use crate::test_graph::TestGraph;
use esker_model::{Batch, Op, Version};

/// Sends batches and reads as a client that has seen `seen`, then a batch as an honest client. Returns the version of the last
/// batch, and the time at its end in milliseconds.
pub fn commit_after_claim(seed: u64, seen: Version) -> Result<(Version, u64), String> {
    let cluster = Cluster::new(
        seed,
        Scenario::of(seed, FaultLevel::Faultless, Subject::Nodes).shape,
        false,
    );
    let client = started(&cluster, seed)?;
    let graph = TestGraph::new();
    let mut rng = Rng::new(seed);
    let mut version = Version::ZERO;
    for claim in [seen, seen, Version::ZERO] {
        client.seen.set(claim);
        for at in 0..cluster.len() {
            let mut batch = Batch::new();
            for _ in 0..4 {
                let (name, vertex) = graph.vertex(&mut rng);
                let key = name.key;
                batch.push(Op::EnsureVertex { vertex, key });
            }
            let applied = client.call_at(at, &ClientRequest::Apply(batch));
            client.seen.set(claim);
            match applied {
                Ok(ClientResponse::Commit(commit)) => version = commit.version,
                other => return Err(format!("after the claim of {claim:?}: {other:?}")),
            }
            let counts = client.call_at(at, &ClientRequest::Counts);
            counts.map_err(|e| e.to_string())?;
        }
    }
    let clock = cluster.clock(0).ok_or("server 0 is not there")?;
    Ok((version, clock.now_millis()))
}
