#!/usr/bin/env bash
# Runs fuzz targets one after the other, each for the time in FUZZTIME.
# Arguments are packages; without any, all that have targets are run.
set -euo pipefail

time=${FUZZTIME:-10m}
packages=("$@")
if [ ${#packages[@]} -eq 0 ]; then
	mapfile -t packages < <(git grep -l '^func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u | sed 's|^|./|')
fi
for package in "${packages[@]}"; do
	for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
		echo "$package $target for $time"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package"
	done
done
