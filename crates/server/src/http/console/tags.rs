//! How the values of a tag spread, and what may be typed next.

use super::super::Refused;
use super::super::api::{Answer, Asked};
use super::super::find::filter;
use super::{look, told};
use esker_console::complete::{Known, Language, complete};
use esker_console::spread::Spread;
use esker_model::Cancel as _;
use esker_model::object::Find;
use serde_json::json;
use std::ops::ControlFlow;

/// Vertices that completion names.
const VERTICES: usize = 20;
/// Most frequent values that are told.
const TOP_MAX: u64 = 1_000;

/// `GET /api/v1/tags/values`.
pub(in super::super) fn values(asked: &Asked<'_>) -> Answer {
    let name = asked.query.required("name")?;
    let limit = asked.query.number("limit")?.unwrap_or(30).clamp(1, TOP_MAX) as usize;
    let find = Find {
        filter: filter(asked.query.get("filter").unwrap_or_default())?,
        select: Some(vec![name.to_owned()]),
        limit: None,
        count: false,
        explain: false,
        asker: asked.asker.clone(),
        share: None,
        after: None,
    };
    let (mut spread, mut looked_at, mut stopped) = (Spread::default(), 0_u64, false);
    asked
        .service
        .graph_now()
        .find(&find, asked.watch, &mut |found| {
            looked_at += 1;
            if let Some(value) = found.attributes.get(name).or_else(|| found.tags.get(name)) {
                spread.add(value);
            }
            stopped = asked.watch.cancelled();
            if stopped {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
    told(&json!({
        "name": name,
        "objects": looked_at,
        "spread": spread.finish(limit),
        "stopped": stopped.then(|| json!({"reason": "time", "looked_at": looked_at})),
    }))
}

/// `GET /api/v1/complete`.
pub(in super::super) fn completion(asked: &Asked<'_>) -> Answer {
    let language = match asked.query.required("what")? {
        "travel" => Language::Travel,
        "filter" => Language::Filter,
        "sparql" => Language::Sparql,
        other => {
            return Err(Refused::bad(format!(
                "parameter `what`: expected travel, filter or sparql; got `{other}`"
            )));
        }
    };
    let text = asked.query.get("text").unwrap_or_default();
    let at = asked
        .query
        .number("at")?
        .map_or(text.len(), |at| at as usize);
    let schema = asked.service.schema()?;
    let asker = asked.asker.clone();
    let mut tags = asked.service.graph_now().tags(asker.as_ref())?;
    tags.sort_by_key(|tag| std::cmp::Reverse(tag.objects));
    let tags: Vec<(String, u64)> = tags
        .into_iter()
        .filter(|tag| !tag.predefined)
        .map(|tag| (tag.name, tag.objects))
        .collect();
    let known = Known {
        schema: &schema,
        tags: &tags,
        vertices: &|text| look::vertices(asked, text, VERTICES),
    };
    told(&complete(language, text, at, &known))
}
