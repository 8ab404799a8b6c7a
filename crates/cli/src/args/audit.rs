//! Arguments of `esker audit`.

use super::{FormatArgs, Target};
use crate::times::{parse_as_of, parse_at};
use clap::{Args, Subcommand, ValueEnum};
use esker_audit::Head;
use esker_model::Version;
use std::str::FromStr as _;

#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "TARGET is the folder of a database, the storage folder of a cluster, or the folder of a log itself.\n\nExamples:\n  \
        esker audit show lab.esker --refused --since 2026-11-01\n  \
        esker audit verify lab.esker\n  \
        esker audit export lab.esker --format syslog | logger --no-act --stderr"
)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    pub(crate) command: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Print records of requests
    Show(AuditShowArgs),
    /// Check that no record was changed or removed
    Verify(AuditVerifyArgs),
    /// Convert all records for another system
    Export(AuditExportArgs),
    /// Print the number and hash of the last record, to be kept elsewhere
    Head(AuditHeadArgs),
}

/// Conditions that select records.
#[derive(Debug, Args)]
pub(crate) struct SelectionArgs {
    /// Earliest time of a record
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    pub(crate) since: Option<Version>,
    /// Latest time of a record
    #[arg(long, value_name = "TIME", value_parser = parse_as_of)]
    pub(crate) until: Option<Version>,
    /// Sender: a login name, a number, a part of its key's comment; or the number of a user on whose behalf it asked
    #[arg(long, value_name = "NAME|UID")]
    pub(crate) principal: Option<String>,
    /// Part of the name of a call or of a route, as in `apply` or `/api/v1/find`
    #[arg(long, value_name = "NAME")]
    pub(crate) call: Option<String>,
    /// Only records of refused requests
    #[arg(long)]
    pub(crate) refused: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "With --format ndjson, each line is printed as it is in the log.\n\nExamples:\n  \
                  esker audit show lab.esker --principal bob --call apply\n  \
                  esker audit show lab.esker --refused --follow --format ndjson"
)]
pub(crate) struct AuditShowArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    /// Print new records as they come, until Ctrl-C; with --format ndjson
    #[arg(long)]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The exit code is 1 if a record was changed or is missing. Somebody who can write the folder can rewrite all of it: keep \
                  the output of `esker audit head` elsewhere, and give it to --head.\n\nExamples:\n  \
                  esker audit verify lab.esker\n  \
                  esker audit verify lab.esker --head \"$(cat lab.head)\""
)]
pub(crate) struct AuditVerifyArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Number and hash of a record that must be in the log, as `esker audit head` printed them; may be repeated
    #[arg(long = "head", value_name = "SEQ:HASH", value_parser = Head::from_str)]
    pub(crate) heads: Vec<Head>,
}

/// Form of exported records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditForm {
    /// The lines of the log, one JSON object each
    Json,
    /// Lines of syslog (RFC 5424) with an event of OCSF as message
    Syslog,
    /// Events of OCSF, class API Activity (6003), one JSON object each
    Ocsf,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  esker audit export lab.esker --format ocsf --since 2026-11-01 > events.ndjson\n  esker audit export lab.esker --format syslog --refused"
)]
pub(crate) struct AuditExportArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    /// Form of the records
    #[arg(long, value_enum)]
    pub(crate) format: AuditForm,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  esker audit head lab.esker\n  esker audit head lab.esker | ssh log-host 'cat >> lab.heads'"
)]
pub(crate) struct AuditHeadArgs {
    #[command(flatten)]
    pub(crate) target: Target,
}
