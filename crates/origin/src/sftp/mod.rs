//! SFTP over the user's own OpenSSH client.
//!
//! `ssh` runs as a child process and carries the protocol on its standard streams. So `~/.ssh/config`, agents, known hosts,
//! jump hosts, Kerberos and shared connections all work as people have set them up, and no key passes through Esker. It runs
//! in batch mode: what would ask a person for something fails instead, with the words of `ssh` in the error.
//!
//! `ESKER_SSH` names another program with its arguments, parted by spaces: `ESKER_SSH="ssh -F /etc/esker/ssh_config"`. Its
//! options win over those given here.

mod packet;
mod session;
mod ssh;

#[cfg(test)]
mod tests;

pub use ssh::Sftp;
