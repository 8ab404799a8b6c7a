//! Arguments of `esker grant`, `esker revoke` and `esker share`.

use super::{FormatArgs, PrincipalArg, Target};
use crate::times::parse_at;
use clap::{Args, ValueEnum};
use esker_access::{Role, UserBinding};
use esker_model::Version;
use esker_model::sharing::ShareId;
use esker_terminal::units::parse_duration;
use std::str::FromStr as _;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(
    after_help = "Rights are lines of the file authorized_keys in the database's folder, in the form of OpenSSH; a server sees \
                  at once that it has changed. The same file in ~/.esker opens all databases of this user (--all). TARGET may be \
                  a server where you have role admin, or the storage folder of a cluster.\n\n\
                  Programs that cannot use SSH keys send a token: Authorization: Bearer TOKEN, over https.\n\n\
                  Examples:\n  \
                  esker grant lab.esker --key ~bob/.ssh/id_ed25519.pub --role read\n  \
                  esker grant lab.esker --key 'ssh-ed25519 AAAA… ann@lab' --role write --for 90d --from 10.0.0.0/8\n  \
                  esker grant lab.esker --list\n  \
                  esker grant lab.esker --token --role read --for 8h"
)]
pub(crate) struct GrantArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// File of a public key, or the key itself
    #[arg(long, value_name = "FILE|KEY", required_unless_present_any = ["list", "token"], conflicts_with_all = ["list", "token"])]
    pub(crate) key: Option<String>,
    /// Role that the key or the token gets
    #[arg(long, value_enum, default_value_t = RoleArg::Read)]
    pub(crate) role: RoleArg,
    /// Bind the key or the token to a user, by login name or by numbers: it reads only what that user may read, whatever --as or `uid`
    /// its client sends. Role `read` only
    #[arg(long = "as", value_name = "USER|UID[:GID,…]", value_parser = UserBinding::from_str)]
    pub(crate) user: Option<UserBinding>,
    /// Lifetime of the rights, as in 8h or 90d [default: no end for a key, 8h for a token]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_days)]
    pub(crate) period: Option<Duration>,
    /// Addresses and networks from which the key may be used, separated by commas, as in 10.0.0.0/8,!10.1.*
    #[arg(long, value_name = "LIST", requires = "key")]
    pub(crate) from: Option<String>,
    /// Give the rights on all databases of this user (in ~/.esker), not only on TARGET
    #[arg(long, requires = "key")]
    pub(crate) all: bool,
    /// Create a token instead, and print it
    #[arg(long, conflicts_with = "list")]
    pub(crate) token: bool,
    /// List all rights, sessions of the console, and the server's own key
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A line in authorized_keys records the revocation, so that the key is refused even where ~/.esker gives it rights. \
                  Open connections and sessions of the console lose their rights, too. A single session is ended by its name, \
                  which `esker grant TARGET --list` shows.\n\n\
                  Examples:\n  \
                  esker revoke lab.esker --key ~bob/.ssh/id_ed25519.pub\n  \
                  esker revoke lab.esker --key SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8\n  \
                  esker revoke lab.esker --key token:4be3dca9a55c\n  \
                  esker revoke lab.esker --key session:9f2c41d07ab3\n  \
                  esker revoke lab.esker --key - < token"
)]
pub(crate) struct RevokeArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The key to revoke: the file of a public key, the key itself, its fingerprint, or the comment of exactly one key; a token or a
    /// session by its name, as --list shows it; or - to read one of these, or a token, from standard input (all users of a machine can
    /// see arguments)
    #[arg(long, value_name = "FILE|KEY|FINGERPRINT|-")]
    pub(crate) key: String,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A share shows files and objects in the graph, with their present names and their attributes: lineage, impact, get, \
                  edges, history, travel. It gives no access to contents, to the listing of files or to searches. It opens what is in \
                  the lineage now and belongs to the user who shares; share again to add what came later. Sharing the same vertex \
                  with the same users again replaces the share.\n\n\
                  Examples:\n  \
                  esker share lab.esker file:/scratch/plot.png --with bob,@climate --for 30d\n  \
                  esker share lab.esker file:/scratch/raw.h5 --impact --with 1002 --until 2027-01-01\n  \
                  esker share lab.esker --list\n  \
                  esker share lab.esker --revoke 9a0364b9e99bb480"
)]
pub(crate) struct ShareArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The vertex, as TYPE:KEY or the path of a file
    #[arg(value_name = "VERTEX", required_unless_present_any = ["list", "revoke"], conflicts_with_all = ["list", "revoke"], requires = "with")]
    pub(crate) vertex: Option<String>,
    /// Users, by login name or number, and groups with @ before their name or number, as in bob,1003,@climate
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "vertex")]
    pub(crate) with: Vec<String>,
    /// Share what was derived from the vertex, instead of what it was derived from
    #[arg(long, requires = "vertex")]
    pub(crate) impact: bool,
    /// Maximum number of jobs on a path
    #[arg(long, value_name = "N", requires = "vertex")]
    pub(crate) depth: Option<u32>,
    /// Edge types from data to the job that made it [default: wasWrittenBy]
    #[arg(
        long,
        value_name = "EDGETYPE",
        value_delimiter = ',',
        requires = "vertex"
    )]
    pub(crate) made_by: Vec<String>,
    /// Edge types from a job to the data that it used [default: read]
    #[arg(
        long,
        value_name = "EDGETYPE",
        value_delimiter = ',',
        requires = "vertex"
    )]
    pub(crate) used: Vec<String>,
    /// Time at which the share ends [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_at, requires = "vertex", conflicts_with = "period")]
    pub(crate) until: Option<Version>,
    /// Lifetime of the share, as in 8h or 30d
    #[arg(long = "for", value_name = "TIME", value_parser = parse_days, requires = "vertex")]
    pub(crate) period: Option<Duration>,
    /// List the shares, each with its number
    #[arg(long, conflicts_with = "revoke")]
    pub(crate) list: bool,
    /// End the share with this number
    #[arg(long, value_name = "ID", value_parser = ShareId::from_str)]
    pub(crate) revoke: Option<ShareId>,
    #[command(flatten)]
    pub(crate) principal: PrincipalArg,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

/// Role of a key or a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleArg {
    /// Send OpenLineage events and Slurm jobs, and nothing else: for schedulers
    Ingest,
    /// Read
    Read,
    /// Read, and change data, types and indexes, including those that others recorded, and the access to RDF graphs
    Write,
    /// Write, and administer the database: repair, compact, back up, grant rights
    Admin,
}

impl From<RoleArg> for Role {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::Ingest => Self::Ingest,
            RoleArg::Read => Self::Read,
            RoleArg::Write => Self::Write,
            RoleArg::Admin => Self::Admin,
        }
    }
}

/// Reads a duration that may also be in days.
fn parse_days(text: &str) -> Result<Duration, String> {
    if let Some(days) = text.strip_suffix('d')
        && let Ok(days) = days.parse::<u32>()
        && days > 0
    {
        return Ok(Duration::from_secs(u64::from(days) * 86_400));
    }
    parse_duration(text)
}
