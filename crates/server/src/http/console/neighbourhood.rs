//! Neighbourhood of a vertex over edges of all types.

use super::super::ApiError;
use super::super::api::{Answer, ApiRequest, missing};
use super::json_text;
use esker_console::neighbourhood::{DEPTH_MAX, DOTS_MAX, picture};
use esker_model::Error;

/// Default number of vertices in a picture.
const DOTS: u64 = 5_000;

/// Answers the request `GET /api/v1/view/neighbourhood`.
pub(in super::super) fn neighbourhood(request: &ApiRequest<'_>) -> Answer {
    let graph = request.graph();
    let schema = graph.schema()?;
    let (name, vertex) = request.vertex("id", &schema)?;
    let limit = request.query.number("limit")?.unwrap_or(DOTS);
    let depth = request.query.number("depth")?.unwrap_or(2);
    if limit == 0 || limit > DOTS_MAX as u64 {
        return Err(ApiError::bad(format!(
            "parameter `limit`: expected 1 to {DOTS_MAX}; got {limit}"
        )));
    }
    if depth > u64::from(DEPTH_MAX) {
        return Err(ApiError::bad(format!(
            "parameter `depth`: expected 0 to {DEPTH_MAX}; got {depth}"
        )));
    }
    let as_of = request.query.as_of()?;
    let shape = (depth as u32, limit as usize);
    match picture(&*graph, vertex.id, shape, as_of, request.call_state) {
        Ok(found) => json_text(&found),
        Err(Error::NoVertex { .. }) => Err(missing(&name, &request.query)),
        Err(e) => Err(e.into()),
    }
}
