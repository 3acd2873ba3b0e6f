package platform

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/store/pgtest"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// reporter is an agent that reports new applications one after the other.
type reporter struct {
	agent api
	// stored is the number of the last acknowledged event. Numbers of a stream
	// have no gaps, so it is the number of applications and two more.
	stored atomic.Int64
	failed atomic.Int64
	lost   atomic.Bool // the platform does not have what it acknowledged
}

// newReporter registers a runtime and starts its stream.
func newReporter(t *testing.T, p *process, key, name string) *reporter {
	t.Helper()
	r := &reporter{agent: p.with(t, join(t, p.with(t, key), name).GetAccessToken())}
	r.stored.Store(must.Get(report(t.Context(), r.agent, resyncBegin(1), resyncEnd(2)))(t).GetStored())
	return r
}

// run reports until the context is done. It sends an event again that was not
// acknowledged, as agents do.
func (r *reporter) run(ctx context.Context) {
	for ctx.Err() == nil {
		next := r.stored.Load() + 1
		response, err := report(ctx, r.agent, application(next, fmt.Sprintf("app-%d", next)))
		switch {
		case err != nil:
			r.failed.Add(1)
			_ = backoff.Sleep(ctx, 20*time.Millisecond) // the loop ends with the context
		case response.GetResync():
			r.lost.Store(true)
			return
		default:
			r.stored.Store(response.GetStored())
		}
	}
}

// progress waits until each reporter has stored more.
func progress(t *testing.T, reporters []*reporter, more int64) {
	t.Helper()
	var want []int64
	for _, r := range reporters {
		want = append(want, r.stored.Load()+more)
	}
	programs.Until(t, "reports are stored", func() bool {
		for i, r := range reporters {
			if r.stored.Load() < want[i] && !r.lost.Load() {
				return false
			}
		}
		return true
	})
}

// failoverLimit is how long the platform may take to write again after the primary is
// killed. The long form alone asserts it, on a machine that does nothing else.
const failoverLimit = 10 * time.Second

// TestDatabaseFailover: under load the primary of the database is killed and its
// standby promoted. The platform follows without a restart, and has everything
// that it acknowledged.
func TestDatabaseFailover(t *testing.T) {
	pair := pgtest.NewPair(t)
	at := placeAt(t, pair.URL())
	one := start(t, at)
	key := one.firstKey(t)
	two := start(t, at, "--tunnel.url=ws://127.0.0.1:1")
	var reporters []*reporter
	for i := range 4 {
		reporters = append(reporters, newReporter(t, []*process{one, two}[i%2], key, fmt.Sprintf("runtime-%d", i)))
	}
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for _, r := range reporters {
		load.Go(func() { r.run(ctx) })
	}
	progress(t, reporters, 20)

	killed := time.Now()
	pair.KillPrimary(t)
	pair.Promote(t)
	promoted := time.Since(killed)
	progress(t, reporters, 1)
	took := time.Since(killed)
	progress(t, reporters, 20)
	stop()
	load.Wait()
	var stored, failed int64
	for _, r := range reporters {
		if r.lost.Load() {
			t.Error("an acknowledged report is lost")
		}
		stored += r.stored.Load() - 2
		failed += r.failed.Load()
	}
	t.Logf("the standby was promoted after %v and all wrote again after %v; %d reports stored, %d retried", promoted.Round(time.Millisecond), took.Round(time.Millisecond), stored, failed)
	if os.Getenv("FAILOVER") == "long" && took > failoverLimit {
		t.Errorf("the platform wrote again %v after the kill, and the limit is %v", took.Round(time.Millisecond), failoverLimit)
	}
	if failed == 0 {
		t.Error("no report failed: the primary was not in use")
	}
	// The last report of each may have been stored without its response.
	if got := int64(total(t, two.with(t, key))); got < stored || got > stored+int64(len(reporters)) {
		t.Errorf("%d applications, %d were acknowledged", got, stored)
	}
	for _, p := range []*process{one, two} {
		programs.Until(t, "ready", func() bool { status, _ := p.look(t, "/readyz"); return status == http.StatusOK })
	}

	// Changes reach the watches of the other replica again.
	watch, err := two.with(t, key).applications.WatchApplications(within(t), connect.NewRequest(&platformv1.WatchApplicationsRequest{}))
	must.Do(t, err)
	defer watch.Close()
	for watch.Receive() && !watch.Msg().GetSynced() {
	}
	last := must.Get(report(t.Context(), reporters[0].agent))(t).GetStored() // also without a response
	must.Get(report(t.Context(), reporters[0].agent, application(last+1, "after")))(t)
	for watch.Receive() {
		if watch.Msg().GetApplication().GetName() == "after" {
			return
		}
	}
	t.Errorf("the watch ended: %v", watch.Err())
}
