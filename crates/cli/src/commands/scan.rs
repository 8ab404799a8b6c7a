//! `esker scan`, the former spelling of `esker edges` and of `esker import tree`.

use super::{edges, namespace};
use crate::args::{ImportTreeArgs, ScanArgs};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};

/// Runs the command that replaces this one, and says which.
pub(crate) fn run(args: ScanArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let ScanArgs { edges, tree } = args;
    if !edges.vertex.starts_with('/') {
        context.note(
            "the edges of a vertex are printed by `esker edges`; `esker scan` will be removed",
        );
        return edges::run(&edges, context);
    }
    for (is_set, option) in [
        (!edges.edge_types.is_empty(), "an edge type"),
        (edges.as_of.is_some(), "--as-of"),
        (edges.versions.is_some(), "--versions"),
        (edges.limit.is_some(), "--limit"),
        (edges.inverse, "--inverse"),
        (edges.principal.principal.is_some(), "--as"),
    ] {
        if is_set {
            return Err(usage(format!(
                "{option} is for the edges of a vertex, not for a directory tree"
            )));
        }
    }
    context
        .note("a directory tree is imported by `esker import tree`; `esker scan` will be removed");
    let args = ImportTreeArgs {
        target: edges.target,
        directory: edges.vertex.into(),
        tree,
        format: edges.format,
    };
    namespace::import_tree(&args, context)
}
