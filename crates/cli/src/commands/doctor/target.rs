//! Checks of the database: whether it answers, how it is reached, this user's rights, its clock.

use super::Finding;
use esker::{Database, Role};
use esker_model::{Batch, GraphRead as _, GraphWrite as _};
use esker_terminal::context::Context;
use esker_terminal::exit::message_of;
use esker_terminal::units::elapsed;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Maximum difference of clocks; beyond it, runs and a server's other events are out of order.
const CLOCK_MAX: Duration = Duration::from_secs(2);

/// Checks a database. Returns the process that has it open, if that is another one of this machine.
pub(super) fn check(
    target: Option<&str>,
    context: &mut Context,
    out: &mut Vec<Finding>,
) -> Option<u32> {
    let Some(target) = target else {
        out.push(Finding::absent(
            "target",
            "none is named",
            "name one, or set $ESKER_TARGET to a folder or esker://HOST:PORT",
        ));
        return None;
    };
    let is_server = target.contains("://");
    if !is_server && !Path::new(target).exists() {
        out.push(Finding::absent(
            "target",
            format!("there is no folder `{target}` yet"),
            format!("esker init {target}; or the first `esker run --target {target}` makes it"),
        ));
        return None;
    }
    if Path::new(target).join(esker::CLUSTER_FILE).is_file() {
        out.push(Finding::absent(
            "target",
            format!("{target} is the storage of a cluster: nothing was asked of its servers"),
            "name one of them: esker doctor esker://HOST:PORT",
        ));
        return None;
    }
    let began = Instant::now();
    let database = match context.open_options().create(false).open(target) {
        Ok(database) => database,
        Err(e) => {
            let remedy = if is_server {
                "start the server (`esker serve FOLDER --listen …`), or check the address and the network; runs wait in the spool meanwhile"
            } else {
                "esker check tells more about a damaged folder; a lock is released when its process ends"
            };
            let e = anyhow::Error::new(e);
            out.push(Finding::wrong("target", message_of(&e), remedy));
            return None;
        }
    };
    let took = elapsed(began.elapsed());
    let door = match database.role() {
        Role::Owner => "opened by this process".to_owned(),
        Role::Attached { pid } => format!("through process {pid}, which has it open"),
        Role::Client { pid } => format!("through the server, its process {pid}"),
    };
    out.push(Finding::fine(
        "target",
        format!("{target}: {door}, in {took}"),
    ));
    access(&database, target, is_server, out);
    if is_server {
        server(&database, out);
    }
    let owner = match database.role() {
        Role::Attached { pid } if !is_server => Some(pid),
        _ => None,
    };
    // Closing can fail only for writes, and nothing was written.
    let _ = database.close();
    owner
}

fn access(database: &Database, target: &str, is_server: bool, out: &mut Vec<Finding>) {
    let remedy = if is_server {
        format!("an owner lets you: esker grant {target} KEY write")
    } else {
        format!("the folder's owner gives you the right to write to {target}")
    };
    if let Err(e) = database.schema() {
        let e = anyhow::Error::new(e);
        out.push(Finding::wrong("access", message_of(&e), remedy));
        return;
    }
    // An empty batch fails if this user may not write.
    match database.apply(Batch::new()) {
        Ok(_) => out.push(Finding::fine("access", "reads and writes")),
        Err(e) => {
            let why = message_of(&anyhow::Error::new(e));
            out.push(Finding::wrong(
                "access",
                format!("reads, but does not write: {why}"),
                remedy,
            ));
        }
    }
}

fn server(database: &Database, out: &mut Vec<Finding>) {
    let own = env!("CARGO_PKG_VERSION");
    let before = SystemTime::now();
    let (version, clock) = match database.about_server() {
        Ok(Some(about)) => about,
        Ok(None) => return,
        Err(e) => {
            let e = anyhow::Error::new(e);
            out.push(Finding::wrong("server", message_of(&e), "see its log"));
            return;
        }
    };
    // The server's time is that of the middle of the round trip.
    let here = before + before.elapsed().unwrap_or_default() / 2;
    if version == own {
        out.push(Finding::fine("server", format!("esker {version}, as here")));
    } else {
        let version = if version.is_empty() {
            "an earlier release".to_owned()
        } else {
            format!("esker {version}")
        };
        out.push(Finding::absent(
            "server",
            format!("{version}; here is {own}"),
            "the same release on both sides has all that both can do",
        ));
    }
    if clock == 0 {
        return;
    }
    let there = UNIX_EPOCH + Duration::from_millis(clock);
    let (apart, how) = match there.duration_since(here) {
        Ok(ahead) => (ahead, "ahead of this machine's"),
        Err(e) => (e.duration(), "behind this machine's"),
    };
    let found = format!("the server's is {} ms {how}", apart.as_millis());
    out.push(if apart <= CLOCK_MAX {
        Finding::fine("clock", found)
    } else {
        Finding::wrong(
            "clock",
            found,
            "set both by NTP (chrony, systemd-timesyncd): times of runs are this machine's, versions the server's",
        )
    });
}
