//! Tests with OpenSSH's programs (keys by `ssh-keygen`, signatures by `ssh-agent`) and over TLS.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "what was skipped must be seen")]

mod certificates;
mod openssh;
mod setuid;
mod tls;
