// Package resilience attacks the real edge and watches an honest client that
// uses it at the same time: the attack may cost the attacker its connection,
// and no other client anything.
//
//   - TestSlow: ten thousand connections that send nothing, drip their headers or
//     bodies, stall in a handshake, or do not read their responses.
//   - TestFloods: the floods of HTTP/2 that are known, one by one, from a few
//     addresses. TestFloodsByMany: from a new address each time.
//     TestFloodsNextDoor: from the honest client's own.
//   - TestPool: requests that leave something behind in a connection to a
//     backend, mixed with ones that would find it there. TestUnsolicited: a
//     backend that speaks unasked.
//
// The first two look at the honest client's errors, of which there may be none,
// and at its latency, which is compared with what it was before; at the memory,
// file descriptors and goroutines of the edge; and at how long attackers are put
// up with.
//
// Without a setting each test is short, for `make test`: a flood lasts a second.
// RESILIENCE=long makes floods last 60 s at full speed and waits for everything
// that ends only after a minute; run it alone on a quiet machine, with -timeout
// 30m. RESILIENCE_SECONDS and RESILIENCE_CONNECTIONS set these two alone.
package resilience

import (
	"os"
	"testing"
	"time"

	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

func TestMain(m *testing.M) {
	if os.Getenv(attackVariable) != "" {
		attackMain()
		return
	}
	edgeprocess.Main(m)
}

// long reports whether there is time.
func long() bool { return os.Getenv("RESILIENCE") == "long" }

// floodTime is how long each flood lasts.
func floodTime(t *testing.T) time.Duration {
	seconds := 1
	if long() {
		seconds = 60
	}
	return time.Duration(programs.Setting(t, "RESILIENCE_SECONDS", seconds)) * time.Second
}
