package hub

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"slipway.dev/slipway/internal/platform/store"
)

// Hub holds the connections of agents to this replica. It is safe for
// concurrent use. mu guards the maps and counters below it; it is never held
// during I/O.
type Hub struct {
	options Options
	peers   *http.Transport
	// handshakeSlots bounds concurrent handshakes.
	handshakeSlots chan struct{}
	// liveReplicas is the list of live replicas of the last heartbeat,
	// including this one.
	liveReplicas atomic.Pointer[[]store.Replica]
	// writeWake wakes the goroutine that writes connections to the directory.
	writeWake chan struct{}
	// rechecks counts the recheck requests. A handshake compares it to detect
	// a revocation that arrived while the connection was not registered yet.
	rechecks atomic.Uint64
	// recheckWake wakes the goroutine that verifies tokens again.
	recheckWake chan struct{}
	// active counts connections until their goroutines have ended.
	active sync.WaitGroup

	mu       sync.Mutex
	runtimes map[string]*runtime
	total    int
	draining bool
	// dirtyRuntimes are the runtimes whose entry in the directory is out of
	// date.
	dirtyRuntimes map[string]bool
	// recheckPending are the runtimes whose tokens must be verified again.
	recheckPending map[string]bool
}

// runtime holds the connections of one runtime to this replica.
type runtime struct {
	connections []*connection // oldest first
	running     int           // requests in flight
}

// New returns a hub. Run must run for it to learn about other replicas and
// revocations.
func New(options Options) (*Hub, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Hub{
		options: options, peers: newPeerTransport(options),
		handshakeSlots: make(chan struct{}, options.Limits.Handshakes),
		writeWake:      make(chan struct{}, 1), recheckWake: make(chan struct{}, 1),
		runtimes: map[string]*runtime{}, dirtyRuntimes: map[string]bool{}, recheckPending: map[string]bool{},
	}
	h.liveReplicas.Store(&[]store.Replica{h.self()})
	return h, nil
}

// self returns this replica's entry in the directory.
func (h *Hub) self() store.Replica {
	return store.Replica{ID: h.options.ReplicaID, PeerURL: h.options.PeerURL, TunnelURL: h.options.TunnelURL}
}

// Connected reports whether a runtime is connected to this replica.
func (h *Hub) Connected(runtimeID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.runtimes[runtimeID]
	return r != nil && slices.ContainsFunc(r.connections, (*connection).usable)
}

// TunnelURLs returns the distinct addresses of the live replicas that agents
// connect to.
func (h *Hub) TunnelURLs() []string {
	var urls []string
	for _, replica := range *h.liveReplicas.Load() {
		if replica.TunnelURL != "" && !slices.Contains(urls, replica.TunnelURL) {
			urls = append(urls, replica.TunnelURL)
		}
	}
	return urls
}

// replicas returns the number of live replicas.
func (h *Hub) replicas() int { return len(*h.liveReplicas.Load()) }

// startConnection counts an accepted connection in active, unless the hub is
// draining. Both happen under one lock: after draining is set, Run waits for
// active to reach zero.
func (h *Hub) startConnection() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.draining {
		h.active.Add(1)
	}
	return !h.draining
}

// addConnection registers a connection and returns the connections that
// exceed the limit of the runtime. The caller closes them, outside of the
// lock.
func (h *Hub) addConnection(c *connection) (displaced []*connection, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining {
		return nil, false
	}
	id := c.runtimeID
	r := h.runtimes[id]
	if r == nil {
		r = &runtime{}
		h.runtimes[id] = r
	}
	r.connections = append(r.connections, c)
	h.total++
	if more := len(r.connections) - h.options.Limits.ConnectionsPerRuntime; more > 0 {
		displaced = slices.Clone(r.connections[:more])
	}
	h.changedLocked(id)
	return displaced, true
}

// removeConnection removes a connection.
func (h *Hub) removeConnection(c *connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.runtimes[c.runtimeID]
	if r == nil {
		return
	}
	before := len(r.connections)
	r.connections = slices.DeleteFunc(r.connections, func(other *connection) bool { return other == c })
	h.total -= before - len(r.connections)
	h.forgetLocked(c.runtimeID)
	h.changedLocked(c.runtimeID)
}

// forgetLocked deletes a runtime without connections and requests.
func (h *Hub) forgetLocked(id string) {
	if r := h.runtimes[id]; r != nil && len(r.connections) == 0 && r.running == 0 {
		delete(h.runtimes, id)
	}
}

// changedLocked updates the gauges and queues the runtime for the directory.
func (h *Hub) changedLocked(id string) {
	h.options.Metrics.connections.Set(float64(h.total))
	h.options.Metrics.runtimes.Set(float64(len(h.runtimes)))
	h.dirtyRuntimes[id] = true
	wake(h.writeWake)
}

// wake signals a channel of capacity one without blocking. A pending signal
// is enough: the reader processes all queued work.
func wake(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// allConnections returns a copy of the list of connections.
func (h *Hub) allConnections() []*connection {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*connection, 0, h.total)
	for _, r := range h.runtimes {
		all = append(all, r.connections...)
	}
	return all
}
