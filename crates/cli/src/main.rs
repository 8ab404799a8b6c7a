//! `esker`, the command that imports, queries, changes and maintains databases.
//!
//! Suggested reading order: [`args`] defines the command line, [`commands`] has one file for each command, [`context`] is the state that
//! all of them receive, [`output`] prints. [`exit`] decides the exit code.

mod args;
mod bench;
mod commands;
mod context;
mod exit;
mod graph;
mod interrupt;
mod nofollow;
mod output;
mod panic;
mod progress;
mod share;
mod shell;
mod times;
mod units;
mod values;

use std::process::ExitCode;

/// Most commands allocate and free small blocks on several threads; `esker bench mount` is a tenth faster with this allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    panic::install_hook();
    commands::main(std::env::args_os())
}
