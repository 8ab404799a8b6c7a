//! Files of far servers: `esker ls|stat|find SCHEME://HOST/PATH`.

mod find;
mod list;
mod names;

pub(crate) use find::run as find;
pub(crate) use list::{ls, stat};
pub(crate) use names::FarNames;

use crate::args::FarArgs;
use crate::exit::usage;
use crate::output::Cell;
use esker_model::namespace::display;
use esker_model::{Error, Value};
use esker_origin::Place;
use esker_site::{Far, Refused, Wish};
use esker_site_cache::entry::{Attributes, Kind};
use esker_site_cache::queue::Class;

/// Whether a target is a far one. Of Esker's own servers that is a path behind the address; `/` alone if a site cache is to be
/// asked. (Who has `ESKER_VIA` set still names servers themselves.)
pub(crate) fn is_meant(target: &str, far: &FarArgs) -> bool {
    let Some(rest) = target.strip_prefix("esker://") else {
        return Place::is_meant(target);
    };
    let (address, path) = rest
        .split_once('/')
        .map_or((rest, None), |(a, p)| (a, Some(p)));
    // Options may have slashes in them.
    !address.contains('?') && path.is_some_and(|path| !path.is_empty() || far.via.is_some())
}

/// What was given for far files is no use here.
pub(crate) fn refuse(target: &str, far: &FarArgs) -> anyhow::Result<()> {
    // Who has ESKER_VIA set still has databases of their own.
    if far.max_age.is_some() || far.stale_if_error {
        return Err(usage(format!(
            "--max-age and --stale-if-error are for far files, as sftp://HOST/PATH; `{target}` is none"
        )));
    }
    Ok(())
}

/// An origin and a path below it.
pub(crate) fn place(url: &str) -> anyhow::Result<(Place, Vec<u8>)> {
    Place::parse(url).map_err(|e| usage(e.to_string()))
}

/// Whoever is asked.
pub(crate) fn open(far: &FarArgs) -> anyhow::Result<Far> {
    open_as(far, Class::Fetch)
}

/// The same for somebody who stays: what is asked is kept, foreseen, and heard of when it changes, as a tier does.
pub(crate) fn stay(far: &FarArgs) -> anyhow::Result<Far> {
    open_by(far, Class::Fetch, Far::stay)
}

pub(crate) fn open_as(far: &FarArgs, class: Class) -> anyhow::Result<Far> {
    open_by(far, class, Far::open)
}

type Opened = std::io::Result<Result<Far, Refused>>;

fn open_by(
    far: &FarArgs,
    class: Class,
    open: fn(Option<&str>, Wish) -> Opened,
) -> anyhow::Result<Far> {
    if far.via.is_none() && (far.max_age.is_some() || far.stale_if_error) {
        return Err(usage(
            "--max-age and --stale-if-error are about what a site cache keeps: say which one with --via URL, or leave them out",
        ));
    }
    let wish = Wish {
        max_age: far.max_age,
        stale_if_error: far.stale_if_error,
        class,
        clear_passwords: far.clear_passwords,
    };
    let opened = open(far.via.as_deref(), wish).map_err(|e| Error::io("starting threads", e))?;
    opened.map_err(failed)
}

/// Why there is no answer, as a command ends with it.
pub(crate) fn failed(refused: Refused) -> anyhow::Error {
    match refused {
        Refused::Named(why) => usage(why.into_string()),
        other => Error::Unavailable(other.to_string()).into(),
    }
}

pub(super) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Link => "symlink",
        Kind::Other => "other",
        Kind::Unknown => "unknown",
    }
}

/// The attributes that origins name apart.
pub(super) fn more<'a>(of: &'a Attributes, name: &str) -> Option<&'a str> {
    let more = of.more.as_deref().unwrap_or_default();
    let found = more.iter().find(|(known, _)| **known == *name);
    found.map(|(_, value)| &**value)
}

/// Mode as `ls -l` has it; what the origin does not say is a `?`.
pub(super) fn mode(of: &Attributes) -> String {
    let letter = match of.kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::Link => 'l',
        Kind::Other | Kind::Unknown => '?',
    };
    match of.mode {
        Some(mode) => {
            let text = crate::commands::names::mode_text(mode);
            let mut shown: String = text.chars().skip(1).collect();
            shown.insert(0, letter);
            shown
        }
        None => format!("{letter}?????????"),
    }
}

pub(super) fn number(value: Option<&str>) -> Cell {
    match value.and_then(|v| v.parse().ok()) {
        Some(number) => Cell::Value(Value::I64(number)),
        None => value.map_or(Cell::Empty, |v| v.to_owned().into()),
    }
}

pub(super) fn time(of: &Attributes) -> Cell {
    of.modified
        .map_or(Cell::Empty, |t| Cell::Value(Value::Timestamp(t)))
}

pub(super) fn text(bytes: &[u8]) -> String {
    display(bytes).to_string()
}
