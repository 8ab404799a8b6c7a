//! `esker console`: the pages in a browser, wherever the data is.

use crate::args::ConsoleArgs;
use crate::context::Context;
use crate::exit::Outcome;
use anyhow::Context as _;
use esker::rpc::Address;
use esker::rpc::http::Place;
use esker::rpc::tunnel::Tunnel;
use esker::{Database, Role};
use esker_model::Error;
use esker_server::{Server, Settings};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;
use tempfile::NamedTempFile;

/// How often the signals are looked at.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) fn run(args: &ConsoleArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    if Address::is_address(&args.target) {
        let address = Address::parse(&args.target)?;
        return pass_on(&Place::from(&address), args, context);
    }
    let database = context.open_options().open(&args.target)?;
    match (database.role(), database.http_place()) {
        (_, Some(place)) => {
            drop(database);
            pass_on(&place, args, context)
        }
        (Role::Attached { .. }, None) => Err(Error::Unavailable(format!(
            "another program has `{}` open and serves no pages: have it closed, or let a server have the database (`esker serve {0}`)",
            args.target
        ))
        .into()),
        _ => serve(database, args, context),
    }
}

/// Shows what another process serves.
fn pass_on(place: &Place, args: &ConsoleArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let tunnel = Tunnel::new(args.port)?;
    let interrupt = context.interrupt.clone();
    let stop = move || interrupt.stopped().is_some();
    tunnel.try_out(place, &stop)?;
    let url = format!("http://{}/", tunnel.address());
    present(&url, args.print, context)?;
    tunnel.run(place.clone(), &stop)?;
    Ok(Outcome::Done)
}

/// Serves it itself, to this machine.
fn serve(database: Database, args: &ConsoleArgs, context: &mut Context) -> anyhow::Result<Outcome> {
    let settings = Settings {
        listen: format!("127.0.0.1:{}", args.port),
        ..Settings::default()
    };
    let server = Server::start(database, settings)?;
    let way = Way::to(&server, Path::new(&args.target))?;
    present(&way.url(), args.print, context)?;
    while context.interrupt.stopped().is_none() && server.asked().is_none() {
        std::thread::sleep(LOOK);
    }
    drop(way);
    let whole = server.stop()?;
    Ok(Outcome::partly_if(!whole))
}

/// How a browser of whoever started a server comes to its pages. Addresses stand in lists of processes and in logs, where other users
/// read them: an address that lets in whoever has it goes into a file.
pub(super) enum Way {
    /// The kernel says whose the browser is: the address of the pages.
    Plain(String),
    /// A page, for this user alone, that leads to an address with a ticket.
    File(NamedTempFile),
}

impl Way {
    /// How a browser comes to a server's pages; a file lies in the database's folder, where the server's sandbox lets it be.
    pub(super) fn to(server: &Server, folder: &Path) -> anyhow::Result<Self> {
        if server.knows_own_user() {
            return Ok(Self::Plain(server.console_url()));
        }
        Self::by_file(folder, &server.console_link()?)
    }

    fn by_file(folder: &Path, link: &str) -> anyhow::Result<Self> {
        let failed = |e| Error::io("writing a page that opens the console", e);
        // Its mode is 0600.
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

    /// What a browser is told to open: no secret.
    pub(super) fn url(&self) -> String {
        match self {
            Self::Plain(url) => url.clone(),
            Self::File(file) => format!("file://{}", file.path().display()),
        }
    }
}

fn present(url: &str, only_print: bool, context: &mut Context) -> anyhow::Result<()> {
    writeln!(context.out, "{url}")?;
    context.out.flush()?;
    if !only_print {
        start_browser(url, context);
    }
    Ok(())
}

/// Shows pages to whoever started a server: says where they are, and opens them where there is a screen.
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
    /// Starts it; it waits for [`Self::open`].
    pub(crate) fn start() -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let child = std::process::Command::new(program)
            .arg("open-address")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .context("starting a process that opens the browser")?;
        Ok(Self { child })
    }

    /// Hands the address on. It is not among the arguments of a program of Esker's, where every user could read it.
    fn open(mut self, url: &str) -> std::io::Result<()> {
        let Some(mut input) = self.child.stdin.take() else {
            return Ok(());
        };
        writeln!(input, "{url}")
    }
}

/// `esker open-address`: opens the address that standard input holds, if it holds one.
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
        context.note("there is no screen here: open the address in a browser of this machine, or through `ssh -L`");
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
        let way = Way::by_file(dir.path(), link).unwrap();
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
