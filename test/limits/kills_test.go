package limits

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/programs"
)

// kills sends to edges that are killed in turn, as a load balancer would: an edge
// that takes no connection is left out, and another one gets the request.
type kills struct {
	world *world
	// killed is when an edge was last gone, in nanoseconds of Unix time. During a kill
	// it is the end of time.
	killed [edges]atomic.Int64

	sent, admitted, limited, inFlight, moved atomic.Int64
	failures                                 chan string
}

// TestKills kills one of three edges in turn under load. A limit far above the load
// must refuse nothing, and nothing may fail except what is in flight on the edge that
// is killed.
func TestKills(t *testing.T) {
	seconds, perSecond, interval := 6, 200, 2*time.Second
	if long() {
		seconds, perSecond, interval = 600, 2000, 10*time.Second
	}
	seconds, perSecond = programs.Setting(t, "LIMITS_SECONDS", seconds), programs.Setting(t, "LIMITS_RATE", perSecond)
	k := &kills{world: newWorld(t, limitOf(int64(perSecond)*10)), failures: make(chan string, 100)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var sending sync.WaitGroup
	sending.Go(func() { k.send(ctx, &sending, perSecond) })
	rounds := 0
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); rounds++ {
		k.kill(t, rounds%edges, interval)
	}
	cancel()
	sending.Wait()
	close(k.failures)
	for failure := range k.failures {
		t.Error(failure)
	}
	t.Logf("%d kills, %d requests: %d admitted, %d limited, %d failed in flight on the killed edge, %d sent to another edge",
		rounds, k.sent.Load(), k.admitted.Load(), k.limited.Load(), k.inFlight.Load(), k.moved.Load())
	if k.limited.Load() > 0 || k.admitted.Load() == 0 {
		t.Errorf("%d requests were admitted and %d refused below the limit", k.admitted.Load(), k.limited.Load())
	}
}

// kill kills an edge, starts it again after half of the interval, and waits for the
// rest.
func (k *kills) kill(t *testing.T, i int, interval time.Duration) {
	next := time.After(interval)
	k.killed[i].Store(math.MaxInt64)
	k.world.replicas[i].Kill()
	k.killed[i].Store(time.Now().UnixNano())
	<-time.After(interval / 2)
	k.world.start(t, i)
	<-next
}

// send sends at a rate, whatever becomes of the requests.
func (k *kills) send(ctx context.Context, sending *sync.WaitGroup, perSecond int) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	began, sent := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for due := int(time.Since(began).Seconds() * float64(perSecond)); sent < due; sent++ {
			sending.Go(func() { k.request(sent) })
		}
	}
}

// request sends one request to an edge, and to the next ones if it takes no
// connection.
func (k *kills) request(number int) {
	k.sent.Add(1)
	for try := range edges {
		i := (number + try) % edges
		began := time.Now().UnixNano()
		status, err := k.world.replicas[i].get(context.Background())
		switch {
		case err == nil && status == 200:
			k.admitted.Add(1)
			return
		case err == nil:
			k.limited.Add(1)
			return
		case refused(err):
			k.moved.Add(1)
			continue
		case began <= k.killed[i].Load():
			k.inFlight.Add(1)
			return
		}
		k.fail("edge " + k.world.replicas[i].address + ": " + err.Error())
		return
	}
	k.fail("no edge takes connections")
}

func (k *kills) fail(text string) {
	select {
	case k.failures <- text:
	default:
	}
}
