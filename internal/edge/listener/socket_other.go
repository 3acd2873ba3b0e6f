//go:build !linux

package listener

import (
	"errors"
	"net"
	"syscall"
)

func setOptions(lc *net.ListenConfig, config *Config) {
	if config.ReusePort {
		lc.Control = func(_, _ string, _ syscall.RawConn) error {
			return errors.New("several processes on one port need Linux; turn reusePort off")
		}
	}
}

func setBacklog(*net.TCPListener, int) error {
	return errors.New("a backlog can be set on Linux only; leave it at 0")
}
