#!/usr/bin/env bash
# Writes a Debian package of a package's files with Debian's own tool: deb.sh FOLDER VERSION ARCH OUT
set -euo pipefail
root=$1 version=$2 arch=$3 out=$4
case $arch in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -a "$root/." "$work/"
# zsh of Debian looks for completions of packages here.
mkdir -p "$work/usr/share/zsh/vendor-completions"
mv "$work/usr/share/zsh/site-functions/_esker" "$work/usr/share/zsh/vendor-completions/"
rmdir "$work/usr/share/zsh/site-functions"
mkdir "$work/DEBIAN"
cat >"$work/DEBIAN/control" <<END
Package: esker
Version: $version
Architecture: $arch
Maintainer: The Esker developers <esker@localhost>
Section: science
Priority: optional
Installed-Size: $(du -sk --apparent-size "$work/usr" | cut -f1)
Recommends: fuse3
Description: Records where scientific results come from
 Esker keeps the metadata of scientific computing as a versioned property
 graph: which program wrote a file, from which inputs, with which settings,
 and what was made from it since. The package has the command esker, its
 server, and a unit for systemd: systemctl enable --now esker@lab.
END
cat >"$work/DEBIAN/postinst" <<'END'
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
END
chmod 755 "$work/DEBIAN/postinst"
(cd "$work" && find usr -type f -printf '%P\0' | sort -z | (cd usr && xargs -0 md5sum) | sed 's|  |  usr/|' >DEBIAN/md5sums)
find "$work" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz --build "$work" "$out/esker_${version}_$arch.deb" >/dev/null
