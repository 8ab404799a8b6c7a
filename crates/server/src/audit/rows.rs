//! Number of rows in a piece of an answer.

use esker_rpc::proto::reply::Reply;

/// Counts the rows of a reply; 0 for replies that are no lists. Rows of [`Reply::Graph`] are counted where they are encoded.
pub(super) fn rows_of(reply: &Reply) -> u64 {
    let rows = match reply {
        Reply::ReadVertices(r) => r.items.iter().filter(|i| i.vertex.is_some()).count(),
        Reply::ReadEdges(r) => r.items.iter().filter(|i| i.edge.is_some()).count(),
        Reply::ScanEdges(r) => r.edges.len(),
        Reply::ScanVertices(r) => r.vertices.len(),
        Reply::VertexHistory(r) => r.events.len(),
        Reply::EdgeHistory(r) => r.events.len(),
        Reply::Degrees(r) => r.degrees.len(),
        Reply::TopDegrees(r) => r.top.len(),
        Reply::Diff(r) => r.differences.len(),
        Reply::Travel(r) => r.sets.iter().map(|set| set.vertices.len() / 2).sum(),
        Reply::ReadObjects(r) => r.items.iter().filter(|i| i.object.is_some()).count(),
        Reply::Find(r) => r.objects.len(),
        Reply::Tags(r) => r.tags.len(),
        Reply::StatFile(r) => usize::from(r.inode.is_some()),
        Reply::ListFiles(r) => r.entries.len(),
        Reply::WalkFiles(r) => r.files.len(),
        Reply::Usages(r) => r.directories.len(),
        Reply::Space(r) => r.rows.len(),
        Reply::Partitions(r) => r.partitions.len(),
        Reply::FileIds(r) => r.items.len(),
        _ => 0,
    };
    rows as u64
}
