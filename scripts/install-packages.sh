#!/usr/bin/env bash
# Installs the Debian packages that building and testing Slipway needs and this machine lacks; with the argument bench,
# those for the benchmark beside other proxies; with e2e, those for the test on real containers; with oracle, those for the comparison with Argo CD; with limits, those for make limits.
# It can be run any number of times, says what it does, and does nothing when nothing is missing.
set -euo pipefail
# Debian keeps the servers of PostgreSQL apart, one folder for each version.
PATH=$PATH:/usr/sbin$(printf ':%s' /usr/lib/postgresql/*/bin)

# command=package: the command, or its path, shows whether the package is there.
needed=(
	git=git
	gcc=gcc # the race detector needs cgo
	curl=curl # the requests that slipway migrate report prints
	nginx=nginx-light # a backend that requests must not be smuggled to
	node=nodejs # another one
	pebble=pebble # a certificate authority to fetch certificates from
	named=bind9 # a name server that it finds their proofs at
	initdb=postgresql # the database of platforms with several replicas
	sshd=openssh-server # Git over SSH
	strace=strace # what a hostile repository makes the agent execute
	chromium=chromium # the console is tested in it
	docker-registry=docker-registry # a registry to copy images to
	openssl=openssl # verifies signatures
	promtool=prometheus # checks alerts and dashboards
	prometheus-alertmanager=prometheus-alertmanager # a receiver of notifications
	aiosmtpd=python3-aiosmtpd # a mail server for notifications
	rpm=rpm # checks packages for RPM
	systemd-analyze=systemd # and the units in them
)
if [ "${1:-}" = bench ]; then
	needed=(nginx=nginx-light haproxy=haproxy caddy=caddy wrk=wrk h2load=nghttp2-client qemu-x86_64=qemu-user strace=strace)
elif [ "${1:-}" = e2e ]; then
	needed=(
		git=git # with git-http-backend, which serves the application
		containerd=containerd
		runc=runc
		/usr/lib/cni/bridge=containernetworking-plugins # the network of Pods
		ip=iproute2
		iptables=iptables # what kube-proxy writes
		conntrack=conntrack # and what it forgets
		unshare=util-linux
		pgrep=procps
		update-ca-certificates=ca-certificates # the authorities in the image
	)
elif [ "${1:-}" = limits ]; then
	needed=(h2load=nghttp2-client)
elif [ "${1:-}" = oracle ]; then
	needed=(git=git redis-server=redis-server) # what Argo CD's server of repositories needs
elif [ "${1:-}" = image ]; then
	needed=(update-ca-certificates=ca-certificates)
fi

missing=()
for entry in "${needed[@]}"; do
	command -v "${entry%%=*}" >/dev/null || missing+=("${entry#*=}")
done
# gcc alone compiles nothing: cgo includes headers of the C library.
[ -e /usr/include/stdlib.h ] || missing+=(libc6-dev)
# Snippets are compared with those of nginx with the module that ingress-nginx has.
if [ $# -eq 0 ] && [ ! -e /usr/lib/nginx/modules/ngx_http_headers_more_filter_module.so ]; then
	missing+=(libnginx-mod-http-headers-more-filter)
fi
# A browser without a font shows nothing that can be measured.
[ -e /usr/share/fonts/truetype/dejavu ] || missing+=(fonts-dejavu-core)

if ! command -v go >/dev/null; then
	echo "Go is missing: install Go 1.26 or newer (https://go.dev/doc/install) and run this again." >&2
	exit 1
fi
if [ ${#missing[@]} -eq 0 ]; then
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	echo "These packages are missing: ${missing[*]}. This script knows Debian's apt-get only; install them with your own package manager." >&2
	exit 1
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || { echo "Run as root: apt-get install -y ${missing[*]}" >&2; exit 1; }
	sudo=(sudo)
fi
echo "Installing Debian packages: ${missing[*]}"
"${sudo[@]}" apt-get update -qq
# Servers among the packages are run by tests, not by the system: that is what the run level says.
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "${missing[@]}"
