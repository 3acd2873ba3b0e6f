package shadow

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxGroups bounds the groups of a report: hosts and paths come from clients.
const maxGroups = 2000

// Counts are the copies by result.
type Counts struct {
	// Compared are all copies that both got.
	Compared int64 `json:"compared"`
	Same     int64 `json:"same"`
	// Different have at least one difference that was seen in each retry.
	Different int64 `json:"different"`
	// Unstable differ only in parts in which the old controller differs from itself.
	Unstable int64 `json:"unstable"`
	// Transient differ only in parts that a retry did not show again.
	Transient int64 `json:"transient"`
	// Failed are those that neither responded to. They are also in Same.
	Failed int64 `json:"failed"`
	// Skipped were not compared.
	Skipped int64 `json:"skipped"`
}

// Report is the result of a comparison.
type Report struct {
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	Old     []string  `json:"old"`
	New     []string  `json:"new"`
	Counts
	// SkippedBy are the copies that were not compared, by reason.
	SkippedBy map[string]int64 `json:"skippedBy"`
	// Groups are the differences, the most frequent first; UnstableGroups those parts in
	// which the old controller differs from itself.
	Groups         []*Group `json:"groups"`
	UnstableGroups []*Group `json:"unstableGroups"`
	// Omitted are differences beyond the bound of groups.
	Omitted int64 `json:"omitted"`
}

// Group are the differences of one cause, host and route.
type Group struct {
	Cause Cause  `json:"cause"`
	Host  string `json:"host"`
	// Route is the rule of the new edge, or the first element of the path where it is not
	// known.
	Route   string  `json:"route"`
	Count   int64   `json:"count"`
	Example Example `json:"example"`
}

// Example is the first request of a group, without credentials.
type Example struct {
	Time    time.Time         `json:"time"`
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	Old     string            `json:"old"`
	New     string            `json:"new"`
}

// groupKey is the identity of a group.
type groupKey struct {
	cause       Cause
	host, route string
	unstable    bool
}

// collector gathers results of workers.
type collector struct {
	mu      sync.Mutex
	started time.Time
	total   Counts
	skipped map[string]int64
	groups  map[groupKey]*Group
	omitted int64
}

func newCollector() *collector {
	return &collector{started: time.Now(), skipped: map[string]int64{}, groups: map[groupKey]*Group{}}
}

// skip counts a copy that was not compared.
func (c *collector) skip(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skipped[reason]++
	c.total.Skipped++
}

// counts returns the counts so far.
func (c *collector) counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// add records the result of a copy.
func (c *collector) add(request *Request, scheme string, route Route, found outcomes, failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.Compared++
	switch {
	case len(found.confirmed) > 0:
		c.total.Different++
	case len(found.unstable) > 0:
		c.total.Unstable++
	case len(found.transient) > 0:
		c.total.Transient++
	default:
		c.total.Same++
	}
	if failed {
		c.total.Failed++
	}
	for _, one := range found.confirmed {
		c.group(request, scheme, route, one, false)
	}
	for _, one := range found.unstable {
		c.group(request, scheme, route, one, true)
	}
}

// group adds a difference to its group.
func (c *collector) group(request *Request, scheme string, route Route, found Difference, unstable bool) {
	key := groupKey{cause: found.Cause, host: strings.ToLower(hostName(request.Host)), route: cmp.Or(route.Rule, firstElement(request.Target)), unstable: unstable}
	group := c.groups[key]
	if group == nil {
		if len(c.groups) >= maxGroups {
			c.omitted++
			return
		}
		group = &Group{Cause: found.Cause, Host: key.host, Route: key.route, Example: Example{
			Time: time.Now().UTC(), Method: request.Method, URL: redactURL(cmp.Or(scheme, "http") + "://" + request.Host + request.Target),
			Headers: shownHeaders(request.Header), Old: found.Old, New: found.New,
		}}
		c.groups[key] = group
	}
	group.Count++
}

// firstElement returns the first element of a path, as the name of a route that is not
// known.
func firstElement(target string) string {
	path, _, _ := strings.Cut(target, "?")
	first, _, more := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if more {
		return shortened("/" + first + "/…")
	}
	return shortened("/" + first)
}

// finish returns the report. Groups of one count are ordered by their names, so that two
// reports can be compared.
func (c *collector) finish() *Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	report := &Report{
		Started: c.started.UTC(), Ended: time.Now().UTC(), Counts: c.total, SkippedBy: c.skipped, Omitted: c.omitted,
		Old: []string{}, New: []string{}, Groups: []*Group{}, UnstableGroups: []*Group{},
	}
	for key, group := range c.groups {
		if key.unstable {
			report.UnstableGroups = append(report.UnstableGroups, group)
		} else {
			report.Groups = append(report.Groups, group)
		}
	}
	order := func(a, b *Group) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), strings.Compare(a.Host, b.Host), strings.Compare(a.Route, b.Route), strings.Compare(a.Cause.String(), b.Cause.String()))
	}
	slices.SortFunc(report.Groups, order)
	slices.SortFunc(report.UnstableGroups, order)
	return report
}
