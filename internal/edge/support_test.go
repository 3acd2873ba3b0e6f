package edge_test

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a Server that serves until the end of the test.
type running struct {
	*edge.Server
	address string
	stop    func() // drains, and returns when nothing is left
}

// start serves a table on a free port. A stop begins to drain at once.
func start(t *testing.T, table *route.Table) *running {
	t.Helper()
	return startAt(t, table, edge.DefaultEntryPoint("web", "127.0.0.1:0"))
}

// startAt serves a table on entry points.
func startAt(t *testing.T, table *route.Table, points ...edge.EntryPoint) *running {
	t.Helper()
	return startWith(t, table, edge.Options{}, points...)
}

// startWith is startAt with options of its own.
func startWith(t testing.TB, table *route.Table, options edge.Options, points ...edge.EntryPoint) *running {
	t.Helper()
	for i := range points {
		points[i].AcceptGrace = 0
	}
	options.EntryPoints, options.Loops = points, edgetest.Loops()
	options.Metrics = edge.NewMetrics(prometheus.NewRegistry(), points)
	options.Log = slog.New(slog.DiscardHandler)
	server := must.Get(edge.New(t.Context(), options))(t)
	must.Do(t, server.Apply(table))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	done := false
	stop := func() {
		if done {
			return
		}
		done = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	}
	t.Cleanup(stop)
	return &running{Server: server, address: server.Addresses()[0].String(), stop: stop}
}

// tableFor sends everything to the endpoints.
func tableFor(endpoints ...netip.AddrPort) *route.Table { return edgetest.Table(endpoints) }
