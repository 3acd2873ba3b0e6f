package observe

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// Health tracks whether the process is ready for traffic: there is at least one
// condition, every condition is met, and the process is not stopping. Without
// conditions it is not ready, so that a role cannot forget to declare them. The
// zero value is usable, from any goroutine.
type Health struct {
	mu         sync.Mutex
	conditions []*Condition
	stopping   bool
}

// Condition is a requirement for readiness. It may be met and unmet any number of
// times, from any goroutine.
type Condition struct {
	health *Health
	name   string
	met    bool
	reason string
}

// Condition declares a condition that is not met yet, with the reason for /readyz
// ("no routing table is live yet"). A name that is declared already returns the
// existing condition unchanged.
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

// Met marks the condition as met.
func (c *Condition) Met() { c.set(true, "") }

// Unmet marks the condition as not met, with the reason.
func (c *Condition) Unmet(reason string) { c.set(false, reason) }

func (c *Condition) set(met bool, reason string) {
	c.health.mu.Lock()
	defer c.health.mu.Unlock()
	c.met, c.reason = met, reason
}

// Stopping makes the process not ready for good, so that it gets no new traffic
// while it drains.
func (h *Health) Stopping() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopping = true
}

// Missing returns the reasons why the process is not ready; none if it is.
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

// serveReady responds with 200 if ready, and else with 503 and the reasons.
func (h *Health) serveReady(w http.ResponseWriter, _ *http.Request) {
	if missing := h.Missing(); len(missing) > 0 {
		writePlain(w, http.StatusServiceUnavailable, "not ready\n"+strings.Join(missing, "\n"))
		return
	}
	writePlain(w, http.StatusOK, "ready")
}

// serveAlive responds with 200: a process that responds is alive. It checks nothing
// else, because a restart repairs nothing outside of the process.
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
