package up

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
)

const maxPort = 65535

// fixedPort is a port that users rely on, and which is therefore the same at
// each start: --port-offset is added to it.
type fixedPort struct {
	number int
	of     string
}

// checkPorts fails when a fixed port cannot be used, and names each one.
func checkPorts(ports []fixedPort, offset int) error {
	var findings []error
	for _, fixed := range ports {
		port := fixed.number + offset
		// An offset that leads out of the range fails at once, because no other
		// port matters then.
		if port < 1 || port > maxPort {
			return fmt.Errorf("--port-offset %d gives port %d for %s: ports are between 1 and %d", offset, port, fixed.of, maxPort)
		}
		if err := probePort(port); err != nil {
			findings = append(findings, fmt.Errorf("port %d, for %s, is %s", port, fixed.of, err))
		}
	}
	if len(findings) == 0 {
		return nil
	}
	// All ports in use are reported together, with an offset that avoids them.
	return fmt.Errorf("%w\nstop what holds it, or add a number to each port, for example --port-offset %d", errors.Join(findings...), freeOffset(ports, offset))
}

const (
	// closingTimeout bounds the wait for a listener that no visible process has.
	closingTimeout = 5 * time.Second
	// closingInterval is the pause between two probes of it.
	closingInterval = 50 * time.Millisecond
)

// probePort listens for a moment. A wildcard address conflicts with a listener
// on any address of the port, which is what a user would call taken.
//
// A listener without a visible process is retried for closingTimeout: a process
// that was killed leaves /proc before the kernel has closed its sockets, which
// takes a while on a busy machine. Otherwise it belongs to another user.
func probePort(port int) error {
	for deadline := time.Now().Add(closingTimeout); ; time.Sleep(closingInterval) {
		err := tryListen(port)
		if err == nil {
			return nil
		}
		socket := listenerOf(port)
		if time.Now().Before(deadline) && (socket == "" || len(holdersOf(socket)) == 0) && errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if socket != "" {
			return fmt.Errorf("taken by %s", describeHolders(socket))
		}
		return fmt.Errorf("not available (%w)", err)
	}
}

// tryListen listens on a port and stops at once.
func tryListen(port int) error {
	listener, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return err
	}
	return listener.Close()
}

// freeOffset finds an offset to suggest, with all fixed ports free just now.
func freeOffset(ports []fixedPort, taken int) int {
	// Steps of 100 keep the ports recognizable: 8080 becomes 8180.
	const step, attempts = 100, 20
	for offset := taken + step; offset < taken+attempts*step; offset += step {
		if allFree(ports, offset) {
			return offset
		}
	}
	return taken + step
}

// allFree reports whether every fixed port can be used with an offset.
func allFree(ports []fixedPort, offset int) bool {
	for _, fixed := range ports {
		port := fixed.number + offset
		if port < 1 || port > maxPort || tryListen(port) != nil {
			return false
		}
	}
	return true
}
