package notify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/notify/message"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/observe/trafficreport"
)

const (
	// edgeInterval is how often the reports of edges are read, while a trigger with
	// subscribers uses them.
	edgeInterval = 10 * time.Second
	// expiryWarning is how long before its end a certificate is a problem. Issuers that
	// renew certificates do so weeks before.
	expiryWarning = 7 * 24 * time.Hour
)

// EdgeReports reads the reports of the edges that respond. It is an error if none does.
type EdgeReports func(context.Context) ([]*trafficreport.Report, error)

// edgeWatch has what the edges serve, and the Applications whose triggers use it. The
// cluster has no event for a change of a table, so that they are polled. It is safe for
// concurrent use.
type edgeWatch struct {
	mu sync.Mutex
	// served is that of the last poll; nil before the first. It does not change.
	served  *edgeIndex
	watched map[types.NamespacedName]*watchedRoutes
}

// watchedRoutes is an Application with the objects that its routes come from, and what
// was known when it was queued last.
type watchedRoutes struct {
	objects map[trafficreport.Object]bool
	last    string
}

// usesEdge reports whether a trigger, or a template that it sends, reads the variable.
func (s *Settings) usesEdge(trigger string) bool {
	for _, condition := range s.Triggers[trigger] {
		if strings.Contains(condition.When+condition.OncePer, "edge") ||
			slices.ContainsFunc(condition.Send, func(name string) bool { return strings.Contains(s.Templates[name], ".edge") }) {
			return true
		}
	}
	return false
}

// watchRoutes keeps the objects of an Application, if one of its triggers uses them.
func (c *Controller) watchRoutes(name types.NamespacedName, object *unstructured.Unstructured, byTrigger map[string][]Destination) {
	uses := false
	for trigger := range byTrigger {
		uses = uses || c.settings.Load().usesEdge(trigger)
	}
	c.edges.mu.Lock()
	defer c.edges.mu.Unlock()
	if !uses {
		delete(c.edges.watched, name)
		return
	}
	known := c.edges.watched[name]
	if known == nil {
		known = &watchedRoutes{}
		c.edges.watched[name] = known
	}
	known.objects = routeObjects(object)
}

// forget drops an Application.
func (w *edgeWatch) forget(name types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.watched, name)
}

// routeObjects are the objects of an Application that routes can come from.
func routeObjects(object *unstructured.Unstructured) map[trafficreport.Object]bool {
	found := map[trafficreport.Object]bool{}
	resources, _, _ := unstructured.NestedSlice(object.Object, "status", "resources")
	for _, each := range resources {
		one, isMap := each.(map[string]any)
		if !isMap {
			continue
		}
		text := func(key string) string { value, _ := one[key].(string); return value }
		for _, named := range trafficreport.ObjectsOf(text("group"), text("kind"), text("namespace"), text("name")) {
			found[named] = true
		}
	}
	return found
}

// followEdges polls the edges, and queues Applications for which they serve something
// else than before.
func (c *Controller) followEdges(ctx context.Context) {
	ticker := time.NewTicker(cmp.Or(c.options.EdgeInterval, edgeInterval))
	defer ticker.Stop()
	for {
		if err := c.pollEdges(ctx); err != nil && ctx.Err() == nil {
			// The last tables stay: an edge that restarts is no news.
			c.options.Log.Debug("the reports of the edges cannot be read", observe.KeyError, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// pollEdges reads the tables, if an Application needs them.
func (c *Controller) pollEdges(ctx context.Context) error {
	c.edges.mu.Lock()
	idle := len(c.edges.watched) == 0
	c.edges.mu.Unlock()
	if idle {
		return nil
	}
	reports, err := c.options.Edges(ctx)
	if err != nil {
		return err
	}
	var tables []*trafficreport.Table
	incomplete := false
	for _, one := range reports {
		// An edge that has no table yet serves nothing, and is not in the balancer either.
		if one.Ready && one.Table != nil {
			tables, incomplete = append(tables, one.Table), incomplete || one.Table.MoreRoutes > 0
		}
	}
	if len(tables) == 0 {
		return nil
	}
	served := indexTables(tables, time.Now())
	c.edges.mu.Lock()
	defer c.edges.mu.Unlock()
	// A report lists the routes with the most requests. Others come and go without a
	// change of what is served, so that nothing is known.
	if incomplete {
		c.edges.served = nil
		return fmt.Errorf("an edge has more than the %d routes that its report lists", trafficreport.MaxRoutes)
	}
	c.edges.served = served
	for name, known := range c.edges.watched {
		if text := fmt.Sprint(*served.of(known.objects)); text != known.last {
			known.last = text
			c.queue.Add(name)
		}
	}
	return nil
}

// edgeOf is what the edges serve of an Application; nil if it is not known.
func (c *Controller) edgeOf(object *unstructured.Unstructured) *message.Edge {
	c.edges.mu.Lock()
	served := c.edges.served
	c.edges.mu.Unlock()
	if served == nil {
		return nil
	}
	return served.of(routeObjects(object))
}

// edgeIndex has the tables of all edges by object: each of many Applications looks up its
// own objects, in place of reading tables of thousands of routes.
type edgeIndex struct {
	edges int
	// routes is how many edges serve each route of an object.
	routes map[trafficreport.Object]map[servedRoute]int
	// expiring are the certificates that are a problem, and refusals those about
	// certificates and TLS settings of an object, as texts.
	expiring []*trafficreport.Certificate
	refusals map[trafficreport.Object][]string
	at       time.Time
}

// servedRoute is a route as users know it.
type servedRoute struct{ host, path string }

// indexTables reads the tables of all edges.
func indexTables(tables []*trafficreport.Table, now time.Time) *edgeIndex {
	index := &edgeIndex{edges: len(tables), at: now, routes: map[trafficreport.Object]map[servedRoute]int{}, refusals: map[trafficreport.Object][]string{}}
	for _, table := range tables {
		index.addRoutes(table.Routes)
		for i := range table.Certificates {
			if one := &table.Certificates[i]; !now.Add(expiryWarning).Before(one.NotAfter) {
				index.expiring = append(index.expiring, one)
			}
		}
		for i := range table.Refusals {
			one := &table.Refusals[i]
			about := strings.ToLower(one.Field + " " + one.Message)
			if strings.Contains(about, "tls") || strings.Contains(about, "certificate") {
				object := trafficreport.Object{Kind: one.Kind, Namespace: one.Namespace, Name: one.Name}
				index.refusals[object] = append(index.refusals[object], fmt.Sprintf("%s %s: %s", one.Kind, one.Name, one.Message))
			}
		}
	}
	return index
}

// addRoutes counts the routes of one edge, each once: rules of an object with other
// conditions have the same host and path.
func (x *edgeIndex) addRoutes(routes []trafficreport.Route) {
	type counted struct {
		object trafficreport.Object
		route  servedRoute
	}
	seen := map[counted]bool{}
	for i := range routes {
		route := &routes[i]
		one := counted{route.ID.Object(), servedRoute{route.Host, route.Path}}
		// A route with a status responds by itself: it has no backend, or was refused.
		if route.Fallback || route.Status != 0 || seen[one] {
			continue
		}
		seen[one] = true
		if x.routes[one.object] == nil {
			x.routes[one.object] = map[servedRoute]int{}
		}
		x.routes[one.object][one.route]++
	}
}

// of derives what all edges serve of objects. The texts do not change with time, so that
// a problem is one message.
func (x *edgeIndex) of(objects map[trafficreport.Object]bool) *message.Edge {
	facts := &message.Edge{Routes: []string{}, Problems: []string{}}
	hosts := map[string]bool{}
	for object := range objects {
		for route, count := range x.routes[object] {
			hosts[route.host] = true
			if count == x.edges {
				facts.Routes = append(facts.Routes, cmp.Or(route.host, "*")+route.path)
			}
		}
		facts.Problems = append(facts.Problems, x.refusals[object]...)
	}
	for _, one := range x.expiring {
		if slices.ContainsFunc(one.Names, func(name string) bool { return covers(name, hosts) }) {
			facts.Problems = append(facts.Problems, expiryProblem(one, x.at))
		}
	}
	slices.Sort(facts.Routes)
	slices.Sort(facts.Problems)
	// Edges report the same problem, and objects of an Application can share a route.
	facts.Routes, facts.Problems = slices.Compact(facts.Routes), slices.Compact(facts.Problems)
	return facts
}

// expiryProblem describes a certificate that ends soon, or has ended.
func expiryProblem(one *trafficreport.Certificate, now time.Time) string {
	state := "expires"
	if now.After(one.NotAfter) {
		state = "has expired"
	}
	return fmt.Sprintf("the certificate %s/%s of %s %s at %s", one.Namespace, one.Name, strings.Join(one.Names, ", "), state, one.NotAfter.UTC().Format(time.RFC3339))
}

// covers reports whether a name of a certificate is for one of the hosts. A wildcard takes
// one label.
func covers(name string, hosts map[string]bool) bool {
	suffix, isWildcard := strings.CutPrefix(name, "*")
	if !isWildcard {
		return hosts[name]
	}
	for host := range hosts {
		if at := strings.IndexByte(host, '.'); at > 0 && host[at:] == suffix {
			return true
		}
	}
	return false
}
