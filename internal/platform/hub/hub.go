package hub

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"slipway.dev/slipway/internal/platform/store"
)

// Hub has the connections of agents. It is safe for concurrent use.
type Hub struct {
	options Options
	peers   *http.Transport
	// entering bounds handshakes.
	entering chan struct{}
	// others are the replicas that lived at the last look, this one too.
	others atomic.Pointer[[]store.Replica]
	// dirty wakes what writes connections into the directory.
	dirty chan struct{}
	// heard counts the times when tokens were suspected.
	heard atomic.Uint64
	// suspects wakes what checks tokens again.
	suspects chan struct{}
	// inside counts connections until nothing of them is left.
	inside sync.WaitGroup

	mu       sync.Mutex
	runtimes map[string]*runtime
	total    int
	draining bool
	// unwritten are runtimes whose count in the directory is not right.
	unwritten map[string]bool
	// suspected are runtimes whose tokens have to be checked.
	suspected map[string]bool
}

// runtime is what this replica has of one runtime.
type runtime struct {
	connections []*connection // the oldest first
	running     int           // requests
}

// New makes a hub. Run has to run for it to know other replicas and revocations.
func New(options Options) (*Hub, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Hub{
		options: options, peers: newPeerTransport(options),
		entering: make(chan struct{}, options.Limits.Handshakes),
		dirty:    make(chan struct{}, 1), suspects: make(chan struct{}, 1),
		runtimes: map[string]*runtime{}, unwritten: map[string]bool{}, suspected: map[string]bool{},
	}
	h.others.Store(&[]store.Replica{h.self()})
	return h, nil
}

// self is this replica's entry in the directory.
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

// TunnelURLs are the addresses that agents connect to: those of the replicas that
// live, each once.
func (h *Hub) TunnelURLs() []string {
	var urls []string
	for _, replica := range *h.others.Load() {
		if replica.TunnelURL != "" && !slices.Contains(urls, replica.TunnelURL) {
			urls = append(urls, replica.TunnelURL)
		}
	}
	return urls
}

// replicas is how many replicas live.
func (h *Hub) replicas() int { return len(*h.others.Load()) }

// begin counts a connection that is let in, unless the hub is ending.
func (h *Hub) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.draining {
		h.inside.Add(1)
	}
	return !h.draining
}

// enter adds a connection, and gives those that are too many with it.
func (h *Hub) enter(c *connection) (displaced []*connection, ok bool) {
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

// leave removes a connection.
func (h *Hub) leave(c *connection) {
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

// forgetLocked drops a runtime of which nothing is left.
func (h *Hub) forgetLocked(id string) {
	if r := h.runtimes[id]; r != nil && len(r.connections) == 0 && r.running == 0 {
		delete(h.runtimes, id)
	}
}

// changedLocked has the directory told of a runtime.
func (h *Hub) changedLocked(id string) {
	h.options.Metrics.connections.Set(float64(h.total))
	h.options.Metrics.runtimes.Set(float64(len(h.runtimes)))
	h.unwritten[id] = true
	wake(h.dirty)
}

// wake makes sure that a reader looks once more.
func wake(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// everyConnection is a copy of the list of connections.
func (h *Hub) everyConnection() []*connection {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*connection, 0, h.total)
	for _, r := range h.runtimes {
		all = append(all, r.connections...)
	}
	return all
}
