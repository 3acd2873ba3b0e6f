package up

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

func listen(t *testing.T, address string) int {
	t.Helper()
	listener := must.Get(net.Listen("tcp", address))(t)
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().(*net.TCPAddr).Port
}

// listenAlone is listen on a port that no other process has on the other loopback address
// either: a test that runs beside could be the holder that is named.
func listenAlone(t *testing.T, address string) int {
	t.Helper()
	for {
		port := listen(t, address)
		alone := true
		for _, host := range []string{"127.0.0.1", "::1"} {
			held, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
			if err == nil {
				t.Cleanup(func() { held.Close() })
				continue
			}
			alone = alone && (strings.HasPrefix(address, ":") || strings.Contains(address, host))
		}
		if alone {
			return port
		}
	}
}

func TestPortTaken(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		t.Run(address, func(t *testing.T) {
			port := listenAlone(t, address)
			err := checkPorts([]fixedPort{{port - 7, "the test"}}, 7)
			requireText(t, err, "port "+strconv.Itoa(port), "the test", "--port-offset", fmt.Sprintf("(pid %d)", os.Getpid()))
		})
	}
}

func TestAllTakenPortsAreNamed(t *testing.T) {
	first, second := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	err := checkPorts([]fixedPort{{first, "one"}, {second, "two"}}, 0)
	requireText(t, err, strconv.Itoa(first), strconv.Itoa(second), "one", "two")
}

func TestPortFree(t *testing.T) {
	port := int(programs.FreeAddress(t).Port())
	if err := checkPorts([]fixedPort{{port, "the test"}}, 0); err != nil {
		t.Error(err)
	}
}

func TestPortOffsetOutOfRange(t *testing.T) {
	for _, offset := range []int{-6443, 60000} {
		err := checkPorts([]fixedPort{{apiServerPort, "the API server"}}, offset)
		requireText(t, err, "--port-offset "+strconv.Itoa(offset), "between 1 and 65535")
	}
}

func TestFindListener(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:192B 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 111 1
   1: 0100007F:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 222 1
   2: broken
`
	if got := findListener(strings.NewReader(table), 6443); got != "socket:[222]" {
		t.Errorf("got %q", got)
	}
	if got := findListener(strings.NewReader(table), 443); got != "" {
		t.Errorf("got %q for a port that nobody listens on", got)
	}
}
