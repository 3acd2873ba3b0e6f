#!/usr/bin/env bash
# Writes the files of a release to a folder: archives of the programs with completions and man pages, packages for Debian and RPM, the image, both
# charts, the bills of materials, the install script, files for Homebrew and krew, and SHA256SUMS of all. FROM has what make release has built
# with the version of the charts: a folder for each platform, such as linux-amd64, and the image. The same files give the same release.
# WITHOUT_PACKAGES leaves out the packages, which take longest, and GZIP_LEVEL=1 packs quickly: both are for tests.
set -euo pipefail
export LC_ALL=C
from=$(cd "${1:?the folder with what make release has built}" && pwd)
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
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# packed FOLDER NAME...: the files as a compressed tar. Neither the moment nor the user of the machine is in it.
packed() {
	tar --sort=name --mtime="@${SOURCE_DATE_EPOCH:-0}" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -C "$1" -cf - "${@:2}" |
		gzip --no-name "-${GZIP_LEVEL:-9}"
}

# Completions and man pages are those of the program for this machine, and the same for all.
case $(uname -m) in
aarch64 | arm64) native=linux-arm64 ;;
*) native=linux-amd64 ;;
esac
"$from/$native/slipway" docs --extras "$work/share"

platforms=$(cd "$from" && ls -d {linux,darwin}-* 2>/dev/null || true)
for platform in $platforms; do
	rm -rf "$work/archive"
	mkdir "$work/archive"
	cp "$from/$platform/slipway" LICENSE "$work/archive"
	cp -R "$work/share" "$work/archive"
	packed "$work/archive" LICENSE share slipway >"$out/slipway-$version-$platform.tar.gz"
	if [[ -e $from/$platform/slipway-devcluster ]]; then
		gzip --no-name "-${GZIP_LEVEL:-9}" <"$from/$platform/slipway-devcluster" >"$out/slipway-devcluster-$platform.gz"
	fi
	if [[ $platform == linux-* && -z ${WITHOUT_PACKAGES:-} ]]; then
		go run ./internal/tools/packages --version "$version" --architecture "${platform#linux-}" --files "$work/archive" --out "$out"
	fi
	for sbom in "$from/$platform"/*.cdx.json; do
		[[ ! -e $sbom ]] || cp "$sbom" "$out/$(basename "$sbom" .cdx.json)-$platform.cdx.json"
	done
done
cp "$from/slipway-image.tar" "$out"
for chart in gitops-runtime platform; do
	packed charts "$chart" >"$out/$chart-$version.tgz"
done

# filled FILE: a file of scripts/release with the version, the address and the checksums of this release.
url=${RELEASE_URL:-https://slipway.dev/releases/$version}
filled() {
	sed -e "s|@VERSION@|$version|g" -e "s|@URL@|$url|g" "scripts/release/$1" >"$work/$1"
	# The names of checksums have the version by now.
	{ grep -o '@SHA256:[^@]*@' "$work/$1" || true; } | sort -u | while read -r mark; do
		name=${mark#@SHA256:}
		name=${name%@}
		[[ ! -e $out/$name ]] || sed -i "s|$mark|$(sha256sum <"$out/$name" | cut -d' ' -f1)|" "$work/$1"
	done
	cp "$work/$1" "$out/$1"
}
filled install.sh
chmod 755 "$out/install.sh"
# They name all platforms: a release of some of them has neither.
if [[ $(wc -w <<<"$platforms") -eq 4 ]]; then
	filled slipway.rb
	filled krew.yaml
fi
(cd "$out" && sha256sum -- * >"../SHA256SUMS.$$" && mv "../SHA256SUMS.$$" SHA256SUMS)
echo "$out has the release $version:"
(cd "$out" && ls)
