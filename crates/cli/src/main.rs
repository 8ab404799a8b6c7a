//! `esker`: the command that imports, asks, changes and looks after a database.
//!
//! Suggested reading order: [`args`] says what can be typed, [`commands`] has one file for each command, [`context`] is
//! what all of them are given, [`output`] is how they print. [`exit`] decides what the exit code is.

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

/// Most calls make and drop small things on several threads; `esker bench mount` is a tenth faster with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    panic::install_hook();
    commands::main(std::env::args_os())
}
