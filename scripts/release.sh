#!/usr/bin/env bash
# Writes the files of a release to a folder: the program, the image, both charts, the bills of materials, and SHA256SUMS of
# all. FROM has what make image has built with the version of the charts. The same files give the same release.
set -euo pipefail
export LC_ALL=C
from=$(cd "${1:?the folder with what make image has built}" && pwd)
out=${2:?the folder to write to}
cd "$(dirname "$0")/.."
version=$(sed -n 's/^appVersion: //p' charts/gitops-runtime/Chart.yaml)
for chart in gitops-runtime platform; do
	# A chart pulls the image of its appVersion: a release has one version.
	for field in version appVersion; do
		if [[ $(sed -n "s/^$field: //p" "charts/$chart/Chart.yaml") != "$version" ]]; then
			echo "charts/$chart/Chart.yaml: $field is not $version: set version and appVersion of both charts to that of the release" >&2
			exit 1
		fi
	done
done

# Only a release may be replaced.
if [[ -e $out && ! -e $out/SHA256SUMS ]]; then
	echo "$out exists and is no release: choose another folder, or remove it" >&2
	exit 1
fi
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
cp "$from/slipway" "$out/slipway-linux-$(go env GOARCH)"
cp "$from/slipway-image.tar" "$from/slipway.cdx.json" "$from/slipway-image.cdx.json" "$out"
for chart in gitops-runtime platform; do
	# Neither the moment nor the user of the machine is in the archive.
	tar --sort=name --mtime="@${SOURCE_DATE_EPOCH:-0}" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -C charts -cf - "$chart" |
		gzip --no-name >"$out/$chart-$version.tgz"
done
(cd "$out" && sha256sum -- * >"../SHA256SUMS.$$" && mv "../SHA256SUMS.$$" SHA256SUMS)
echo "$out has the release $version:"
(cd "$out" && ls)
