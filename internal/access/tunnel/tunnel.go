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
	// headerTimeout bounds the header of a request on a stream.
	headerTimeout = 30 * time.Second
	// idleTimeout is longer than the platform keeps streams that wait for another
	// request, so that it is never the agent that closes one under a request.
	idleTimeout = 3 * time.Minute
	// maxHeader bounds the header of a request.
	maxHeader = 128 << 10
	// steady is how long a connection must have lasted for the next try to be a
	// first one.
	steady = 10 * time.Second
	// sameAddress is how often one address is tried for another replica.
	sameAddress = 3
)

// tunnel is a running tunnel.
type tunnel struct {
	Options
	dialer *http.Client
	server *http.Server
	// ending is done when no more streams are accepted.
	ending context.Context
	// closing is done when connections are closed.
	closing context.Context
	// farewell counts connections that still get requests.
	farewell sync.WaitGroup
	// searches and lingering are what outlives the connection that started it.
	searches, lingering sync.WaitGroup

	mu sync.Mutex
	// held counts connections by replica, without those that linger.
	held      map[string]int
	addresses map[string]int
	connected int
}

// Run keeps the connections until the context is done, and then finishes the
// requests that have begun.
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
	t.farewell.Add(options.Connections)
	for range options.Connections {
		slots.Go(func() { t.keep(ctx) })
	}
	<-ctx.Done()
	// Streams are accepted until the platform has nothing more to send.
	t.farewell.Wait()
	end()
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), options.Timing.Finish)
	defer cancel()
	if err := t.server.Shutdown(finish); err != nil {
		t.Log.Warn("requests through the tunnel were cut at the end", observe.KeyError, err)
		_ = t.server.Close()
	}
	closeAll()
	slots.Wait()
	t.searches.Wait()
	t.lingering.Wait()
	t.dialer.CloseIdleConnections()
	return ctx.Err()
}

// keep keeps one of the connections.
func (t *tunnel) keep(ctx context.Context) {
	told := sync.OnceFunc(t.farewell.Done)
	defer told()
	var next, last *connection
	for try := 0; ; {
		if next == nil {
			if backoff.Sleep(ctx, delay(try, t.Timing.Slowest)) != nil {
				return
			}
			var err error
			if next, err = t.connect(ctx, false); err != nil {
				t.tell(ctx, try, err)
				try++
				continue
			}
		}
		began := time.Now()
		why, successor := t.use(ctx, next, last, told)
		last = nil
		switch {
		case why == stopped:
			return
		case why == moved:
			try, last = 0, next
		case time.Since(began) > steady:
			try = 0
		default:
			try++
		}
		next = successor
	}
}

// use serves requests over a connection for as long as it is the slot's. It takes the
// place of the last one, if that lingers. told is called when it gets no more requests.
func (t *tunnel) use(ctx context.Context, c, last *connection, told func()) (outcome, *connection) {
	if err := c.open(); err != nil {
		t.release(c)
		t.Log.Warn("a connection of the tunnel ended at once", observe.KeyAddress, c.address, observe.KeyError, err)
		return lost, nil
	}
	t.count(1)
	if last != nil {
		_ = last.say(presentation{Moved: true})
	}
	t.Log.Info("the tunnel is connected", observe.KeyAddress, c.address, "replica", c.replica)
	why, successor := c.live(ctx)
	t.release(c)
	t.Metrics.ends.WithLabelValues(string(why)).Inc()
	leave := func() {
		c.close()
		t.count(-1)
	}
	switch why {
	case moved:
		t.Log.Info("the tunnel moves to another replica of the platform", "replica", c.replica)
		t.lingering.Go(func() {
			c.linger(t.closing)
			leave()
		})
	case stopped:
		c.sayFarewell()
		told()
		<-t.closing.Done()
		leave()
	default:
		t.Log.Info("a connection of the tunnel ended", observe.KeyReason, string(why), "replica", c.replica)
		leave()
	}
	return why, successor
}

// connect finds a replica that no other connection leads to. When there is none, a
// second connection to the same one is better than none, unless only another will
// do.
func (t *tunnel) connect(ctx context.Context, onlyOther bool) (*connection, error) {
	addresses := t.choose()
	if len(addresses) == 0 {
		return nil, errors.New("the platform has named no address for its tunnel yet")
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
		// One address may lead to any replica.
		if len(addresses) < sameAddress && i == len(addresses)-1 && t.elsewhere(c.replicas) {
			addresses = append(addresses, addresses[i])
		}
		if spare == nil {
			spare = c
		} else {
			c.close()
		}
		if !t.elsewhere(c.replicas) {
			break
		}
	}
	switch {
	case spare == nil:
		return nil, cmp.Or(errors.Join(failures...), ctx.Err())
	case onlyOther || ctx.Err() != nil:
		spare.close()
		return nil, cmp.Or(ctx.Err(), errors.New("no other replica of the platform was reached"))
	}
	t.claim(spare, true)
	return spare, nil
}

// choose gives the addresses in the order to try them: those without a connection
// first, and of these any.
func (t *tunnel) choose() []string {
	addresses := slices.Clone(t.URLs())
	rand.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortStableFunc(addresses, func(a, b string) int { return cmp.Compare(t.addresses[a], t.addresses[b]) })
	return addresses
}

// claim takes a connection for a slot. A second one to a replica must be wanted.
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

// release is the end of a claim.
func (t *tunnel) release(c *connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	drop(t.held, c.replica)
	drop(t.addresses, c.address)
}

// drop counts down, and forgets what is at zero.
func drop(counts map[string]int, key string) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

// elsewhere reports whether there is a replica that no connection leads to.
func (t *tunnel) elsewhere(replicas int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return replicas > len(t.held)
}

// count tells how many connections there are.
func (t *tunnel) count(change int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.connected += change
	t.Metrics.connections.Set(float64(t.connected))
	t.State(t.connected)
}

// tell logs why there is no connection: the first time, and then now and then.
func (t *tunnel) tell(ctx context.Context, try int, err error) {
	if ctx.Err() != nil {
		return
	}
	level := slog.LevelDebug
	if try%10 == 0 {
		level = slog.LevelWarn
	}
	t.Log.Log(ctx, level, "the tunnel does not reach the platform", observe.KeyError, err, "tries", try+1)
}
