//! Arguments of `esker mcp`.

use super::Target;
use super::object::AskerArg;
use clap::Args;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(
    after_help = "Speaks the Model Context Protocol over standard input and output, as assistants start it. Nothing can be changed through it. Each answer says \
                  which edges and versions it stands on, what seconds, rows and bytes it was given, and what was left out for it.\n\nExamples:\n  \
                  esker mcp lab.esker\n  \
                  esker mcp esker://login1:7400 --as 1001:100 --max-rows 50"
)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Rows, vertices or edges of an answer, at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) max_rows: u32,
    /// Bytes of an answer, at most; as 64KiB
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = crate::units::parse_size)]
    pub(crate) max_bytes: u64,
    /// How long a question may take, as 20s
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = crate::units::parse_duration)]
    pub(crate) max_time: Duration,
    #[command(flatten)]
    pub(crate) asker: AskerArg,
}
