#!/usr/bin/env bash
# Installs the programs and libraries that building and testing need, if this machine lacks them. A second run changes nothing.
#
#   scripts/setup.sh           for `make test`
#   scripts/setup.sh build     for `make build` and `make demo`: a C compiler, make, Python
#   scripts/setup.sh fuzz      for `make test` and `make fuzz`
#   scripts/setup.sh packages  for `make packages`: dpkg-deb, rpmbuild
#   scripts/setup.sh check-packages  for `make test-packages`: the same, podman, mmdebstrap
#   scripts/setup.sh rocksdb   for `make test` and `make test-rocksdb`
set -euo pipefail

need_command() { command -v "$1" >/dev/null 2>&1; }
missing=()
need_command cc || missing+=(gcc libc6-dev)
need_command make || missing+=(make)
need_command python3 || missing+=(python3)
python3 -c 'import venv, ensurepip' >/dev/null 2>&1 || missing+=(python3-venv)
case ${1:-} in
packages | check-packages)
    need_command dpkg-deb || missing+=(dpkg)
    need_command rpmbuild || missing+=(rpm)
    ;;
esac
if [ "${1:-}" = check-packages ]; then
    need_command podman || missing+=(podman)
    need_command runc || missing+=(runc)
    need_command mmdebstrap || missing+=(mmdebstrap)
fi
if [[ ! ${1:-} =~ ^(build|packages|check-packages)$ ]]; then
    # Tests of access control send tokens over HTTP.
    need_command curl || missing+=(curl)
    # Tests of the mount run these programs in it.
    need_command git || missing+=(git)
    need_command unzip || missing+=(unzip)
    # Tests of collective searches run real MPI ranks.
    need_command mpirun || missing+=(openmpi-bin)
    # Tests of the preload library compile an MPI program.
    need_command mpicc || missing+=(libopenmpi-dev)
    # Tests of origins run OpenSSH's server and client.
    need_command ssh || missing+=(openssh-client)
    [ -x /usr/sbin/sshd ] || missing+=(openssh-server)
    # Tests of access control run a daemon of Munge.
    [ -x /usr/sbin/munged ] || missing+=(munge)
    # Tests of FTP create certificate authorities and certificates.
    need_command openssl || missing+=(openssl)
    # Tests of remote servers create network namespaces.
    need_command ip || missing+=(iproute2)
    # Tests of clusters cut networks and change clocks.
    need_command nft || [ -x /usr/sbin/nft ] || missing+=(nftables)
    compgen -G '/usr/lib/*/faketime/libfaketime.so.1' >/dev/null || missing+=(libfaketime)
    # Commands in docs/book use these programs.
    need_command strace || missing+=(strace)
    need_command zstd || missing+=(zstd)
    need_command setfattr || missing+=(attr)
    need_command setfacl || missing+=(acl)
    # Tests of the console use a browser.
    [ -n "${ESKER_CHROMIUM:-}" ] || need_command chromium || need_command chromium-browser || need_command google-chrome || missing+=(chromium)
fi
if [ "${1:-}" = fuzz ]; then
    # libFuzzer is written in C++.
    need_command c++ || missing+=(g++)
fi
if [ "${1:-}" = rocksdb ]; then
    need_command c++ || missing+=(g++)
    # The build of RocksDB's bindings generates them with libclang.
    compgen -G '/usr/lib/llvm-*/lib/libclang.so*' >/dev/null || compgen -G '/usr/lib/*/libclang-[0-9]*.so*' >/dev/null ||
        missing+=(libclang-dev)
fi

if [ ${#missing[@]} -gt 0 ]; then
    echo "installing ${missing[*]}" >&2
    run=()
    [ "$(id -u)" = 0 ] || run=(sudo)
    if ! need_command apt-get; then
        echo "setup: this machine has no apt-get; install by hand: ${missing[*]}" >&2
        exit 1
    fi
    "${run[@]}" apt-get update -qq
    DEBIAN_FRONTEND=noninteractive "${run[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

if ! need_command cargo; then
    echo "setup: cargo is missing: install rustc and cargo 1.95 or newer (https://rustup.rs)" >&2
    exit 1
fi
