package route

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/api/refusal"
)

// HealthCheck probes every endpoint of a backend periodically. An unhealthy one gets
// no request until it is healthy again. A new endpoint gets requests before its
// first check: Kubernetes lists it because it is ready. When all endpoints fail
// their checks, they are all used: a check that is configured wrong must not take a
// backend down that serves.
type HealthCheck struct {
	// Mode is http when it is empty.
	Mode CheckMode `json:"mode,omitempty"`
	// Path is the path of the GET request, with a query if need be; / when it is
	// empty. It belongs to the mode http.
	Path string `json:"path,omitempty"`
	// Service is the service that is checked; empty is the server as a whole. It
	// belongs to the mode grpc.
	Service string `json:"service,omitempty"`
	// Host is sent as the Host header. When it is empty, it is the one of
	// Transport, or else the endpoint's address.
	Host string `json:"host,omitempty"`
	// Port is probed instead of the endpoint's own. It has to speak the same
	// protocol.
	Port uint16 `json:"port,omitempty"`
	// Interval is the time between two checks of an endpoint; 0 means 10s.
	Interval Duration `json:"interval,omitzero"`
	// Timeout bounds one check; 0 means 3s, or the interval if that is less.
	Timeout Duration `json:"timeout,omitzero"`
	// Healthy is how many checks in a row have to pass before an endpoint that
	// failed gets requests again; 0 means 1.
	Healthy int `json:"healthy,omitempty"`
	// Unhealthy is how many checks in a row have to fail before an endpoint
	// gets no more requests; 0 means 2, because one can fail by chance.
	Unhealthy int `json:"unhealthy,omitempty"`
	// Statuses are the healthy ones; none means 200 to 399. They belong to the mode
	// http.
	Statuses []StatusRange `json:"statuses,omitempty"`
}

// CheckMode is a way to probe an endpoint.
type CheckMode string

// The ways to probe.
const (
	// CheckHTTP sends a request over the protocol of the backend.
	CheckHTTP CheckMode = "http"
	// CheckTCP makes a connection and closes it, without TLS.
	CheckTCP CheckMode = "tcp"
	// CheckGRPC calls grpc.health.v1.Health/Check.
	CheckGRPC CheckMode = "grpc"
)

// The bounds of a check. More often than once a second, checks of a large
// cluster would be a load of their own.
const (
	minCheckInterval  = time.Second
	maxCheckInterval  = time.Hour
	maxCheckThreshold = 100
)

// Settled gives the check with its defaults in place of what is zero.
func (h HealthCheck) Settled() HealthCheck {
	h.Mode = cmp.Or(h.Mode, CheckHTTP)
	h.Path = cmp.Or(h.Path, "/")
	h.Interval = cmp.Or(h.Interval, Duration(10*time.Second))
	h.Timeout = cmp.Or(h.Timeout, min(Duration(3*time.Second), h.Interval))
	h.Healthy = max(h.Healthy, 1)
	h.Unhealthy = cmp.Or(h.Unhealthy, 2)
	if len(h.Statuses) == 0 {
		h.Statuses = []StatusRange{{From: 200, To: 399}}
	}
	return h
}

// Passes reports whether a status is one of those that pass.
func (h *HealthCheck) Passes(status int) bool {
	return slices.ContainsFunc(h.Statuses, func(expected StatusRange) bool {
		return status >= expected.From && status <= expected.To
	})
}

func (h *HealthCheck) check(r *report, protocol Protocol) {
	if h == nil {
		return
	}
	r.enter("healthCheck")
	defer r.leave()
	checkOptionalChoice(r, "mode", h.Mode, CheckHTTP, CheckTCP, CheckGRPC)
	if h.Mode == CheckGRPC && !protocol.HTTP2() {
		r.add("mode", refusal.Conflict, "gRPC needs HTTP/2; set the protocol to h2c, h2 or alpn, or use another mode")
	}
	h.checkRequest(r)
	h.checkTimes(r)
	checkThreshold(r, "healthy", h.Healthy)
	checkThreshold(r, "unhealthy", h.Unhealthy)
}

func checkThreshold(r *report, field string, count int) {
	if count < 0 || count > maxCheckThreshold {
		r.add(field, refusal.Invalid, "%d is not between 0 and %d", count, maxCheckThreshold)
	}
}

// checkRequest validates the request of a check and the statuses that pass.
func (h *HealthCheck) checkRequest(r *report) {
	http := h.Mode == "" || h.Mode == CheckHTTP
	if h.Path != "" {
		switch {
		case !http:
			r.add("path", refusal.Conflict, "only the mode http uses a path; remove it")
		case len(h.Path) > MaxPathLength:
			r.add("path", refusal.Invalid, "the path has %d bytes; at most %d are allowed", len(h.Path), MaxPathLength)
		case !validTarget(h.Path):
			r.add("path", refusal.Invalid, "%s is not a path; start it with a slash, and escape all but visible ASCII characters", shorten(h.Path))
		}
	}
	if h.Service != "" {
		if h.Mode != CheckGRPC {
			r.add("service", refusal.Conflict, "only the mode grpc uses a service; remove it")
		} else {
			checkOptionalName(r, "service", h.Service)
		}
	}
	if h.Host != "" && h.Mode == CheckTCP {
		r.add("host", refusal.Conflict, "the mode tcp sends no Host; remove it")
	} else if h.Host != "" && !validHostHeader(h.Host) {
		r.add("host", refusal.Invalid, "%q is not a host", h.Host)
	}
	if len(h.Statuses) > 0 && !http {
		r.add("statuses", refusal.Conflict, "only the mode http has statuses; remove them")
	}
	checkStatuses(r, h.Statuses, 100)
}

func (h *HealthCheck) checkTimes(r *report) {
	if interval := time.Duration(h.Interval); interval != 0 && (interval < minCheckInterval || interval > maxCheckInterval) {
		r.add("interval", refusal.Invalid, "%s is not between %s and %s", h.Interval, minCheckInterval, maxCheckInterval)
	}
	switch settled := h.Settled(); {
	case h.Timeout < 0:
		checkDuration(r, "timeout", h.Timeout)
	case h.Timeout > settled.Interval && settled.Interval > 0:
		r.add("timeout", refusal.Conflict, "%s is longer than the interval of %s; make it shorter", h.Timeout, settled.Interval)
	}
}

// validTarget accepts what can stand in a request line.
func validTarget(target string) bool {
	return strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "//") &&
		!strings.ContainsFunc(target, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '#' })
}
