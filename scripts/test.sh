#!/usr/bin/env bash
# Runs the Go tests in three groups, one after the other; make has built and vetted
# everything. More packages run at a time than there are processors: many wait for a cluster.
#
# No suite has a limit on its time: every wait in a test is bounded by itself. The timeout
# only ends a package that hangs, with a dump of its goroutines.
set -euo pipefail
cd "$(dirname "$0")/.."
# As the program is built: see the Makefile.
export GOFLAGS="${GOFLAGS:-} -gcflags=all=-dwarf=false -tags=$(sed -n 's/^GO_TAGS *:= *//p' Makefile)"
flags=(-vet=off -ldflags='-s -w' -timeout 80m)

# Where goroutines meet and no cluster is needed: to compile Kubernetes' client once more
# for the race detector takes minutes. make race runs everything with it.
raced=$(go list ./internal/{agent/report,edge,gitserver,ingress/engine,observe,shadow}/... \
	./internal/{access/{router,token,tunnel},gitops/{source,webhook},platform/{fleet,gateway,hub,server}}/... |
	grep -v -e /edge/waf$ -e /edge/lastgood$ -e /edge/normalize$ -e /edge/program$)
# The browser leaves room for what mostly waits, and for no more.
console=$(go list ./test/{console,acme,runtime,traffic})
others=$(go list ./{api,charts,cmd,internal,test}/... | grep -vxF "$raced"$'\n'"$console")

go test -race -p 3 "${flags[@]}" $raced
export CGO_ENABLED=0 GOFLAGS="$GOFLAGS -trimpath -buildvcs=false"
go test -p 4 "${flags[@]}" $others
go test -p 2 "${flags[@]}" $console
