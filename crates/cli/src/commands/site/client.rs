//! `esker site status`, `warm`, `invalidate`, `explain`: requests to a running tier.

use crate::args::{RemoteArgs, RowFormat, SitePathArgs, SiteStatusArgs, SiteWarmArgs};
use crate::commands::note_if_stopped;
use crate::commands::remote;
use esker::rpc::http::RequestBody;
use esker_model::{Cancel as _, Error};
use esker_origin::origin_url::percent_encode;
use esker_site::{TierAddress, TreeEvent};
use esker_site_cache::queue::Class;
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, Rows};
use esker_terminal::progress::Progress;
use esker_terminal::units;
use serde_json::Value as Json;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Timeout of an answer of a tier.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of an answer, in bytes.
const ANSWER_MAX: usize = 64 << 20;
/// Maximum number of tiers in the status.
const TIERS_MAX: usize = 16;

/// Sends a request to a tier over HTTP.
fn request(method: &str, via: &str, rest: &str, context: &Context) -> anyhow::Result<Json> {
    let server = TierAddress::parse(via).map_err(usage)?.endpoint(TIMEOUT);
    let interrupt = context.interrupt.clone();
    let stop = move || interrupt.cancelled();
    let until = Instant::now() + TIMEOUT;
    let answer = server.request(method, rest, &[], RequestBody::Nothing, &stop, Some(until));
    let mut answer = answer.map_err(|e| {
        Error::Unavailable(format!(
            "the tier at {via}: {e}; is it running (`esker site serve`), and is its address right (--via)?"
        ))
    })?;
    let text = answer
        .text(ANSWER_MAX)
        .map_err(|e| Error::io(format!("reading from {via}"), e))?;
    let body: Json = serde_json::from_str(&text).map_err(|_| {
        Error::Unavailable(format!(
            "{via} answers {} without JSON: it is not a tier of a site cache",
            answer.status
        ))
    })?;
    if answer.status >= 400 {
        let why = body.get("error").and_then(Json::as_str).unwrap_or(&text);
        return Err(match answer.status {
            400..500 => Error::Invalid(why.to_owned()),
            _ => Error::Unavailable(why.to_owned()),
        }
        .into());
    }
    Ok(body)
}

fn cell(value: Option<&Json>) -> Cell {
    match value {
        Some(Json::String(text)) => text.clone().into(),
        Some(Json::Bool(is)) => Cell::Bool(*is),
        Some(Json::Number(number)) => match number.as_u64() {
            Some(number) => Cell::Count(number),
            None => number.to_string().into(),
        },
        None | Some(Json::Null) => Cell::Empty,
        Some(other) => other.to_string().into(),
    }
}

fn percent(value: Option<&Json>) -> Cell {
    let ratio = value.and_then(Json::as_f64);
    ratio.map_or(Cell::Empty, |r| format!("{:.1} %", r * 100.0).into())
}

/// Returns the status of a tier and of all its upstream tiers, the lowest first; tiers that do not answer are reported.
fn tiers(via: &str, context: &Context) -> anyhow::Result<Vec<Json>> {
    let mut all = vec![request("GET", via, "/v1/status", context)?];
    let mut seen = vec![via.trim_end_matches('/').to_owned()];
    let mut at = 0;
    while let Some(tier) = all.get(at)
        && all.len() < TIERS_MAX
    {
        at += 1;
        let parents: Vec<String> = tier["parents"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|p| p["url"].as_str().map(str::to_owned))
            .collect();
        for url in parents {
            if seen.contains(&url) {
                continue;
            }
            seen.push(url.clone());
            match request("GET", &url, "/v1/status", context) {
                Ok(status) => all.push(status),
                Err(error) => context.complain(&error.to_string()),
            }
        }
    }
    Ok(all)
}

pub(super) fn status(args: &SiteStatusArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let all = tiers(&args.via.via, context)?;
    let format = args.format.format;
    if matches!(format, RowFormat::Json | RowFormat::Ndjson) {
        for tier in &all {
            writeln!(context.out, "{tier}")?;
        }
        return Ok(Outcome::Done);
    }
    let columns = [
        "tier",
        "url",
        "asked",
        "hits",
        "fetched",
        "prefetched",
        "right",
        "kept",
        "paths",
        "waiting",
        "running",
        "links",
    ];
    let mut rows = Rows::new(&mut context.out, format, context.style, &columns);
    for tier in &all {
        let bytes = tier["cache"]["bytes"].as_u64().unwrap_or(0);
        rows.row(vec![
            cell(tier.get("name")),
            cell(tier.get("url")),
            cell(tier.get("asked")),
            percent(tier.get("hit_rate")),
            cell(tier.get("fetched")),
            cell(tier.get("prefetched")),
            percent(tier.get("prefetches_right")),
            units::size(bytes).into(),
            cell(tier["cache"].get("paths")),
            cell(tier.get("waiting")),
            cell(tier.get("running")),
            cell(tier.get("links")),
        ])?;
    }
    rows.finish()?;
    let origins: Vec<&Json> = all
        .iter()
        .filter_map(|t| t["origins"].as_array())
        .flatten()
        .collect();
    if !origins.is_empty() {
        writeln!(context.out)?;
        let columns = [
            "origin",
            "connections",
            "in flight",
            "window",
            "asked",
            "again",
            "failed",
            "fastest ms",
            "about",
            "last error",
        ];
        let mut rows = Rows::new(&mut context.out, format, context.style, &columns);
        for origin in origins {
            let fastest = origin["fastest_ms"].as_f64();
            rows.row(vec![
                cell(origin.get("origin")),
                cell(origin.get("connections")),
                cell(origin.get("in_flight")),
                cell(origin.get("window")),
                cell(origin.get("asked")),
                cell(origin.get("again")),
                cell(origin.get("failed")),
                fastest.map_or(Cell::Empty, |ms| format!("{ms:.1}").into()),
                cell(origin.get("about")),
                cell(origin.get("last_error")),
            ])?;
        }
        rows.finish()?;
    }
    Ok(Outcome::Done)
}

fn query(url: &str) -> anyhow::Result<String> {
    let (origin, path) = remote::parse_url(url)?;
    Ok(format!(
        "origin={}&path={}",
        percent_encode(origin.to_string().as_bytes(), b""),
        percent_encode(&path, b"/")
    ))
}

pub(super) fn invalidate(args: &SitePathArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let rest = format!("/v1/invalidate?{}", query(&args.url)?);
    let body = request("POST", &args.via.via, &rest, context)?;
    match args.format.format {
        RowFormat::Json | RowFormat::Ndjson => writeln!(context.out, "{body}")?,
        _ => context.note(&format!(
            "{}: forgotten at {}, and above and below it",
            args.url, args.via.via
        )),
    }
    Ok(Outcome::Done)
}

pub(super) fn explain(args: &SitePathArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let rest = format!("/v1/explain?{}", query(&args.url)?);
    let body = request("GET", &args.via.via, &rest, context)?;
    if matches!(args.format.format, RowFormat::Json | RowFormat::Ndjson) {
        writeln!(context.out, "{body}")?;
        return Ok(Outcome::Done);
    }
    let out = &mut context.out;
    writeln!(out, "{}", args.url)?;
    let kept = &body["kept"];
    let seconds = |v: &Json| v.as_f64().map_or_else(String::new, |s| format!("{s:.1} s"));
    if kept.is_null() {
        writeln!(out, "  kept        nothing under this path")?;
    } else {
        let believed = match (kept["subscribed"].as_bool(), kept["believed_for"].as_f64()) {
            (Some(true), _) => "until the origin reports a change".to_owned(),
            (_, Some(s)) => format!("for {s:.1} s"),
            _ => String::new(),
        };
        writeln!(
            out,
            "  kept        {}, {} old, believed {believed}; {} bytes",
            kept["kind"].as_str().unwrap_or("?"),
            seconds(&kept["age"]),
            kept["bytes"]
        )?;
        if kept["listing"].is_object() {
            let listing = &kept["listing"];
            let whole = match listing["complete"].as_bool() {
                Some(true) => "all there are",
                _ => "not all there are",
            };
            writeln!(
                out,
                "  listing     {} names, {whole}, {} old",
                listing["names"],
                seconds(&listing["age"])
            )?;
        }
        if kept["prefetched_unused"].as_bool() == Some(true) {
            writeln!(out, "  prefetched  and not used yet")?;
        }
    }
    for (what, by, pending) in [
        ("stat", "stat_answered_by", "stat_pending"),
        ("list", "list_answered_by", "list_pending"),
    ] {
        let how = match (body[by].as_str(), body[pending].as_object()) {
            (Some(path), _) if Some(path) == body["path"].as_str() => {
                "answered at once by itself".to_owned()
            }
            (Some(path), _) => format!("answered at once by {path}"),
            (None, Some(pending)) => format!(
                "asked for now ({}, {})",
                pending["urgency"].as_str().unwrap_or("?"),
                match pending["on_its_way"].as_bool() {
                    Some(true) => "on its way",
                    _ => "waiting",
                }
            ),
            (None, None) => "would be fetched".to_owned(),
        };
        writeln!(out, "  {what:<11} {how}")?;
    }
    if let Some(links) = body["told_to_links"].as_array()
        && !links.is_empty()
    {
        let links: Vec<String> = links.iter().map(Json::to_string).collect();
        writeln!(out, "  told        links {}", links.join(", "))?;
    }
    for (what, key) in [("directory", "predictor"), ("siblings", "predictor_above")] {
        if let Some(text) = body[key].as_str() {
            writeln!(out, "  {what:<11} {text}")?;
        }
    }
    Ok(Outcome::Done)
}

pub(super) fn warm(args: &SiteWarmArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let (origin, root) = remote::parse_url(&args.url)?;
    let by = RemoteArgs {
        via: Some(args.via.via.clone()),
        ..RemoteArgs::default()
    };
    // Requests of clients take precedence over this one.
    let client = remote::open_with_class(&by, Class::Prefetch(1))?;
    let interrupt = context.interrupt.clone();
    let progress = Progress::rows(context.globals.quiet, "names");
    let (mut names, mut directories, mut problems) = (0_u64, 0_u64, Vec::new());
    let walked = client.visit_tree(&origin, &root, args.depth, &interrupt, &mut |step| {
        match step {
            TreeEvent::Path(..) => {
                names += 1;
                progress.advance(1);
            }
            TreeEvent::Listed(left) => {
                directories += 1;
                progress.message(format!("{left} directories wait"));
            }
            TreeEvent::Problem(path, refused) => {
                problems.push(format!("{}: {refused}", String::from_utf8_lossy(path)));
            }
        }
        if interrupt.cancelled() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    drop(progress);
    walked.map_err(remote::failed)?;
    for problem in problems.iter().take(20) {
        context.complain(problem);
    }
    context.note(&format!(
        "{names} names in {} directories are known at {} now",
        directories + 1,
        args.via.via
    ));
    Ok(note_if_stopped(context).and(Outcome::partly_if(!problems.is_empty())))
}
