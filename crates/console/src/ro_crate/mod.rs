//! Lineage as an RO-Crate: executions, their inputs and outputs, users and programs, in the standard for research objects
//! (RO-Crate Metadata Specification 1.1; Workflow Run RO-Crate 0.5: process, workflow and provenance).
//!
//! Only known facts are written: an execution without an end has no `endTime`, one whose success is unknown no `actionStatus`; a workflow
//! is described only if a run contains others and its program is known ([`Facts::workflow`]).

mod facts;
mod write;

pub use facts::Facts;
pub use write::{Settings, describe};

/// Level of detail; each level includes the previous ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// Executions with inputs and outputs.
    Process,
    /// In addition, one execution is the run of a workflow.
    Workflow,
    /// In addition, the tools that the workflow ran, and their runs.
    Provenance,
}

impl Profile {
    /// All profiles, the least detailed first.
    pub const ALL: [Self; 3] = [Self::Process, Self::Workflow, Self::Provenance];

    /// Returns the name of the profile.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Workflow => "workflow",
            Self::Provenance => "provenance",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Process => "Process Run Crate",
            Self::Workflow => "Workflow Run Crate",
            Self::Provenance => "Provenance Run Crate",
        }
    }

    fn address(self) -> String {
        format!("https://w3id.org/ro/wfrun/{}/0.5", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::Database;
    use esker::lineage::{LineageOptions, lineage};
    use esker_model::{
        Batch, GraphRead as _, GraphWrite as _, NeverCancel, Op, Properties, Value, VertexId,
        VertexRef,
    };
    use serde_json::json;
    use std::collections::BTreeSet;

    #[test]
    fn an_execution_is_an_action_with_inputs_and_outputs() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("db");
        let options = esker::OpenOptions::new().create(true);
        let database: Database = options.open(folder.to_str().unwrap()).unwrap();
        let schema = database.schema().unwrap();
        let vertex = |type_name: &str, key: &str| VertexRef {
            id: VertexId::of(type_name, key),
            type_id: schema.vertex_type_id(type_name).unwrap(),
        };
        let mut batch = Batch::new();
        for (type_name, key) in [
            ("File", "/in x"),
            ("File", "/out"),
            ("Job", "1"),
            ("User", "7"),
            ("Execution", "whole"),
            ("Executable", "/bin/flow.sh"),
            ("Executable", "/bin/tool"),
        ] {
            batch.push(Op::PutVertex {
                vertex: vertex(type_name, key),
                key: key.into(),
                attributes: Properties::new(),
            });
        }
        for (from, edge, to) in [
            (("Job", "1"), "read", ("File", "/in x")),
            (("Job", "1"), "write", ("File", "/out")),
            (("User", "7"), "run", ("Job", "1")),
        ] {
            batch.push(Op::PutEdge {
                source: vertex(from.0, from.1),
                edge_type: schema.edge_type_id(edge).unwrap(),
                destination: vertex(to.0, to.1),
                properties: Properties::new(),
            });
        }
        database.apply(batch).unwrap();
        let target = VertexId::of("File", "/out");
        let found = lineage(&database, target, &LineageOptions::default(), &NeverCancel).unwrap();
        let label = describe(&Facts::new(&found, &schema), &Settings::default());
        let all = label["@graph"].as_array().unwrap();
        let of = |id: &str| all.iter().find(|e| e["@id"] == id).unwrap();
        let job = of("#job/1");
        assert_eq!(job["@type"], "Action", "a CreateAction names its program");
        assert_eq!(job["object"], json!({"@id": "file:///in%20x"}));
        assert_eq!(job["result"], json!({"@id": "file:///out"}));
        assert_eq!(job["agent"], json!({"@id": "#user/7"}));
        assert_eq!(job.get("endTime"), None, "what is not known is not said");
        assert_eq!(of("./")["mentions"], json!({"@id": "#job/1"}));
        assert_eq!(of("./")["hasPart"].as_array().unwrap().len(), 2);
        let ids: BTreeSet<&str> = all.iter().map(|e| e["@id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), all.len(), "each entity once");
        assert_eq!(Facts::new(&found, &schema).profile(), Profile::Process);

        // The run of a workflow contains it, and programs are known.
        let mut batch = Batch::new();
        let list = |item: &str| Value::List(vec![Value::String(item.into())]);
        batch.push(Op::ChangeVertex {
            vertex: vertex("Job", "1"),
            set: Properties::new()
                .with("settings", list("least=3"))
                .with("environment", list("LANG=C")),
            remove: Vec::new(),
        });
        for (from, edge, to) in [
            (("Job", "1"), "belongs", ("Execution", "whole")),
            (("Job", "1"), "exe", ("Executable", "/bin/tool")),
            (
                ("Execution", "whole"),
                "exe",
                ("Executable", "/bin/flow.sh"),
            ),
        ] {
            batch.push(Op::PutEdge {
                source: vertex(from.0, from.1),
                edge_type: schema.edge_type_id(edge).unwrap(),
                destination: vertex(to.0, to.1),
                properties: Properties::new(),
            });
        }
        database.apply(batch).unwrap();
        let found = lineage(&database, target, &LineageOptions::default(), &NeverCancel).unwrap();
        let facts = Facts::new(&found, &schema);
        assert_eq!(facts.profile(), Profile::Provenance);
        let label = describe(&facts, &Settings::default());
        let all = label["@graph"].as_array().unwrap();
        let of = |id: &str| all.iter().find(|e| e["@id"] == id).unwrap();
        let flow = of("file:///bin/flow.sh");
        assert_eq!(
            flow["@type"],
            json!(["File", "SoftwareSourceCode", "ComputationalWorkflow"])
        );
        assert_eq!(flow["hasPart"], json!({"@id": "#executable//bin/tool"}));
        let whole = of("#execution/whole");
        assert_eq!(whole["@type"], "CreateAction");
        assert_eq!(whole["instrument"], json!({"@id": "file:///bin/flow.sh"}));
        assert_eq!(whole["object"], json!({"@id": "file:///in%20x"}));
        assert_eq!(whole["result"], json!({"@id": "file:///out"}));
        assert_eq!(
            of("./")["mainEntity"],
            json!({"@id": "file:///bin/flow.sh"})
        );
        let job = of("#job/1");
        assert_eq!(
            job["object"],
            json!([{"@id": "file:///in%20x"}, {"@id": "#job/1/setting/least"}])
        );
        assert_eq!(of("#job/1/setting/least")["value"], "3");
        assert_eq!(job.get("environment"), None, "only if it was asked for");
        let more = Settings {
            environment: true,
            ..Settings::default()
        };
        let label = describe(&facts, &more);
        let all = label["@graph"].as_array().unwrap();
        let of = |id: &str| all.iter().find(|e| e["@id"] == id).unwrap();
        assert_eq!(
            of("#job/1")["environment"],
            json!({"@id": "#job/1/environment/LANG"})
        );
        assert_eq!(of("#job/1/environment/LANG")["value"], "C");
        let less = Settings {
            profile: Some(Profile::Process),
            ..Settings::default()
        };
        let label = describe(&facts, &less);
        assert_eq!(label["@graph"][1].get("mainEntity"), None);
    }
}
