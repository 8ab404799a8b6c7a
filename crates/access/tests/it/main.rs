//! With the real programs of OpenSSH, keys by `ssh-keygen`, signatures by `ssh-agent`; and over real TLS.

mod openssh;
mod tls;
