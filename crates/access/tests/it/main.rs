//! With the real programs of OpenSSH: keys by `ssh-keygen`, signatures by `ssh-agent`.

mod openssh;
