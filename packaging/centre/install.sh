#!/bin/sh
# Installs a server for the users of a centre, and starts it. Run it as root, on the server's machine. A second run installs a newer program and
# restarts the server; it keeps the configuration and the database.
#
# usage: packaging/centre/install.sh PROGRAM NAME LISTEN ADMIN-KEY
#   PROGRAM      the program `esker` to install as /usr/bin/esker
#   NAME         the name of the database: /var/lib/esker/NAME, configured by /etc/esker/NAME.toml
#   LISTEN       the address, as in 0.0.0.0:7400 for all networks of this machine
#   ADMIN-KEY    the file of the administrator's public SSH key, as in ~/.ssh/id_ed25519.pub
set -eu

[ $# -eq 4 ] || { sed -n 's/^# \{0,1\}//; 5,9p' "$0" >&2; exit 2; }
program=$1 name=$2 listen=$3 key=$4
port=${listen##*:}
here=$(cd "$(dirname "$0")/.." && pwd)
fail() {
    echo "install: $1" >&2
    exit 1
}
[ "$(id -u)" = 0 ] || fail "run it as root"
case $name in '' | *[!a-z0-9_-]*) fail "a name has only lower-case letters, digits, - and _" ;; esac
[ -r "$key" ] || fail "$key does not exist"
"$program" --version >/dev/null || fail "$program does not run on this machine"

config=/etc/esker/$name.toml
[ ! -e "$config" ] || grep -qxF "listen = \"$listen\"" "$config" || fail "$config has another address than $listen: change one of them"

# A running program cannot be overwritten; the rename replaces it at once.
install -m 755 "$program" /usr/bin/esker.new
mv /usr/bin/esker.new /usr/bin/esker
install -m 644 "$here/systemd/esker@.service" /etc/systemd/system/
mkdir -p /etc/esker
[ -e "$config" ] || printf 'listen = "%s"\n' "$listen" >"$config"
# The profile applies only on machines with AppArmor.
if [ -e /sys/kernel/security/apparmor/profiles ]; then
    install -m 644 "$here/apparmor/esker-serve" /etc/apparmor.d/
    apparmor_parser -r /etc/apparmor.d/esker-serve
    mkdir -p /etc/systemd/system/esker@.service.d
    printf '[Service]\nAppArmorProfile=esker-serve\n' >/etc/systemd/system/esker@.service.d/apparmor.conf
fi
# The program may have been copied with the label of a home directory.
if command -v restorecon >/dev/null; then
    restorecon -R /usr/bin/esker /etc/systemd/system /etc/esker
fi

systemctl daemon-reload
systemctl enable "esker@$name"
systemctl restart "esker@$name"
# The first start creates the database; a later one reads the write-ahead log.
tries=0
until [ "$(curl -s "http://127.0.0.1:$port/readyz")" = ready ]; do
    tries=$((tries + 1))
    systemctl is-active --quiet "esker@$name" || fail "the server has ended: journalctl -u esker@$name"
    [ "$tries" -lt 600 ] || fail "the server does not answer at port $port: journalctl -u esker@$name"
    sleep 0.5
done
# Through the server, whose user must be able to read the grants. `plain=on`: the server of this script needs no proof.
esker grant "esker://127.0.0.1:$port?plain=on" --key "$key" --role admin
esker doctor "/var/lib/esker/$name"
echo "install: esker://$(hostname -f 2>/dev/null || hostname):$port serves /var/lib/esker/$name"
