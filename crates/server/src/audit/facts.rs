//! Facts of a call for its record: whom and what it names, and the text of its query. Values of attributes, contents of files and handles
//! of open files are left out.

use super::event::CallRecord;
use crate::calls::{CALLS, number_named};
use esker_audit::{Behalf, Entry, QueryText};
use esker_model::graph_read::{GraphCall, GraphCallAs};
use esker_model::object::Principal;
use esker_model::wire::decode;
use esker_model::{Schema, VertexTypeId};
use esker_rpc::proto::file_change::Change;
use esker_rpc::proto::mutation::Op;
use esker_rpc::proto::object_key::Key;
use esker_rpc::proto::request::Call;
use esker_rpc::proto::{self, schema_change, share_request};
use prost::Message as _;
use std::fmt::Write as _;

const AS: usize = number_named("as");

/// Makes the record of a call.
pub(super) fn entry_of(call: CallRecord, schema: Option<&Schema>) -> Entry {
    let name = CALLS.get(call.number).map_or("unknown", |call| call.name);
    let mut entry = Entry {
        time: call.time,
        request: call.request,
        rows: Some(call.rows.into_inner()).filter(|rows| *rows > 0),
        micros: Some(call.micros),
        outcome: call.outcome,
        ..Entry::new("call", name, call.subject)
    };
    let request = proto::Request::decode(&*call.message.bytes).ok();
    let facts = Facts { schema };
    if let Some(request) = request.and_then(|request| request.call) {
        facts.add(&mut entry, request, call.number == AS);
    }
    if let Some(items) = call.message.items {
        entry.targets_total = entry.targets_total.max(items);
    }
    entry
}

/// Names of what requests name.
struct Facts<'a> {
    schema: Option<&'a Schema>,
}

fn id(high: u64, low: u64) -> String {
    format!("{high:016x}{low:016x}")
}

fn path(path: &[u8]) -> String {
    // The handle of an open file gives access to any client that knows it.
    if path.first() == Some(&b'/') {
        String::from_utf8_lossy(path).into_owned()
    } else {
        "(an open file)".to_owned()
    }
}

fn identity(identity: &proto::Identity) -> String {
    format!(
        "object {} (app {}, owner {}, step {})",
        identity.name, identity.app, identity.owner, identity.step
    )
}

fn behalf(principal: Option<proto::Principal>) -> Option<Behalf> {
    principal.map(|principal| Behalf {
        uid: principal.uid,
        gids: principal.gids,
    })
}

fn behalf_of(principal: Principal) -> Behalf {
    Behalf {
        uid: principal.uid,
        gids: principal.gids,
    }
}

fn vertex(reference: Option<&proto::VertexRef>) -> String {
    match reference {
        Some(vertex) if !vertex.name.is_empty() => vertex.name.clone(),
        Some(vertex) => id(vertex.high, vertex.low),
        None => String::new(),
    }
}

fn edge_key(key: &proto::EdgeKey) -> String {
    format!(
        "{} -> {}",
        id(key.source_high, key.source_low),
        id(key.destination_high, key.destination_low)
    )
}

fn edge(source: Option<&proto::VertexRef>, destination: Option<&proto::VertexRef>) -> String {
    format!("{} -> {}", vertex(source), vertex(destination))
}

impl Facts<'_> {
    fn add(&self, entry: &mut Entry, call: Call, on_behalf: bool) {
        match call {
            Call::As(call) => {
                entry.on_behalf = behalf(call.principal);
                if let Some(inner) = call.request.and_then(|request| request.call)
                    && !matches!(inner, Call::As(_))
                {
                    let number = crate::calls::number_of_message(&inner);
                    let name = CALLS.get(number).map_or("unknown", |call| call.name);
                    name.clone_into(&mut entry.call);
                    self.add(entry, inner, false);
                }
            }
            Call::GraphAs(bytes) => {
                if let Ok(read) = decode::<GraphCallAs>(&bytes) {
                    entry.on_behalf = Some(behalf_of(read.principal));
                    graph_read(entry, &read.call, on_behalf);
                }
            }
            Call::Graph(bytes) => {
                if let Ok(read) = decode::<GraphCall>(&bytes) {
                    graph_read(entry, &read, false);
                }
            }
            Call::Apply(call) => call.mutations.iter().for_each(|m| self.mutation(entry, m)),
            Call::Define(call) => define(entry, &call),
            Call::Share(call) => sharing(entry, call),
            call => read_of_graph(entry, call),
        }
    }

    /// Name of a new vertex.
    fn named(&self, reference: Option<&proto::VertexRef>, key: &str) -> String {
        let Some(vertex) = reference else {
            return key.to_owned();
        };
        if !vertex.name.is_empty() {
            return vertex.name.clone();
        }
        let number = u16::try_from(vertex.r#type).ok().map(VertexTypeId);
        let kind = self
            .schema
            .zip(number)
            .and_then(|(schema, number)| schema.vertex_type(number));
        match kind {
            Some(kind) => format!("{}:{key}", kind.name),
            None => format!("{key} ({})", id(vertex.high, vertex.low)),
        }
    }

    fn mutation(&self, entry: &mut Entry, mutation: &proto::Mutation) {
        match &mutation.op {
            Some(Op::PutVertex(op)) => entry.target(self.named(op.vertex.as_ref(), &op.key)),
            Some(Op::EnsureVertex(op)) => entry.target(self.named(op.vertex.as_ref(), &op.key)),
            Some(Op::SetAttributes(op)) => entry.target(vertex(op.vertex.as_ref())),
            Some(Op::ChangeVertex(op)) => entry.target(vertex(op.vertex.as_ref())),
            Some(Op::DeleteVertex(op)) => entry.target(vertex(op.vertex.as_ref())),
            Some(Op::PutEdge(op)) => {
                entry.target(edge(op.source.as_ref(), op.destination.as_ref()));
            }
            Some(Op::DeleteEdge(op)) => {
                entry.target(edge(op.source.as_ref(), op.destination.as_ref()));
            }
            Some(Op::CreateObject(op)) => {
                entry.target(op.identity.as_ref().map(identity).unwrap_or_default());
            }
            Some(Op::MoveObject(op)) => entry.target(format!("object:{}", op.object)),
            None => {}
        }
    }
}

/// Adds who shares, and the vertex and the grantees of a share, or the number of one that ends.
fn sharing(entry: &mut Entry, call: proto::ShareRequest) {
    entry.on_behalf = behalf(call.principal);
    match call.call {
        Some(share_request::Call::Share(shared)) => {
            let terms = shared.terms.unwrap_or_default();
            let root: String = terms.root.iter().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            });
            entry.target(root);
            for user in terms.users {
                entry.target(format!("to user {user}"));
            }
            for group in terms.groups {
                entry.target(format!("to group {group}"));
            }
        }
        Some(share_request::Call::Revoke(number)) => entry.target(format!("share {number:016x}")),
        Some(share_request::Call::List(_)) | None => {}
    }
}

fn define(entry: &mut Entry, call: &proto::DefineRequest) {
    for change in &call.changes {
        match &change.change {
            Some(schema_change::Change::VertexType(kind)) => entry.target(&kind.name),
            Some(schema_change::Change::EdgeType(kind)) => entry.target(&kind.name),
            Some(schema_change::Change::Attribute(attribute)) => {
                entry.target(&attribute.vertex_type);
            }
            None => {}
        }
    }
}

/// Adds the facts of a read by a client of the same release. A read on behalf of a user is recorded by its own name.
fn graph_read(entry: &mut Entry, read: &GraphCall, rename: bool) {
    if rename && let Some(name) = wire_name(read) {
        name.clone_into(&mut entry.call);
    }
    for id in read.named_vertices() {
        entry.target(id.to_string());
    }
    for key in read.named_edges() {
        entry.target(format!("{} -> {}", key.source, key.destination));
    }
    if let GraphCall::Travel(traversal, _) = read {
        entry.query = Some(QueryText::new(&traversal.to_string()));
    }
}

fn wire_name(read: &GraphCall) -> Option<&'static str> {
    let code = *esker_model::wire::encode(read).first()?;
    GraphCall::NAMES.get(usize::from(code)).copied()
}

fn pairs(entry: &mut Entry, ids: &[u64]) {
    for pair in ids.chunks_exact(2) {
        if let [high, low] = pair {
            entry.target(id(*high, *low));
        }
    }
}

fn read_of_graph(entry: &mut Entry, call: Call) {
    match call {
        Call::ReadVertices(call) => {
            pairs(entry, &call.ids);
            call.names.iter().for_each(|name| entry.target(name));
        }
        Call::ReadEdges(call) => call.keys.iter().for_each(|key| entry.target(edge_key(key))),
        Call::ScanEdges(call) => {
            pairs(entry, &call.frontier);
            call.names.iter().for_each(|name| entry.target(name));
        }
        Call::ScanVertices(call) if !call.type_name.is_empty() => entry.target(&call.type_name),
        Call::VertexHistory(call) => entry.target(vertex(call.vertex.as_ref())),
        Call::EdgeHistory(call) => {
            entry.target(call.key.as_ref().map(edge_key).unwrap_or_default());
        }
        Call::Degrees(call) => call
            .of
            .iter()
            .for_each(|of| entry.target(id(of.high, of.low))),
        Call::Travel(call) => entry.query = Some(QueryText::new(&call.chain)),
        Call::Placement(call) => entry.target(vertex(call.vertex.as_ref())),
        Call::Backup(call) => entry.target(&call.directory),
        call => objects_and_files(entry, call),
    }
}

fn objects_and_files(entry: &mut Entry, call: Call) {
    match call {
        Call::ReadObjects(call) => {
            entry.on_behalf = behalf(call.principal);
            for key in &call.keys {
                match &key.key {
                    Some(Key::Id(id)) => entry.target(format!("object:{id}")),
                    Some(Key::Identity(key)) => entry.target(identity(key)),
                    None => {}
                }
            }
        }
        Call::Find(call) => {
            entry.on_behalf = behalf(call.principal);
            entry.query = Some(QueryText::new(&call.filter));
        }
        Call::Tags(call) => entry.on_behalf = behalf(call.principal),
        Call::TagWhere(call) => {
            entry.on_behalf = behalf(call.principal);
            entry.query = Some(QueryText::new(&call.filter));
            call.remove
                .iter()
                .for_each(|name| entry.target(format!("tag {name}")));
        }
        Call::SetIndex(call) => entry.target(format!("index {}", call.name)),
        Call::StatFile(call) => one_path(entry, call.principal, &call.path),
        Call::ListFiles(call) => one_path(entry, call.principal, &call.path),
        Call::WalkFiles(call) => one_path(entry, call.principal, &call.path),
        Call::Usage(call) => one_path(entry, call.principal, &call.path),
        Call::Usages(call) => one_path(entry, call.principal, &call.path),
        Call::LookFile(call) => one_path(entry, call.principal, &call.path),
        Call::Partitions(call) => one_path(entry, None, &call.path),
        Call::FileIds(call) => {
            entry.on_behalf = behalf(call.principal);
            call.paths.iter().for_each(|p| entry.target(path(p)));
        }
        Call::WatchFiles(call) => call.paths.iter().for_each(|p| entry.target(path(p))),
        Call::ChangeFiles(call) => {
            entry.on_behalf = behalf(call.principal);
            call.changes
                .iter()
                .for_each(|change| file_change(entry, change));
        }
        _ => {}
    }
}

fn one_path(entry: &mut Entry, principal: Option<proto::Principal>, of: &[u8]) {
    entry.on_behalf = behalf(principal);
    entry.target(path(of));
}

fn file_change(entry: &mut Entry, change: &proto::FileChange) {
    let both = |from: &[u8], to: &[u8]| format!("{} -> {}", path(from), path(to));
    let name = match &change.change {
        Some(Change::Make(file)) => path(&file.path),
        Some(Change::Unlink(file) | Change::Rmdir(file)) => path(file),
        Some(Change::Rename(files)) => both(&files.from, &files.to),
        Some(Change::Exchange(files)) => both(&files.from, &files.to),
        Some(Change::Link(files)) => both(&files.from, &files.to),
        Some(Change::Set(file)) => path(&file.path),
        Some(Change::Xattr(file)) => path(&file.path),
        Some(Change::Merge(files)) => path(&files.path),
        Some(Change::Write(file)) => path(&file.path),
        None => return,
    };
    entry.target(name);
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_audit::Subject;
    use std::sync::Arc;

    #[test]
    fn a_share_names_its_vertex_and_its_grantees() {
        let subject = Subject {
            who: "user 1001".into(),
            name: None,
            uid: Some(1001),
            gids: Vec::new(),
            proof: "key",
            role: "read",
            peer: "unix".into(),
        };
        let targets = |call| {
            let mut entry = Entry::new("call", "share", Arc::new(subject.clone()));
            let principal = Some(proto::Principal {
                uid: 1001,
                gids: vec![7],
            });
            let call = Some(call);
            let request = proto::ShareRequest { principal, call };
            Facts { schema: None }.add(&mut entry, Call::Share(request), false);
            let on_behalf = entry.on_behalf.map(|user| user.uid);
            assert_eq!(on_behalf, Some(1001));
            entry.targets
        };
        let terms = proto::SharingTerms {
            root: vec![0xab; 16],
            users: vec![1002],
            groups: vec![200],
            ..Default::default()
        };
        let shared = proto::LineageToShare {
            terms: Some(terms),
            ..Default::default()
        };
        assert_eq!(
            targets(share_request::Call::Share(shared)),
            [
                "ab".repeat(16),
                "to user 1002".into(),
                "to group 200".into()
            ]
        );
        assert_eq!(
            targets(share_request::Call::Revoke(0x1f)),
            ["share 000000000000001f"]
        );
    }
}
