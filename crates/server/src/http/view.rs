//! Lineage pictures and exports of lineage.

use super::ApiError;
use super::api::{Answer, ApiRequest, missing};
use super::query::unknown_value;
use esker::lineage::LineageOptions;
use esker_console::lineage::{OPEN_MAX, OpenSides, PictureRequest, count_hidden, picture};
use esker_console::ro_crate;
use esker_model::{Error, Schema, VertexName, VertexRef};
use std::collections::{BTreeMap, BTreeSet};

/// Answers the request `GET /api/v1/view/lineage`.
pub(super) fn lineage(request: &ApiRequest<'_>) -> Answer {
    let graph = request.graph();
    let schema = graph.schema()?;
    let (name, focus) = request.vertex("id", &schema)?;
    let levels = |name: &str| {
        let given = request.query.number(name)?.unwrap_or(1);
        Ok::<_, ApiError>(u32::try_from(given).unwrap_or(u32::MAX))
    };
    let ask = PictureRequest {
        focus: focus.id,
        as_of: request.query.as_of()?,
        up: levels("up")?,
        down: levels("down")?,
        open: open(request, &schema)?,
        split: list(request, "split")?
            .map(str::to_owned)
            .collect::<BTreeSet<_>>(),
    };
    let drawn = picture(&*graph, &ask, request.call_state).and_then(|mut picture| {
        if request.is_limited() && !request.service.settings.access.conceal_counts {
            let all = request.service.graph_as(None);
            picture.left_out = count_hidden(&*all, &*graph, &ask, request.call_state)?;
        }
        Ok(picture)
    });
    match drawn {
        Ok(picture) => serde_json::to_string(&picture)
            .map_err(|e| ApiError::Engine(Error::Invalid(e.to_string()))),
        Err(Error::NoVertex { .. }) => Err(missing(&name, &request.query)),
        Err(e) => Err(e.into()),
    }
}

/// Answers `GET /api/v1/export/lineage` with the metadata of an RO-Crate.
pub(super) fn export(request: &ApiRequest<'_>) -> Answer {
    let graph = request.graph();
    let schema = graph.schema()?;
    let (name, vertex) = request.vertex("id", &schema)?;
    if let Some(format) = request.query.get("format")
        && format != "ro-crate"
    {
        return Err(ApiError::bad(unknown_value(
            "format",
            format,
            &["ro-crate"],
        )));
    }
    let options = LineageOptions {
        as_of: request.query.as_of()?,
        bytes: Some(request.memory_max()),
        ..LineageOptions::default()
    };
    match esker::lineage::lineage(&*graph, vertex.id, &options, request.call_state) {
        Ok(found) => {
            let made = crate::objects::now_nanos().unwrap_or_default();
            let settings = ro_crate::Settings {
                made,
                ..ro_crate::Settings::default()
            };
            let described = ro_crate::describe(&ro_crate::Facts::new(&found, &schema), &settings);
            serde_json::to_string_pretty(&described)
                .map_err(|e| ApiError::Engine(Error::Invalid(e.to_string())))
        }
        Err(Error::NoVertex { .. }) => Err(missing(&name, &request.query)),
        Err(e) => Err(e.into()),
    }
}

/// The lines of a parameter with a list.
fn list<'a>(
    request: &'a ApiRequest<'_>,
    name: &str,
) -> Result<impl Iterator<Item = &'a str>, ApiError> {
    let lines = request.query.get(name).unwrap_or_default().lines();
    if lines.clone().count() > OPEN_MAX {
        return Err(ApiError::bad(format!(
            "parameter `{name}`: expected {OPEN_MAX} lines at most"
        )));
    }
    Ok(lines.filter(|line| !line.is_empty()))
}

/// The opened vertices: names, with the prefix `<` for the left side only or `>` for the right side only.
fn open(
    request: &ApiRequest<'_>,
    schema: &Schema,
) -> Result<BTreeMap<esker_model::VertexId, OpenSides>, ApiError> {
    let mut names = Vec::new();
    let mut sides = Vec::new();
    for line in list(request, "open")? {
        let (up, down, name) = match line.split_at_checked(1) {
            Some(("<", name)) => (true, false, name),
            Some((">", name)) => (false, true, name),
            _ => (true, true, line),
        };
        names.push(VertexName::parse(name)?);
        sides.push(OpenSides { up, down });
    }
    let found: Vec<VertexRef> = request.resolve(schema, &names)?;
    let mut out: BTreeMap<_, OpenSides> = BTreeMap::new();
    for (vertex, one) in found.iter().zip(sides) {
        let sides = out.entry(vertex.id).or_default();
        sides.up |= one.up;
        sides.down |= one.down;
    }
    Ok(out)
}
