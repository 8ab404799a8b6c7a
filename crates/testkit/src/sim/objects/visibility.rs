//! Visibility of an object after its deletion, in a cluster and in one engine.

use crate::sim::cluster::{Cluster, Subject};
use crate::sim::request::{ClientRequest, ClientResponse};
use crate::sim::scenario::{FaultLevel, Scenario, started};
use esker_engine::{Engine, View};
use esker_model::object::{Identity, ObjectKey, Principal, object_ref};
use esker_model::{
    Batch, Error, Flow, GraphRead as _, Mutation, Op, Properties, Version, VertexId,
};
use esker_store::{Durability, KeyRange, Store, Table, WriteBatch};

/// User id of the object's owner.
const OWNER: i64 = 7;

/// Whether the deleted object is visible to its owner, to another user, and to a caller without a principal.
pub type Visible = [bool; 3];

fn principals() -> [Option<Principal>; 3] {
    let principal = |uid| Principal {
        uid,
        gids: vec![uid],
    };
    [Some(principal(OWNER)), Some(principal(8)), None]
}

fn batch(op: Op) -> ClientRequest {
    let mut batch = Batch::new();
    batch.mutations.push(Mutation { version: None, op });
    ClientRequest::Apply(batch)
}

/// Removes the superseded rows of a vertex, as if their archive were lost.
fn forget(store: &dyn Store, id: VertexId) -> Result<(), Error> {
    let mut rows = WriteBatch::default();
    store.scan(Table::History, &KeyRange::prefix(&id.0), &mut |key, _| {
        rows.remove(Table::History, key);
        Flow::Continue(())
    })?;
    store.commit(rows, Durability::Relaxed)
}

/// Deletes an object that only its owner may read. Returns who sees it in the cluster and in the engine of its server:
/// first while its last state is known, then after that state is lost.
///
/// # Errors
/// If a call fails, which does not happen without faults.
pub fn deleted_object(seed: u64) -> Result<[(Visible, Visible); 2], String> {
    let text = |e: Error| e.to_string();
    let scenario = Scenario::of(seed, FaultLevel::Faultless, Subject::Nodes);
    let cluster = Cluster::new(seed, scenario.shape, false);
    let client = started(&cluster, seed)?;
    let identity = Identity {
        name: "secret".into(),
        app: String::new(),
        owner: OWNER,
        step: 0,
    };
    let create = Op::CreateObject {
        identity: identity.clone(),
        attributes: Properties::new().with("mode", 0o600),
        tags: Properties::new(),
    };
    client.call(&batch(create)).map_err(text)?;
    let keys = vec![ObjectKey::Identity(identity)];
    let found = client.call(&ClientRequest::Objects(keys)).map_err(text)?;
    let ClientResponse::Objects(found) = found else {
        return Err(format!(
            "a response of another kind than the request's: {found:?}"
        ));
    };
    let found = found.into_iter().flatten().next();
    let object = found.ok_or("the object was not created")?.id;
    let node = cluster.node(0).ok_or("server 0 is not there")?;
    let schema = node.schema().map_err(text)?;
    let vertex = object_ref(&schema, object).ok_or("objects have no type")?;
    client
        .call(&batch(Op::DeleteVertex { vertex }))
        .map_err(text)?;
    let engines: Vec<_> = (0..cluster.len())
        .filter_map(|at| cluster.engine_of(at))
        .collect();
    let in_cluster = || -> Result<Visible, String> {
        let mut visible = Visible::default();
        for (sees, principal) in visible.iter_mut().zip(principals()) {
            let read = ClientRequest::Vertices(vec![vertex.id], Version::MAX);
            let read = match principal {
                Some(principal) => ClientRequest::As(principal, Box::new(read)),
                None => read,
            };
            let answer = client.call(&read).map_err(text)?;
            *sees = matches!(answer, ClientResponse::Vertices(found) if found.iter().any(Option::is_some));
        }
        Ok(visible)
    };
    let in_engine = |engine: &Engine| -> Result<Visible, String> {
        let mut visible = Visible::default();
        for (sees, principal) in visible.iter_mut().zip(principals()) {
            let view = View::new(engine, principal.as_ref());
            let found = view.read_vertices(&[vertex.id], Version::MAX);
            *sees = found.map_err(text)?.iter().any(Option::is_some);
        }
        Ok(visible)
    };
    let home = engines.iter().find(|engine| {
        let found = engine.read_vertices(&[vertex.id], Version::MAX);
        found.is_ok_and(|found| found.iter().any(Option::is_some))
    });
    let home = home.ok_or("no server has the object")?;
    let known = (in_cluster()?, in_engine(home)?);
    for engine in &engines {
        forget(&**engine.store(), vertex.id).map_err(text)?;
    }
    Ok([known, (in_cluster()?, in_engine(home)?)])
}
