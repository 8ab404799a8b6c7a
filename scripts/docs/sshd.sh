#!/usr/bin/env bash
# For pages, on the machine that run.py makes for each: the hosts named are this one, and its sshd lets us in.
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
