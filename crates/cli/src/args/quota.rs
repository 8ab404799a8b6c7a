//! Arguments of `esker quota`.

use super::{FormatArgs, Target};
use clap::Args;

#[derive(Debug, Args)]
#[command(
    after_help = "Limits are in the configuration of the server, in the section [quotas].\n\nExamples:\n  \
                  esker quota esker://lab-server:7400\n  \
                  esker quota lab.esker --all --format json"
)]
pub(crate) struct QuotaArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Show all users, groups and projects; for administrators
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}
