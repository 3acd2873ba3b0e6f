package agentprocess

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	toolswatch "k8s.io/client-go/tools/watch"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// RecordedKinds returns the kinds that a Recorder watches: those in the test
// repositories.
func RecordedKinds() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Version: "v1", Resource: "configmaps"},
		{Version: "v1", Resource: "services"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "batch", Version: "v1", Resource: "jobs"},
	}
}

// Life is the history of one object from creation to deletion. A second object
// of the same name has a Life of its own, because lives are kept by UID.
type Life struct {
	Kind, Name, UID string
	// Created, Done and Deleted are the resource versions at which the object
	// was created, a Job was first observed as complete, and the object was
	// deleted; 0 means not yet. All objects share one counter in etcd, so the
	// values order events of different objects.
	Created, Done, Deleted int64
	// Deletions is the number of DELETED events; more than one is a defect.
	Deletions int
	Last      *unstructured.Unstructured
}

// ID returns Kind/Name.
func (l *Life) ID() string { return l.Kind + "/" + l.Name }

// Recorder collects the events of a namespace. mu guards its fields, since each
// kind has a watch in its own goroutine.
type Recorder struct {
	mu     sync.Mutex
	lives  map[string]*Life // by UID
	events int
	more   chan struct{} // closed when there is more
}

// Record watches a namespace until the end of the test. It returns when the
// watches have their starting point, so no later event is missed.
func Record(t *testing.T, cluster *kube.Cluster, namespace string) *Recorder {
	t.Helper()
	r := &Recorder{lives: map[string]*Life{}, more: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	for _, kind := range RecordedKinds() {
		client := cluster.Dynamic.Resource(kind).Namespace(namespace)
		now := must.Get(client.List(t.Context(), metav1.ListOptions{}))(t)
		for i := range now.Items {
			r.note(watch.Event{Type: watch.Added, Object: &now.Items[i]})
		}
		// The watch starts at the version of the list, which leaves no gap
		// between the two, and it resumes there after a disconnect.
		watcher := must.Get(toolswatch.NewRetryWatcherWithContext(ctx, now.GetResourceVersion(), follower{client}))(t)
		following.Go(func() {
			for event := range watcher.ResultChan() {
				r.note(event)
			}
		})
	}
	// The goroutines end before the test does, as its leak check requires.
	t.Cleanup(func() {
		cancel()
		following.Wait()
	})
	return r
}

// follower adapts the client of a kind and namespace to the retry watcher.
type follower struct {
	client dynamic.ResourceInterface
}

// WatchWithContext starts a watch.
func (f follower) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return f.client.Watch(ctx, options)
}

// note records one event and wakes Await.
func (r *Recorder) note(event watch.Event) {
	object, ok := event.Object.(*unstructured.Unstructured)
	if !ok || event.Type == watch.Bookmark {
		return
	}
	// Resource versions are opaque to ordinary clients. The tests rely on the
	// numeric revisions of etcd.
	revision, _ := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	r.mu.Lock()
	defer r.mu.Unlock()
	life := r.lives[string(object.GetUID())]
	if life == nil {
		life = &Life{Kind: object.GetKind(), Name: object.GetName(), UID: string(object.GetUID()), Created: revision}
		r.lives[life.UID] = life
	}
	life.Last = object
	if life.Done == 0 && complete(object) {
		life.Done = revision
	}
	if event.Type == watch.Deleted {
		life.Deleted = revision
		life.Deletions++
	}
	r.events++
	close(r.more)
	r.more = make(chan struct{})
}

// complete reports whether an object is a Job with the condition Complete.
func complete(job *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
	return job.GetKind() == "Job" && slices.ContainsFunc(conditions, func(entry any) bool {
		condition, _ := entry.(map[string]any)
		return condition["type"] == "Complete" && condition["status"] == "True"
	})
}

// Events returns the number of events so far, and a channel that is closed with
// the next one.
func (r *Recorder) Events() (int, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events, r.more
}

// Lives returns copies of all objects that were ever observed, in the order of
// their creation.
func (r *Recorder) Lives() []Life {
	r.mu.Lock()
	defer r.mu.Unlock()
	lives := make([]Life, 0, len(r.lives))
	for _, life := range slices.SortedFunc(maps.Values(r.lives), func(a, b *Life) int { return int(a.Created - b.Created) }) {
		lives = append(lives, *life)
	}
	return lives
}

// Await waits until holds returns nil for the recorded objects, and returns
// them. On timeout the test fails with the complete record.
func (r *Recorder) Await(t *testing.T, holds func([]Life) error) []Life {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programs.Timeout)
	defer cancel()
	for {
		// The channel is taken before the record is read, so that an event
		// between the two is not missed.
		_, more := r.Events()
		lives := r.Lives()
		err := holds(lives)
		if err == nil {
			return lives
		}
		select {
		case <-more:
		case <-ctx.Done():
			t.Fatalf("%v\n%s", err, Show(lives))
		}
	}
}

// Show formats lives, one per line.
func Show(lives []Life) (text string) {
	for i := range lives {
		l := &lives[i]
		text += fmt.Sprintf("%s %s created at %d", l.ID(), l.UID, l.Created)
		if l.Done > 0 {
			text += fmt.Sprintf(", done at %d", l.Done)
		}
		if l.Deletions > 0 {
			text += fmt.Sprintf(", deleted at %d", l.Deleted)
		}
		text += "\n"
	}
	return text
}
