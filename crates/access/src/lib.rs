//! Who may use a database, by SSH keys: the rights that files grant, the key that proves a server, the proof of a client.
//!
//! After the Cray Graph Engine: nobody has a password, everybody has an SSH key. A server proves itself by its host key,
//! which clients find in `known_hosts`; a client by its own key, which the server finds in `authorized_keys`. Formats are
//! those of OpenSSH, read by `ssh-key`; all cryptography is that of TLS 1.3 and *ring*.
//!
//! Suggested reading order: [`role`], [`authorized`], [`rights`] (what a server knows), [`host_key`], [`known_hosts`] (who a
//! server is), [`proof`], [`identity`] (who a client is), [`tls`], [`peer`]; [`slots`] and [`prove`] (what whoever listens
//! takes on of somebody who has not said who they are). `docs/internals/access.md` says what is protected from whom.

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod agent;
pub mod authorized;
mod crypto;
#[cfg(target_os = "linux")]
mod diag;
pub mod environment;
mod file;
pub mod grants;
pub mod host_key;
pub mod identity;
pub mod known_hosts;
mod options;
pub mod page;
pub mod peer;
mod penalty;
pub mod proof;
pub mod prove;
pub mod rights;
pub mod role;
pub mod slots;
mod strict;
pub mod tls;
pub mod token;

pub use file::{Folder, Within};
pub use host_key::HostKey;
pub use identity::{Identities, Identity};
pub use options::time_text;
pub use rights::{Granted, Refused, Rights};
pub use role::Role;
pub use ssh_key::PublicKey;
pub use ssh_key::public::KeyData;
pub use strict::{By, Weakness, strict_modes};

use ssh_key::HashAlg;
use std::path::PathBuf;

/// Where somebody's own files lie: `~/.esker`.
pub fn home() -> Option<PathBuf> {
    let home = environment::variable("HOME")?;
    Some(PathBuf::from(home).join(".esker"))
}

/// A key's fingerprint, as `ssh-keygen -l` prints it.
pub fn fingerprint(key: &KeyData) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}
