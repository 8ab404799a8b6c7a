//! SFTP over the user's own OpenSSH client.
//!
//! `ssh` runs as a child process and carries the protocol on its standard streams. So `~/.ssh/config`, agents, known hosts,
//! jump hosts, Kerberos and shared connections all work as configured, and no key passes through Esker. It runs in batch mode:
//! a prompt fails instead, with the message of `ssh` in the error.
//!
//! `ESKER_SSH` names another program with its arguments, separated by spaces: `ESKER_SSH="ssh -F /etc/esker/ssh_config"`. Its
//! options take precedence over those given here.

mod packet;
mod session;
mod ssh;

#[cfg(test)]
mod tests;

pub use ssh::Sftp;
