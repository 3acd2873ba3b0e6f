#!/usr/bin/env bash
# Runs the Go tests in three groups, one after the other, and those of the other modules beside
# the first; make has built and vetted everything. More packages run at a time than there are
# processors: many wait for a cluster.
#
# No suite has a limit on its time: every wait in a test is bounded by itself. The timeout
# only ends a package that hangs, with a dump of its goroutines.
set -euo pipefail
cd "$(dirname "$0")/.."
variable() { sed -n "s/^$1 *:= *//p" Makefile; }
# As the program is built: see the Makefile.
export GOFLAGS="${GOFLAGS:-} -gcflags=all=-dwarf=false -tags=$(variable GO_TAGS)"
static=(CGO_ENABLED=0 GOFLAGS="$GOFLAGS -trimpath -buildvcs=false")
# The compiler and the linker collect no garbage below a gigabyte, which saves a quarter of their time. Tests and the programs
# that they start run without these variables: for them they would be settings of the user.
export GOGC=off GOMEMLIMIT=1GiB
flags=(-vet=off -ldflags='-s -w' -timeout 80m -exec 'env -u GOGC -u GOMEMLIMIT')

# In each group what takes longest comes first, so that none of it is left alone at the end.
#
# Where goroutines meet and no cluster is needed: to compile Kubernetes' client once more
# for the race detector takes minutes. make race runs everything with it.
raced=$(go list ./internal/{edge/proxy,platform/{fleet,server}} ./internal/{agent/report,edge,gitserver,ingress/engine,observe,shadow}/... \
	./internal/{access/{router,token,tunnel},gitops/{source,webhook},platform/{fleet,gateway,hub,server}}/... |
	grep -v -e /edge/waf$ -e /edge/lastgood$ -e /edge/normalize$ -e /edge/program$)
# The browser leaves room for what mostly waits, and for no more.
console=$(go list ./test/{console,acme,runtime,traffic,resilience/gitops,gitops/loss})
longest=$(go list ./test/{documents,gitops,gateway,up,resilience/ingress,conformance/ingress} \
	./internal/{cli/runtimecmd,gitops/{migrate,reconcile,rollout},install/release})
others=$(go list ./{api,charts,cmd,internal,test}/... | grep -vxF "$raced"$'\n'"$console"$'\n'"$longest")

# A group that fails ends with the tests that failed and their messages, because the logs of the
# programs that they ran are long.
output=$(mktemp) beside=$(mktemp)
group() {
	go test "${flags[@]}" "$@" 2>&1 | tee "$output" || {
		printf '\nWhat failed:\n'
		grep -E '^ *--- FAIL|^ +[a-z0-9_]+\.go:[0-9]+: |^panic: |WARNING: DATA RACE|^FAIL' "$output" | cut -c -400 | tail -n 60
		exit 1
	}
}

{
	# Tests in a network of their own build this module, and could not fetch what it needs.
	(cd test/conformance/gateway/suite && go list -deps -test ./... sigs.k8s.io/gateway-api/conformance{,/echo-basic} >/dev/null) &&
	(cd devcluster && env "${static[@]}" go test "${flags[@]}" $(cd .. && variable DEVCLUSTER)) && (cd web && npm test)
} >"$beside" 2>&1 &
other=$!
trap 'kill $other 2>/dev/null || true; rm -f "$output" "$beside"' EXIT
group -race -p 3 $raced
wait $other || { cat "$beside"; exit 1; }
cat "$beside"
export "${static[@]}"
# test/binary has every test process do this, unless it is done.
go build -o bin/under-test/slipway ./cmd/slipway
export UNDER_TEST_BUILT=yes
group -p 5 $longest $others
group -p 2 $console
