//! `esker quota`: prints limits of a server and how much of them is used.

use crate::args::{QuotaArgs, RowFormat};
use esker::rpc::Address;
use esker::rpc::http::{Endpoint, RequestBody};
use esker_model::Error;
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::output::{Cell, Rows};
use esker_terminal::units::size;
use serde_json::Value as Json;
use std::path::Path;

/// Maximum size of an answer, in bytes.
const ANSWER_MAX: usize = 64 << 20;

fn server_of(target: &str) -> anyhow::Result<Endpoint> {
    if Address::is_address(target) {
        return Ok(Endpoint::from(&Address::parse(target)?));
    }
    esker::http_endpoint_of(Path::new(target)).ok_or_else(|| {
        Error::Target(format!(
            "no server has `{target}` open, and quotas are those of a server: `esker serve` starts one"
        ))
        .into()
    })
}

/// A used or allowed number of a limit: with a unit in tables, a plain number otherwise.
fn cell(limit: &str, value: &Json, format: RowFormat) -> Cell {
    let Some(value) = value.as_u64() else {
        return Cell::Empty;
    };
    match (limit, format) {
        ("bytes" | "query_memory", RowFormat::Table) => Cell::Text(size(value)),
        ("query_time", RowFormat::Table) => Cell::Text(format!("{value} ms")),
        _ => Cell::Count(value),
    }
}

pub(crate) fn run(args: &QuotaArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let target = &args.target.target;
    let server = server_of(target)?;
    let path = if args.all {
        "/api/v1/quota?all=true"
    } else {
        "/api/v1/quota"
    };
    let interrupt = context.interrupt.clone();
    let stop = || interrupt.stopped().is_some();
    let mut answer = server.request("GET", path, &[], RequestBody::Nothing, &stop, None)?;
    let failed = |e| Error::io(format!("asking the server of `{target}`"), e);
    let text = answer.text(ANSWER_MAX).map_err(failed)?;
    let json: Json = serde_json::from_str(&text).map_err(|e| {
        Error::Target(format!(
            "the server of `{target}` did not answer in JSON: {e}"
        ))
    })?;
    if let Some(why) = json["error"].as_str() {
        return Err(Error::Target(why.to_owned()).into());
    }
    let format = args.format.format;
    let columns = ["owner", "limit", "used", "most", "set by"];
    let mut rows = Rows::new(&mut context.out, format, context.style, &columns);
    for row in json["rows"].as_array().into_iter().flatten() {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let limit = text("limit");
        let (used, most) = (
            cell(&limit, &row["used"], format),
            cell(&limit, &row["most"], format),
        );
        rows.row(vec![
            text("owner").into(),
            limit.into(),
            used,
            most,
            text("key").into(),
        ])?;
    }
    rows.finish()?;
    Ok(Outcome::Done)
}
