//! Arguments of `esker mcp`.

use super::PrincipalArg;
use super::Target;
use clap::Args;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(
    after_help = "Speaks the Model Context Protocol over standard input and output, as assistants start it. The tools cannot change anything. Each answer says \
                  which edges and versions it is based on, which limits of time, rows and bytes applied, and what they left out.\n\nExamples:\n  \
                  esker mcp lab.esker\n  \
                  esker mcp esker://login1:7400 --as 1001:100 --max-rows 50"
)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Maximum number of rows, vertices or edges of an answer
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) max_rows: u32,
    /// Maximum size of an answer, as 64KiB
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = esker_terminal::units::parse_size)]
    pub(crate) max_bytes: u64,
    /// Maximum time of a request, as 20s
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = esker_terminal::units::parse_duration)]
    pub(crate) max_time: Duration,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
}
