#!/usr/bin/env bash
# Writes the release twice, with another time zone and umask the second time, and compares the files. Then it does what a newcomer does
# with the folder of a release on a machine without Go: installs it, runs slipway up, and sends a request to the demo.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
up=
finish() {
	if [[ -n $up ]]; then
		kill -INT "$up" 2>/dev/null || true
		wait "$up" || true
	fi
	rm -rf "$work"
}
trap finish EXIT
make --no-print-directory release RELEASE="$work/one"
(umask 077 && TZ=Pacific/Auckland make --no-print-directory release RELEASE="$work/two")
if ! diff "$work/one/SHA256SUMS" "$work/two/SHA256SUMS"; then
	echo "The second release differs: something of the machine or of the moment is in these files." >&2
	exit 1
fi
cat "$work/one/SHA256SUMS"

# What a newcomer waits for, at most.
limit=60
began=$SECONDS
plain=(env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME="$work/home")
mkdir "$work/home"
"${plain[@]}" "$work/one/install.sh" --prefix "$work/prefix"
"${plain[@]}" "$work/prefix/bin/slipway" up --dir "$work/state" >"$work/up.log" 2>&1 &
up=$!
# slipway up ends with its addresses; curl finds the demo by the name in the request.
until grep -q 'Ctrl-C stops everything' "$work/up.log"; do
	kill -0 "$up" || { cat "$work/up.log" >&2; exit 1; }
	if ((SECONDS - began > limit)); then
		cat "$work/up.log" >&2
		echo "slipway up is not ready after $((SECONDS - began)) s, and the limit is $limit s: see above what it waits for." >&2
		exit 1
	fi
	sleep 0.2
done
curl --fail --silent --show-error --header 'Host: demo.localhost' http://127.0.0.1:8080/api
took=$((SECONDS - began))
echo "From the folder of the release to the response of the demo: $took s."
if ((took > limit)); then
	echo "That is more than $limit s: a newcomer waits too long." >&2
	exit 1
fi
