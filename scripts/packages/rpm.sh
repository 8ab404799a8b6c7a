#!/usr/bin/env bash
# Writes an RPM package of a package's files with rpmbuild: rpm.sh FOLDER VERSION ARCH OUT
set -euo pipefail
root=$(realpath "$1") version=$2 arch=$3 out=$4
command -v rpmbuild >/dev/null || { echo "rpm: rpmbuild is missing: scripts/setup.sh packages" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/esker.spec" <<END
Name: esker
Version: $version
Release: 1
Summary: Records where scientific results come from
License: Apache-2.0
AutoReqProv: no
Recommends: fuse3
%global debug_package %{nil}
%global __os_install_post %{nil}

%description
Esker keeps the metadata of scientific computing as a versioned property graph:
which program wrote a file, from which inputs, with which settings, and what was
made from it since. The package has the command esker, its server, and a unit for
systemd: systemctl enable --now esker@lab.

%install
mkdir -p %{buildroot}
cp -a "$root/." %{buildroot}/

%post
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi

%files
$(cd "$root" && find . -type f -printf '"/%P"\n' | sort)
%dir /etc/esker
END
rpmbuild --quiet -bb --target "$arch-linux" --define "_topdir $work/build" --define "_buildhost localhost" --define "_dbpath $work/db" \
    --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" "$work/esker.spec" >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; exit 1; }
cp "$work/build/RPMS/$arch/esker-$version-1.$arch.rpm" "$out/"
