package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// envListen holds the listen addresses: containerPort=ip:port, separated by
	// commas. In a Pod that shares the host's address the two ports differ.
	envListen = "SLIPWAY_DEMO_LISTEN"
	// defaultListen is for a process that was started by hand.
	defaultListen = "8080=:8080"
)

// socket is one listen address: the port that the Pod declares, and the address
// that stands for it on this machine.
type socket struct {
	containerPort int
	address       string
}

// parseListen parses envListen, and checks every entry before any socket is
// opened.
func parseListen(s string) ([]socket, error) {
	s = cmp.Or(s, defaultListen)
	var sockets []socket
	for entry := range strings.SplitSeq(s, ",") {
		port, address, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if !ok {
			return nil, fmt.Errorf("%s: %q is not containerPort=ip:port; an example is %s", envListen, entry, defaultListen)
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("%s: %q: the container port must be a number from 1 to 65535", envListen, entry)
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, fmt.Errorf("%s: %q: the address must be ip:port: %w", envListen, entry, err)
		}
		sockets = append(sockets, socket{containerPort: int(n), address: address})
	}
	return sockets, nil
}

// listener is a net.Listener with its container port. BaseContext passes the
// port on to the requests.
type listener struct {
	net.Listener
	containerPort int
}

// listenAll opens all sockets, or none: on an error it closes those that are
// already open.
func listenAll(ctx context.Context, sockets []socket) ([]listener, error) {
	config := net.ListenConfig{Control: shareAddress}
	var open []listener
	for _, s := range sockets {
		l, err := config.Listen(ctx, "tcp", s.address)
		if err != nil {
			for _, l := range open {
				l.Close()
			}
			return nil, fmt.Errorf("container port %d: %w", s.containerPort, err)
		}
		open = append(open, listener{Listener: l, containerPort: s.containerPort})
	}
	return open, nil
}

// shareAddress sets SO_REUSEPORT, which lets the server listen on a port that
// the node keeps bound for the Pod's life, so that no other process takes it
// while the container restarts. It runs between socket and bind.
func shareAddress(_, _ string, conn syscall.RawConn) error {
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = errors.Join(
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1),
		)
	})
	return errors.Join(err, failed)
}
