package trafficreport

import (
	"time"

	"slipway.dev/slipway/api/refusal"
)

// Purpose is the use of the secret that edges and the agent share.
const Purpose = "edge traffic"

// The paths and parameters of the edge's API for reports.
const (
	ReportPath  = "/api/v1/traffic"
	ExplainPath = "/api/v1/explain"
	// HaveParam is the version of the table that the client has already.
	HaveParam = "have"
)

// The bounds of one report. Entries beyond them are counted, not listed.
const (
	MaxRoutes       = 2000
	MaxCertificates = 2000
	MaxRefusals     = 1000
)

// Report is one edge at one moment.
type Report struct {
	// Version is that of the program, and Started when it began to count.
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	At      time.Time `json:"at"`
	// Ready is set while a table is served.
	Ready bool `json:"ready"`
	// TableVersion changes whenever Table does. Table is nil if the client has it.
	TableVersion string `json:"tableVersion"`
	Table        *Table `json:"table,omitempty"`
	// Counts are those of routes that had requests. Routes that the table leaves
	// out are in Rest, and requests that no rule took in Unrouted.
	Counts   []RouteCount `json:"counts"`
	Rest     Count        `json:"rest"`
	Unrouted Count        `json:"unrouted"`
	// Releases are those that run, with the counts of their revisions.
	Releases []ReleaseTraffic `json:"releases,omitempty"`
}

// Table is the routing table of an edge.
type Table struct {
	EntryPoints  []EntryPoint  `json:"entryPoints"`
	Routes       []Route       `json:"routes"`
	Backends     []Backend     `json:"backends"`
	Certificates []Certificate `json:"certificates"`
	// Refusals are the parts of objects that are not served as written. The kind of
	// a custom resource contains its group: Middleware.slipway.dev.
	Refusals []refusal.Refusal `json:"refusals"`
	// More is how many of each are not listed.
	MoreRoutes       int `json:"moreRoutes,omitempty"`
	MoreCertificates int `json:"moreCertificates,omitempty"`
	MoreRefusals     int `json:"moreRefusals,omitempty"`
}

// EntryPoint is a listening address.
type EntryPoint struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	TLS     bool   `json:"tls"`
	HTTP3   bool   `json:"http3"`
}

// RouteID identifies a route by its object and its position in it.
type RouteID struct {
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Rule      int    `json:"rule,omitempty"`
	Path      int    `json:"path,omitempty"`
	Variant   string `json:"variant,omitempty"`
}

// Route is a rule of the edge.
type Route struct {
	ID          RouteID  `json:"id"`
	EntryPoints []string `json:"entryPoints,omitempty"`
	// Host is empty for all of them.
	Host     string `json:"host,omitempty"`
	Path     string `json:"path,omitempty"`
	PathType string `json:"pathType,omitempty"`
	// Conditions are the further match conditions, as text.
	Conditions []string `json:"conditions,omitempty"`
	Fallback   bool     `json:"fallback,omitempty"`
	Priority   int32    `json:"priority,omitempty"`
	Policies   []string `json:"policies,omitempty"`
	Backends   []Target `json:"backends,omitempty"`
	// Status, Reason and Message are the rule's local response; Status is 0 if a
	// backend responds.
	Status  int    `json:"status,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Unmeasured is set if metrics are disabled for the rule.
	Unmeasured bool `json:"unmeasured,omitempty"`
}

// BackendID identifies a backend: a Service and its port.
type BackendID struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Port      uint16 `json:"port,omitempty"`
	Variant   string `json:"variant,omitempty"`
}

// Target is a backend's share of a route.
type Target struct {
	ID     BackendID `json:"id"`
	Weight uint32    `json:"weight"`
}

// Backend has the number of endpoints of a backend, and how many are ready.
type Backend struct {
	ID     BackendID `json:"id"`
	Ready  int       `json:"ready"`
	Total  int       `json:"total"`
	Broken string    `json:"broken,omitempty"`
	// Release is the name of the Release that divides its requests, which is in its
	// namespace.
	Release string `json:"release,omitempty"`
}

// Certificate is a served certificate, without its key.
type Certificate struct {
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	Names     []string  `json:"names"`
	Issuer    string    `json:"issuer,omitempty"`
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
}

// RouteCount is the count of one route.
type RouteCount struct {
	ID RouteID `json:"id"`
	Count
}

// Count has the requests since the edge started.
type Count struct {
	// Statuses are requests by status class: 1xx to 5xx at 1 to 5, and requests
	// without a response at 0.
	Statuses [6]uint64 `json:"statuses"`
	// Spread is the histogram of durations, without empty buckets at its end. Its
	// numbers wrap around.
	Spread []uint32 `json:"spread,omitempty"`
}

// Requests returns the number of requests.
func (c *Count) Requests() uint64 {
	var sum uint64
	for _, n := range c.Statuses {
		sum += n
	}
	return sum
}

// Add adds another count.
func (c *Count) Add(other *Count) {
	for i, n := range other.Statuses {
		c.Statuses[i] += n
	}
	c.grow(len(other.Spread))
	for i, n := range other.Spread {
		c.Spread[i] += n
	}
}

// Since returns the difference to an earlier count of the same edge.
func (c *Count) Since(earlier *Count) Count {
	out := Count{Spread: make([]uint32, len(c.Spread))}
	for i, n := range c.Statuses {
		if n >= earlier.Statuses[i] {
			out.Statuses[i] = n - earlier.Statuses[i]
		}
	}
	for i, n := range c.Spread {
		if i < len(earlier.Spread) {
			n -= earlier.Spread[i]
		}
		out.Spread[i] = n
	}
	return out
}

func (c *Count) grow(length int) {
	if len(c.Spread) < length {
		c.Spread = append(c.Spread, make([]uint32, length-len(c.Spread))...)
	}
}
