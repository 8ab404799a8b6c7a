//! Batches that name vertices in text: a path means the file that it names now.

use crate::call::Call;
use crate::service::Service;
use esker_model::{Result, VertexName};
use esker_rpc::convert::batch_in;
use esker_rpc::proto;
use esker_rpc::proto::mutation::Op;
use std::sync::Arc;

/// The vertices that a mutation refers to.
fn vertices_of(mutation: &proto::Mutation) -> [Option<&proto::VertexRef>; 2] {
    match mutation.op.as_ref() {
        Some(Op::PutVertex(m)) => [m.vertex.as_ref(), None],
        Some(Op::EnsureVertex(m)) => [m.vertex.as_ref(), None],
        Some(Op::ChangeVertex(m)) => [m.vertex.as_ref(), None],
        Some(Op::SetAttributes(m)) => [m.vertex.as_ref(), None],
        Some(Op::DeleteVertex(m)) => [m.vertex.as_ref(), None],
        Some(Op::PutEdge(m)) => [m.source.as_ref(), m.destination.as_ref()],
        Some(Op::DeleteEdge(m)) => [m.source.as_ref(), m.destination.as_ref()],
        Some(Op::CreateObject(_) | Op::MoveObject(_)) | None => [None, None],
    }
}

/// The names of a batch's vertices.
fn names(request: &proto::ApplyRequest) -> impl Iterator<Item = &str> {
    let vertices = request.mutations.iter().flat_map(vertices_of).flatten();
    vertices.map(|v| v.name.as_str()).filter(|n| !n.is_empty())
}

/// Whether a batch names vertices by paths, which may be files.
pub(crate) fn names_paths(request: &proto::ApplyRequest) -> bool {
    names(request).any(|name| name.contains(":/"))
}

impl Service {
    /// Applies a batch with paths; must run on a thread that may block.
    pub(crate) fn apply_text(self: &Arc<Self>, request: proto::ApplyRequest, call: Call) {
        let how = crate::cluster::apply_options_in(&request);
        let seen = call.options.at_least.0;
        let read = || -> Result<_> {
            let schema = self.schema()?;
            // `batch_in` reports invalid names.
            let names = names(&request).filter_map(|name| VertexName::parse(name).ok());
            let names: Vec<VertexName> = names.collect();
            let (mut batch, sync) = batch_in(request, &schema)?;
            self.resolve_paths(&mut batch, &schema, &names, seen)?;
            Ok((batch, sync))
        };
        match read() {
            Ok((batch, sync)) => self.write(batch, sync, how, call),
            Err(e) => call.failed(&e),
        }
    }
}
