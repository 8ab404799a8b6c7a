//! Arguments of `esker grant` and `esker revoke`.

use super::{FormatArgs, Target};
use crate::units::parse_duration;
use clap::{Args, ValueEnum};
use esker_access::Role;
use esker_model::object::Asker;
use std::str::FromStr as _;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(
    after_help = "Rights are lines of the file authorized_keys in the database's folder, in the form of OpenSSH; a server sees \
                  at once that it has changed. The same file in ~/.esker opens all databases of this user (--all). TARGET may be \
                  a server where one has role admin, or the storage folder of a cluster.\n\n\
                  Programs that know no SSH show a token: Authorization: Bearer TOKEN, over https.\n\n\
                  Examples:\n  \
                  esker grant lab.esker --key ~bob/.ssh/id_ed25519.pub --role read\n  \
                  esker grant lab.esker --key 'ssh-ed25519 AAAA… ann@lab' --role write --for 90d --from 10.0.0.0/8\n  \
                  esker grant lab.esker --list\n  \
                  esker grant lab.esker --token --role read --for 8h"
)]
pub(crate) struct GrantArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Whose rights: the file of a public key, or the key itself
    #[arg(long, value_name = "FILE|KEY", required_unless_present_any = ["list", "token"], conflicts_with_all = ["list", "token"])]
    pub(crate) key: Option<String>,
    /// What they may do
    #[arg(long, value_enum, default_value_t = RoleArg::Read)]
    pub(crate) role: RoleArg,
    /// Bind the key or the token to a user, by numbers: it reads what that user may read, and nothing else, whatever --as or `uid` its
    /// client sends. Role `read` only
    #[arg(long = "as", value_name = "UID[:GID,…]", value_parser = Asker::from_str)]
    pub(crate) user: Option<Asker>,
    /// For how long, as in 8h or 90d; without it a key's rights do not end, and a token's do after 8h
    #[arg(long = "for", value_name = "TIME", value_parser = parse_days)]
    pub(crate) period: Option<Duration>,
    /// From where the key may be used: addresses and networks with commas between them, as in 10.0.0.0/8,!10.1.*
    #[arg(long, value_name = "LIST", requires = "key")]
    pub(crate) from: Option<String>,
    /// In ~/.esker: for all databases of this user, whatever TARGET is
    #[arg(long, requires = "key")]
    pub(crate) all: bool,
    /// Make a token instead, and print it
    #[arg(long, conflicts_with = "list")]
    pub(crate) token: bool,
    /// Print who may do what, sessions of the console, and the server's own key
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A line that says so stays in authorized_keys: the key is refused then even where ~/.esker gives it rights. \
                  Connections that are open lose their rights, too, and so do sessions of the console. A session alone ends by its name, \
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
    /// Whose rights: the file of a public key, the key itself, its fingerprint, a comment that one key has; a token or a session by its name,
    /// as --list shows it; or - to read one of these, or a token, from standard input (arguments are seen by all users of a machine)
    #[arg(long, value_name = "FILE|KEY|FINGERPRINT|-")]
    pub(crate) key: String,
}

/// What somebody may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleArg {
    /// Send events of OpenLineage and jobs of Slurm, and nothing else: for schedulers
    Ingest,
    /// Ask
    Read,
    /// Change data, types and indexes as well: also what others recorded, and who may see a graph of RDF
    Write,
    /// Look after the database as well: repair, compact, back up, give rights
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

/// A time that may be days.
fn parse_days(text: &str) -> Result<Duration, String> {
    if let Some(days) = text.strip_suffix('d')
        && let Ok(days) = days.parse::<u32>()
        && days > 0
    {
        return Ok(Duration::from_secs(u64::from(days) * 86_400));
    }
    parse_duration(text)
}
