//! Arguments of `esker demo`.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "The logs are part of this program, and nothing is downloaded. The people, programs and files in them are invented. A second \
                  run imports nothing again. Remove the folder to remove the demonstration.\n\n\
                  Examples:\n  esker demo\n  esker demo /tmp/lab.esker --open"
)]
pub(crate) struct DemoArgs {
    /// The database to fill; it is created if it does not exist
    #[arg(value_name = "FOLDER", default_value = "esker-demo")]
    pub(crate) folder: PathBuf,
    /// Open the lineage in the web console at the end, until Ctrl-C
    #[arg(long)]
    pub(crate) open: bool,
}
