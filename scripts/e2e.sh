#!/usr/bin/env bash
# Runs the end-to-end test on real containers: a node, both charts, an application, an upgrade under traffic, and the
# removal of everything. `make e2e` builds what it needs first. Arguments go to the test: --quiet 10s is for the hasty.
#
# Everything happens in namespaces of its own (network, mounts, processes), which end with it. The machine is looked at
# before and after: nothing may be left of processes, mounts, links and control groups.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(uname -s)" != Linux ] || [ "$(id -u)" -ne 0 ]; then
	echo "The end-to-end test starts a real node: it needs Linux and root." >&2
	exit 1
fi
for needed in bin/slipway bin/slipway-devcluster bin/slipway-node bin/slipway-e2e bin/e2e/slipway.tar; do
	[ -e "$needed" ] || { echo "$needed is missing: run make e2e" >&2; exit 1; }
done
# Where the kernel has them as modules, a new network namespace does not load them.
modprobe -q -a overlay br_netfilter nf_conntrack 2>/dev/null || true

work=$(mktemp -d /var/tmp/slipway-e2e.XXXXXX)
traces() {
	pgrep -a -f "$work" | grep -v "pgrep" | sed 's/^/process /' || true
	grep -F "$work" /proc/self/mounts | sed 's/^/mount /' || true
	find /sys/fs/cgroup -maxdepth 2 -name "$(basename "$work")" | sed 's/^/control group /'
	ip -oneline link | awk -F': ' '{print "link " $2}' | grep -E '^link (pods0|veth)' || true
}
links=$(traces | grep '^link' || true)

status=0
# The shell is the first process there: it takes over processes whose parents have ended.
unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private \
	bash -c '"$@"; exit $?' slipway-e2e bin/slipway-e2e run --root "$PWD" --work "$work" "$@" || status=$?

left=$(traces | grep -vxF -e "${links:-nothing}" || true)
if [ -n "$left" ]; then
	echo "FAILED: the machine has left over:" >&2
	echo "$left" >&2
	status=1
fi
if [ "$status" -ne 0 ]; then
	echo "The logs of the node are in $work/log. Remove the folder when you have seen them: rm -rf $work" >&2
	exit "$status"
fi
rm -rf "$work"
