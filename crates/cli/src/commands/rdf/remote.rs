//! RDF data of a server, over HTTP at its address or over its socket in the folder.

use super::load::{Loaded, print_loaded};
use super::maintenance::{RdfStats, print_stats};
use crate::args::{
    AnswerFormat, DumpFormat, InferRules, RdfDumpArgs, RdfLoadArgs, RdfPlainArgs, RdfStatsArgs,
    RowFormat, SparqlArgs, Target,
};
use esker::Database;
use esker::rpc::Address;
use esker::rpc::http::{Endpoint, RequestBody, Response};
use esker_model::Error;
use esker_model::object::Principal;
use esker_rdf::RdfFormat;
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::interrupt::Stopped;
use esker_terminal::output::{Cell, Rows, report};
use esker_terminal::progress::Progress;
use esker_terminal::units;
use serde_json::{Value as Json, json};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Maximum size of an answer that is read into memory, in bytes.
const ANSWER_MAX: usize = 1 << 30;

/// The process that works on a target's RDF data.
pub(super) enum DataLocation {
    /// This process.
    Local(Database),
    /// A server.
    Remote(Endpoint),
}

/// Finds the process for a target: the server of an address, or the server that has a folder open, else this process.
pub(super) fn locate(
    target: &Target,
    create: bool,
    context: &mut Context,
) -> anyhow::Result<DataLocation> {
    if Address::is_address(&target.target) {
        let address = Address::parse(&target.target)?;
        return Ok(DataLocation::Remote(Endpoint::from(&address)));
    }
    let database = if create {
        context.open_or_create(target)?
    } else {
        context.open(target)?
    };
    Ok(match database.http_endpoint() {
        Some(place) => DataLocation::Remote(place),
        None => DataLocation::Local(database),
    })
}

fn encoded(text: &str) -> String {
    let mut out = String::new();
    for b in text.bytes() {
        if b.is_ascii_alphanumeric() || b"-._~".contains(&b) {
            out.push(char::from(b));
        } else {
            // Writing into a String cannot fail.
            let _ = std::fmt::Write::write_fmt(&mut out, format_args!("%{b:02X}"));
        }
    }
    out
}

/// Returns a path with parameters.
fn path(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut out = path.to_owned();
    for (i, (name, value)) in parameters.iter().enumerate() {
        out.push(if i == 0 { '?' } else { '&' });
        out.push_str(name);
        out.push('=');
        out.push_str(&encoded(value));
    }
    out
}

/// Returns the principal as parameters.
fn principal(principal: Option<&Principal>) -> Vec<(&'static str, String)> {
    let Some(principal) = principal else {
        return Vec::new();
    };
    let gids: Vec<String> = principal.gids.iter().map(i64::to_string).collect();
    let mut all = vec![("uid", principal.uid.to_string())];
    if !gids.is_empty() {
        all.push(("gids", gids.join(",")));
    }
    all
}

/// Sends a request and passes a successful answer on to `take`.
fn request<T>(
    context: &mut Context,
    place: &Endpoint,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: RequestBody<'_>,
    take: impl FnOnce(&mut Response<'_>, &mut Context) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let interrupt = context.interrupt.clone();
    let stop = || interrupt.stopped().is_some();
    let outcome = place
        .request(method, path, headers, body, &stop, None)
        .map_err(anyhow::Error::from)
        .and_then(|mut answer| match answer.status {
            200..300 => take(&mut answer, context),
            status => Err(refused(status, &mut answer)),
        });
    match interrupt.stopped() {
        Some(Stopped::TimedOut) if outcome.is_err() => {
            Err(anyhow::anyhow!("the query was stopped: time-out"))
        }
        Some(Stopped::Interrupted) if outcome.is_err() => Err(Error::Interrupted.into()),
        _ => outcome,
    }
}

fn refused(status: u16, answer: &mut Response<'_>) -> anyhow::Error {
    let body = answer.text(1 << 20).unwrap_or_default();
    let message = match serde_json::from_str::<Json>(&body) {
        Ok(json) => json
            .get("error")
            .and_then(Json::as_str)
            .unwrap_or_default()
            .to_owned(),
        Err(_) => body.trim_end().to_owned(),
    };
    match status {
        400 if message.starts_with("this is an update") => {
            usage("this is an update, not a query: use --update")
        }
        400 if message.starts_with("this is a query") => {
            usage("this is a query, not an update: leave out --update")
        }
        400 if message.starts_with("that format holds one graph") => usage(
            message
                .replace("choose one (", "choose one with --graph (")
                .replace("write nq", "write --format nq"),
        ),
        404 | 406 => usage(message),
        400..500 if status != 429 && status != 408 => Error::Invalid(message).into(),
        429 => Error::Busy(message).into(),
        503 => Error::Unavailable(message).into(),
        _ => anyhow::anyhow!("{message}"),
    }
}

fn json_of(answer: &mut Response<'_>) -> anyhow::Result<Json> {
    let text = answer.text(ANSWER_MAX)?;
    Ok(serde_json::from_str(&text)?)
}

fn number(json: &Json, key: &str) -> u64 {
    json.get(key).and_then(Json::as_u64).unwrap_or_default()
}

/// Returns the parameter that says whether the change must survive a power failure.
fn sync(context: &Context) -> &'static str {
    if context.durability() == esker::Durability::Sync {
        "true"
    } else {
        "false"
    }
}

pub(super) fn sparql(
    args: &SparqlArgs,
    text: &str,
    place: &Endpoint,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    if !args.allow_service.is_empty() {
        return Err(usage(
            "--allow-service: the server has a list of its own (esker serve --allow-service, or sparql.services in its \
             configuration)",
        ));
    }
    if !args.allow_load.is_empty() {
        return Err(usage(
            "--allow-load: the server has a list of its own (esker serve --allow-load, or sparql.load in its configuration)",
        ));
    }
    let began = Instant::now();
    let (default, named) = if args.update {
        ("using-graph-uri", "using-named-graph-uri")
    } else {
        ("default-graph-uri", "named-graph-uri")
    };
    let mut parameters: Vec<(&str, &str)> = Vec::new();
    parameters.extend(args.default_graph.iter().map(|g| (default, g.as_str())));
    parameters.extend(args.named_graph.iter().map(|g| (named, g.as_str())));
    let principal = principal(args.principal.principal.as_ref());
    parameters.extend(
        principal
            .iter()
            .map(|(name, value)| (*name, value.as_str())),
    );
    if args.update {
        parameters.push(("sync", sync(context)));
        send_update(text, &parameters, place, context)?;
    } else {
        send_query(args, text, parameters, place, context)?;
    }
    if args.profile {
        context.note(&format!("all in {:.2?}", began.elapsed()));
    }
    Ok(Outcome::Done)
}

fn send_update(
    text: &str,
    parameters: &[(&str, &str)],
    place: &Endpoint,
    context: &mut Context,
) -> anyhow::Result<()> {
    let headers = [("content-type", "application/sparql-update")];
    let path = path("/sparql", parameters);
    let sent = RequestBody::Bytes(text.as_bytes());
    let done = request(context, place, ("POST", &path), &headers, sent, |a, _| {
        json_of(a)
    })?;
    context.note(&format!(
        "{} added, {} removed",
        units::counted(number(&done, "added"), "quad", "quads"),
        units::count(number(&done, "removed"))
    ));
    Ok(())
}

fn send_query(
    args: &SparqlArgs,
    text: &str,
    mut parameters: Vec<(&str, &str)>,
    place: &Endpoint,
    context: &mut Context,
) -> anyhow::Result<()> {
    if args.explain {
        parameters.push(("explain", "true"));
    }
    let headers = |plan: bool| {
        let accepted = match (plan, args.format) {
            (false, format) => accept(format),
            (true, AnswerFormat::Json) => "application/json",
            (true, _) => "text/plain, */*;q=0.1",
        };
        [
            ("content-type", "application/sparql-query"),
            ("accept", accepted),
        ]
    };
    let whole = path("/sparql", &parameters);
    let (first, sent) = (headers(args.explain), RequestBody::Bytes(text.as_bytes()));
    request(context, place, ("POST", &whole), &first, sent, |a, c| {
        let rows = "application/sparql-results+json";
        if args.format == AnswerFormat::Table && a.header("content-type") == rows {
            return table(&json_of(a)?, c);
        }
        let mut last = b'\n';
        copy(a, &mut c.out, &mut last)?;
        if last != b'\n' {
            c.out.write_all(b"\n")?;
        }
        Ok(())
    })?;
    if args.profile && !args.explain {
        // A profile is returned in place of the results, so the query is sent again.
        parameters.push(("profile", "true"));
        let again = path("/sparql", &parameters);
        let (second, sent) = (headers(true), RequestBody::Bytes(text.as_bytes()));
        let plan = request(context, place, ("POST", &again), &second, sent, |a, _| {
            Ok(a.text(ANSWER_MAX)?)
        })?;
        for line in plan.lines() {
            context.note(line);
        }
    }
    Ok(())
}

/// Returns the triples of a CONSTRUCT as N-Triples.
pub(super) fn construct(
    text: &str,
    caller: Option<&Principal>,
    place: &Endpoint,
    context: &mut Context,
) -> anyhow::Result<Vec<u8>> {
    let headers = [
        ("content-type", "application/sparql-query"),
        ("accept", "application/n-triples"),
    ];
    let principal = principal(caller);
    let parameters: Vec<(&str, &str)> = principal.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let path = path("/sparql", &parameters);
    let sent = RequestBody::Bytes(text.as_bytes());
    request(context, place, ("POST", &path), &headers, sent, |a, _| {
        let mut bytes = Vec::new();
        a.read_to_end(&mut bytes)?;
        Ok(bytes)
    })
}

/// Replaces the contents of a graph by N-Triples.
pub(super) fn put_graph(
    graph: &str,
    triples: &[u8],
    place: &Endpoint,
    context: &mut Context,
) -> anyhow::Result<()> {
    let path = path("/rdf-graphs", &[("graph", graph), ("sync", sync(context))]);
    let headers = [("content-type", "application/n-triples")];
    let sent = RequestBody::Bytes(triples);
    request(
        context,
        place,
        ("PUT", &path),
        &headers,
        sent,
        |_, _| Ok(()),
    )
}

/// Returns the media types of the format, for solutions and for graphs.
fn accept(format: AnswerFormat) -> &'static str {
    match format {
        AnswerFormat::Table => "application/sparql-results+json, text/turtle",
        AnswerFormat::Json => "application/sparql-results+json, application/ld+json",
        AnswerFormat::Xml => "application/sparql-results+xml, application/rdf+xml",
        AnswerFormat::Csv => "text/csv, application/n-triples",
        AnswerFormat::Tsv => "text/tab-separated-values, application/n-triples",
        AnswerFormat::Ttl => "text/turtle",
        AnswerFormat::Nt => "application/n-triples",
        AnswerFormat::Rdf => "application/rdf+xml",
        AnswerFormat::Jsonld => "application/ld+json",
    }
}

fn copy(from: &mut Response<'_>, to: &mut dyn io::Write, last: &mut u8) -> io::Result<()> {
    let mut piece = vec![0; 64 << 10];
    loop {
        let n = from.read(&mut piece)?;
        let Some(bytes) = piece.get(..n).filter(|b| !b.is_empty()) else {
            return Ok(());
        };
        to.write_all(bytes)?;
        *last = bytes.last().copied().unwrap_or(*last);
    }
}

/// Prints solutions as a table.
fn table(json: &Json, context: &mut Context) -> anyhow::Result<()> {
    if let Some(truth) = json.get("boolean").and_then(Json::as_bool) {
        writeln!(context.out, "{truth}")?;
        return Ok(());
    }
    let list = |json: &Json, keys: [&str; 2]| {
        let list = json.get(keys[0]).and_then(|j| j.get(keys[1]));
        list.and_then(Json::as_array).cloned().unwrap_or_default()
    };
    let names: Vec<String> = list(json, ["head", "vars"])
        .iter()
        .filter_map(|v| v.as_str().map(str::to_owned))
        .collect();
    let columns = names.iter().map(|n| n.clone().into()).collect();
    let mut rows = Rows::named(&mut context.out, RowFormat::Table, context.style, columns);
    for solution in list(json, ["results", "bindings"]) {
        let cells = names
            .iter()
            .map(|n| match solution.get(n).and_then(term) {
                Some(term) => Cell::Text(esker_terminal::sparql::term_text(&term)),
                None => Cell::Empty,
            })
            .collect();
        rows.row(cells)?;
    }
    rows.finish()?;
    Ok(())
}

fn term(json: &Json) -> Option<esker_rdf::Term> {
    use esker_rdf::dictionary::Key;
    let text = |key: &str| json.get(key).and_then(Json::as_str);
    let kind = text("type")?;
    if kind == "triple" {
        let part = |key: &str| term(json.get("value")?.get(key)?);
        return esker_rdf::triple_term(part("subject")?, part("predicate")?, part("object")?);
    }
    let value = text("value")?;
    let tag = match (text("xml:lang"), text("its:dir")) {
        (Some(language), Some(direction)) => Some(format!("{language}--{direction}")),
        (language, _) => language.map(str::to_owned),
    };
    let key = match kind {
        "uri" => Key::Iri(value),
        "bnode" => Key::Blank(value),
        _ => match (&tag, text("datatype")) {
            (Some(tag), _) => Key::Lang(value, tag),
            (None, Some(datatype)) => Key::typed(value, datatype),
            (None, None) => Key::Plain(value),
        },
    };
    key.to_term()
}

/// The body of a load: files one after another, each after the header line that the server expects.
struct UploadFiles {
    left: VecDeque<(PathBuf, RdfFormat)>,
    current: Box<dyn Read + Send>,
    /// Bytes of the current file that have not been sent.
    expected: u64,
    name: String,
    sent: Arc<AtomicU64>,
}

impl UploadFiles {
    fn next(&mut self) -> io::Result<bool> {
        let Some((path, format)) = self.left.pop_front() else {
            return Ok(false);
        };
        let about =
            |e: io::Error| io::Error::new(e.kind(), format!("reading `{}`: {e}", path.display()));
        let file = File::open(&path).map_err(about)?;
        let bytes = file.metadata().map_err(about)?.len();
        let packing = match path.extension().and_then(|e| e.to_str()) {
            Some("gz") => "gzip",
            Some("zst") => "zstd",
            _ => "",
        };
        let mut line = json!({
            "name": path.display().to_string(),
            "format": name_of(format),
            "packing": packing,
            "base": base_of(&path),
            "bytes": bytes,
        })
        .to_string();
        line.push('\n');
        self.expected = bytes + line.len() as u64;
        self.name = path.display().to_string();
        self.current = Box::new(io::Cursor::new(line).chain(file.take(bytes)));
        Ok(true)
    }
}

fn base_of(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    Some(format!("file://{}", esker::rdf::encoded(&path)))
}

impl Read for UploadFiles {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.current.read(to)?;
            self.expected -= n as u64;
            self.sent.fetch_add(n as u64, Ordering::Relaxed);
            if n > 0 {
                return Ok(n);
            }
            if self.expected > 0 {
                return Err(io::Error::other(format!(
                    "`{}` became shorter while it was sent; nothing is loaded",
                    self.name
                )));
            }
            if !self.next()? {
                return Ok(0);
            }
        }
    }
}

pub(super) fn load(
    args: &RdfLoadArgs,
    files: Vec<(PathBuf, RdfFormat)>,
    place: &Endpoint,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let began = Instant::now();
    let mut parameters = vec![("sync", sync(context))];
    parameters.extend(args.graph.as_deref().map(|g| ("graph", g)));
    if args.lenient {
        parameters.push(("lenient", "true"));
    }
    match args.infer {
        None => {}
        Some(InferRules::None) => parameters.push(("infer", "none")),
        Some(InferRules::Rdfs) => parameters.push(("infer", "rdfs")),
        Some(InferRules::OwlRl) => parameters.push(("infer", "owl-rl")),
    }
    let path = path("/api/v1/rdf/load", &parameters);
    let count = files.len() as u64;
    let sent = Arc::new(AtomicU64::new(0));
    let body = UploadFiles {
        left: files.into(),
        current: Box::new(io::empty()),
        expected: 0,
        name: String::new(),
        sent: Arc::clone(&sent),
    };
    let bar = Progress::rows(context.globals.quiet, "sending bytes");
    let body = ProgressBody { body, bar };
    let sent = RequestBody::Stream(Box::new(body));
    let done = request(context, place, ("POST", &path), &[], sent, |a, _| {
        json_of(a)
    });
    let done = match done {
        Err(e) if matches!(e.downcast_ref(), Some(Error::Interrupted)) => {
            anyhow::bail!("interrupted: nothing was loaded");
        }
        other => other?,
    };
    let lines = done.get("skipped_lines").and_then(Json::as_array);
    let lines = lines.into_iter().flatten();
    let loaded = Loaded {
        files: count,
        read: number(&done, "read"),
        new: number(&done, "new"),
        skipped: lines
            .filter_map(|l| l.as_str().map(str::to_owned))
            .collect(),
        skipped_count: number(&done, "skipped"),
        inferred: number(&done, "inferred"),
        rules: done
            .get("inference")
            .and_then(Json::as_str)
            .map(str::to_owned),
        graph: args.graph.clone().filter(|_| number(&done, "read") > 0),
        part: None,
    };
    print_loaded(&loaded, began.elapsed(), args.format.format, context)
}

/// A request body that advances a progress bar.
struct ProgressBody {
    body: UploadFiles,
    bar: Progress,
}

impl Read for ProgressBody {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = self.body.read(to)?;
        self.bar.at(self.body.sent.load(Ordering::Relaxed));
        Ok(n)
    }
}

pub(super) fn dump(
    args: &RdfDumpArgs,
    place: &Endpoint,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let format = match args.format {
        DumpFormat::Nq => "nq",
        DumpFormat::Trig => "trig",
        DumpFormat::Nt => "nt",
        DumpFormat::Ttl => "ttl",
    };
    let mut parameters = vec![("format", format)];
    parameters.extend(args.graph.as_deref().map(|g| ("graph", g)));
    if args.inferred {
        parameters.push(("inferred", "true"));
    }
    let principal = principal(args.principal.principal.as_ref());
    parameters.extend(
        principal
            .iter()
            .map(|(name, value)| (*name, value.as_str())),
    );
    let path = path("/api/v1/rdf/dump", &parameters);
    request(
        context,
        place,
        ("GET", &path),
        &[],
        RequestBody::Nothing,
        |a, c| Ok(copy(a, &mut c.out, &mut 0)?),
    )?;
    Ok(Outcome::Done)
}

pub(super) fn stats(
    args: &RdfStatsArgs,
    place: &Endpoint,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let path = "/api/v1/rdf/stats";
    let got = request(
        context,
        place,
        ("GET", path),
        &[],
        RequestBody::Nothing,
        |a, _| json_of(a),
    )?;
    let stats = RdfStats {
        quads: number(&got, "quads"),
        inferred: number(&got, "inferred"),
        rules: got
            .get("inference")
            .and_then(Json::as_str)
            .map(str::to_owned),
        graphs: number(&got, "named_graphs"),
        terms: number(&got, "terms"),
        columns: number(&got, "quad_bytes"),
        dictionary: number(&got, "term_bytes"),
        log: number(&got, "log_bytes"),
        meta: got.get("meta_quads").and_then(Json::as_u64),
    };
    print_stats(&stats, args.format.format, context)
}

pub(super) fn checkpoint(
    args: &RdfPlainArgs,
    place: &Endpoint,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let path = "/api/v1/rdf/checkpoint";
    let done = request(
        context,
        place,
        ("POST", path),
        &[],
        RequestBody::Nothing,
        |a, _| json_of(a),
    )?;
    super::maintenance::print_checkpoint(
        number(&done, "quads"),
        number(&done, "bytes"),
        args.format.format,
        context,
    )
}

pub(super) fn drop_all(
    args: &RdfPlainArgs,
    place: &Endpoint,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let path = "/api/v1/rdf/drop";
    let done = request(
        context,
        place,
        ("POST", path),
        &[],
        RequestBody::Nothing,
        |a, _| json_of(a),
    )?;
    let quads = number(&done, "dropped");
    let sentence = format!("dropped {}", units::counted(quads, "quad", "quads"));
    let cells = vec![Cell::Count(quads)];
    report(context, args.format.format, &sentence, &["dropped"], cells)?;
    Ok(Outcome::Done)
}

/// Returns the file ending of a format, by which the server knows the format.
fn name_of(format: RdfFormat) -> &'static str {
    match format {
        RdfFormat::N3 => "n3",
        RdfFormat::NQuads => "nq",
        RdfFormat::NTriples => "nt",
        RdfFormat::RdfXml => "rdf",
        RdfFormat::TriG => "trig",
        RdfFormat::Turtle => "ttl",
        RdfFormat::JsonLd { .. } => "jsonld",
    }
}
