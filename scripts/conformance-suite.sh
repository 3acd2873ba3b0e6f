#!/usr/bin/env bash
# Builds the conformance suite of Gateway API in another version, v1.7.0 or newer, than the module of this repository pins:
# conformance-suite.sh VERSION FOLDER. The folder gets the suite, the programs of its backends, and the CRDs of that version.
# The suite may need a newer toolchain, which Go downloads; CONFORMANCE_TOOLCHAIN names one.
set -euo pipefail
version=$1 folder=$2
module=$folder/module
rm -rf "$module" "$folder/crd"
mkdir -p "$folder"
cp -r test/conformance/gateway/suite "$module"
cd "$module"

export GOTOOLCHAIN=${CONFORMANCE_TOOLCHAIN:-auto} GOWORK=off GOFLAGS='-trimpath -buildvcs=false -gcflags=all=-dwarf=false' CGO_ENABLED=0 GOGC=off GOMEMLIMIT=1GiB
# Since v1.7.0 the echo server has a module of its own, of which the proxy for modules serves v0.1.0 only.
images=sigs.k8s.io/gateway-api-conformance-images
go mod edit -droptool=sigs.k8s.io/gateway-api/conformance/echo-basic -tool=$images/echo-basic -replace=$images=$images@v0.1.0
go get "sigs.k8s.io/gateway-api/conformance@$version" "sigs.k8s.io/gateway-api@$version"
go mod tidy
go test -c -vet=off -ldflags '-s -w' -o "$folder/suite" sigs.k8s.io/gateway-api/conformance
go build -ldflags '-s -w' -o "$folder/" $images/echo-basic ./nameserver
cp -r --no-preserve=mode "$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)/config/crd/experimental" "$folder/crd"
