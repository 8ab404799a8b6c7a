//! Arguments of `esker login` and `esker logout`.

use clap::Args;

#[derive(Debug, Args)]
#[command(
    after_help = "The server names its OpenID provider. The command prints the address of a page of the provider and a code; open the \
                  page in any browser, on any machine, enter the code and log in. The tokens are stored in ~/.esker/tokens, which only \
                  you can read. Later commands send them to that server, over TLS, and renew them when they expire.\n\n\
                  Examples:\n  \
                  esker login esker://login1:7400\n  \
                  esker logout esker://login1:7400"
)]
pub(crate) struct LoginArgs {
    /// Address of the server: esker://HOST:PORT
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: String,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The tokens are removed from ~/.esker/tokens. The provider may accept them until they expire.\n\n\
                  Examples:\n  \
                  esker logout esker://login1:7400\n  \
                  esker logout esker://login1:7400 --quiet"
)]
pub(crate) struct LogoutArgs {
    /// Address of the server: esker://HOST:PORT
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: String,
}
