#!/bin/sh
# Installs Slipway from the files of a release, whose checksums it verifies first.
#
#   ./install.sh                                     # from the folder of the release, without a network
#   SLIPWAY_BASE_URL=https://example.com/slipway/0.1.0 sh install.sh   # from a copy of that folder
#
# Options:
#   --prefix DIR           where to: DIR/bin and DIR/share. /usr/local if it can be written, else ~/.local
#   --without-devcluster   leave out slipway-devcluster, the Kubernetes of slipway up (Linux only)
# Variables:
#   SLIPWAY_BASE_URL       where the files of the release are, instead of the folder of this script
#   SLIPWAY_PUBLIC_KEY     a public key in PEM: the signature of the checksums has to be by it (needs openssl)
set -eu
version=@VERSION@

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

prefix= devcluster=yes
while [ $# -gt 0 ]; do
	case $1 in
	--prefix)
		[ $# -gt 1 ] || fail "--prefix needs a folder"
		prefix=$2
		shift
		;;
	--prefix=*) prefix=${1#--prefix=} ;;
	--without-devcluster) devcluster= ;;
	-h | --help)
		sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0"
		exit 0
		;;
	*) fail "unknown option $1; --help lists them" ;;
	esac
	shift
done

case $(uname -s) in
Linux) os=linux ;;
Darwin) os=darwin devcluster= ;;
*) fail "there is no program for $(uname -s): Linux and macOS have one" ;;
esac
case $(uname -m) in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) fail "there is no program for $(uname -m): x86-64 and arm64 have one" ;;
esac
if [ -z "$prefix" ]; then
	prefix=/usr/local
	[ -w /usr/local/bin ] || prefix=$HOME/.local
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

# fetch NAME: the file from the folder or the address, as $work/NAME.
from=$(dirname "$0")
fetch() {
	if [ -z "${SLIPWAY_BASE_URL:-}" ]; then
		[ -f "$from/$1" ] || fail "$from/$1 is missing: run this in the folder of the release, or set SLIPWAY_BASE_URL"
		cp "$from/$1" "$work/$1"
	elif command -v curl >/dev/null; then
		curl --fail --silent --show-error --location --output "$work/$1" "${SLIPWAY_BASE_URL%/}/$1" || fail "download of ${SLIPWAY_BASE_URL%/}/$1 failed"
	elif command -v wget >/dev/null; then
		wget --quiet --output-document="$work/$1" "${SLIPWAY_BASE_URL%/}/$1" || fail "download of ${SLIPWAY_BASE_URL%/}/$1 failed"
	else
		fail "neither curl nor wget is installed"
	fi
}

# verified NAME: fetches a file and compares its checksum. Nothing is unpacked before.
verified() {
	fetch "$1"
	want=$(awk -v name="$1" '$2 == name || $2 == "*" name { print $1 }' "$work/SHA256SUMS")
	[ -n "$want" ] || fail "SHA256SUMS has no line for $1"
	if command -v sha256sum >/dev/null; then
		got=$(sha256sum <"$work/$1")
	else
		got=$(shasum -a 256 <"$work/$1")
	fi
	[ "${got%% *}" = "$want" ] || fail "$1 has the checksum ${got%% *}, and SHA256SUMS has $want: the file is damaged or was changed. Nothing was installed"
}

fetch SHA256SUMS
if [ -n "${SLIPWAY_PUBLIC_KEY:-}" ]; then
	fetch SHA256SUMS.sig
	openssl base64 -d -A -in "$work/SHA256SUMS.sig" -out "$work/signature"
	openssl dgst -sha256 -verify "$SLIPWAY_PUBLIC_KEY" -signature "$work/signature" "$work/SHA256SUMS" >/dev/null ||
		fail "SHA256SUMS is not signed by $SLIPWAY_PUBLIC_KEY. Nothing was installed"
fi
archive=slipway-$version-$os-$arch.tar.gz
verified "$archive"
[ -z "$devcluster" ] || verified "slipway-devcluster-$os-$arch.gz"

mkdir -p "$work/files" "$prefix/bin" "$prefix/share"
tar -xzf "$work/$archive" -C "$work/files"
# A program that runs is replaced by a rename: writing into it would fail.
place() {
	chmod 755 "$1"
	mv -f "$1" "$prefix/bin/.$2.new"
	mv -f "$prefix/bin/.$2.new" "$prefix/bin/$2"
	echo "installed $prefix/bin/$2"
}
place "$work/files/slipway" slipway
if [ -n "$devcluster" ]; then
	gzip -dc "$work/slipway-devcluster-$os-$arch.gz" >"$work/slipway-devcluster"
	place "$work/slipway-devcluster" slipway-devcluster
fi
cp -R "$work/files/share/." "$prefix/share/"
echo "installed completions and man pages in $prefix/share"

case :$PATH: in
*:"$prefix/bin":*) run=slipway ;;
*)
	run=$prefix/bin/slipway
	echo "$prefix/bin is not in PATH: add it, or run the program by its path"
	;;
esac
[ -z "$devcluster" ] || echo "Next: $run up    # Kubernetes, Git, the platform, a runtime, the edge and a demo on this machine"
