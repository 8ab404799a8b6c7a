//! What a server has been found to do.

use esker_site_cache::entry::{Attributes, Kind};

/// What a server has been found to do. What FEAT says is only where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a thing that a server can do or not"
)]
pub(super) struct Can {
    pub(super) mlst: bool,
    /// MLST has been seen to work: one refusal does not mean that it is not known.
    pub(super) mlst_works: bool,
    pub(super) mlsc: bool,
    pub(super) mlsc_works: bool,
    pub(super) mlsd: bool,
    /// `STAT` of a directory lists it, with itself; not known before it was tried.
    pub(super) stat: Option<bool>,
    /// `STAT -a dir/{?,name}` prints these names alone: vsftpd.
    pub(super) braces: Option<bool>,
    pub(super) epsv: bool,
    /// MLST says of links that they are links.
    pub(super) slink: bool,
    /// Paths that are no ASCII arrive as they are. Globus loses such bytes, and answers about another path.
    pub(super) bytes: Option<bool>,
}

impl Can {
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

    /// Links have all permissions, and little else has.
    pub(super) fn looks_like_a_link(&self, attributes: &Attributes) -> bool {
        !self.slink
            && attributes.mode == Some(0o777)
            && matches!(attributes.kind, Kind::File | Kind::Directory)
    }
}
