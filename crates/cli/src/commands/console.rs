//! `esker console`: opens the web console in a browser, for a local or a remote database.

use crate::args::ConsoleArgs;
use anyhow::Context as _;
use esker::rpc::Address;
use esker::rpc::http::Endpoint;
use esker::rpc::tunnel::Tunnel;
use esker::{Database, Role};
use esker_model::Error;
use esker_server::{Server, Settings};
use esker_terminal::context::Context;
use esker_terminal::exit::Outcome;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;
use tempfile::NamedTempFile;

/// Interval between checks for signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) fn run(args: &ConsoleArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    run_at(args, None, context)
}

/// Opens the console at the lineage of a vertex, or at its first page.
pub(super) fn run_at(
    args: &ConsoleArgs,
    vertex: Option<&str>,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let page = vertex.map_or_else(String::new, |id| format!("#/lineage?id={id}"));
    if Address::is_address(&args.target) {
        let address = Address::parse(&args.target)?;
        return show_remote(&Endpoint::from(&address), &page, args, context);
    }
    let database = context.open_options().open(&args.target)?;
    match (database.role(), database.http_endpoint()) {
        (_, Some(place)) => {
            drop(database);
            show_remote(&place, &page, args, context)
        }
        (Role::Attached { .. }, None) => Err(Error::InUse(format!(
            "another program has `{}` open and does not serve the console: close it, or let a server have the database (`esker serve {0}`)",
            args.target
        ))
        .into()),
        _ => serve_local(database, &page, args, context),
    }
}

/// Shows the pages of another process through a tunnel.
fn show_remote(
    place: &Endpoint,
    page: &str,
    args: &ConsoleArgs,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let tunnel = Tunnel::new(args.port)?;
    let interrupt = context.interrupt.clone();
    let stop = move || interrupt.stopped().is_some();
    tunnel.try_out(place, &stop)?;
    let url = format!("http://{}/{page}", tunnel.address());
    print_and_open(&url, args.print, context)?;
    tunnel.run(place.clone(), &stop)?;
    Ok(Outcome::Done)
}

/// Serves the pages of a database that this process has opened, to this machine.
fn serve_local(
    database: Database,
    page: &str,
    args: &ConsoleArgs,
    context: &mut Context,
) -> anyhow::Result<Outcome> {
    let settings = Settings {
        listen: format!("127.0.0.1:{}", args.port),
        ..Settings::default()
    };
    let server = Server::start(database, settings)?;
    let way = BrowserAccess::to(&server, Path::new(&args.target))?;
    // A ticket takes the place of the page.
    let url = match &way {
        BrowserAccess::Plain(url) => format!("{url}{page}"),
        BrowserAccess::File(_) => way.url(),
    };
    print_and_open(&url, args.print, context)?;
    while context.interrupt.stopped().is_none() && server.stop_request().is_none() {
        std::thread::sleep(SIGNAL_INTERVAL);
    }
    drop(way);
    let whole = server.stop()?;
    Ok(Outcome::partly_if(!whole))
}

/// The way in which the browser of the server's owner opens the pages. Other users can read addresses in process lists and logs, so an
/// address that grants access is put into a file.
pub(super) enum BrowserAccess {
    /// The address of the pages; the kernel says which user the browser belongs to.
    Plain(String),
    /// A page, readable by this user only, that redirects to an address with a ticket.
    File(NamedTempFile),
}

impl BrowserAccess {
    /// Chooses the way to a server's pages; a file is created in the database's folder, which the server's sandbox permits.
    pub(super) fn to(server: &Server, folder: &Path) -> anyhow::Result<Self> {
        if server.knows_own_user() {
            return Ok(Self::Plain(server.console_url()));
        }
        Self::by_file(folder, &server.console_link()?)
    }

    fn by_file(folder: &Path, link: &str) -> anyhow::Result<Self> {
        let failed = |e| Error::io("writing a page that opens the console", e);
        // The file's mode is 0600.
        let mut file = tempfile::Builder::new()
            .prefix("esker-console-")
            .suffix(".html")
            .tempfile_in(std::path::absolute(folder)?)
            .map_err(failed)?;
        writeln!(
            file,
            "<!DOCTYPE html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\"><title>Esker</title>\
             <meta http-equiv=\"refresh\" content=\"0;url={link}\"><p><a href=\"{link}\">the console</a></p>"
        )
        .map_err(failed)?;
        Ok(Self::File(file))
    }

    /// Returns the address for the browser, which has no secret.
    pub(super) fn url(&self) -> String {
        match self {
            Self::Plain(url) => url.clone(),
            Self::File(file) => format!("file://{}", file.path().display()),
        }
    }
}

fn print_and_open(url: &str, only_print: bool, context: &mut Context) -> anyhow::Result<()> {
    writeln!(context.out, "{url}")?;
    context.out.flush()?;
    if !only_print {
        start_browser(url, context);
    }
    Ok(())
}

/// Prints the address of a new server's pages, and opens it in a browser if there is a screen.
pub(super) fn show(url: &str, opener: Opener, context: &Context) {
    context.note(&format!("the console: {url}"));
    if !has_screen(context) {
        return;
    }
    if let Err(e) = opener.open(url) {
        context.warn(&format!(
            "no browser could be started ({e}): open the address yourself"
        ));
    }
}

/// A process that opens one address in a browser. It starts before its parent gives up the right to start programs.
pub(crate) struct Opener {
    child: std::process::Child,
}

impl Opener {
    /// Starts the process; it waits for [`Self::open`].
    pub(crate) fn start() -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let child = std::process::Command::new(program)
            .arg("open-address")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .context("starting a process that opens the browser")?;
        Ok(Self { child })
    }

    /// Passes the address on over a pipe, because every user can read the arguments of a program.
    fn open(mut self, url: &str) -> std::io::Result<()> {
        let Some(mut input) = self.child.stdin.take() else {
            return Ok(());
        };
        writeln!(input, "{url}")
    }
}

/// `esker open-address`: opens the address on standard input, if there is one.
pub(crate) fn open_address(context: &Context) -> anyhow::Result<Outcome> {
    let mut url = String::new();
    std::io::stdin().read_line(&mut url)?;
    let url = url.trim();
    if url.is_empty() {
        return Ok(Outcome::Done);
    }
    if let Err(e) = open::that_detached(url) {
        context.warn(&format!(
            "no browser could be started ({e}): open the address yourself"
        ));
    }
    Ok(Outcome::Done)
}

/// Whether there is a screen; without one some systems would start a browser in this terminal.
fn has_screen(context: &Context) -> bool {
    let screen = cfg!(target_os = "macos")
        || ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"]
            .iter()
            .any(|name| std::env::var_os(name).is_some_and(|v| !v.is_empty()));
    if !screen {
        context.note("there is no display here: open the address in a browser of this machine, or through `ssh -L`");
    }
    screen
}

fn start_browser(url: &str, context: &Context) {
    if !has_screen(context) {
        return;
    }
    if let Err(e) = open::that_detached(url) {
        context.warn(&format!(
            "no browser could be started ({e}): open the address yourself"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_ticket_stands_in_a_file_of_this_user_alone() {
        let link = "http://127.0.0.1:7400/#/enter?ticket=77";
        let dir = tempfile::tempdir().unwrap();
        let way = BrowserAccess::by_file(dir.path(), link).unwrap();
        let url = way.url();
        assert!(!url.contains("ticket"), "{url}");
        let path = url.strip_prefix("file://").unwrap().to_owned();
        assert!(std::fs::read_to_string(&path).unwrap().contains(link));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(way);
        assert!(!Path::new(&path).exists());
    }
}
