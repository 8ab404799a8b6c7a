//! Facts of a lineage, arranged for a crate.

use super::Profile;
use crate::label;
use esker::lineage::Provenance;
use esker_model::{Schema, Value, Vertex, VertexId};
use std::collections::{BTreeMap, BTreeSet};

/// Neighbours of an execution by role.
#[derive(Debug, Default, Clone)]
pub(super) struct Uses {
    pub(super) objects: BTreeSet<VertexId>,
    pub(super) results: BTreeSet<VertexId>,
    pub(super) instruments: BTreeSet<VertexId>,
    pub(super) agents: BTreeSet<VertexId>,
    /// Runs of which it is a part.
    pub(super) parents: BTreeSet<VertexId>,
}

/// A run that contains others and whose program is known.
#[derive(Debug, Clone)]
pub struct Workflow {
    /// Vertex of the run.
    pub run: VertexId,
    /// Program of the run.
    pub program: VertexId,
    /// Programming language of the program.
    pub language: &'static str,
    /// Programs of the runs in it.
    pub tools: BTreeSet<VertexId>,
    /// Data that its runs have read and none of them has written.
    pub inputs: BTreeSet<VertexId>,
    /// Data that its runs have written and none of them has read, and the requested target.
    pub outputs: BTreeSet<VertexId>,
}

/// Facts of a lineage.
#[derive(Debug)]
pub struct Facts<'a> {
    pub(super) found: &'a Provenance,
    pub(super) schema: &'a Schema,
    pub(super) known: BTreeMap<VertexId, &'a Vertex>,
    pub(super) uses: BTreeMap<VertexId, Uses>,
    /// The run that contains the most others, if there is one.
    pub workflow: Option<Workflow>,
}

/// Returns the programming language of a program by its extension.
fn language(path: &str) -> Option<&'static str> {
    let ending = path.rsplit('/').next()?.rsplit_once('.')?.1;
    Some(match ending {
        "sh" | "bash" => "Shell script",
        "py" => "Python",
        "cwl" => "Common Workflow Language",
        "nf" => "Nextflow",
        "smk" => "Snakemake",
        "wdl" => "Workflow Description Language",
        "jl" => "Julia",
        "R" | "r" => "R",
        "pl" => "Perl",
        "ipynb" => "Jupyter Notebook",
        "ga" => "Galaxy",
        _ => return None,
    })
}

impl<'a> Facts<'a> {
    /// Collects the facts of a lineage.
    pub fn new(found: &'a Provenance, schema: &'a Schema) -> Self {
        let known: BTreeMap<VertexId, &Vertex> = found
            .vertices
            .iter()
            .filter_map(|v| Some((v.id, v.vertex.as_ref()?)))
            .collect();
        let mut facts = Self {
            found,
            schema,
            known,
            uses: BTreeMap::new(),
            workflow: None,
        };
        for edge in &found.edges {
            facts.edge(edge.edge.key);
        }
        facts.workflow = facts.find_workflow();
        facts
    }

    fn edge(&mut self, key: esker_model::EdgeKey) {
        let Some(declared) = self.schema.edge_type(key.edge_type) else {
            return;
        };
        let (name, from, to) = if declared.forward {
            (Some(declared.name.as_str()), key.source, key.destination)
        } else {
            let forward = self.schema.edge_type(declared.inverse);
            let name = forward.map(|t| t.name.as_str());
            (name, key.destination, key.source)
        };
        if !self.known.contains_key(&from) || !self.known.contains_key(&to) {
            return;
        }
        let (from_run, to_run) = (self.is_run(from), self.is_run(to));
        match name {
            Some("read") if from_run => self.of(from).objects.insert(to),
            Some("write") if from_run => self.of(from).results.insert(to),
            Some("exe") if from_run => self.of(from).instruments.insert(to),
            Some("belongs") if from_run && to_run => self.of(from).parents.insert(to),
            Some("run") if to_run => self.of(to).agents.insert(from),
            _ => false,
        };
    }

    fn of(&mut self, run: VertexId) -> &mut Uses {
        self.uses.entry(run).or_default()
    }

    pub(super) fn is_run(&self, id: VertexId) -> bool {
        let execution = self.schema.vertex_type_id("Execution");
        let vertex = self.known.get(&id);
        vertex.is_some_and(|v| {
            execution.is_ok_and(|execution| crate::names::is_of(self.schema, v.type_id, execution))
        })
    }

    pub(super) fn type_name(&self, vertex: &Vertex) -> String {
        label::of(vertex.id, Some(vertex), self.schema).type_name
    }

    /// Returns all runs below a run, at any depth.
    fn within(&self, run: VertexId) -> BTreeSet<VertexId> {
        let mut inside = BTreeSet::new();
        let mut more = vec![run];
        while let Some(of) = more.pop() {
            for (child, uses) in &self.uses {
                if uses.parents.contains(&of) && *child != run && inside.insert(*child) {
                    more.push(*child);
                }
            }
        }
        inside
    }

    /// Returns the run that contains the most others and is in no other.
    fn find_workflow(&self) -> Option<Workflow> {
        let tops = self.known.keys().filter(|id| {
            self.is_run(**id)
                && self
                    .uses
                    .get(*id)
                    .is_none_or(|uses| uses.parents.is_empty())
        });
        let (run, inside) = tops
            .map(|id| (*id, self.within(*id)))
            .filter(|(_, inside)| !inside.is_empty())
            .max_by_key(|(id, inside)| (inside.len(), std::cmp::Reverse(*id)))?;
        let own = self.uses.get(&run)?;
        let label = own.instruments.iter().find_map(|id| {
            let vertex = self.known.get(id)?;
            Some((*id, language(&vertex.key)?))
        });
        let (program, language) = label?;
        let (mut tools, mut read, mut written) =
            (BTreeSet::new(), own.objects.clone(), own.results.clone());
        for child in &inside {
            if let Some(uses) = self.uses.get(child) {
                tools.extend(uses.instruments.iter().copied());
                read.extend(uses.objects.iter().copied());
                written.extend(uses.results.iter().copied());
            }
        }
        tools.remove(&program);
        let inputs = read.difference(&written).copied().collect();
        let target = self.found.target;
        let outputs = written
            .iter()
            .filter(|id| !read.contains(id) || **id == target);
        Some(Workflow {
            run,
            program,
            language,
            tools,
            inputs,
            outputs: outputs.copied().collect(),
        })
    }

    /// Returns the most detailed profile that the facts support.
    pub fn profile(&self) -> Profile {
        match &self.workflow {
            None => Profile::Process,
            Some(workflow) if workflow.tools.is_empty() => Profile::Workflow,
            Some(_) => Profile::Provenance,
        }
    }

    /// Iterates over the files of the lineage with their absolute paths, including the workflow's program.
    pub fn files(&self) -> impl Iterator<Item = (VertexId, &str)> {
        let program = self.workflow.as_ref().map(|w| w.program);
        self.known.iter().filter_map(move |(id, vertex)| {
            let is_file = self.type_name(vertex) == "File" || program == Some(*id);
            (is_file && vertex.key.starts_with('/')).then_some((*id, vertex.key.as_str()))
        })
    }

    /// Returns the size of a file when it was last observed: from its vertex, or from the runs that used it.
    pub fn size(&self, id: VertexId) -> Option<i64> {
        if let Some(size) = label::number(self.known.get(&id)?, "size") {
            return Some(size);
        }
        let seen = self.found.edges.iter().filter_map(|found| {
            let edge = &found.edge;
            let (ends, size) = (edge.key, edge.properties.get("size"));
            match size {
                Some(Value::I64(size)) if ends.source == id || ends.destination == id => {
                    Some((edge.version, *size))
                }
                _ => None,
            }
        });
        seen.max_by_key(|(version, _)| *version)
            .map(|(_, size)| size)
    }
}
