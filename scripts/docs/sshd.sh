#!/usr/bin/env bash
# Starts an sshd for a page of the documentation: maps the given host names to this machine and accepts the user's key.
# scripts/docs/run.py gives each page its own file system and network, so that nothing outside changes.
set -euo pipefail
for name in "$@"; do echo "127.0.0.1 $name" >>/etc/hosts; done
mkdir -p "$HOME/.ssh" /run/sshd
[ -e "$HOME/.ssh/id_ed25519" ] || ssh-keygen -q -t ed25519 -N '' -f "$HOME/.ssh/id_ed25519"
ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/page_key
cat >/etc/ssh/ssh_config <<END
Host *
    IdentityFile $HOME/.ssh/id_ed25519
    UserKnownHostsFile $HOME/.ssh/known_hosts
    StrictHostKeyChecking accept-new
    LogLevel ERROR
END
cat >/etc/ssh/page_config <<END
HostKey /etc/ssh/page_key
AuthorizedKeysFile $HOME/.ssh/id_ed25519.pub
PermitRootLogin yes
StrictModes no
Subsystem sftp internal-sftp
END
/usr/sbin/sshd -f /etc/ssh/page_config
