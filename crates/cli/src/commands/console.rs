//! `esker console`: the pages in a browser, wherever the data is.

use crate::args::ConsoleArgs;
use crate::context::Context;
use crate::exit::Outcome;
use esker::rpc::Address;
use esker::rpc::http::Place;
use esker::rpc::tunnel::Tunnel;
use esker::{Database, Role};
use esker_model::Error;
use esker_server::{Server, Settings};
use std::time::Duration;

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
    present(&server.console_link()?, args.print, context)?;
    while context.interrupt.stopped().is_none() && server.asked().is_none() {
        std::thread::sleep(LOOK);
    }
    let whole = server.stop()?;
    Ok(Outcome::partly_if(!whole))
}

fn present(url: &str, only_print: bool, context: &mut Context) -> anyhow::Result<()> {
    use std::io::Write as _;
    writeln!(context.out, "{url}")?;
    context.out.flush()?;
    if !only_print {
        start_browser(url, context);
    }
    Ok(())
}

/// Shows pages to whoever started a server: says where they are, and opens them where there is a screen.
pub(super) fn show(url: &str, context: &Context) {
    context.note(&format!("the console: {url}"));
    start_browser(url, context);
}

fn start_browser(url: &str, context: &Context) {
    // Without a screen some systems would start a browser in this terminal.
    let screen = cfg!(target_os = "macos")
        || ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"]
            .iter()
            .any(|name| std::env::var_os(name).is_some_and(|v| !v.is_empty()));
    if !screen {
        context.note("there is no screen here: open the address in a browser of this machine, or through `ssh -L`");
        return;
    }
    if let Err(e) = open::that_detached(url) {
        context.warn(&format!(
            "no browser could be started ({e}): open the address yourself"
        ));
    }
}
