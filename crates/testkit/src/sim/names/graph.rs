//! Files as vertices of the graph, by their paths and as a principal sees them: a cluster is compared with one engine.

use crate::names::random_path;
use crate::rng::Rng;
use crate::sim::blocking_client::BlockingClient;
use crate::sim::names::NamespaceResponse;
use crate::sim::request::{ClientRequest, ClientResponse};
use esker_engine::{Engine, View};
use esker_model::key::RowKey;
use esker_model::namespace::{Call, Kind, NamePath, Namespace as _};
use esker_model::object::Principal;
use esker_model::traversal::Budget;
use esker_model::{
    Batch, DiffSelect, Difference, EdgeSelect, Error, Flow, GraphRead as _, GraphWrite as _,
    Mutation, NeverCancel, Op, Properties, Schema, Traversal, Value, Version, Versions, Vertex,
    VertexId, VertexName, VertexRef, VertexSelect,
};

/// A vertex without what depends on the time of changes.
type VertexShape = (String, bool, Vec<(String, Value)>);

fn shape(vertex: &Vertex, schema: &Schema) -> VertexShape {
    let user = vertex.user.iter();
    let user = user.map(|a| (a.name.clone(), a.value.clone())).collect();
    (vertex.name(schema), vertex.deleted, user)
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "that is what errors are mapped by"
)]
fn text(e: Error) -> String {
    e.to_string()
}

/// A cluster and an engine to be compared.
pub struct ClusterAndEngine<'a> {
    /// Client of the cluster under test.
    pub client_view: &'a BlockingClient,
    /// Engine with the expected state.
    pub model: &'a Engine,
}

impl ClusterAndEngine<'_> {
    /// Returns the id and kind of the file at a path in the cluster.
    fn at(&self, path: &NamePath) -> Result<Option<(VertexId, Kind)>, String> {
        let call = Call::Ids {
            principal: None,
            paths: vec![path.clone()],
        };
        match self
            .client_view
            .call(&ClientRequest::Names(Box::new(call)))
            .map_err(text)?
        {
            ClientResponse::Names(NamespaceResponse::Ids(ids)) => {
                Ok(ids.into_iter().next().flatten())
            }
            other => Err(format!(
                "a response of another kind than the request's: {other:?}"
            )),
        }
    }

    fn call_as(
        &self,
        principal: &Principal,
        request: ClientRequest,
    ) -> Result<ClientResponse, String> {
        let request = ClientRequest::As(principal.clone(), Box::new(request));
        self.client_view.call(&request).map_err(text)
    }

    /// Gives the file at a path a tag and an edge from a job, if the file exists.
    pub fn tag(&self, rng: &mut Rng, names: &[&str]) -> Result<(), String> {
        let path = random_path(rng, names);
        let schema = self.model.schema().map_err(text)?;
        let expected = self.model.ids(None, std::slice::from_ref(&path));
        let expected = expected.map_err(text)?.into_iter().next().flatten();
        let got = self.at(&path)?;
        if got.map(|(_, kind)| kind) != expected.map(|(_, kind)| kind) {
            return Err(format!("at {path} is {got:?}, expected {expected:?}"));
        }
        let (Some((there, kind)), Some((here, _))) = (got, expected) else {
            return Ok(());
        };
        let kind = kind.type_name();
        let type_id = schema.vertex_type_id(kind).map_err(|e| e.to_string())?;
        let job = VertexName::parse(&format!("job:{}", rng.number_below(2)));
        let job = job.map_err(|e| e.to_string())?;
        let reader = job.resolve(&schema).map_err(|e| e.to_string())?;
        let edge_type = schema.edge_type_id("read").map_err(|e| e.to_string())?;
        let (tag, reads) = (
            rng.number_below(1_000) as i64,
            rng.percent(50) && kind == "File",
        );
        let batch = |id: VertexId| {
            let vertex = VertexRef { id, type_id };
            let mut batch = Batch::new();
            let mut add = |op: Op| {
                batch.mutations.push(Mutation { version: None, op });
            };
            add(Op::EnsureVertex {
                vertex,
                key: path.to_string(),
            });
            add(Op::SetAttributes {
                vertex,
                set: Properties::new().with("n", tag),
                remove: Vec::new(),
            });
            if reads {
                add(Op::EnsureVertex {
                    vertex: reader,
                    key: job.key.clone(),
                });
                add(Op::PutEdge {
                    source: reader,
                    edge_type,
                    destination: vertex,
                    properties: Properties::new(),
                });
            }
            batch
        };
        let expected = self.model.apply(batch(here));
        let got = self.client_view.call(&ClientRequest::Apply(batch(there)));
        if got.is_ok() != expected.is_ok() {
            return Err(format!(
                "tagging {path}: told {got:?}, expected {expected:?}"
            ));
        }
        Ok(())
    }

    /// Compares the vertices and edges that a principal sees.
    pub fn compare(
        &self,
        rng: &mut Rng,
        principal: &Principal,
        names: &[&str],
    ) -> Result<(), String> {
        let schema = self.model.schema().map_err(text)?;
        let view = View::new(self.model, Some(principal));
        for _ in 0..4 {
            let path = random_path(rng, names);
            let expected = self.model.ids(None, std::slice::from_ref(&path));
            let Some((here, _)) = expected.map_err(text)?.into_iter().next().flatten() else {
                continue;
            };
            let Some((there, _)) = self.at(&path)? else {
                return Err(format!("nothing is at {path}"));
            };
            let expected = view.read_vertices(&[here], Version::MAX).map_err(text)?;
            let response = self.call_as(
                principal,
                ClientRequest::Vertices(vec![there], Version::MAX),
            )?;
            let ClientResponse::Vertices(got) = response else {
                return Err(format!(
                    "a response of another kind than the request's: {response:?}"
                ));
            };
            let shapes = |all: &[Option<Vertex>]| -> Vec<Option<VertexShape>> {
                let all = all.iter();
                all.map(|v| v.as_ref().map(|v| shape(v, &schema))).collect()
            };
            let (got, expected) = (shapes(&got), shapes(&expected));
            if got != expected {
                return Err(format!(
                    "user {}: the vertex of {path} is {got:?}, expected {expected:?}",
                    principal.uid
                ));
            }
        }
        for type_name in ["File", "Directory"] {
            let type_id = schema.vertex_type_id(type_name);
            let select = VertexSelect {
                deleted: true,
                ..VertexSelect::of(type_id.map_err(|e| e.to_string())?)
            };
            let mut expected = Vec::new();
            view.scan_vertices(&select, &mut |v| {
                expected.push(shape(&v, &schema));
                Flow::Continue(())
            })
            .map_err(text)?;
            let response = self.call_as(principal, ClientRequest::Type(select, usize::MAX))?;
            let ClientResponse::Type(got) = response else {
                return Err(format!(
                    "a response of another kind than the request's: {response:?}"
                ));
            };
            let mut got: Vec<VertexShape> = got.iter().map(|v| shape(v, &schema)).collect();
            let order = |a: &VertexShape, b: &VertexShape| format!("{a:?}").cmp(&format!("{b:?}"));
            got.sort_by(order);
            expected.sort_by(order);
            if got != expected {
                return Err(format!(
                    "user {}: {type_name}s are {got:#?}, expected {expected:#?}",
                    principal.uid
                ));
            }
        }
        self.compare_edges(principal, &schema)?;
        self.compare_differences(principal, &schema)
    }

    /// Compares all that has appeared since the beginning; identities and versions differ between the two.
    fn compare_differences(&self, principal: &Principal, schema: &Schema) -> Result<(), String> {
        let select = DiffSelect::between(Version::ZERO, Version::MAX);
        let mut expected = Vec::new();
        View::new(self.model, Some(principal))
            .diff(&select, &mut |difference| {
                expected.push(difference);
                Flow::Continue(())
            })
            .map_err(text)?;
        let response = self.call_as(principal, ClientRequest::Diff(select, usize::MAX))?;
        let ClientResponse::Diff(got) = response else {
            return Err(format!(
                "a response of another kind than the request's: {response:?}"
            ));
        };
        let vertices = |all: &[Difference]| {
            let vertex = |d: &Difference| match d {
                Difference::Vertex(_, after) => after.as_ref().map(|v| shape(v, schema)),
                Difference::Edge(..) => None,
            };
            let mut all: Vec<String> = all.iter().map(|d| format!("{:?}", vertex(d))).collect();
            all.sort();
            all
        };
        let ends = |all: &[Difference]| -> Vec<VertexId> {
            let end = |d: &Difference| match d.key() {
                Some(RowKey::Edge(edge)) => Some(edge.destination),
                _ => None,
            };
            all.iter().filter_map(end).collect()
        };
        let (here, there) = (
            (
                vertices(&expected),
                self.names_here(&ends(&expected), schema)?,
            ),
            (vertices(&got), self.names_there(&ends(&got), schema)?),
        );
        if there != here {
            return Err(format!(
                "user {}: differences are {there:#?}, expected {here:#?}",
                principal.uid
            ));
        }
        Ok(())
    }

    fn compare_edges(&self, principal: &Principal, schema: &Schema) -> Result<(), String> {
        let view = View::new(self.model, Some(principal));
        let jobs = ["job:0", "job:1"].map(|name| {
            let name = VertexName::parse(name).map_err(|e| e.to_string())?;
            name.resolve(schema).map_err(|e| e.to_string())
        });
        for job in jobs {
            let job = job?;
            let select = EdgeSelect {
                types: Vec::new(),
                versions: Versions::NOW,
                properties: false,
                after: None,
            };
            let mut expected = Vec::new();
            view.scan_edges(&[job.id], &select, &mut |_, edge| {
                expected.push(edge.key.destination);
                Flow::Continue(())
            })
            .map_err(text)?;
            let response = self.call_as(
                principal,
                ClientRequest::Scan(vec![job.id], select, usize::MAX),
            )?;
            let ClientResponse::Scanned(got) = response else {
                return Err(format!(
                    "a response of another kind than the request's: {response:?}"
                ));
            };
            let got: Vec<VertexId> = got.iter().map(|(_, e)| e.key.destination).collect();
            let here = self.names_here(&expected, schema)?;
            let there = self.names_there(&got, schema)?;
            if there != here {
                return Err(format!(
                    "user {}: edges lead to {there:?}, expected {here:?}",
                    principal.uid
                ));
            }
        }
        let chain = "v(\"job:0\", \"job:1\").e(read).v()";
        let chain = Traversal::parse_at(chain, 0).map_err(|e| format!("{e:?}"))?;
        let expected = view.travel(&chain, &Budget::default(), &NeverCancel);
        let expected = expected.map_err(text)?;
        let response = self.call_as(principal, ClientRequest::Travel(chain, Budget::default()))?;
        let ClientResponse::Travel(got) = response else {
            return Err(format!(
                "a response of another kind than the request's: {response:?}"
            ));
        };
        let here = expected.sets.iter().flat_map(|s| s.vertices.clone());
        let there = got.sets.iter().flat_map(|s| s.vertices.clone());
        let here = self.names_here(&here.collect::<Vec<_>>(), schema)?;
        let there = self.names_there(&there.collect::<Vec<_>>(), schema)?;
        if there != here {
            return Err(format!(
                "user {}: jobs read {there:?}, expected {here:?}",
                principal.uid
            ));
        }
        Ok(())
    }

    fn names_here(&self, ids: &[VertexId], schema: &Schema) -> Result<Vec<String>, String> {
        let found = View::new(self.model, None).read_vertices(ids, Version::MAX);
        Ok(sorted(found.map_err(text)?, schema))
    }

    fn names_there(&self, ids: &[VertexId], schema: &Schema) -> Result<Vec<String>, String> {
        match self
            .client_view
            .call(&ClientRequest::Vertices(ids.to_vec(), Version::MAX))
        {
            Ok(ClientResponse::Vertices(found)) => Ok(sorted(found, schema)),
            other => Err(format!("{other:?}")),
        }
    }
}

fn sorted(found: Vec<Option<Vertex>>, schema: &Schema) -> Vec<String> {
    let names = found.into_iter();
    let mut names: Vec<String> = names
        .map(|v| v.map_or_else(|| "none".to_owned(), |v| v.name(schema)))
        .collect();
    names.sort();
    names
}
