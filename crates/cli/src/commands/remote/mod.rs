//! Remote files: `esker ls|stat|find SCHEME://HOST/PATH`.

mod find;
mod list;
mod namespace;

pub(crate) use find::run as find;
pub(crate) use list::{ls, stat};
pub(crate) use namespace::RemoteNamespace;

use crate::args::RemoteArgs;
use esker_model::namespace::display;
use esker_model::{Error, Value};
use esker_origin::OriginUrl;
use esker_site::{FetchOptions, Refused, RemoteFiles};
use esker_site_cache::entry::{Attributes, Kind};
use esker_site_cache::queue::Class;
use esker_terminal::exit::usage;
use esker_terminal::output::Cell;

/// Whether a target names remote files. For Esker's own servers, that needs a path after the address; `/` alone is enough with a site
/// cache. (Users with `ESKER_VIA` set still name servers by address.)
pub(crate) fn is_remote(target: &str, args: &RemoteArgs) -> bool {
    let Some(rest) = target.strip_prefix("esker://") else {
        return OriginUrl::looks_like_url(target);
    };
    let (address, path) = rest
        .split_once('/')
        .map_or((rest, None), |(a, p)| (a, Some(p)));
    // Options of an address may contain slashes.
    !address.contains('?') && path.is_some_and(|path| !path.is_empty() || args.via.is_some())
}

/// Refuses options for remote files if the target is a database.
pub(crate) fn refuse_options(target: &str, args: &RemoteArgs) -> anyhow::Result<()> {
    // `via` alone is no error, because it may come from `ESKER_VIA`.
    if args.max_age.is_some() || args.stale_if_error {
        return Err(usage(format!(
            "--max-age and --stale-if-error are for remote files, as in sftp://HOST/PATH; `{target}` is not one"
        )));
    }
    Ok(())
}

/// Splits a URL into an origin and a path.
pub(crate) fn parse_url(url: &str) -> anyhow::Result<(OriginUrl, Vec<u8>)> {
    OriginUrl::parse(url).map_err(|e| usage(e.to_string()))
}

/// Connects to the site cache or the origin.
pub(crate) fn open(args: &RemoteArgs) -> anyhow::Result<RemoteFiles> {
    open_with_class(args, Class::Fetch)
}

/// Connects for longer use: answers are cached, prefetched and invalidated, as in a tier.
pub(crate) fn open_long_lived(args: &RemoteArgs) -> anyhow::Result<RemoteFiles> {
    open_by(args, Class::Fetch, RemoteFiles::open_long_lived)
}

pub(crate) fn open_with_class(args: &RemoteArgs, class: Class) -> anyhow::Result<RemoteFiles> {
    open_by(args, class, RemoteFiles::open)
}

type Connected = std::io::Result<Result<RemoteFiles, Refused>>;

fn open_by(
    args: &RemoteArgs,
    class: Class,
    open: fn(Option<&str>, FetchOptions) -> Connected,
) -> anyhow::Result<RemoteFiles> {
    if args.via.is_none() && (args.max_age.is_some() || args.stale_if_error) {
        return Err(usage(
            "--max-age and --stale-if-error apply to a site cache: name one with --via URL, or leave them out",
        ));
    }
    let wish = FetchOptions {
        max_age: args.max_age,
        stale_if_error: args.stale_if_error,
        class,
        clear_passwords: args.clear_passwords,
    };
    let opened = open(args.via.as_deref(), wish).map_err(|e| Error::io("starting threads", e))?;
    opened.map_err(failed)
}

/// Converts a refusal into the error of a command.
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

/// Returns a further attribute that an origin gives by name.
pub(super) fn attribute<'a>(of: &'a Attributes, name: &str) -> Option<&'a str> {
    let more = of.more.as_deref().unwrap_or_default();
    let found = more.iter().find(|(known, _)| **known == *name);
    found.map(|(_, value)| &**value)
}

/// Formats a mode as `ls -l` does; unknown parts are `?`.
pub(super) fn mode(of: &Attributes) -> String {
    let letter = match of.kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::Link => 'l',
        Kind::Other | Kind::Unknown => '?',
    };
    match of.mode {
        Some(mode) => {
            let text = crate::commands::namespace::mode_text(mode);
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
