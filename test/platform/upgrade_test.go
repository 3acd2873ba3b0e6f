package platform

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// balancer sends calls to replicas in turn, and a call that was not served to the
// next one.
type balancer struct {
	mu       sync.Mutex
	replicas []api
	next     int
	calls    atomic.Int64
	retried  atomic.Int64
}

func (b *balancer) set(replicas ...api) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicas = replicas
}

func (b *balancer) pick() api {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	return b.replicas[b.next%len(b.replicas)]
}

// call makes a call, and tries it again at another replica if one was
// unavailable.
func (b *balancer) call(do func(api) error) error {
	b.calls.Add(1)
	err := do(b.pick())
	for attempt := 0; attempt < 3 && unserved(err); attempt++ {
		b.retried.Add(1)
		err = do(b.pick())
	}
	return err
}

// unserved reports whether a replica did not serve a call because it was ending.
// A call on a connection that the replica closes at the same time is reset,
// which connect gives the code of a call that was canceled.
func unserved(err error) bool {
	return connect.CodeOf(err) == connect.CodeUnavailable || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// nextSchema is what a replica of the next version does to the database at its
// start.
func nextSchema(t *testing.T, url string) {
	t.Helper()
	connection := must.Get(pgx.Connect(t.Context(), url))(t)
	defer func() { _ = connection.Close(context.WithoutCancel(t.Context())) }()
	tx := must.Get(connection.Begin(t.Context()))(t)
	var version int
	must.Do(t, tx.QueryRow(t.Context(), "SELECT max(version) + 1 FROM schema_migrations").Scan(&version))
	var text strings.Builder
	for _, table := range []string{"accounts", "users", "sessions", "api_keys", "audit_entries", "runtimes", "runtime_credentials", "report_cursors", "applications", "replicas", "connections"} {
		fmt.Fprintf(&text, "ALTER TABLE %s ADD COLUMN future TEXT NOT NULL DEFAULT '';\n", table)
	}
	must.Get(tx.Exec(t.Context(), text.String()))(t)
	must.Get(tx.Exec(t.Context(), "INSERT INTO schema_migrations (version, name, checksum, applied_at) VALUES ($1, 'future', 'x', 0)", version))(t)
	must.Get(tx.Exec(t.Context(), "INSERT INTO schema_compatibility (version, oldest) VALUES ($1, 0)", version))(t)
	must.Do(t, tx.Commit(t.Context()))
}

// reportNext sends the events of a call: a new stream first, then an application
// each time.
func reportNext(ctx context.Context, agent api, call int64) error {
	events := []*platformv1.ReportEvent{resyncBegin(1), resyncEnd(2)}
	if call > 1 {
		events = []*platformv1.ReportEvent{application(call+1, fmt.Sprintf("app-%d", call%50))}
	}
	response, err := report(ctx, agent, events...)
	if response.GetResync() {
		return errors.New("a report was lost")
	}
	return err
}

// TestRollingUpgrade: replicas are replaced one by one under load, and the schema
// becomes that of the next version meanwhile. No call fails, but for those that
// another replica serves.
func TestRollingUpgrade(t *testing.T) {
	at := postgresPlace(t)
	one, two := startReplica(t, at, ""), startReplica(t, at, "")
	key := one.firstKey(t)
	credentials := make([]string, 4)
	for i := range credentials {
		credentials[i] = join(t, one.with(t, key), fmt.Sprintf("runtime-%d", i)).GetAccessToken()
	}
	// Each credential has clients of its own at every replica.
	admins, agents := &balancer{}, make([]*balancer, len(credentials))
	for i := range agents {
		agents[i] = &balancer{}
	}
	serve := func(replicas ...*process) {
		for i, b := range append([]*balancer{admins}, agents...) {
			var clients []api
			for _, p := range replicas {
				clients = append(clients, p.with(t, append([]string{key}, credentials...)[i]))
			}
			b.set(clients...)
		}
	}
	serve(one, two)

	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	repeat := func(what string, b *balancer, do func(n int64, a api) error) {
		load.Go(func() {
			for n := int64(1); ctx.Err() == nil && !t.Failed(); n++ {
				if err := b.call(func(a api) error { return do(n, a) }); err != nil && ctx.Err() == nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
	repeat("list", admins, func(_ int64, a api) error {
		_, err := a.applications.ListApplications(ctx, connect.NewRequest(&platformv1.ListApplicationsRequest{}))
		return err
	})
	for _, b := range agents {
		repeat("report", b, func(n int64, a api) error { return reportNext(ctx, a, n) })
	}
	enough := func() {
		t.Helper()
		for _, b := range append([]*balancer{admins}, agents...) {
			want := b.calls.Load() + 20
			programs.Until(t, "calls", func() bool { return b.calls.Load() > want || t.Failed() })
		}
	}
	enough()
	nextSchema(t, at.url)
	enough()
	// The third and fourth replica start with the schema of the next version.
	three := startReplica(t, at, "")
	serve(two, three)
	one.Stop(t)
	enough()
	four := startReplica(t, at, "")
	serve(three, four)
	two.Stop(t)
	enough()
	stop()
	load.Wait()
	var calls, retried int64
	for _, b := range append([]*balancer{admins}, agents...) {
		calls, retried = calls+b.calls.Load(), retried+b.retried.Load()
	}
	t.Logf("%d calls, %d sent to another replica", calls, retried)
	if !strings.Contains(three.Log.String(), "belongs to a newer version") {
		t.Error("a replica with an older schema reports nothing")
	}
	four.Stop(t)
	three.Stop(t)
}
