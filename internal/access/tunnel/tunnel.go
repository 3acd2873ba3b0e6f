package tunnel

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/observe"
)

const (
	// headerTimeout bounds reading the header of a request on a stream.
	headerTimeout = 30 * time.Second
	// idleTimeout is longer than the platform keeps idle streams. So the agent never
	// closes a stream while the platform starts a request on it.
	idleTimeout = 3 * time.Minute
	// maxHeader bounds the header of a request.
	maxHeader = 128 << 10
	// stableAfter is how long a connection must have lasted to reset the backoff.
	stableAfter = 10 * time.Second
	// sameAddress is how often one address is dialed in search of another replica:
	// behind a load balancer it may lead to any of them.
	sameAddress = 3
)

// tunnel is a running tunnel. Each slot is a goroutine that keeps one connection; mu
// guards what the slots share.
type tunnel struct {
	Options
	dialer *http.Client
	server *http.Server
	// ending is done when no more streams are accepted.
	ending context.Context
	// closing is done when all connections are closed.
	closing context.Context
	// serving counts the slots that may still receive requests.
	serving sync.WaitGroup
	// searches and draining track goroutines that outlive the connection that started
	// them.
	searches, draining sync.WaitGroup

	mu sync.Mutex
	// held counts claimed connections by replica, without those that drain.
	held      map[string]int
	addresses map[string]int
	connected int
}

// Run keeps the connections until the context is done, then drains them. The order of
// a shutdown is: drain messages to the platform, stop accepting streams, complete
// requests in flight, close the connections.
func Run(ctx context.Context, options Options) error {
	options, err := options.withDefaults()
	if err != nil {
		return err
	}
	ending, end := context.WithCancel(context.Background())
	defer end()
	closing, closeAll := context.WithCancel(context.Background())
	defer closeAll()
	t := &tunnel{
		Options: options, dialer: newDialer(options), ending: ending, closing: closing,
		held: map[string]int{}, addresses: map[string]int{},
	}
	t.server = &http.Server{
		Handler: options.Handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(options.Log.Handler(), slog.LevelDebug),
	}
	var slots sync.WaitGroup
	t.serving.Add(options.Connections)
	for range options.Connections {
		slots.Go(func() { t.keepSlot(ctx) })
	}
	<-ctx.Done()
	// Streams are accepted until the platform has stopped sending requests: one may
	// already be in flight.
	t.serving.Wait()
	end()
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), options.Timing.DrainTimeout)
	defer cancel()
	if err := t.server.Shutdown(finish); err != nil {
		t.Log.Warn("requests through the tunnel were aborted at shutdown", observe.KeyError, err)
		_ = t.server.Close()
	}
	closeAll()
	slots.Wait()
	t.searches.Wait()
	t.draining.Wait()
	t.dialer.CloseIdleConnections()
	return ctx.Err()
}

// keepSlot keeps one connection: it connects with backoff, serves, and connects
// again. A connection that the platform drains is replaced without delay, and closed
// after its successor is open.
func (t *tunnel) keepSlot(ctx context.Context) {
	drained := sync.OnceFunc(t.serving.Done)
	defer drained()
	var next, last *connection
	for try := 0; ; {
		if next == nil {
			if backoff.Sleep(ctx, delay(try, t.Timing.MaxBackoff)) != nil {
				return
			}
			var err error
			if next, err = t.connect(ctx, false); err != nil {
				t.logFailure(ctx, try, err)
				try++
				continue
			}
		}
		began := time.Now()
		why, successor := t.runConnection(ctx, next, last, drained)
		last = nil
		switch {
		case why == stopped:
			return
		case why == moved:
			try, last = 0, next
		case time.Since(began) > stableAfter:
			try = 0
		default:
			try++
		}
		next = successor
	}
}

// runConnection serves requests over a connection for as long as the slot uses it. It
// replaces last, if that one is draining. drained is called when the connection
// receives no more requests.
func (t *tunnel) runConnection(ctx context.Context, c, last *connection, drained func()) (endReason, *connection) {
	if err := c.open(); err != nil {
		t.release(c)
		t.Log.Warn("tunnel handshake failed", observe.KeyAddress, c.address, observe.KeyError, err)
		return lost, nil
	}
	t.addConnected(1)
	if last != nil {
		_ = last.sendControl(agentMessage{Moved: true})
	}
	t.Log.Info("tunnel connected", observe.KeyAddress, c.address, "replica", c.replica)
	why, successor := c.serve(ctx)
	t.release(c)
	t.Metrics.ends.WithLabelValues(string(why)).Inc()
	leave := func() {
		c.close()
		t.addConnected(-1)
	}
	switch why {
	case moved:
		t.Log.Info("moving tunnel connection to another replica", "replica", c.replica)
		t.draining.Go(func() {
			c.drainRead(t.closing)
			leave()
		})
	case stopped:
		c.drain()
		drained()
		<-t.closing.Done()
		leave()
	default:
		t.Log.Info("tunnel connection closed", observe.KeyReason, string(why), "replica", c.replica)
		leave()
	}
	return why, successor
}

// connect dials until it finds a replica without a connection of this agent. When
// there is none it falls back to a second connection to the same replica, unless
// onlyOther is set. The result is claimed.
func (t *tunnel) connect(ctx context.Context, onlyOther bool) (*connection, error) {
	addresses := t.orderAddresses()
	if len(addresses) == 0 {
		return nil, errors.New("the platform has not announced a tunnel address yet")
	}
	var spare *connection
	var failures []error
	for i := 0; i < len(addresses) && ctx.Err() == nil; i++ {
		c, err := t.dial(ctx, addresses[i])
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if t.claim(c, false) {
			if spare != nil {
				spare.close()
			}
			return c, nil
		}
		// The last address may lead to another replica on the next attempt.
		if len(addresses) < sameAddress && i == len(addresses)-1 && t.otherReplicas(c.replicas) {
			addresses = append(addresses, addresses[i])
		}
		if spare == nil {
			spare = c
		} else {
			c.close()
		}
		if !t.otherReplicas(c.replicas) {
			break
		}
	}
	switch {
	case spare == nil:
		return nil, cmp.Or(errors.Join(failures...), ctx.Err())
	case onlyOther || ctx.Err() != nil:
		spare.close()
		return nil, cmp.Or(ctx.Err(), errors.New("no other replica of the platform is reachable"))
	}
	t.claim(spare, true)
	return spare, nil
}

// orderAddresses returns the addresses in dial order: those with the fewest
// connections first, otherwise at random, so that agents spread over the replicas.
func (t *tunnel) orderAddresses() []string {
	addresses := slices.Clone(t.URLs())
	rand.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortStableFunc(addresses, func(a, b string) int { return cmp.Compare(t.addresses[a], t.addresses[b]) })
	return addresses
}

// claim assigns a connection to a slot. It fails for a second connection to the same
// replica, unless second allows it.
func (t *tunnel) claim(c *connection, second bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.second = t.held[c.replica] > 0
	if c.second && !second {
		return false
	}
	t.held[c.replica]++
	t.addresses[c.address]++
	return true
}

// release undoes a claim. A draining connection is released early, so that its
// replica does not count.
func (t *tunnel) release(c *connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	decrement(t.held, c.replica)
	decrement(t.addresses, c.address)
}

// decrement lowers a count and deletes it at zero, so that len counts the replicas in
// use.
func decrement(counts map[string]int, key string) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

// otherReplicas reports whether there is a replica without a connection of this
// agent.
func (t *tunnel) otherReplicas(replicas int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return replicas > len(t.held)
}

// addConnected changes the number of open connections and publishes it.
func (t *tunnel) addConnected(change int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.connected += change
	t.Metrics.connections.Set(float64(t.connected))
	t.State(t.connected)
}

// logFailure logs a failed attempt: every tenth as a warning, the others at debug
// level, so that an outage does not flood the log.
func (t *tunnel) logFailure(ctx context.Context, try int, err error) {
	if ctx.Err() != nil {
		return
	}
	level := slog.LevelDebug
	if try%10 == 0 {
		level = slog.LevelWarn
	}
	t.Log.Log(ctx, level, "tunnel connection attempt failed", observe.KeyError, err, "tries", try+1)
}
