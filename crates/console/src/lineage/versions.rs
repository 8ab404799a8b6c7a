//! Times of changes in a picture.

use super::selection::Roles;
use super::{PictureRequest, Tick};
use esker_model::{
    EdgeSelect, EdgeTypeId, GraphRead, Result, Version, VersionRange, Versions, VertexChange,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Maximum number of marks: the newest are kept.
const TICKS_MAX: usize = 200;
/// Maximum number of edge versions examined.
const EDGES_MAX: usize = 5_000;

/// Returns the times at which the focus was changed, read or written, and those of the shown lines, oldest first; and whether there
/// were more.
pub(super) fn ticks(
    graph: &dyn GraphRead,
    roles: Roles,
    request: &PictureRequest,
    lines: impl Iterator<Item = (EdgeTypeId, Version)>,
) -> Result<(Vec<Tick>, bool)> {
    let all = VersionRange {
        from: Version::ZERO,
        until: Version::MAX,
    };
    let mut ticks: BTreeMap<Version, &'static str> = BTreeMap::new();
    for event in graph.vertex_history(request.focus, all)? {
        let what = match event.change {
            VertexChange::Deleted => "deleted",
            VertexChange::Set(..) | VertexChange::Removed(_) => "tagged",
            VertexChange::Put(_) => "changed",
        };
        ticks.insert(event.version, what);
    }
    let schema = graph.schema()?;
    let kinds = [
        (roles.read, "read"),
        (roles.write, "written"),
        (roles.exe, "executed"),
    ];
    for (edge_type, version) in lines {
        let kind = kinds
            .iter()
            .find(|(of, _)| [*of, schema.inverse(*of)].contains(&edge_type));
        if let Some((_, what)) = kind {
            ticks.entry(version).or_insert(what);
        }
    }
    let mut cut = false;
    for (edge_type, what) in kinds {
        let select = EdgeSelect {
            types: vec![edge_type, schema.inverse(edge_type)],
            versions: Versions::Range(all),
            properties: false,
            after: None,
        };
        let mut looked_at = 0;
        graph.scan_edges(&[request.focus], &select, &mut |_, edge| {
            looked_at += 1;
            if looked_at > EDGES_MAX {
                cut = true;
                return ControlFlow::Break(());
            }
            // A write is more informative than the attribute change of its commit.
            ticks.insert(edge.version, if edge.deleted { "taken back" } else { what });
            ControlFlow::Continue(())
        })?;
    }
    let skip = ticks.len().saturating_sub(TICKS_MAX);
    let ticks = ticks.into_iter().skip(skip).map(|(version, what)| Tick {
        version: version.to_string(),
        what,
    });
    Ok((ticks.collect(), cut || skip > 0))
}
