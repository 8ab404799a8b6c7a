//! The capabilities of a server, as announced and as observed.

use esker_site_cache::entry::{Attributes, Kind};

/// The capabilities of a server: initialized from FEAT, corrected by the server's behaviour.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a thing that a server can do or not"
)]
pub(super) struct Capabilities {
    pub(super) mlst: bool,
    /// Whether MLST has succeeded: then a single refusal does not mean that the command is unknown.
    pub(super) mlst_works: bool,
    pub(super) mlsc: bool,
    pub(super) mlsc_works: bool,
    pub(super) mlsd: bool,
    /// Whether `STAT` of a directory lists it, itself included; `None` before it was tried.
    pub(super) stat: Option<bool>,
    /// Whether `STAT -a dir/{?,name}` prints only these names, as vsftpd does.
    pub(super) braces: Option<bool>,
    pub(super) epsv: bool,
    /// Whether MLST reports links as links.
    pub(super) slink: bool,
    /// Whether non-ASCII paths arrive unchanged. Globus drops such bytes and answers for another path.
    pub(super) bytes: Option<bool>,
}

impl Capabilities {
    pub(super) fn new(features: &[String]) -> Self {
        let has = |name: &str| {
            let mut words = features.iter().filter_map(|f| f.split(' ').next());
            words.any(|word| word.eq_ignore_ascii_case(name))
        };
        let mlst = has("MLST");
        Self {
            mlst,
            mlst_works: false,
            mlsc: has("MLSC"),
            mlsc_works: false,
            mlsd: mlst || has("MLSD"),
            stat: None,
            braces: mlst.then_some(false),
            epsv: true,
            bytes: None,
            slink: features.iter().any(|f| {
                let f = f.to_ascii_lowercase();
                f.starts_with("mlst ") && f.contains("unix.slink")
            }),
        }
    }

    /// Whether attributes look like a link's: links have all permissions, and few other files have.
    pub(super) fn looks_like_a_link(&self, attributes: &Attributes) -> bool {
        !self.slink
            && attributes.mode == Some(0o777)
            && matches!(attributes.kind, Kind::File | Kind::Directory)
    }
}
