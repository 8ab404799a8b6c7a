//! `EXISTS` for one row: its pattern is planned and run with the values of the row.

use super::{Context, Row};
use crate::algebra::Node;
use crate::id::UNBOUND;
use crate::plan::{Required, plan};

/// Returns whether the pattern has a solution for a row. An error of the engine is kept in the context.
pub(super) fn exists(ctx: &Context<'_>, node: &Node, row: Row<'_>) -> Option<bool> {
    let bound = node.bind(&|v| match row.get(v) {
        UNBOUND => None,
        id => Some(id),
    });
    let required = Required {
        distinct: true,
        limit: Some(1),
        ..Required::default()
    };
    let found = plan(ctx, bound, &required)
        .and_then(|plan| ctx.with_rows_left(usize::MAX, || plan.run(ctx)));
    match found {
        Ok(table) => Some(!table.is_empty()),
        Err(e) => {
            ctx.failed.borrow_mut().get_or_insert(e);
            None
        }
    }
}
