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
)

// RecordedKinds are the kinds that a Recorder follows.
func RecordedKinds() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Version: "v1", Resource: "configmaps"},
		{Version: "v1", Resource: "services"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "batch", Version: "v1", Resource: "jobs"},
	}
}

// Life is what became of one object, from its creation to its end. A second
// object of the same name has a life of its own.
type Life struct {
	Kind, Name, UID string
	// Created is the revision of the cluster in which it was made, Done the one
	// in which a Job was seen to be complete, and Deleted the one of its end; 0 is
	// not yet. They can be compared with those of other objects.
	Created, Done, Deleted int64
	// Deletions is how often its end was told.
	Deletions int
	Last      *unstructured.Unstructured
}

// ID is Kind/Name.
func (l *Life) ID() string { return l.Kind + "/" + l.Name }

// Recorder follows the objects of a namespace from an empty beginning.
type Recorder struct {
	mu     sync.Mutex
	lives  map[string]*Life // by UID
	events int
	more   chan struct{} // closed when there is more
}

// Record follows a namespace until the end of the test.
func Record(t *testing.T, cluster *kube.Cluster, namespace string) *Recorder {
	t.Helper()
	r := &Recorder{lives: map[string]*Life{}, more: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	for _, kind := range RecordedKinds() {
		client := cluster.Dynamic.Resource(kind).Namespace(namespace)
		now, err := client.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range now.Items {
			r.note(watch.Event{Type: watch.Added, Object: &now.Items[i]})
		}
		watcher, err := toolswatch.NewRetryWatcherWithContext(ctx, now.GetResourceVersion(), follower{client})
		if err != nil {
			t.Fatal(err)
		}
		following.Go(func() {
			for event := range watcher.ResultChan() {
				r.note(event)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		following.Wait()
	})
	return r
}

// follower is a kind in a namespace, as the watcher wants it.
type follower struct {
	client dynamic.ResourceInterface
}

// WatchWithContext starts a watch.
func (f follower) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return f.client.Watch(ctx, options)
}

func (r *Recorder) note(event watch.Event) {
	object, ok := event.Object.(*unstructured.Unstructured)
	if !ok || event.Type == watch.Bookmark {
		return
	}
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

func complete(job *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
	return job.GetKind() == "Job" && slices.ContainsFunc(conditions, func(entry any) bool {
		condition, _ := entry.(map[string]any)
		return condition["type"] == "Complete" && condition["status"] == "True"
	})
}

// Events is how many events there were, and what is closed when there are more.
func (r *Recorder) Events() (int, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events, r.more
}

// Lives are all objects that ever were, in the order of their creation.
func (r *Recorder) Lives() []Life {
	r.mu.Lock()
	defer r.mu.Unlock()
	lives := make([]Life, 0, len(r.lives))
	for _, life := range slices.SortedFunc(maps.Values(r.lives), func(a, b *Life) int { return int(a.Created - b.Created) }) {
		lives = append(lives, *life)
	}
	return lives
}

// Await waits until a condition holds for what was recorded.
func (r *Recorder) Await(t *testing.T, holds func([]Life) error) []Life {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	for {
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

// Show writes lives one by line.
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
