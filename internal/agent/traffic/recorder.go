package traffic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/wire/platformv1"
)

const (
	// recordInterval is how often edges are polled for the history.
	recordInterval = time.Minute
	// sendTimeout bounds one report to the platform.
	sendTimeout = 30 * time.Second
	// maxRecorded bounds a name in a report.
	maxRecorded = 512
)

// PlatformClient is the part of AgentService that is used.
type PlatformClient interface {
	ReportTraffic(context.Context, *connect.Request[platformv1.ReportTrafficRequest]) (*connect.Response[platformv1.ReportTrafficResponse], error)
}

// Recorder sends what the edges have counted to the platform, which keeps it.
// Counts are since the start of an edge, so that a report that is lost is made
// good by the next one, also by that of another leader.
type Recorder struct {
	service *Service
	client  PlatformClient
	apps    *appWatcher

	// mu guards the Applications that were seen last, by watched namespace.
	// They are read when edges are polled, and not with each change.
	mu   sync.Mutex
	seen map[string][]*unstructured.Unstructured
}

// NewRecorder returns a recorder. It sends nothing before Run.
func (s *Service) NewRecorder(client PlatformClient) *Recorder {
	return &Recorder{service: s, client: client, apps: &appWatcher{log: s.options.Log}, seen: map[string][]*unstructured.Unstructured{}}
}

// SetApplications sets all Applications of a watched namespace. It only keeps the
// list, because changes come far more often than reports are sent.
func (r *Recorder) SetApplications(namespace string, found []*unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[namespace] = found
}

// Run polls the edges and reports to the platform until the context is done.
func (r *Recorder) Run(ctx context.Context) error {
	// Many runtimes share a platform: each has its own second of the minute. A
	// fixed offset keeps the distance of reports at a minute, also after a slow
	// one, so that requests are in the minute in which they came.
	offset := rand.N(recordInterval)
	failed := false
	for {
		now := time.Now()
		next := now.Truncate(recordInterval).Add(offset)
		if !next.After(now) {
			next = next.Add(recordInterval)
		}
		if backoff.Sleep(ctx, next.Sub(now)) != nil {
			return ctx.Err()
		}
		err := r.Record(ctx)
		// A runtime without edges is not worth a warning each minute, nor is a
		// platform of an older version.
		if err != nil && !failed && ctx.Err() == nil {
			r.service.options.Log.Info("traffic is not recorded; retrying", observe.KeyError, err)
		}
		failed = err != nil
	}
}

// Record sends one report for each edge that responds. It ends with the first
// error, since the platform would fail the others too, except for a report that
// is refused: that edge must not keep those after it from being recorded.
func (r *Recorder) Record(ctx context.Context) error {
	reports, err := r.service.Reports(ctx)
	if err != nil {
		return err
	}
	// The index is rebuilt only if an Application has changed since the last
	// report.
	r.mu.Lock()
	for namespace, found := range r.seen {
		r.apps.update(namespace, found)
	}
	r.mu.Unlock()
	index := r.apps.current()
	var refused error
	for _, one := range reports {
		bounded, cancel := context.WithTimeout(ctx, sendTimeout)
		_, err := r.client.ReportTraffic(bounded, connect.NewRequest(recorded(one, index)))
		cancel()
		if err != nil {
			err = fmt.Errorf("report the traffic of the edge %s to the platform: %w", one.Edge, err)
		}
		if err != nil && connect.CodeOf(err) != connect.CodeInvalidArgument {
			return err
		}
		refused = errors.Join(refused, err)
	}
	return refused
}

// recorded converts the report of an edge. Routes without requests are left out:
// they would be most of a report, and have no sum to add to.
func recorded(one EdgeReport, index *appIndex) *platformv1.ReportTrafficRequest {
	request := &platformv1.ReportTrafficRequest{Edge: shorten(one.Edge, maxRecorded-3), StartedAt: timestamppb.New(one.Report.Started), At: timestamppb.New(one.Report.At)}
	join, series := joiner{apps: index}, map[trafficreport.RouteID]*platformv1.TrafficSeries{}
	if table := one.Report.Table; table != nil {
		for i := range table.Routes {
			route := &table.Routes[i]
			series[route.ID] = routeSeries(route, &join)
		}
	}
	add := func(key string, s *platformv1.TrafficSeries, count *trafficreport.Count) {
		if count.Requests() > 0 {
			request.Routes = append(request.Routes, &platformv1.RouteCount{Key: key, Series: s, Statuses: count.Statuses[:], Spread: count.Spread})
		}
	}
	for i := range one.Report.Counts {
		counted := &one.Report.Counts[i]
		of := series[counted.ID]
		// The route was removed after its requests.
		if of == nil {
			of = &platformv1.TrafficSeries{Kind: counted.ID.Kind, Namespace: counted.ID.Namespace, Name: counted.ID.Name}
		}
		id := &counted.ID
		add(fmt.Sprintf("%q %q %q %d %d %q", id.Kind, id.Namespace, id.Name, id.Rule, id.Path, id.Variant), of, &counted.Count)
	}
	add("unrouted", &platformv1.TrafficSeries{}, &one.Report.Unrouted)
	add("rest", &platformv1.TrafficSeries{Others: true}, &one.Report.Rest)
	return request
}

// routeSeries returns the series of a route. The platform decides by the project
// who may see it, so an Application without one has that of Argo CD's default.
func routeSeries(route *trafficreport.Route, join *joiner) *platformv1.TrafficSeries {
	s := &platformv1.TrafficSeries{Kind: route.ID.Kind, Namespace: route.ID.Namespace, Name: route.ID.Name, Host: shorten(route.Host, maxRecorded-3)}
	if app, _ := join.owner(route); app != nil {
		s.ApplicationNamespace, s.Application, s.Project = app.place.Namespace, app.place.Name, cmp.Or(app.project, v1alpha1.DefaultProject)
	}
	return s
}
