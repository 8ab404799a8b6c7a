//! `esker find --type File`: vertices that are not objects; with `--as-of`, earlier versions of objects, by a scan.

use super::print::ResultPrinter;
use super::{
    continue_unless_failed, finish, incomplete_reason, print_count, print_plan, print_profile,
    search, summary,
};
use crate::args::{FindArgs, FindFormat};
use crate::graph::vertex_type_name;
use esker::Database;
use esker_model::filter::{Expr, Prepared, SPECIAL_NAMES, VertexFields};
use esker_model::object::{Find, FindReport, PlanStep};
use esker_model::schema::nearest;
use esker_model::{
    Cancel as _, Error, GraphRead as _, Schema, Value, Version, Vertex, VertexSelect, VertexTypeId,
};
use esker_terminal::context::Context;
use esker_terminal::exit::{Outcome, usage};
use esker_terminal::output::{Cell, quote, value_text, vertex_attributes_json};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

pub(super) fn run(
    args: &FindArgs,
    find: &Find,
    format: FindFormat,
    output: Option<PathBuf>,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    refuse_options(args, find)?;
    let database = context
        .open(&args.target)?
        .on_behalf_of(find.principal.as_ref());
    let schema = database.schema()?;
    let type_id = schema
        .vertex_type_id(&args.vertex_type)
        .map_err(Error::from)?;
    if !args.lenient {
        find.filter.check_kinds_of(&schema, type_id)?;
    }
    let mut report = FindReport::default();
    if args.explain || args.profile {
        report.plan = vec![scan(&database, &schema, type_id, &args.filter)?];
    }
    if args.explain {
        print_plan(&report.plan, format, context)?;
        return Ok(Outcome::Done);
    }
    let interrupt = context.interrupt.clone();
    let began = Instant::now();
    let mut names = VertexNames::new(&find.filter, &schema, type_id);
    let limit = find.limit.unwrap_or(u64::MAX);
    report.complete = true;
    let filter = find.filter.clone().with_vertex_types(&schema)?;
    let filter = Prepared::new(&filter);
    let mut each = |print: &mut dyn FnMut(&Vertex) -> anyhow::Result<()>| {
        let mut answer = Ok(());
        let select = VertexSelect {
            as_of: args.as_of.unwrap_or(Version::MAX),
            ..VertexSelect::of(type_id)
        };
        let scanned = database.scan_vertices(&select, &mut |vertex| {
            names.record_names(&vertex);
            if interrupt.cancelled() {
                report.complete = false;
                return ControlFlow::Break(());
            }
            if !filter.matches(&VertexFields::new(&vertex, &schema)) {
                return ControlFlow::Continue(());
            }
            if report.matches >= limit {
                report.complete = false;
                return ControlFlow::Break(());
            }
            report.matches += 1;
            continue_unless_failed(print(&vertex), &mut answer)
        });
        answer.and(scanned.map_err(Into::into))
    };
    if args.count {
        each(&mut |_| Ok(()))?;
        report.unknown = names.unknown(report.complete);
        search::refuse_unknown(&report, &args.filter, args.lenient)?;
        print_count(&report, format, context)?;
        return Ok(finish(args, &report, context));
    }
    let columns = columns(find);
    let mut printer = ResultPrinter::with_columns(columns.clone(), format, output, context)?;
    each(&mut |vertex| {
        printer.row(
            || columns.iter().map(|c| cell(c, vertex, &schema)).collect(),
            || columns.iter().map(|c| value(c, vertex, &schema)).collect(),
        )
    })?;
    report.unknown = names.unknown(report.complete);
    let known = search::refuse_unknown(&report, &args.filter, args.lenient);
    if known.is_err() && (report.matches == 0 || args.output.is_some()) {
        return known.map(|()| Outcome::Done);
    }
    printer.finish(incomplete_reason(&report, &interrupt))?;
    known?;
    summary(&report, began.elapsed(), context);
    for step in &mut report.plan {
        step.left = Some(report.matches);
        step.micros = u64::try_from(began.elapsed().as_micros()).ok();
    }
    if args.profile {
        print_profile(&report.plan)?;
    }
    Ok(finish(args, &report, context))
}

/// Refuses options that only searches of the present objects have.
fn refuse_options(args: &FindArgs, find: &Find) -> anyhow::Result<()> {
    for (given, option) in [
        (find.principal.is_some() && args.as_of.is_some(), "--as"),
        (find.share.is_some(), "--share and --collective"),
        (find.after.is_some(), "--after"),
    ] {
        if given {
            return Err(usage(match args.as_of {
                Some(_) => format!(
                    "{option} is for the present state of objects, and cannot be combined with --as-of"
                ),
                None => format!(
                    "{option} is for objects, not for --type {}",
                    args.vertex_type
                ),
            }));
        }
    }
    if args.as_of.is_some() && find.filter.names().contains(&"created") {
        return Err(usage(
            "`created` cannot be combined with --as-of: everything that existed then had been created by then",
        ));
    }
    Ok(())
}

/// Returns the only step of the plan: a scan of the vertices of a type.
fn scan(
    database: &Database,
    schema: &Schema,
    type_id: VertexTypeId,
    filter: &str,
) -> anyhow::Result<PlanStep> {
    let counts = database.counts()?.vertices;
    let of_type = counts.iter().filter(|(id, _)| schema.is_a(*id, type_id));
    Ok(PlanStep {
        server: 0,
        term: filter.to_owned(),
        access: "all".to_owned(),
        estimate: of_type.map(|(_, n)| n).sum(),
        left: None,
        micros: None,
    })
}

/// Returns the columns of a row: the name, then the selected ones, or type, version and all attributes.
fn columns(find: &Find) -> Vec<Cow<'static, str>> {
    match &find.select {
        Some(names) => {
            let chosen = names.iter().filter(|n| *n != "id").cloned().map(Cow::Owned);
            std::iter::once(Cow::Borrowed("id")).chain(chosen).collect()
        }
        None => ["id", "type", "version", "attributes"]
            .map(Cow::Borrowed)
            .to_vec(),
    }
}

fn cell(column: &str, vertex: &Vertex, schema: &Schema) -> Cell {
    match column {
        "id" => vertex.name(schema).into(),
        "type" => vertex_type_name(schema, vertex.type_id).into(),
        "key" => vertex.key.as_str().into(),
        "version" | "modified" => Cell::Version(vertex.version),
        "attributes" => {
            let user = vertex.user.iter().map(|a| (a.name.as_str(), &a.value));
            let all = vertex.attributes.iter().chain(user);
            let text = all.map(|(name, value)| format!("{}={}", quote(name), value_text(value)));
            let text = text.collect::<Vec<_>>().join(" ");
            Cell::Json(vertex_attributes_json(vertex), text)
        }
        name => match vertex.attribute(name) {
            None => Cell::Empty,
            Some(Value::String(text)) => Cell::Text(text.clone()),
            Some(value) => Cell::Value(value.clone()),
        },
    }
}

fn value(column: &str, vertex: &Vertex, schema: &Schema) -> Option<Value> {
    match column {
        "id" | "type" | "key" => Some(Value::String(cell(column, vertex, schema).csv_text())),
        "version" | "modified" => {
            let nanos = vertex.version.millis().checked_mul(1_000_000)?;
            i64::try_from(nanos).ok().map(Value::Timestamp)
        }
        "attributes" => Some(Value::String(vertex_attributes_json(vertex).to_string())),
        name => vertex.attribute(name).cloned(),
    }
}

/// Maximum number of user-defined attributes to remember for suggestions.
const SUGGESTIONS_MAX: usize = 4_096;

/// Names in the filter that no vertex has had yet.
struct VertexNames {
    missing: BTreeSet<String>,
    /// User-defined attributes and the number of vertices that have each.
    known: BTreeMap<String, u64>,
}

impl VertexNames {
    fn new(filter: &Expr, schema: &Schema, type_id: VertexTypeId) -> Self {
        let mut names = Self {
            missing: BTreeSet::new(),
            known: BTreeMap::new(),
        };
        names
            .missing
            .extend(filter.names().into_iter().map(str::to_owned));
        let types: Vec<VertexTypeId> = std::iter::once(type_id)
            .chain(schema.specialisations(type_id))
            .collect();
        names.missing.retain(|name| {
            let declared = types.iter().flat_map(|t| schema.attributes(*t));
            !SPECIAL_NAMES.iter().any(|s| s.eq_ignore_ascii_case(name))
                && !declared
                    .into_iter()
                    .any(|a| a.name.eq_ignore_ascii_case(name))
        });
        names
    }

    fn record_names(&mut self, vertex: &Vertex) {
        if self.missing.is_empty() {
            return;
        }
        for attribute in &vertex.user {
            self.missing.remove(&attribute.name);
            if let Some(n) = self.known.get_mut(&attribute.name) {
                *n += 1;
            } else if self.known.len() < SUGGESTIONS_MAX {
                self.known.insert(attribute.name.clone(), 1);
            }
        }
    }

    /// Returns the names that no vertex has, each with the most similar existing one.
    fn unknown(self, complete: bool) -> Vec<(String, Option<(String, u64)>)> {
        if !complete {
            return Vec::new();
        }
        let nearest = |name: &str| {
            let nearest = nearest(name, self.known.keys().map(String::as_str))?;
            let n = self.known.get(&nearest).copied()?;
            Some((nearest, n))
        };
        self.missing
            .iter()
            .map(|name| (name.clone(), nearest(name)))
            .collect()
    }
}
