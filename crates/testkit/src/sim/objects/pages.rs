//! Searches whose results take several pages of each server.

use super::MINUTE;
use crate::sim::blocking_client::BlockingClient;
use crate::sim::cluster::{Cluster, Subject};
use crate::sim::request::ClientRequest;
use crate::sim::scenario::{FaultLevel, Scenario, started};
use esker_model::filter::Expr;
use esker_model::object::{Find, FindReport, Identity, ObjectId};
use esker_model::{Batch, Cancel, Error, Flow, Op, Properties};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A cluster with objects of 1 kB that take more than a page on each server.
pub struct LargeObjects {
    cluster: Rc<Cluster>,
    client: BlockingClient,
    /// Number of objects in the cluster.
    pub count: usize,
}

impl LargeObjects {
    /// Starts a cluster without faults and creates `count` objects.
    ///
    /// # Errors
    /// If a call fails, which does not happen without faults.
    pub fn new(seed: u64, servers: u32, count: usize) -> Result<Self, String> {
        let mut scenario = Scenario::of(seed, FaultLevel::Faultless, Subject::Nodes);
        scenario.shape.servers = servers;
        let cluster = Cluster::new(seed, scenario.shape, false);
        let client = started(&cluster, seed)?;
        let mut batch = Batch::new();
        for step in 0..count as i64 {
            batch.push(Op::CreateObject {
                identity: Identity {
                    name: "large".into(),
                    app: String::new(),
                    owner: 1,
                    step,
                },
                attributes: Properties::new(),
                tags: Properties::new().with("note", "n".repeat(1_000)),
            });
        }
        let applied = client.call(&ClientRequest::Apply(batch));
        applied.map_err(|e| format!("creating objects: {e}"))?;
        Ok(Self {
            cluster,
            client,
            count,
        })
    }

    /// Searches all objects through server 0, at most `limit`; returns those found and the report. The search is cancelled when it
    /// has checked `checks` times whether it is.
    ///
    /// # Errors
    /// If the search fails or does not end.
    pub fn find(
        &self,
        limit: Option<u64>,
        checks: u64,
    ) -> Result<(BTreeSet<ObjectId>, FindReport), String> {
        let node = self.cluster.node(0).ok_or("server 0 is not there")?;
        let find = Find {
            limit,
            ..Find::all(Expr::All)
        };
        let cancel = CancelAfter(AtomicU64::new(checks));
        let mut found = BTreeSet::new();
        let mut sink = |object: esker_model::object::Found| {
            found.insert(object.id);
            Flow::Continue(())
        };
        let search = node.find(&find, self.client.seen.get(), &cancel, &mut sink);
        let report = self.cluster.exec.block_on(search, MINUTE);
        let report = report.map_err(|e| format!("the search does not end: {e:?}"))?;
        let report = report.map_err(|e: Error| e.to_string())?;
        Ok((found, report))
    }
}

/// Cancels after a number of checks.
struct CancelAfter(AtomicU64);

impl Cancel for CancelAfter {
    fn cancelled(&self) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0
    }
}
