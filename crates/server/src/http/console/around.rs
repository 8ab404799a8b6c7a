//! The neighbourhood of a vertex, whatever the edges.

use super::super::Refused;
use super::super::api::{Answer, Asked, missing};
use super::told;
use esker_console::around::{DEPTH_MAX, DOTS_MAX, around};
use esker_model::Error;

/// Dots, if nothing else is asked for.
const DOTS: u64 = 5_000;

/// `GET /api/v1/view/neighbourhood`.
pub(in super::super) fn neighbourhood(asked: &Asked<'_>) -> Answer {
    let graph = asked.graph();
    let schema = graph.schema()?;
    let (name, vertex) = asked.vertex("id", &schema)?;
    let limit = asked.query.number("limit")?.unwrap_or(DOTS);
    let depth = asked.query.number("depth")?.unwrap_or(2);
    if limit == 0 || limit > DOTS_MAX as u64 {
        return Err(Refused::bad(format!(
            "parameter `limit`: expected 1 to {DOTS_MAX}; got {limit}"
        )));
    }
    if depth > u64::from(DEPTH_MAX) {
        return Err(Refused::bad(format!(
            "parameter `depth`: expected 0 to {DEPTH_MAX}; got {depth}"
        )));
    }
    let as_of = asked.query.as_of()?;
    let shape = (depth as u32, limit as usize);
    match around(&*graph, vertex.id, shape, as_of, asked.watch) {
        Ok(found) => told(&found),
        Err(Error::NoVertex { .. }) => Err(missing(&name, &asked.query)),
        Err(e) => Err(e.into()),
    }
}
