//! Access control by SSH keys: rights granted by files, the host key that proves a server, the proof of a client.
//!
//! The design follows the Cray Graph Engine: no passwords, only SSH keys. A server proves itself by its host key, which clients look
//! up in `known_hosts`; a client by its own key, which the server looks up in `authorized_keys`. Formats are those of OpenSSH, read
//! by `ssh-key`; all cryptography is that of TLS 1.3 and *ring*.
//!
//! Suggested reading order: [`role`], [`authorized`], [`rights`] (a server's view of the files), [`host_key`], [`known_hosts`] (server
//! identity), [`proof`], [`identity`] (client identity), [`tls`], [`peer`]; [`slots`] and [`prove`] (limits on connections that have
//! not proved an identity). Users of a centre: [`binding`], [`certificate`], [`munge`], [`role_table`]. `docs/internals/access.md` has the threat model.

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod agent;
pub mod authorized;
pub mod binding;
pub mod blocking;
pub mod certificate;
mod crypto;
#[cfg(target_os = "linux")]
mod diag;
pub mod environment;
mod file;
mod granted;
pub mod grants;
pub mod host_key;
pub mod identity;
pub mod jwt;
pub mod known_hosts;
pub mod munge;
mod options;
pub mod origin_check;
pub mod peer;
mod penalty;
pub mod proof;
pub mod prove;
pub mod rights;
pub mod role;
pub mod role_table;
pub mod slots;
mod strict;
pub mod tls;
pub mod token;
mod wire;

pub use binding::UserBinding;
pub use certificate::UserCertificate;
pub use esker_process::accounts;
pub use file::{Folder, RightsFolder, own_folder, read_secret, replace as replace_file};
pub use granted::{Granted, Refused};
pub use host_key::HostKey;
pub use identity::{Identities, Identity};
pub use options::time_text;
pub use rights::Rights;
pub use role::Role;
pub use role_table::{RoleTable, UserPattern};
pub use ssh_key::PublicKey;
pub use ssh_key::public::KeyData;
pub use strict::{By, Weakness, strict_modes};

use ssh_key::HashAlg;
use std::path::PathBuf;

/// Returns the user's configuration folder, `~/.esker`.
pub fn home() -> Option<PathBuf> {
    let home = environment::variable("HOME")?;
    Some(PathBuf::from(home).join(".esker"))
}

/// Returns a key's fingerprint as `ssh-keygen -l` prints it.
pub fn fingerprint(key: &KeyData) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}
