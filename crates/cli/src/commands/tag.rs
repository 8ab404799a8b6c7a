//! `esker tag`: changes tags of single objects, and of all that match a filter.

use super::find::search;
use super::note_if_stopped;
use super::object::{missing, parse_id};
use crate::args::{
    TagChangeArgs, TagCommand, TagListArgs, TagOptions, TagRemoveArgs, TagSelection,
};
use crate::values::{TagArg, check_tag};
use esker::Database;
use esker_model::filter::{Expr, Term, Test};
use esker_model::object::{
    Find, ObjectId, ObjectKey, ObjectRead as _, ObjectWrite as _, Principal, TagChange, TagReport,
    TagWhere,
};
use esker_model::{GraphRead as _, Value};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::output::{self, Cell, Rows};
use esker_terminal::units::{count, counted};
use esker_terminal::zone;
use std::ops::ControlFlow;

pub(crate) fn run(command: &TagCommand, context: &mut Context) -> anyhow::Result<Outcome> {
    match command {
        TagCommand::Add(args) => set(args, true, context),
        TagCommand::Set(args) => set(args, false, context),
        TagCommand::Remove(args) => remove(args, context),
        TagCommand::List(args) => list(args, context),
    }
}

fn set(args: &TagChangeArgs, keep: bool, context: &mut Context) -> anyhow::Result<Outcome> {
    let filter = filter_of(&args.selection)?;
    let database = context.open(&args.target)?;
    let change = TagChange {
        set: TagArg::all(&args.tags, &*database.schema()?)?,
        keep,
        remove: Vec::new(),
    };
    apply(
        &args.selection,
        &args.options,
        filter,
        change,
        &database,
        context,
    )
}

fn remove(args: &TagRemoveArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let filter = filter_of(&args.selection)?;
    let database = context.open(&args.target)?;
    let schema = database.schema()?;
    for name in &args.tags {
        check_tag(name, &schema)?;
    }
    let change = TagChange {
        remove: args.tags.clone(),
        ..TagChange::default()
    };
    apply(
        &args.selection,
        &args.options,
        filter,
        change,
        &database,
        context,
    )
}

/// Object numbers become a filter, too, so that one code path tags and checks permissions.
fn filter_of(selection: &TagSelection) -> anyhow::Result<Expr> {
    if let Some(filter) = &selection.filter {
        return search::parse(filter);
    }
    let ids = ids_of(selection)?;
    let values = ids.iter().filter_map(|id| i64::try_from(id.0).ok());
    Ok(Expr::Term(Term {
        name: "id".to_owned(),
        test: Test::In(values.map(Value::I64).collect()),
    }))
}

fn ids_of(selection: &TagSelection) -> anyhow::Result<Vec<ObjectId>> {
    selection
        .objects
        .iter()
        .map(|text| parse_id(text))
        .collect()
}

fn apply(
    selection: &TagSelection,
    options: &TagOptions,
    filter: Expr,
    change: TagChange,
    database: &Database,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    filter.check_kinds_of_objects(&*database.schema()?)?;
    check_existence(selection, options.principal.principal.as_ref(), database)?;
    let tagging = TagWhere {
        filter,
        change,
        principal: options.principal.principal.clone(),
        dry_run: options.dry_run,
        idempotency_key: None,
    };
    let report = database.tag_where(&tagging, &context.interrupt)?;
    if report.matches == 0
        && let Some(text) = &selection.filter
    {
        // A filter without matches may have a mistyped name, which a search reports.
        let find = Find {
            count: true,
            principal: tagging.principal,
            ..Find::all(tagging.filter)
        };
        let none = &mut |_| ControlFlow::Continue(());
        let found = database.find(&find, &context.interrupt, none)?;
        search::refuse_unknown(&found, text, false)?;
    }
    print(&report, options, context)?;
    Ok(Outcome::partly_if(report.refused > 0).and(note_if_stopped(context)))
}

/// Checks that the given objects exist.
fn check_existence(
    selection: &TagSelection,
    principal: Option<&Principal>,
    database: &Database,
) -> anyhow::Result<()> {
    let ids = ids_of(selection)?;
    let keys: Vec<ObjectKey> = ids.iter().copied().map(ObjectKey::Id).collect();
    let found = database.read_objects(&keys, principal)?;
    match ids.iter().zip(&found).find(|(_, found)| found.is_none()) {
        None => Ok(()),
        Some((id, _)) => Err(missing(&ObjectKey::Id(*id)).context("nothing was changed")),
    }
}

fn print(report: &TagReport, options: &TagOptions, context: &mut Context) -> anyhow::Result<()> {
    let verb = if options.dry_run {
        "would change"
    } else {
        "changed"
    };
    let of = counted(report.matches, "object", "objects");
    let refused = match report.refused {
        0 => String::new(),
        n => format!("; {} may not be changed", count(n)),
    };
    let at = if options.dry_run || report.changed == 0 {
        String::new()
    } else {
        format!(" at {}", zone::version(report.version))
    };
    let sentence = if report.applied || options.dry_run {
        format!("{verb} {} of {of}{refused}{at}", count(report.changed))
    } else {
        "done; the answer that said how many objects changed was lost".to_owned()
    };
    output::report(
        context,
        options.format.format,
        &sentence,
        &["matches", "changed", "refused", "version"],
        vec![
            Cell::Count(report.matches),
            Cell::Count(report.changed),
            Cell::Count(report.refused),
            if options.dry_run || report.changed == 0 {
                Cell::Empty
            } else {
                Cell::Version(report.version)
            },
        ],
    )?;
    Ok(())
}

fn list(args: &TagListArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let database = context.open(&args.target)?;
    let tags = database.tags(args.principal.principal.as_ref())?;
    let columns = &["name", "kind", "objects", "distinct", "indexed", "bytes"];
    let mut rows = Rows::new(&mut context.out, args.format.format, context.style, columns);
    for tag in tags {
        let kind = if tag.predefined { "predefined" } else { "tag" };
        rows.row(vec![
            tag.name.into(),
            kind.into(),
            Cell::Count(tag.objects),
            tag.distinct.map_or(Cell::Empty, Cell::Count),
            Cell::Bool(tag.indexed),
            Cell::Count(tag.bytes.0 + tag.bytes.1),
        ])?;
    }
    rows.finish()?;
    Ok(Outcome::Done)
}
