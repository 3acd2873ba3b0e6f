package traffic

import (
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
	// Step is how often edges are asked.
	Step = time.Second
	// roundTime bounds the questions of one round.
	roundTime = Step - 100*time.Millisecond
	// mostWatchers bounds who watches at a time.
	mostWatchers = 128
	// linger is how long edges are asked on after the last has left: who turns
	// a page comes back.
	linger = 5 * time.Second
)

// Options is what the service works with.
type Options struct {
	Cluster *kube.Cluster
	// Namespace has the Pods of edges.
	Namespace string
	// Edges are addresses that are asked instead of Pods, and Port that of Pods.
	Edges []string
	Port  int
	// Secret is what edges and the agent share.
	Secret Secret
	// Applications reads those of a namespace; Namespaces are those that have some.
	Applications func(namespace string) dynamic.ResourceInterface
	Namespaces   []string
	// Commit finds what is told of a commit.
	Commit LookUp
	Log    *slog.Logger
}

// Service answers. It is safe for concurrent use.
type Service struct {
	options Options
	finder  *finder
	commits *commitBook

	mu       sync.Mutex
	watchers map[*watcher]struct{}
	stop     context.CancelFunc
	leaving  *time.Timer
	// ended is closed when the rounds that were stopped last have ended.
	ended chan struct{}
	last  *round
}

// watcher holds one signal at most: who is slow misses rounds.
type watcher struct{ signal chan struct{} }

// round is what was heard at one moment. It does not change.
type round struct {
	at      time.Time
	edges   []*edgeView
	problem string
	apps    *appIndex
	commits int
	// look finds a commit while the round counts.
	look func(*appFacts) *source.Commit
}

// New makes the service. It asks nothing before somebody watches.
func New(options Options) *Service {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	ended := make(chan struct{})
	close(ended)
	return &Service{
		options: options, commits: newCommitBook(options.Commit), watchers: map[*watcher]struct{}{}, ended: ended,
		finder: &finder{
			cluster: options.Cluster, namespace: options.Namespace, fixed: options.Edges, port: options.Port, secret: options.Secret,
		},
	}
}

// Handlers are the service by its path, without /app-proxy.
func (s *Service) Handlers(more ...connect.HandlerOption) map[string]http.Handler {
	path, handler := runtimev1connect.NewTrafficServiceHandler(s, more...)
	return map[string]http.Handler{path: handler}
}

// Run makes the shared secret, and goes on until the context is done.
func (s *Service) Run(ctx context.Context) error { return s.options.Secret.Provide(ctx) }

// join adds somebody who watches. The first one starts the rounds.
func (s *Service) join() (*watcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.watchers) >= mostWatchers {
		return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("too many people watch the traffic of this runtime: try again later"))
	}
	joined := &watcher{signal: make(chan struct{}, 1)}
	s.watchers[joined] = struct{}{}
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
			<-before // the finder is for one at a time
			s.rounds(ctx)
		}()
	case s.last != nil:
		joined.wake() // what is known already
	}
	return joined, nil
}

// leave takes somebody away. The last one ends the rounds, a little later.
func (s *Service) leave(gone *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, gone)
	if len(s.watchers) == 0 && s.leaving == nil {
		s.leaving = time.AfterFunc(linger, s.endIfAlone)
	}
}

func (s *Service) endIfAlone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.watchers) > 0 || s.stop == nil {
		return
	}
	s.stop()
	s.stop, s.leaving, s.last = nil, nil, nil
}

func (w *watcher) wake() {
	select {
	case w.signal <- struct{}{}:
	default: // it has not taken the last one yet
	}
}

// rounds asks the edges again and again until the context is done.
func (s *Service) rounds(ctx context.Context) {
	apps := &appBook{source: s.options.Applications, namespaces: s.options.Namespaces, log: s.options.Log}
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { apps.follow(ctx) })
	defer s.finder.close()
	tick := time.NewTicker(Step)
	defer tick.Stop()
	known := map[string]*edgeView{}
	for {
		s.publish(ctx, s.ask(ctx, known, apps))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ask is one round. known has what edges said last, and gets what they say now.
func (s *Service) ask(ctx context.Context, known map[string]*edgeView, apps *appBook) *round {
	now := time.Now()
	asking, cancel := context.WithTimeout(ctx, roundTime)
	defer cancel()
	made := &round{at: now}
	places, err := s.finder.edges(asking, now)
	if err != nil {
		made.problem = err.Error()
	}
	client, err := s.finder.asking(asking, now)
	if err != nil {
		made.problem = "Edges cannot be asked: " + err.Error()
		places = nil
	}
	if len(places) == 0 && made.problem == "" {
		made.problem = "This runtime has no edge: there is no Pod with the labels " + EdgeSelector + " in the namespace " + s.options.Namespace + "."
	}
	made.edges = make([]*edgeView, min(len(places), mostEdges))
	var all sync.WaitGroup
	for i := range made.edges {
		before := known[places[i].name]
		all.Go(func() { made.edges[i] = hear(asking, client, places[i], before) })
	}
	all.Wait()
	clear(known)
	for _, edge := range made.edges {
		known[edge.name] = edge
	}
	made.apps, made.commits = apps.current(), s.commits.number()
	made.look = func(app *appFacts) *source.Commit { return s.commits.of(ctx, app, time.Now()) }
	return made
}

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

func (s *Service) latest() *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// WatchTraffic sends what is served, and every step how much.
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
				return connect.NewError(connect.CodeAborted, errors.New("the stream is as long as one may be: ask again"))
			}
			return connect.NewError(connect.CodeCanceled, errors.New("the request was ended"))
		case <-watching.signal:
		}
		made := s.latest()
		if made == nil {
			continue
		}
		edges := chosen(made.edges, request.Msg.GetEdge())
		answer := &runtimev1.WatchTrafficResponse{
			At: timestamppb.New(made.at), Step: durationpb.New(Step), Edges: states(made.edges), Problem: made.problem,
		}
		if len(edges) == 0 && answer.GetProblem() == "" {
			answer.Problem = fmt.Sprintf("There is no edge %q now.", request.Msg.GetEdge())
		}
		if key := tableKey(edges, made.apps, made.commits); key != sent {
			current = (&joiner{apps: made.apps, commit: made.look}).join(edges)
			answer.Table, sent = current.table, key
		}
		answer.Traffic = numbers(edges, current.routes)
		answer.Total, answer.Unrouted = sums(edges)
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}
