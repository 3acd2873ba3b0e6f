//go:build !linux

package up

import "syscall"

// tie does nothing: only Linux can, and only there is a development cluster.
func tie(*syscall.SysProcAttr) {}
