#!/usr/bin/env bash
# Builds the program, its bills of materials and its image twice from the last commit and compares the files: in folders with
# different names, another time zone and umask, and the second time with an empty build cache.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
one=$work/one two=$work/folder/with/a/longer/name
git clone --quiet --no-hardlinks . "$one"
git clone --quiet --no-hardlinks . "$two"
make --no-print-directory -C "$one" image
(umask 077 && TZ=Pacific/Auckland GOCACHE=$work/cache make --no-print-directory -C "$two" image)

files=(bin/slipway bin/slipway.cdx.json bin/slipway-image.cdx.json bin/slipway-image.tar)
(cd "$one" && sha256sum "${files[@]}") | tee "$work/sums"
if ! (cd "$two" && sha256sum --check --quiet "$work/sums"); then
	echo "The second build differs: something of the machine or of the moment is in these files." >&2
	exit 1
fi
echo "Both builds gave the same files, with $(go version | cut -d' ' -f3)."
