package promotion

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/observe/trafficreport"
)

// EdgeReport is the report of one edge.
type EdgeReport struct {
	Edge string
	*trafficreport.Report
}

// EdgeReports reads the reports of the edges that respond. It is an error if none does.
type EdgeReports func(context.Context) ([]EdgeReport, error)

// trafficWindows has the counts at the beginning of gates, by edge. They are in memory
// only: a new leader begins the window again. To store them would need a write of the
// status for each poll, and would save minutes after a restart, which is rare. The
// methods lock, because several Promotions are processed at once.
type trafficWindows struct {
	mu    sync.Mutex
	begun map[trafficKey]*trafficWindow
}

// trafficKey is an environment of a Promotion.
type trafficKey struct{ promotion, environment string }

// trafficWindow is what was counted since it began.
type trafficWindow struct {
	since time.Time
	last  map[string]edgeCount
	sum   trafficreport.Count
}

// edgeCount is a count of one edge, and when the edge began to count.
type edgeCount struct {
	started time.Time
	count   trafficreport.Count
}

// reset forgets the window of an environment.
func (w *trafficWindows) reset(promotion, environment string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.begun, trafficKey{promotion, environment})
}

// forget drops the windows of a Promotion.
func (w *trafficWindows) forget(promotion string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.begun {
		if key.promotion == promotion {
			delete(w.begun, key)
		}
	}
}

// add adds the counts since the last call, and returns the sum and how long it is
// counted. An edge that was started again begins at 0.
func (w *trafficWindows) add(key trafficKey, now time.Time, counts map[string]edgeCount) (trafficreport.Count, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.begun[key]
	if one == nil {
		if w.begun == nil {
			w.begun = map[trafficKey]*trafficWindow{}
		}
		w.begun[key] = &trafficWindow{since: now, last: counts}
		return trafficreport.Count{}, 0
	}
	for edge, count := range counts {
		before := one.last[edge]
		if !before.started.Equal(count.started) {
			before = edgeCount{}
		}
		// The difference of each poll is added, so that the requests before the restart of an
		// edge are not lost.
		difference := count.count.Since(&before.count)
		one.sum.Add(&difference)
		one.last[edge] = count
	}
	return one.sum, now.Sub(one.since)
}

// trafficGate counts requests of the routes of an environment. Too many errors fail the
// step. It does not compare two versions, as a release does: the environment has only
// one of them, and what is asked is whether it serves well enough for the next one.
func (r *run) trafficGate(ctx context.Context, step *slipway.PromotionStep, gate *slipway.TrafficGate) (isOpen bool, err error) {
	counts, err := r.edgeCounts(ctx, step)
	if err != nil {
		return false, err
	}
	sum, took := r.traffic.add(trafficKey{r.promotion.Name, step.Environment}, r.now, counts)
	requests, failed := sum.Requests(), sum.Statuses[5]
	step.Requests, step.Errors = int64(requests), int64(failed)
	// Both have to be reached: a quiet night does not pass a version that no request has
	// seen. The share is compared without a division, so that there is no rounding.
	if took >= time.Duration(gate.For) && int64(requests) >= max(gate.MinRequests, 1) {
		if 100*failed > uint64(gate.MaxErrorPercent)*requests {
			return false, refusal.New("spec.gates.traffic", refusal.Conflict, "%d of %d requests failed, which is more than %d %%", failed, requests, gate.MaxErrorPercent)
		}
		return true, nil
	}
	step.Message = fmt.Sprintf("counting requests for %s: at least %d", gate.For, max(gate.MinRequests, 1))
	r.wakeIn(r.options.Interval)
	return false, nil
}

// edgeCounts are the counts of the routes of the Applications of a step, by edge.
func (r *run) edgeCounts(ctx context.Context, step *slipway.PromotionStep) (map[string]edgeCount, error) {
	if r.options.Traffic == nil {
		return nil, refusal.New("spec.gates.traffic", refusal.Unsupported, "the agent does not read reports of edges: configure its runtime, or remove the gate of the Environment %s", step.Environment)
	}
	// Edges count by route, and the status of an Application lists the objects that
	// routes come from. Other clusters have edges of their own, whose reports are not read.
	objects := map[routeObject]bool{}
	for _, key := range step.Applications {
		app, err := r.catalog.application(key)
		if err != nil {
			return nil, err
		}
		for _, one := range routeObjects(app) {
			objects[one] = true
		}
	}
	reports, err := r.options.Traffic(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the reports of the edges: %w", err)
	}
	counts, served := map[string]edgeCount{}, false
	for _, report := range reports {
		made := edgeCount{started: report.Started}
		for i := range report.Counts {
			id := report.Counts[i].ID
			if objects[routeObject{id.Kind, id.Namespace, id.Name}] {
				made.count.Add(&report.Counts[i].Count)
			}
		}
		if report.Table != nil {
			for i := range report.Table.Routes {
				id := report.Table.Routes[i].ID
				served = served || objects[routeObject{id.Kind, id.Namespace, id.Name}]
			}
		}
		counts[report.Edge] = made
	}
	// Without a route there will be no requests: the message is better than to wait in
	// silence.
	if !served {
		return nil, errors.New("no edge has a route of its Applications")
	}
	return counts, nil
}

// routeObject is an object that routes come from. The kind of a custom resource of
// another group than Gateway API contains the group, as in reports of edges.
type routeObject struct{ kind, namespace, name string }

// routeObjects are the objects of an Application that routes can come from.
func routeObjects(app *v1alpha1.Application) []routeObject {
	var all []routeObject
	for _, one := range app.Status.Resources {
		switch {
		case one.Group == "networking.k8s.io" && one.Kind == "Ingress", one.Group == "gateway.networking.k8s.io" && strings.HasSuffix(one.Kind, "Route"):
			all = append(all, routeObject{one.Kind, one.Namespace, one.Name})
		case strings.HasPrefix(one.Group, "traefik.") && strings.HasPrefix(one.Kind, "IngressRoute"):
			all = append(all, routeObject{one.Kind + "." + one.Group, one.Namespace, one.Name}, routeObject{one.Kind, one.Namespace, one.Name})
		}
	}
	return all
}
