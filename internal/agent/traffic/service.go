package traffic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

const (
	// PollInterval is how often edges are polled.
	PollInterval = time.Second
	// pollTimeout bounds one poll of all edges, so that polls do not overlap.
	pollTimeout = PollInterval - 100*time.Millisecond
	// maxWatchers bounds the streams.
	maxWatchers = 128
	// idleGrace is how long polling continues after the last stream ended: a
	// user who changes the page comes back.
	idleGrace = 5 * time.Second
)

// Options configures the service.
type Options struct {
	Cluster *kube.Cluster
	// Namespace has the Pods of edges.
	Namespace string
	// Edges are fixed addresses in the place of Pods; Port is that of Pods.
	Edges []string
	Port  int
	// Secret is shared with the edges.
	Secret Secret
	// Applications is the client for a namespace; Namespaces are those with
	// Applications.
	Applications func(namespace string) dynamic.ResourceInterface
	Namespaces   []string
	// Commit looks up a commit.
	Commit LookUp
	Log    *slog.Logger
}

// Service implements the API. It is safe for concurrent use.
type Service struct {
	options Options
	// finder belongs to the polling loop, of which there is one at a time.
	finder  *edgeFinder
	commits *commitCache

	// mu guards the streams and the last round.
	mu       sync.Mutex
	watchers map[*watcher]struct{}
	stop     context.CancelFunc
	// leaving stops polling after idleGrace; nil while there are streams.
	leaving *time.Timer
	// ended is closed when the last stopped polling loop has ended.
	ended chan struct{}
	last  *round
}

// watcher is one stream. It holds one signal at most: a slow one skips polls.
type watcher struct{ signal chan struct{} }

// round is the result of one poll. It is immutable.
type round struct {
	// at is when the poll started.
	at    time.Time
	edges []*edgeView
	// problem is why no edge could be polled.
	problem string
	apps    *appIndex
	// commits is the number of the commit cache, which changes with each
	// lookup.
	commits int
	// look finds a commit while the round is current.
	look func(*appFacts) *source.Commit
}

// New returns the service. It polls nothing before there is a stream.
func New(options Options) *Service {
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	// No loop has run yet, so that the first one need not wait.
	ended := make(chan struct{})
	close(ended)
	return &Service{
		options: options, commits: newCommitCache(options.Commit), watchers: map[*watcher]struct{}{}, ended: ended, finder: options.finder(),
	}
}

// finder returns a finder, which is for one goroutine.
func (o Options) finder() *edgeFinder {
	return &edgeFinder{cluster: o.Cluster, namespace: o.Namespace, fixed: o.Edges, port: o.Port, secret: o.Secret}
}

// Edges polls the edges with fixed addresses once, and returns their state.
// Those of the cluster are Deployments, whose state is there.
func (s *Service) Edges(ctx context.Context) []*runtimev1.EdgeState {
	if len(s.options.Edges) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	now, finder := time.Now(), s.options.finder()
	defer finder.close()
	client, err := finder.authenticatedClient(ctx, now)
	places, _ := finder.edges(ctx, now) // fixed ones are found without a request
	views := make([]*edgeView, len(places))
	for i, at := range places {
		if err != nil {
			views[i] = failedPoll(at, nil, err)
			continue
		}
		views[i] = pollEdge(ctx, client, at, nil)
	}
	return states(views)
}

// Handlers returns the service by path, without the prefix /app-proxy.
func (s *Service) Handlers(more ...connect.HandlerOption) map[string]http.Handler {
	path, handler := runtimev1connect.NewTrafficServiceHandler(s, more...)
	return map[string]http.Handler{path: handler}
}

// Run creates the shared secret, and ends with the context.
func (s *Service) Run(ctx context.Context) error { return s.options.Secret.Provide(ctx) }

// join adds a stream. The first one starts polling.
func (s *Service) join() (*watcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.watchers) >= maxWatchers {
		return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("too many people watch the traffic of this runtime: try again later"))
	}
	joined := &watcher{signal: make(chan struct{}, 1)}
	s.watchers[joined] = struct{}{}
	// Polling goes on from the last stream: its state is still fresh.
	if s.leaving != nil {
		s.leaving.Stop()
		s.leaving = nil
	}
	switch {
	case s.stop == nil:
		ctx, stop := context.WithCancel(context.Background())
		before, ended := s.ended, make(chan struct{})
		s.stop, s.ended = stop, ended
		go func() {
			defer close(ended)
			// The loop before may still be shutting down, and the finder has
			// one owner.
			<-before // the finder is for one at a time
			s.rounds(ctx)
		}()
	case s.last != nil:
		joined.wake() // for the last round
	}
	return joined, nil
}

// leave removes a stream. After the last one polling stops, with a delay.
func (s *Service) leave(gone *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, gone)
	if len(s.watchers) == 0 && s.leaving == nil {
		s.leaving = time.AfterFunc(idleGrace, s.endIfAlone)
	}
}

// endIfAlone stops polling if there is still no stream.
func (s *Service) endIfAlone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.watchers) > 0 || s.stop == nil {
		return
	}
	s.stop()
	// The next stream starts from an empty state: old counts would show as a
	// burst.
	s.stop, s.leaving, s.last = nil, nil, nil
}

// wake signals a new round without blocking.
func (w *watcher) wake() {
	select {
	case w.signal <- struct{}{}:
	default: // it has not taken the last one yet
	}
}

// rounds polls the edges until the context is done.
func (s *Service) rounds(ctx context.Context) {
	// Applications are watched only as long as edges are polled.
	apps := &appWatcher{source: s.options.Applications, namespaces: s.options.Namespaces, log: s.options.Log}
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { apps.follow(ctx) })
	defer s.finder.close()
	tick := time.NewTicker(PollInterval)
	defer tick.Stop()
	known := map[string]*edgeView{}
	for {
		s.publish(ctx, s.requestAll(ctx, known, apps))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// requestAll polls all edges once. known has their last views and is updated.
func (s *Service) requestAll(ctx context.Context, known map[string]*edgeView, apps *appWatcher) *round {
	now := time.Now()
	// All edges share one timeout, so that a silent one delays the round by at
	// most that.
	bounded, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	made := &round{at: now}
	places, err := s.finder.edges(bounded, now)
	if err != nil {
		made.problem = err.Error()
	}
	client, err := s.finder.authenticatedClient(bounded, now)
	if err != nil {
		made.problem = "Edges cannot be queried: " + err.Error()
		places = nil
	}
	if len(places) == 0 && made.problem == "" {
		made.problem = "This runtime has no edge: there is no Pod with the labels " + EdgeSelector + " in the namespace " + s.options.Namespace + "."
	}
	made.edges = make([]*edgeView, min(len(places), maxEdges))
	var all sync.WaitGroup
	for i := range made.edges {
		before := known[places[i].name]
		all.Go(func() { made.edges[i] = pollEdge(bounded, client, places[i], before) })
	}
	all.Wait()
	// Edges that are gone lose their last view.
	clear(known)
	for _, edge := range made.edges {
		known[edge.name] = edge
	}
	made.apps, made.commits = apps.current(), s.commits.number()
	// Commits are looked up when a table is built, in the background.
	made.look = func(app *appFacts) *source.Commit { return s.commits.get(ctx, app, time.Now()) }
	return made
}

// publish stores a round and signals all streams.
func (s *Service) publish(ctx context.Context, made *round) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	s.last = made
	for each := range s.watchers {
		each.wake()
	}
}

// latest returns the last round; nil before the first.
func (s *Service) latest() *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// WatchTraffic streams the table of routes when it changes, and the counts at
// every interval.
func (s *Service) WatchTraffic(ctx context.Context, request *connect.Request[runtimev1.WatchTrafficRequest], stream *connect.ServerStream[runtimev1.WatchTrafficResponse]) error {
	watching, err := s.join()
	if err != nil {
		return err
	}
	defer s.leave(watching)
	var sent string
	var current joined
	for {
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return connect.NewError(connect.CodeAborted, errors.New("the stream reached its maximum length: request it again"))
			}
			return connect.NewError(connect.CodeCanceled, errors.New("the request was ended"))
		case <-watching.signal:
		}
		made := s.latest()
		if made == nil {
			continue
		}
		edges := selectEdges(made.edges, request.Msg.GetEdge())
		response := &runtimev1.WatchTrafficResponse{
			At: timestamppb.New(made.at), Step: durationpb.New(PollInterval), Edges: states(made.edges), Problem: made.problem,
		}
		if len(edges) == 0 && response.GetProblem() == "" {
			response.Problem = fmt.Sprintf("There is no edge %q now.", request.Msg.GetEdge())
		}
		// The table is large and changes rarely, so it is sent only when its
		// inputs changed; counts refer to its rows by position.
		if key := tableKey(edges, made.apps, made.commits); key != sent {
			current = (&joiner{apps: made.apps, commit: made.look}).join(edges)
			response.Table, sent = current.table, key
		}
		response.Traffic = numbers(edges, current.routes)
		response.Total, response.Unrouted = sums(edges)
		response.Revisions = revisionTraffic(edges)
		if err := stream.Send(response); err != nil {
			return err
		}
	}
}
