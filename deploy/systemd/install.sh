#!/bin/sh
# Runs after the files of the package are in place. No service is started: each needs its options first.
set -e
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers slipway.conf
elif ! getent passwd slipway >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/slipway --no-create-home --shell /usr/sbin/nologin slipway
fi
# Credentials of clusters are there.
chgrp slipway /etc/slipway
chmod 750 /etc/slipway
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	# An upgrade restarts what runs; the edge ends its requests first.
	systemctl try-restart slipway-edge.service slipway-agent.service slipway-platform.service
fi
