//! Tests of the mount through the calls that programs use.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stderr, reason = "what is left out is told")]

mod acls;
mod basic;
mod broken;
mod contents;
mod crash;
mod death;
mod deep;
mod failing;
mod flags;
mod history;
mod mapped;
mod other_users;
mod past;
mod people;
mod programs;
mod rules;
mod rules_names;
mod rules_table;
mod scratch;
mod views;
