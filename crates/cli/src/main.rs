//! `esker`, the command that imports, queries, changes and maintains databases.
//!
//! Suggested reading order: [`args`] defines the command line, [`commands`] has one file for each command, `esker_terminal`
//! has their options, context, output and exit codes.

mod args;
mod commands;
mod file_attributes;
mod graph;
mod name_service;
mod near;
mod nofollow;
mod share;
mod shell;
mod times;
mod values;

use std::process::ExitCode;

/// Most commands allocate and free small blocks on several threads; `esker bench mount` is a tenth faster with this allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    esker_terminal::program::install_panic_hook();
    esker::rpc::oidc::stored::use_stored_logins();
    commands::main(std::env::args_os())
}
