package watch_test

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/watch"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

const (
	patience  = 45 * time.Second
	lookAgain = 100 * time.Millisecond
)

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
		options.Log = slog.New(slog.NewTextHandler(programs.Logged(t, "the watcher"), nil))
	}
	watcher := must.Get(watch.New(cluster, options))(t)
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
		case <-time.After(time.Minute):
			t.Error("the watcher is still running a minute after its context was done")
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

// poll waits for a condition that no event reports.
func (r *reader) poll(what string, condition func() bool) {
	r.t.Helper()
	programs.Until(r.t, what, condition)
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

var deleted = metav1.DeleteOptions{}
