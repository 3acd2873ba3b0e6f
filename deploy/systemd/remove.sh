#!/bin/sh
# Runs before the files of the package are removed, with remove (Debian) or 0 (RPM) if no other version takes their place.
set -e
if [ "$1" = remove ] || [ "$1" = 0 ]; then
	if [ -d /run/systemd/system ]; then
		systemctl --no-reload disable --now slipway-edge.service slipway-agent.service slipway-platform.service
	fi
fi
