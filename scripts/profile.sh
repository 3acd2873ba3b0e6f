#!/usr/bin/env bash
# Records the calls in which the edge spends its time under loads of make bench-edge, for the compiler of releases.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp bin/slipway "$work/slipway" # a profile has the path of its program
for scenario in h1 h1-new tls-h2 tls-resumed grpc websocket; do
	go run ./test/bench/edgebench -slipway "$work/slipway" -only slipway -rounds 1 -duration 10s -scenario "$scenario" -profile "$work/$scenario.pprof"
done
go tool pprof -proto "$work"/*.pprof >"$work/profile"
cp "$work/profile" cmd/slipway/release.pgo
