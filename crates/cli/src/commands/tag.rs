//! `esker tag`: tags of single objects, and of all that a filter holds of.

use super::find::search;
use super::note_if_stopped;
use super::object::{missing, parse_id};
use crate::args::{TagChangeArgs, TagCommand, TagHow, TagListArgs, TagRemoveArgs, TagWhom};
use crate::context::Context;
use crate::exit::Outcome;
use crate::output::{self, Cell, Rows};
use crate::units::{count, counted};
use crate::values::{TagArg, check_tag};
use esker::Database;
use esker_model::filter::{Expr, Term, Test};
use esker_model::object::{
    Asker, Find, ObjectId, ObjectKey, ObjectRead as _, ObjectWrite as _, TagChange, TagReport,
    TagWhere,
};
use esker_model::{GraphRead as _, Value};
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
    let filter = filter_of(&args.whom)?;
    let database = context.open(&args.target)?;
    let change = TagChange {
        set: TagArg::all(&args.tags, &*database.schema()?)?,
        keep,
        remove: Vec::new(),
    };
    apply(&args.whom, &args.how, filter, change, &database, context)
}

fn remove(args: &TagRemoveArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let filter = filter_of(&args.whom)?;
    let database = context.open(&args.target)?;
    let schema = database.schema()?;
    for name in &args.tags {
        check_tag(name, &schema)?;
    }
    let change = TagChange {
        remove: args.tags.clone(),
        ..TagChange::default()
    };
    apply(&args.whom, &args.how, filter, change, &database, context)
}

/// Numbers are a filter, too: one way to tag, with one answer to who may.
fn filter_of(whom: &TagWhom) -> anyhow::Result<Expr> {
    if let Some(filter) = &whom.filter {
        return search::parse(filter);
    }
    let ids = ids_of(whom)?;
    let values = ids.iter().filter_map(|id| i64::try_from(id.0).ok());
    Ok(Expr::Term(Term {
        name: "id".to_owned(),
        test: Test::In(values.map(Value::I64).collect()),
    }))
}

fn ids_of(whom: &TagWhom) -> anyhow::Result<Vec<ObjectId>> {
    whom.objects.iter().map(|text| parse_id(text)).collect()
}

fn apply(
    whom: &TagWhom,
    how: &TagHow,
    filter: Expr,
    change: TagChange,
    database: &Database,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    check_there(whom, how.asker.asker.as_ref(), database)?;
    let tagging = TagWhere {
        filter,
        change,
        asker: how.asker.asker.clone(),
        dry_run: how.dry_run,
        once: None,
    };
    let report = database.tag_where(&tagging, &context.interrupt)?;
    if report.matches == 0
        && let Some(text) = &whom.filter
    {
        // Nothing at all may be a typing mistake: a search says so.
        let find = Find {
            count: true,
            asker: tagging.asker,
            ..Find::all(tagging.filter)
        };
        let none = &mut |_| ControlFlow::Continue(());
        let found = database.find(&find, &context.interrupt, none)?;
        search::refuse_unknown(&found, text, false)?;
    }
    print(&report, how, context)?;
    Ok(Outcome::partly_if(report.refused > 0).and(note_if_stopped(context)))
}

/// Objects that are named must be there.
fn check_there(whom: &TagWhom, asker: Option<&Asker>, database: &Database) -> anyhow::Result<()> {
    let ids = ids_of(whom)?;
    let keys: Vec<ObjectKey> = ids.iter().copied().map(ObjectKey::Id).collect();
    let found = database.read_objects(&keys, asker)?;
    match ids.iter().zip(&found).find(|(_, found)| found.is_none()) {
        None => Ok(()),
        Some((id, _)) => Err(missing(&ObjectKey::Id(*id)).context("nothing was changed")),
    }
}

fn print(report: &TagReport, how: &TagHow, context: &mut Context) -> anyhow::Result<()> {
    let verb = if how.dry_run {
        "would change"
    } else {
        "changed"
    };
    let of = counted(report.matches, "object", "objects");
    let refused = match report.refused {
        0 => String::new(),
        n => format!("; {} may not be changed", count(n)),
    };
    let at = if how.dry_run || report.changed == 0 {
        String::new()
    } else {
        format!(" at {}", report.version)
    };
    let sentence = if report.applied || how.dry_run {
        format!("{verb} {} of {of}{refused}{at}", count(report.changed))
    } else {
        "done; the answer that said how many objects changed was lost".to_owned()
    };
    output::report(
        context,
        how.format.format,
        &sentence,
        &["matches", "changed", "refused", "version"],
        vec![
            Cell::Count(report.matches),
            Cell::Count(report.changed),
            Cell::Count(report.refused),
            if how.dry_run || report.changed == 0 {
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
    let tags = database.tags(args.asker.asker.as_ref())?;
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
