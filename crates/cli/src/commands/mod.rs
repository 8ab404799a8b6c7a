//! The commands, one file each: from arguments to output.

mod audit;
mod backup;
mod changes;
mod check;
pub(crate) mod cluster;
mod command_trace;
mod compact;
mod completions;
mod console;
mod delete;
mod demo;
mod diff;
mod doctor;
mod edges;
mod export;
mod export_record;
mod export_ro_crate;
mod find;
mod get;
mod grant;
mod graphar;
mod harvest;
mod history;
mod import_darshan;
mod import_openlineage;
mod import_sacct;
mod import_table;
mod index;
mod init;
mod lineage;
mod link;
mod login;
mod man;
mod mcp;
pub(crate) mod mount;
mod mount_helper;
mod namespace;
mod object;
mod placement;
mod program;
mod prov;
mod put;
mod quota;
pub(crate) mod rdf;
mod remote;
mod restore;
mod run;
mod scan;
mod schema;
mod serve;
mod set;
mod share;
mod site;
mod stats;
mod tag;
mod top;
pub(crate) mod travel;
mod upgrade;
mod write;

use crate::args::{self, Command, ImportCommand, NamespaceCommand, PlacementCommand, TopBy};
use crate::shell;
use clap::error::{ContextKind, ContextValue};
use command_trace::CommandTrace;
use esker_model::Error;
use esker_terminal::args::Color;
use esker_terminal::context::Context;
use esker_terminal::exit::{self, Outcome, usage};
use esker_terminal::interrupt::Interrupt;
use esker_terminal::output::Style;
use esker_terminal::program as process;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

/// Advice for a command line without a target.
const NO_TARGET: &str = "TARGET is the folder of a database, or esker://HOST:PORT. It can be left out if $ESKER_TARGET names one, or if this \
                         folder or one above it has a database `.esker` (`esker init` creates one here).";
/// Error of `esker run` without a target.
const NO_TARGET_OF_RUN: &str = "expected a database: give `--target TARGET`, set $ESKER_TARGET, or create one here with `esker init`; \
                                or leave the run in the spool with `--leave`";

/// Runs the process: parses the command line, runs the command, reports errors.
pub(crate) fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let code = run_process(args);
    esker_telemetry::stop();
    code
}

fn run_process(args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut args: Vec<OsString> = args.collect();
    match mount_helper::run(&args) {
        Ok(None) => {}
        Ok(Some(outcome)) => return exit::exit_code(outcome.code()),
        Err(error) => {
            return exit::exit_code(process::complain(&error, Style::new(Color::Auto, false)));
        }
    }
    let definition = args::command();
    let default = args::add_default(&definition, &mut args);
    let trace = CommandTrace::begin(&definition, &args);
    let mut cli = match args::parse(definition, args) {
        Ok(cli) => cli,
        Err(error) => return print_usage(&error, default.as_ref()),
    };
    // `run` comes before any signal handler is installed, because signals are for the program that it runs.
    if let Command::Run(args) = &mut cli.command {
        if cli.globals.trust_new_host {
            esker_access::known_hosts::trust_new_hosts();
        }
        if args.target.is_none() {
            args.target = args::DefaultTarget::find().map(|default| default.target);
        }
        if args.target.is_none() && !args.leave {
            let error = usage(NO_TARGET_OF_RUN);
            return exit::exit_code(process::complain(
                &error,
                Style::new(cli.globals.color, false),
            ));
        }
        return exit::exit_code(run::main(args, &cli.globals));
    }
    process::run(cli.globals, |context, interrupt| {
        if prints_lists(&cli.command) {
            context.start_pager();
        }
        let done = run_command(cli.command, context, interrupt);
        trace.end(&done);
        if let Some(default) = default.filter(|_| done.is_err()) {
            context.note(&default.origin);
        }
        done
    })
}

/// Whether the result of a command may be longer than a terminal is high.
fn prints_lists(command: &Command) -> bool {
    matches!(
        command,
        Command::Changes(_)
            | Command::Diff(_)
            | Command::Edges(_)
            | Command::Find(_)
            | Command::Get(_)
            | Command::History(_)
            | Command::Impact(_)
            | Command::Lineage(_)
            | Command::Log(_)
            | Command::Ls(_)
            | Command::Quota(_)
            | Command::Sparql(_)
            | Command::Stats(_)
            | Command::Top(_)
            | Command::Travel(_)
    )
}

/// Prints a usage error with what is known of the target, or the help or version.
fn print_usage(error: &clap::Error, default: Option<&args::DefaultTarget>) -> ExitCode {
    let code = process::print_usage(error);
    let missing = error.get(ContextKind::InvalidArg);
    let is_target_missing = matches!(missing, Some(ContextValue::Strings(all)) if all.iter().any(|one| one == "<TARGET>"));
    let note = match default {
        Some(default) if error.use_stderr() => default.origin.as_str(),
        None if is_target_missing => NO_TARGET,
        _ => return code,
    };
    let _ = writeln!(io::stderr(), "\n{note}");
    code
}

/// Runs one command of the shell, prints its error if it fails, and returns its exit code.
pub(crate) fn run_to_code(command: Command, context: &mut Context, interrupt: &Interrupt) -> u8 {
    process::run_to_code(context, |context| run_command(command, context, interrupt))
}

fn run_command(
    command: Command,
    context: &mut Context,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    match command {
        Command::Demo(args) => demo::run(&args, context, interrupt),
        Command::Init(args) => init::run(&args, context),
        Command::Mount(args) => mount::mount(&args, context),
        Command::Umount(args) => mount::umount(&args),
        Command::Import(args) => match args.command {
            ImportCommand::Darshan(args) => import_darshan::run(&args, context),
            ImportCommand::Sacct(args) => import_sacct::run(&args, context),
            ImportCommand::OpenLineage(args) => import_openlineage::run(&args, context),
            ImportCommand::Prov(args) => prov::import(&args, context),
            ImportCommand::Vertices(args) => {
                import_table::run(&args, args::TableKind::Vertices, context)
            }
            ImportCommand::Edges(args) => import_table::run(&args, args::TableKind::Edges, context),
            ImportCommand::Graphar(args) => graphar::import(args, context),
            ImportCommand::Tree(args) => namespace::import_tree(&args, context),
        },
        Command::Export(args) => export::run(&args.command, context),
        // Only the shell reaches this; `main` handles the command otherwise.
        Command::Run(args) => Ok(Outcome::Program(run::main(&args, &context.globals))),
        Command::Log(args) => run::log::run(&args, context),
        Command::Spool(args) => run::deliver::run(&args.command, context),
        Command::Doctor(args) => doctor::run(&args, context),
        Command::Lineage(args) => lineage::lineage(&args, context),
        Command::Impact(args) => lineage::impact(&args, context),
        Command::Get(args) => get::run(&args, context),
        Command::Edges(args) => edges::run(&args, context),
        Command::Scan(args) => scan::run(args, context),
        Command::History(args) => history::run(&args, context),
        Command::Put(args) => put::run(&args, context),
        Command::Link(args) => link::run(&args, context),
        Command::Set(args) => set::run(&args, context),
        Command::Delete(args) => delete::run(&args, context),
        Command::Travel(args) => travel::run(&args, context),
        Command::Object(args) => object::run(&args.command, context),
        Command::Find(args) if remote::is_remote(&args.target.target, &args.remote) => {
            remote::find(&args, context)
        }
        Command::Find(args) if args.filter.starts_with('/') => namespace::find(&args, context),
        Command::Find(args) => find::run(&args, context),
        Command::Harvest(args) => harvest::run(&args, context),
        Command::Tag(args) => tag::run(&args.command, context),
        Command::Index(args) => index::run(&args.command, context),
        Command::Grant(args) => grant::grant(&args, context),
        Command::Revoke(args) => grant::revoke(&args, context),
        Command::Audit(args) => audit::run(&args.command, context),
        Command::Share(args) => share::run(&args, context),
        Command::Login(args) => login::login(&args, context),
        Command::Logout(args) => login::logout(&args, context),
        Command::Schema(args) => schema::run(&args, context),
        Command::Quota(args) => quota::run(&args, context),
        Command::Stats(args) => stats::run(&args, context),
        Command::Ls(args) if remote::is_remote(&args.target.target, &args.remote) => {
            remote::ls(&args, context)
        }
        Command::Stat(args) if remote::is_remote(&args.target.target, &args.remote) => {
            remote::stat(&args, context)
        }
        Command::Ls(args) => namespace::ls(&args, context),
        Command::Stat(args) => namespace::stat(&args, context),
        Command::Mkdir(args) => namespace::mkdir(&args, context),
        Command::Touch(args) => namespace::touch(&args, context),
        Command::Mv(args) => namespace::mv(&args, context),
        Command::Rm(args) => namespace::rm(&args, context),
        Command::Ln(args) => namespace::ln(&args, context),
        Command::Chmod(args) => namespace::chmod(&args, context),
        Command::Chown(args) => namespace::chown(&args, context),
        Command::Df(args) => namespace::df(&args, context),
        Command::Du(args) => namespace::du(&args, context),
        Command::Namespace(args) => match &args.command {
            NamespaceCommand::Explain(args) => namespace::explain(args, context),
        },
        Command::Sparql(args) => rdf::sparql(&args, context),
        Command::Rdf(args) => rdf::run(&args.command, context),
        Command::Top(args) if args.by == TopBy::Degree => top::run(&args, context),
        Command::Top(args) => namespace::top(&args, context),
        Command::Diff(args) => diff::run(&args, context),
        Command::Changes(args) => changes::run(&args, context),
        Command::Check(args) => check::run(&args, context),
        Command::Compact(args) => compact::run(&args, context),
        Command::Placement(args) => match &args.command {
            PlacementCommand::Explain(args) => placement::explain(args, context),
        },
        Command::Bench(_) => program::run_program("esker-bench", Some("bench"), context),
        Command::Backup(args) => backup::run(&args, context),
        Command::Restore(args) => restore::run(&args, context),
        Command::Upgrade(args) => upgrade::run(&args, context),
        Command::Serve(args) => serve::run(&args, context),
        Command::Console(args) => console::run(&args, context),
        Command::OpenAddress => console::open_address(context),
        Command::DecodeMunge { socket } => serve::decode_munge(socket.as_deref()),
        Command::Mcp(args) => mcp::run(&args, context),
        Command::Cluster(args) => cluster::run(&args.command, context),
        Command::Site(args) => site::run(&args.command, context),
        Command::Shell(args) => shell::run(&args, context, interrupt),
        Command::Completions(args) => completions::run(&args, context),
        Command::Man(args) => man::run(&args, context),
    }
}

/// Prints a note on stderr if work was interrupted, so that the output is incomplete.
fn note_if_stopped(context: &Context) -> Outcome {
    match context.interrupt.stopped() {
        None => Outcome::Done,
        Some(why) => {
            context.warn(&format!(
                "stopped before the end ({}): what is shown is partial",
                why.name()
            ));
            Outcome::Partly
        }
    }
}

/// Whether an error only says that the caller stopped the work.
fn is_interrupted(error: &Error) -> bool {
    matches!(error, Error::Interrupted)
}

/// Whether standard input is a terminal.
pub(crate) fn stdin_is_terminal() -> bool {
    io::stdin().is_terminal()
}
