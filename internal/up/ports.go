package up

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

const maxPort = 65535

// fixedPort is a port that users know, and which is therefore the same at each
// start: --port-offset is added to it.
type fixedPort struct {
	number int
	of     string
}

// checkPorts fails when a fixed port cannot be used, and names each one.
func checkPorts(ports []fixedPort, offset int) error {
	var findings []error
	for _, fixed := range ports {
		port := fixed.number + offset
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
	return fmt.Errorf("%w\nstop what holds it, or add a number to each port, for example --port-offset %d", errors.Join(findings...), freeOffset(ports, offset))
}

// probePort listens for a moment. A wildcard address conflicts with a listener
// on any address of the port, which is what a user would call taken.
func probePort(port int) error {
	listener, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err == nil {
		return listener.Close()
	}
	if socket := listenerOf(port); socket != "" {
		return fmt.Errorf("taken by %s", describeHolders(socket))
	}
	return fmt.Errorf("not available (%w)", err)
}

// freeOffset finds an offset to suggest, with all fixed ports free just now.
func freeOffset(ports []fixedPort, taken int) int {
	const step, attempts = 100, 20
	for offset := taken + step; offset < taken+attempts*step; offset += step {
		if allFree(ports, offset) {
			return offset
		}
	}
	return taken + step
}

func allFree(ports []fixedPort, offset int) bool {
	for _, fixed := range ports {
		port := fixed.number + offset
		if port < 1 || port > maxPort || probePort(port) != nil {
			return false
		}
	}
	return true
}
