//! What the graph says of files, by their paths and as somebody sees it: a cluster as one engine does.

use crate::names::some_path;
use crate::rng::Rng;
use crate::sim::ask::{Ask, Told};
use crate::sim::facade::Facade;
use crate::sim::names::NamesTold;
use esker_engine::{Engine, View};
use esker_model::namespace::{Call, Kind, NamePath, Namespace as _};
use esker_model::object::Asker;
use esker_model::traversal::Budget;
use esker_model::{
    Batch, EdgeSelect, Error, Flow, GraphRead as _, GraphWrite as _, Mutation, NeverCancel, Op,
    Properties, Schema, Traversal, Value, Version, Versions, Vertex, VertexId, VertexName,
    VertexRef, VertexSelect,
};

/// A vertex, but for what depends on when things were done.
type Shape = (String, bool, Vec<(String, Value)>);

fn shape(vertex: &Vertex, schema: &Schema) -> Shape {
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

/// The two that are compared.
pub struct Both<'a> {
    /// The cluster.
    pub facade: &'a Facade,
    /// The engine.
    pub model: &'a Engine,
}

impl Both<'_> {
    /// What is at a path now, by the cluster's account.
    fn at(&self, path: &NamePath) -> Result<Option<(VertexId, Kind)>, String> {
        let call = Call::Ids {
            asker: None,
            paths: vec![path.clone()],
        };
        match self.facade.ask(&Ask::Names(Box::new(call))).map_err(text)? {
            Told::Names(NamesTold::Ids(ids)) => Ok(ids.into_iter().next().flatten()),
            other => Err(format!("an answer to something else: {other:?}")),
        }
    }

    fn asked(&self, asker: &Asker, ask: Ask) -> Result<Told, String> {
        let ask = Ask::As(asker.clone(), Box::new(ask));
        self.facade.ask(&ask).map_err(text)
    }

    /// A file at a path gets a tag and a reader, if there is one.
    pub fn tag(&self, rng: &mut Rng, names: &[&str]) -> Result<(), String> {
        let path = some_path(rng, names);
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
        let job = VertexName::parse(&format!("job:{}", rng.below(2)));
        let job = job.map_err(|e| e.to_string())?;
        let reader = job.resolve(&schema).map_err(|e| e.to_string())?;
        let edge_type = schema.edge_type_id("read").map_err(|e| e.to_string())?;
        let (tag, reads) = (rng.below(1_000) as i64, rng.percent(50) && kind == "File");
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
        let got = self.facade.ask(&Ask::Apply(batch(there)));
        if got.is_ok() != expected.is_ok() {
            return Err(format!(
                "tagging {path}: told {got:?}, expected {expected:?}"
            ));
        }
        Ok(())
    }

    /// What somebody sees.
    pub fn compare(&self, rng: &mut Rng, asker: &Asker, names: &[&str]) -> Result<(), String> {
        let schema = self.model.schema().map_err(text)?;
        let view = View::new(self.model, Some(asker));
        for _ in 0..4 {
            let path = some_path(rng, names);
            let expected = self.model.ids(None, std::slice::from_ref(&path));
            let Some((here, _)) = expected.map_err(text)?.into_iter().next().flatten() else {
                continue;
            };
            let Some((there, _)) = self.at(&path)? else {
                return Err(format!("nothing is at {path}"));
            };
            let expected = view.read_vertices(&[here], Version::MAX).map_err(text)?;
            let told = self.asked(asker, Ask::Vertices(vec![there], Version::MAX))?;
            let Told::Vertices(got) = told else {
                return Err(format!("an answer to something else: {told:?}"));
            };
            let shapes = |all: &[Option<Vertex>]| -> Vec<Option<Shape>> {
                let all = all.iter();
                all.map(|v| v.as_ref().map(|v| shape(v, &schema))).collect()
            };
            let (got, expected) = (shapes(&got), shapes(&expected));
            if got != expected {
                return Err(format!(
                    "user {}: the vertex of {path} is {got:?}, expected {expected:?}",
                    asker.uid
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
            let told = self.asked(asker, Ask::Type(select, usize::MAX))?;
            let Told::Type(got) = told else {
                return Err(format!("an answer to something else: {told:?}"));
            };
            let mut got: Vec<Shape> = got.iter().map(|v| shape(v, &schema)).collect();
            let order = |a: &Shape, b: &Shape| format!("{a:?}").cmp(&format!("{b:?}"));
            got.sort_by(order);
            expected.sort_by(order);
            if got != expected {
                return Err(format!(
                    "user {}: {type_name}s are {got:#?}, expected {expected:#?}",
                    asker.uid
                ));
            }
        }
        self.compare_edges(asker, &schema)
    }

    fn compare_edges(&self, asker: &Asker, schema: &Schema) -> Result<(), String> {
        let view = View::new(self.model, Some(asker));
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
            };
            let mut expected = Vec::new();
            view.scan_edges(&[job.id], &select, &mut |_, edge| {
                expected.push(edge.key.destination);
                Flow::Continue(())
            })
            .map_err(text)?;
            let told = self.asked(asker, Ask::Scan(vec![job.id], select, usize::MAX))?;
            let Told::Scanned(got) = told else {
                return Err(format!("an answer to something else: {told:?}"));
            };
            let got: Vec<VertexId> = got.iter().map(|(_, e)| e.key.destination).collect();
            let here = self.names_here(&expected, schema)?;
            let there = self.names_there(&got, schema)?;
            if there != here {
                return Err(format!(
                    "user {}: edges lead to {there:?}, expected {here:?}",
                    asker.uid
                ));
            }
        }
        let chain = "v(\"job:0\", \"job:1\").e(read).v()";
        let chain = Traversal::parse_at(chain, 0).map_err(|e| format!("{e:?}"))?;
        let expected = view.travel(&chain, &Budget::default(), &NeverCancel);
        let expected = expected.map_err(text)?;
        let told = self.asked(asker, Ask::Travel(chain, Budget::default()))?;
        let Told::Travel(got) = told else {
            return Err(format!("an answer to something else: {told:?}"));
        };
        let here = expected.sets.iter().flat_map(|s| s.vertices.clone());
        let there = got.sets.iter().flat_map(|s| s.vertices.clone());
        let here = self.names_here(&here.collect::<Vec<_>>(), schema)?;
        let there = self.names_there(&there.collect::<Vec<_>>(), schema)?;
        if there != here {
            return Err(format!(
                "user {}: jobs read {there:?}, expected {here:?}",
                asker.uid
            ));
        }
        Ok(())
    }

    fn names_here(&self, ids: &[VertexId], schema: &Schema) -> Result<Vec<String>, String> {
        let found = View::new(self.model, None).read_vertices(ids, Version::MAX);
        Ok(sorted(found.map_err(text)?, schema))
    }

    fn names_there(&self, ids: &[VertexId], schema: &Schema) -> Result<Vec<String>, String> {
        match self.facade.ask(&Ask::Vertices(ids.to_vec(), Version::MAX)) {
            Ok(Told::Vertices(found)) => Ok(sorted(found, schema)),
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
