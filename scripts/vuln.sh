#!/usr/bin/env bash
# Reports known vulnerabilities in what the programs call, with the govulncheck that go.mod pins. Arguments are packages;
# without any, it is both programs. It exits with 3 if there are any.
#
# VULN_DB is the database: an address, or a folder for machines without a network.
set -euo pipefail
db=${VULN_DB:-https://vuln.go.dev}
[ ! -d "$db" ] || db=file://$(realpath "$db")
cd "$(dirname "$0")/.."
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath -buildvcs=false -gcflags=all=-dwarf=false" # as the programs are built
go build -o bin/govulncheck golang.org/x/vuln/cmd/govulncheck
check=$PWD/bin/govulncheck
found=0

# look runs govulncheck in a folder and remembers what it found: one program must not hide the other.
look() {
	local status=0
	(cd "$1" && shift && "$check" -db "$db" "$@") || status=$?
	case $status in
	0) ;;
	3) found=3 ;;
	*)
		cat >&2 <<-END
			govulncheck failed. If it could not read the vulnerability database $db: download
			https://vuln.go.dev/vulndb.zip where there is a network, unpack it here, and run
			make vuln VULN_DB=FOLDER, or set VULN_DB to the address of a copy.
		END
		exit "$status"
		;;
	esac
}

if [ $# -gt 0 ]; then
	look . "$@"
else
	look . ./cmd/...
	# By package: it contains all of Kubernetes.
	look devcluster -scan package ./cmd/slipway-devcluster
fi
exit "$found"
