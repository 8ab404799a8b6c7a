//! Pictures: what a page draws as it comes.

use super::Refused;
use super::api::{Answer, Asked, missing};
use esker::lineage::LineageOptions;
use esker_console::lineage::{Ask, OPEN_MAX, Sides, picture};
use esker_console::ro_crate;
use esker_model::{Error, Schema, VertexName, VertexRef};
use std::collections::{BTreeMap, BTreeSet};

/// `GET /api/v1/view/lineage`.
pub(super) fn lineage(asked: &Asked<'_>) -> Answer {
    let graph = asked.graph();
    let schema = graph.schema()?;
    let (name, focus) = asked.vertex("id", &schema)?;
    let levels = |name: &str| {
        let given = asked.query.number(name)?.unwrap_or(1);
        Ok::<_, Refused>(u32::try_from(given).unwrap_or(u32::MAX))
    };
    let ask = Ask {
        focus: focus.id,
        as_of: asked.query.as_of()?,
        up: levels("up")?,
        down: levels("down")?,
        open: open(asked, &schema)?,
        split: list(asked, "split")?
            .map(str::to_owned)
            .collect::<BTreeSet<_>>(),
    };
    match picture(&*graph, &ask, asked.watch) {
        Ok(picture) => serde_json::to_string(&picture)
            .map_err(|e| Refused::Failed(Error::Invalid(e.to_string()))),
        Err(Error::NoVertex { .. }) => Err(missing(&name, &asked.query)),
        Err(e) => Err(e.into()),
    }
}

/// `GET /api/v1/export/lineage`: as an RO-Crate's metadata.
pub(super) fn export(asked: &Asked<'_>) -> Answer {
    let graph = asked.graph();
    let schema = graph.schema()?;
    let (name, vertex) = asked.vertex("id", &schema)?;
    if let Some(format) = asked.query.get("format")
        && format != "ro-crate"
    {
        return Err(Refused::bad(format!(
            "parameter `format`: expected ro-crate; got `{format}`"
        )));
    }
    let options = LineageOptions {
        as_of: asked.query.as_of()?,
        bytes: Some(asked.service.settings.limits.memory_bytes as u64),
        ..LineageOptions::default()
    };
    match esker::lineage::lineage(&*graph, vertex.id, &options, asked.watch) {
        Ok(found) => {
            let made = crate::objects::now_nanos().unwrap_or_default();
            let settings = ro_crate::Settings {
                made,
                ..ro_crate::Settings::default()
            };
            let described = ro_crate::describe(&ro_crate::Facts::new(&found, &schema), &settings);
            serde_json::to_string_pretty(&described)
                .map_err(|e| Refused::Failed(Error::Invalid(e.to_string())))
        }
        Err(Error::NoVertex { .. }) => Err(missing(&name, &asked.query)),
        Err(e) => Err(e.into()),
    }
}

/// The parts of a list, one a line.
fn list<'a>(asked: &'a Asked<'_>, name: &str) -> Result<impl Iterator<Item = &'a str>, Refused> {
    let lines = asked.query.get(name).unwrap_or_default().lines();
    if lines.clone().count() > OPEN_MAX {
        return Err(Refused::bad(format!(
            "parameter `{name}`: expected {OPEN_MAX} lines at most"
        )));
    }
    Ok(lines.filter(|line| !line.is_empty()))
}

/// What is opened: names, each behind `<` for its left side only or `>` for its right one.
fn open(
    asked: &Asked<'_>,
    schema: &Schema,
) -> Result<BTreeMap<esker_model::VertexId, Sides>, Refused> {
    let mut names = Vec::new();
    let mut sides = Vec::new();
    for line in list(asked, "open")? {
        let (up, down, name) = match line.split_at_checked(1) {
            Some(("<", name)) => (true, false, name),
            Some((">", name)) => (false, true, name),
            _ => (true, true, line),
        };
        names.push(VertexName::parse(name)?);
        sides.push(Sides { up, down });
    }
    let found: Vec<VertexRef> = asked.resolve(schema, &names)?;
    let mut out: BTreeMap<_, Sides> = BTreeMap::new();
    for (vertex, one) in found.iter().zip(sides) {
        let sides = out.entry(vertex.id).or_default();
        sides.up |= one.up;
        sides.down |= one.down;
    }
    Ok(out)
}
