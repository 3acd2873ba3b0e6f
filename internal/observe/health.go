package observe

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// Health knows whether the process is ready for traffic: every condition is
// met, there is at least one, and it is not stopping. A process that has not
// said what it waits for is not ready. The zero value is usable.
type Health struct {
	mu         sync.Mutex
	conditions []*Condition
	stopping   bool
}

// Condition is one thing that must hold before the process is ready. It may be
// met and unmet any number of times, from any goroutine.
type Condition struct {
	health *Health
	name   string
	met    bool
	reason string
}

// Condition declares a condition that is not met yet, with the reason for
// people ("no routing table is live yet"). A name that is declared already
// gives the same condition, as it is.
func (h *Health) Condition(name, reason string) *Condition {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conditions {
		if c.name == name {
			return c
		}
	}
	c := &Condition{health: h, name: name, reason: reason}
	h.conditions = append(h.conditions, c)
	return c
}

// Met says that the condition holds.
func (c *Condition) Met() { c.set(true, "") }

// Unmet says that the condition does not hold, and why.
func (c *Condition) Unmet(reason string) { c.set(false, reason) }

func (c *Condition) set(met bool, reason string) {
	c.health.mu.Lock()
	defer c.health.mu.Unlock()
	c.met, c.reason = met, reason
}

// Stopping makes the process not ready for good, so that it gets no new
// traffic while it finishes what it has.
func (h *Health) Stopping() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopping = true
}

// Missing lists what keeps the process from being ready; nothing when it is.
func (h *Health) Missing() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var missing []string
	if h.stopping {
		missing = append(missing, "process: it is stopping")
	}
	if len(h.conditions) == 0 {
		missing = append(missing, "process: it is starting")
	}
	for _, c := range h.conditions {
		if !c.met {
			missing = append(missing, c.name+": "+c.reason)
		}
	}
	return missing
}

// Ready reports whether nothing is missing.
func (h *Health) Ready() bool { return len(h.Missing()) == 0 }

// serveReady answers 200 when ready, and else 503 with what is missing.
func (h *Health) serveReady(w http.ResponseWriter, _ *http.Request) {
	if missing := h.Missing(); len(missing) > 0 {
		writePlain(w, http.StatusServiceUnavailable, "not ready\n"+strings.Join(missing, "\n"))
		return
	}
	writePlain(w, http.StatusOK, "ready")
}

// serveAlive answers 200: a process that answers is alive. It does not look at
// anything else, because a restart mends nothing that is outside of it.
func serveAlive(w http.ResponseWriter, _ *http.Request) {
	writePlain(w, http.StatusOK, "ok")
}

func writePlain(w http.ResponseWriter, status int, text string) {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text) // the client may be gone; nobody is left to tell
}
