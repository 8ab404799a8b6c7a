//! Parts of a command line that the programs of Esker share: the options of every command ([`args`]), the state that a command receives
//! ([`context`]), output ([`output`]), interrupts, exit codes ([`exit`], and [`help`] for their text), and the life of a process
//! ([`program`]).

pub mod args;
pub mod context;
pub mod exit;
pub mod help;
pub mod interrupt;
pub mod output;
mod pager;
mod panic;
pub mod program;
pub mod progress;
pub mod sparql;
pub mod step_chart;
pub mod units;
pub mod zone;
