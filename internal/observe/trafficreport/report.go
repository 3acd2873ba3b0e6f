package trafficreport

import "time"

// Purpose is what the secret that edges and the agent share is for.
const Purpose = "edge traffic"

// The paths of the edge's API that has the report.
const (
	ReportPath  = "/api/v1/traffic"
	ExplainPath = "/api/v1/explain"
	// HaveParam names the version of the table that the asker has already.
	HaveParam = "have"
)

// The bounds of one report. What is beyond them is counted, not listed.
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
	// Ready says that a table is served.
	Ready bool `json:"ready"`
	// TableVersion changes whenever Table does. Table is nil if the asker has it.
	TableVersion string `json:"tableVersion"`
	Table        *Table `json:"table,omitempty"`
	// Counts are those of routes that had requests. Routes that the table leaves
	// out are in Rest, and requests that no rule took in Unrouted.
	Counts   []RouteCount `json:"counts"`
	Rest     Count        `json:"rest"`
	Unrouted Count        `json:"unrouted"`
}

// Table is what an edge serves.
type Table struct {
	EntryPoints  []EntryPoint  `json:"entryPoints"`
	Routes       []Route       `json:"routes"`
	Backends     []Backend     `json:"backends"`
	Certificates []Certificate `json:"certificates"`
	Refusals     []Refusal     `json:"refusals"`
	// More is how many of each are not listed.
	MoreRoutes       int `json:"moreRoutes,omitempty"`
	MoreCertificates int `json:"moreCertificates,omitempty"`
	MoreRefusals     int `json:"moreRefusals,omitempty"`
}

// EntryPoint is an address that takes traffic.
type EntryPoint struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	TLS     bool   `json:"tls"`
	HTTP3   bool   `json:"http3"`
}

// RouteID names a route by the object that has it, and the place in it.
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
	// Conditions are what a request has to have besides, for people.
	Conditions []string `json:"conditions,omitempty"`
	Fallback   bool     `json:"fallback,omitempty"`
	Priority   int32    `json:"priority,omitempty"`
	Policies   []string `json:"policies,omitempty"`
	Backends   []Target `json:"backends,omitempty"`
	// Status, Reason and Message are the rule's own answer; Status is 0 when a
	// backend gives it.
	Status  int    `json:"status,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Unmeasured says that the rule wants to be in no metric.
	Unmeasured bool `json:"unmeasured,omitempty"`
}

// BackendID names a backend: a Service and its port.
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

// Backend is how many endpoints of a backend take requests.
type Backend struct {
	ID     BackendID `json:"id"`
	Ready  int       `json:"ready"`
	Total  int       `json:"total"`
	Broken string    `json:"broken,omitempty"`
}

// Certificate is one that clients can get. Its key is not here.
type Certificate struct {
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	Names     []string  `json:"names"`
	Issuer    string    `json:"issuer,omitempty"`
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
}

// Refusal is something that is written in an object and not done.
type Refusal struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Field     string `json:"field,omitempty"`
	Reason    string `json:"reason"`
	// Message says what is wrong and what to do.
	Message string `json:"message"`
}

// RouteCount is the count of one route.
type RouteCount struct {
	ID RouteID `json:"id"`
	Count
}

// Count is what happened since the edge started.
type Count struct {
	// Statuses are requests by the class of their answer: 0 got none, 1 to 5 are
	// the hundreds.
	Statuses [6]uint64 `json:"statuses"`
	// Spread is how long they took; it ends behind the last bucket that is not
	// empty. Its numbers begin at 0 again after the largest.
	Spread []uint32 `json:"spread,omitempty"`
}

// Requests is how many there were.
func (c *Count) Requests() uint64 {
	var sum uint64
	for _, n := range c.Statuses {
		sum += n
	}
	return sum
}

// Add adds what another counted.
func (c *Count) Add(other *Count) {
	for i, n := range other.Statuses {
		c.Statuses[i] += n
	}
	c.grow(len(other.Spread))
	for i, n := range other.Spread {
		c.Spread[i] += n
	}
}

// Since is what happened after an earlier count of the same edge.
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
