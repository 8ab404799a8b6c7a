//! `esker object get`.

use super::names::{missing, vertex};
use super::object_name;
use crate::args::{ObjectGetArgs, RowFormat};
use crate::commands::write::Change;
use esker::Database;
use esker_model::object::{Found, ID_ATTRIBUTES, ObjectRead as _};
use esker_model::{GraphRead as _, Op, Properties, Value};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use esker_terminal::output::{ObjectColumn, Rows, Style, attribute_text, quote, value_text};
use std::io::{self, Write};

pub(super) fn run(args: &ObjectGetArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let keys = args.objects.keys()?;
    let database = context.open(&args.target)?;
    let answer = database.read_objects(&keys, args.principal.principal.as_ref())?;
    let mut outcome = Outcome::Done;
    let mut found = Vec::with_capacity(answer.len());
    for (key, object) in keys.iter().zip(answer) {
        if let Some(object) = object {
            found.push(object);
        } else {
            outcome = Outcome::Partly;
            context.complain(&missing(key).to_string());
        }
    }
    if args.touch {
        touch(&found, &database, context)?;
    }
    match args.format.format {
        RowFormat::Table => {
            for (i, object) in found.iter().enumerate() {
                if i > 0 {
                    writeln!(context.out)?;
                }
                write_object(&mut context.out, object, context.style)?;
            }
        }
        format => {
            let columns = ObjectColumn::all(format.is_json());
            let names = columns.iter().map(ObjectColumn::name).collect();
            let mut rows = Rows::named(&mut context.out, format, context.style, names);
            for object in &found {
                rows.row(columns.iter().map(|c| c.cell(object)).collect())?;
            }
            rows.finish()?;
        }
    }
    Ok(outcome)
}

/// Minimum time between two access times of an object, in nanoseconds; each is a version of the object.
const TOUCHED_NANOS: i64 = 24 * 3_600 * 1_000_000_000;

/// Sets the access time of objects; the output has the time before.
fn touch(found: &[Found], database: &Database, context: &Context) -> anyhow::Result<()> {
    let now = crate::times::now_nanos();
    let schema = database.schema()?;
    let mut change = Change::new(None);
    for object in found {
        let noted = match object.attributes.get("atime") {
            Some(Value::Timestamp(at)) => *at > now.saturating_sub(TOUCHED_NANOS),
            _ => false,
        };
        if !noted {
            change.push(Op::ChangeVertex {
                vertex: vertex(&schema, object.id)?,
                set: Properties::new().with("atime", Value::Timestamp(now)),
                remove: Vec::new(),
            });
        }
    }
    if !change.is_empty() {
        change.apply(database)?;
        context.note("the access was noted");
    }
    Ok(())
}

/// Writes an object's name, then one attribute or tag per line.
fn write_object(out: &mut dyn Write, object: &Found, style: Style) -> io::Result<()> {
    let mut lines: Vec<(String, String, &str)> = vec![
        ("created".into(), object.created.to_string(), ""),
        ("modified".into(), object.modified.to_string(), ""),
    ];
    // ID attributes come first.
    let id = ID_ATTRIBUTES.iter();
    let id = id.filter_map(|name| Some((*name, object.attributes.get(name)?)));
    let others = object.attributes.iter();
    let others = others.filter(|(name, _)| !ID_ATTRIBUTES.contains(name));
    for (name, value) in id.chain(others) {
        lines.push((quote(name), attribute_text(name, value), ""));
    }
    for (name, value) in object.tags.iter() {
        let text = match value {
            Value::Null => String::new(),
            value => value_text(value),
        };
        lines.push((quote(name), text, "  (tag)"));
    }
    let width = lines.iter().map(|l| l.0.chars().count()).max().unwrap_or(0);
    writeln!(out, "{}", style.bold(&object_name(object.id)))?;
    for (name, value, note) in lines {
        let line = format!(
            "  {}  {value}{}",
            style.dim(&format!("{name:width$}")),
            style.dim(note)
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
