package watch_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/watch"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
)

const (
	patience  = 45 * time.Second
	lookAgain = 100 * time.Millisecond
)

// connect connects as the edge does, by KUBECONFIG.
func connect(t *testing.T, cluster *kubetest.Cluster, options ...kube.Option) *kube.Cluster {
	t.Helper()
	connected, err := kube.ConnectAs(kube.ConnectOptions{Environ: func(name string) string {
		return map[string]string{"KUBECONFIG": cluster.Kubeconfig}[name]
	}}, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connected.Close)
	return connected
}

// account acts as a service account.
func account(namespace, name string) kube.Option {
	return func(config *rest.Config) {
		config.Impersonate.UserName = "system:serviceaccount:" + namespace + ":" + name
		config.Impersonate.Groups = []string{"system:authenticated"}
	}
}

// reader owns a Snapshot and fills it from a Watcher, as the engine does.
type reader struct {
	*watch.Watcher
	t        *testing.T
	snapshot *snapshot.Snapshot
	events   []watch.Event
	stop     func()
	wanted   []snapshot.Ref
}

// read starts a Watcher. It is stopped at the end of the test, and must stop
// soon.
func read(t *testing.T, cluster *kube.Cluster, options watch.Options, prepare ...func(*watch.Watcher)) *reader {
	t.Helper()
	if options.Log == nil {
		options.Log = slog.New(slog.NewTextHandler(testLog{t}, nil))
	}
	watcher, err := watch.New(cluster, options)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range prepare {
		change(watcher)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- watcher.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the watcher ended with %v", err)
			}
		case <-time.After(3 * time.Second):
			t.Error("the watcher is still running 3 s after its context was done")
		}
	})
	t.Cleanup(stop)
	return &reader{Watcher: watcher, t: t, snapshot: snapshot.New(), stop: stop}
}

// until takes events until the condition holds.
func (r *reader) until(what string, condition func() bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for !condition() {
		// A failure comes without an event.
		brief, done := context.WithTimeout(ctx, lookAgain)
		events, err := r.Next(brief)
		done()
		if err != nil && ctx.Err() != nil {
			r.t.Fatalf("waiting until %s: %v; failures: %v", what, err, r.Failures())
		}
		for _, event := range events {
			if event.At.IsZero() {
				r.t.Errorf("%+v has no time", event)
			}
			switch {
			case event.Put != nil:
				r.snapshot.Put(event.Put)
			case event.Delete.Kind != "":
				r.snapshot.Delete(event.Delete.Kind, event.Delete.Namespace, event.Delete.Name)
			default:
				r.snapshot.SetKind(event.Kind, event.State)
			}
		}
		r.events = append(r.events, events...)
	}
}

// poll waits for a condition that no event tells of.
func (r *reader) poll(what string, condition func() bool) {
	r.t.Helper()
	err := wait.PollUntilContextTimeout(r.t.Context(), 2*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		return condition(), nil
	})
	if err != nil {
		r.t.Fatalf("waiting until %s: %v; %d events queued, failures: %v", what, err, r.Queued(), r.Failures())
	}
}

func (r *reader) untilSynced() {
	r.t.Helper()
	r.until("everything is read", r.Synced)
}

// has reports whether an object is in the Snapshot.
func (r *reader) has(kind snapshot.Kind, namespace, name string) bool {
	for ns, own := range r.snapshot.Names(kind) {
		if ns == namespace && own == name {
			return true
		}
	}
	return false
}

func (r *reader) want(refs ...snapshot.Ref) { r.Want(slices.Values(refs)) }

// Want makes these all that is wanted.
func (r *reader) Want(all iter.Seq[snapshot.Ref]) {
	without := func(from, these []snapshot.Ref) []snapshot.Ref {
		return slices.DeleteFunc(slices.Clone(from), func(ref snapshot.Ref) bool { return slices.Contains(these, ref) })
	}
	now := slices.Collect(all)
	r.Watcher.Want(without(now, r.wanted), without(r.wanted, now))
	r.wanted = now
}

func (r *reader) secret(namespace, name string) *snapshot.SecretBody {
	return r.snapshot.View().Secret(namespace, name)
}

func secrets(namespace string, names ...string) iter.Seq[snapshot.Ref] {
	return func(yield func(snapshot.Ref) bool) {
		for _, name := range names {
			if !yield(snapshot.Ref{Kind: snapshot.Secret, Namespace: namespace, Name: name}) {
				return
			}
		}
	}
}

// testLog shows the log with the test.
type testLog struct{ t *testing.T }

func (l testLog) Write(line []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(line)))
	return len(line), nil
}

// recorder notes the requests that are sent.
type recorder struct {
	mu   sync.Mutex
	sent []string
}

func (r *recorder) option(config *rest.Config) {
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return recorded{r, inner}
	})
}

func (r *recorder) matching(part string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []string
	for _, line := range r.sent {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return found
}

type recorded struct {
	by    *recorder
	inner http.RoundTripper
}

func (r recorded) RoundTrip(request *http.Request) (*http.Response, error) {
	r.by.mu.Lock()
	r.by.sent = append(r.by.sent, request.Method+" "+request.URL.RequestURI())
	r.by.mu.Unlock()
	return r.inner.RoundTrip(request)
}

// WrappedRoundTripper lets idle connections be closed.
func (r recorded) WrappedRoundTripper() http.RoundTripper { return r.inner }

// gate is the way to the API server. While it is shut, nobody answers.
type gate struct {
	mu    sync.Mutex
	shut  bool
	conns map[net.Conn]struct{}
}

func (g *gate) option(config *rest.Config) {
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.shut {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			if g.conns == nil {
				g.conns = map[net.Conn]struct{}{}
			}
			g.conns[conn] = struct{}{}
		}
		return conn, err
	}
}

func (g *gate) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	var all []error
	for conn := range maps.Keys(g.conns) {
		if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			all = append(all, err)
		}
	}
	clear(g.conns)
	return errors.Join(all...)
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

var deleted = metav1.DeleteOptions{}
