//! Distribution of a tag's values, and completion of text.

use super::super::ApiError;
use super::super::api::{Answer, ApiRequest};
use super::super::find::filter;
use super::super::query::unknown_value;
use super::{json_text, search};
use esker_console::complete::{KnownNames, Language, complete};
use esker_console::distribution::DistributionBuilder;
use esker_model::Cancel as _;
use esker_model::object::Find;
use serde_json::json;
use std::ops::ControlFlow;

/// Largest number of vertices that completion suggests.
const VERTICES: usize = 20;
/// Largest number of most frequent values in an answer.
const TOP_MAX: u64 = 1_000;

/// Answers the request `GET /api/v1/tags/values`.
pub(in super::super) fn values(request: &ApiRequest<'_>) -> Answer {
    let name = request.query.required("name")?;
    let limit = request
        .query
        .number("limit")?
        .unwrap_or(30)
        .clamp(1, TOP_MAX) as usize;
    let filter = filter(request.query.get("filter").unwrap_or_default())?;
    filter.check_kinds_of_objects(&*request.service.schema()?)?;
    let find = Find {
        filter,
        select: Some(vec![name.to_owned()]),
        limit: None,
        count: false,
        explain: false,
        principal: request.principal.clone(),
        share: None,
        after: None,
    };
    let (mut distribution, mut looked_at, mut stopped) =
        (DistributionBuilder::default(), 0_u64, false);
    request
        .service
        .graph_now()
        .find(&find, request.call_state, &mut |found| {
            looked_at += 1;
            if let Some(value) = found.attributes.get(name).or_else(|| found.tags.get(name)) {
                distribution.add(value);
            }
            stopped = request.call_state.cancelled();
            if stopped {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
    json_text(&json!({
        "name": name,
        "objects": looked_at,
        "spread": distribution.finish(limit),
        "stopped": stopped.then(|| json!({"reason": "time", "looked_at": looked_at})),
    }))
}

/// Answers the request `GET /api/v1/complete`.
pub(in super::super) fn completion(request: &ApiRequest<'_>) -> Answer {
    let language = match request.query.required("what")? {
        "travel" => Language::Travel,
        "filter" => Language::Filter,
        "sparql" => Language::Sparql,
        other => {
            return Err(ApiError::bad(unknown_value(
                "what",
                other,
                &["travel", "filter", "sparql"],
            )));
        }
    };
    let text = request.query.get("text").unwrap_or_default();
    let at = request
        .query
        .number("at")?
        .map_or(text.len(), |at| at as usize);
    let schema = request.service.schema()?;
    let principal = request.principal.clone();
    let mut tags = request.service.graph_now().tags(principal.as_ref())?;
    tags.sort_by_key(|tag| std::cmp::Reverse(tag.objects));
    let tags: Vec<(String, u64)> = tags
        .into_iter()
        .filter(|tag| !tag.predefined)
        .map(|tag| (tag.name, tag.objects))
        .collect();
    let known = KnownNames {
        schema: &schema,
        tags: &tags,
        vertices: &|text| search::vertices(request, text, VERTICES),
    };
    json_text(&complete(language, text, at, &known))
}
