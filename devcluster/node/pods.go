package node

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// podSet holds the workers of the node's Pods, and is the event handler of the
// Pod informer. Until begin is called it only collects Pods: addresses that
// Pods already have must be claimed before new ones are allocated.
type podSet struct {
	host *shared
	// running counts the worker goroutines. Only the informer's handlers and
	// begin add to it, so it is stable once the informer is shut down.
	running sync.WaitGroup

	// mu guards the fields below. A worker takes it only when it has ended; no
	// code holds it while it waits for a worker.
	mu sync.Mutex
	// start runs a worker's goroutine; nil until begin.
	start func(*worker)
	// early holds the Pods observed before begin.
	early map[types.UID]*corev1.Pod
	// workers is keyed by UID: a Pod that was deleted and one that was created
	// under its name have separate workers for a while.
	workers map[types.UID]*worker
}

var _ cache.ResourceEventHandler = (*podSet)(nil)

// newPodSet returns a set that collects Pods until begin is called.
func newPodSet(host *shared) *podSet {
	return &podSet{host: host, early: map[types.UID]*corev1.Pod{}, workers: map[types.UID]*worker{}}
}

// OnAdd implements cache.ResourceEventHandler.
func (s *podSet) OnAdd(obj any, _ bool) { s.observe(obj.(*corev1.Pod)) }

// OnUpdate implements cache.ResourceEventHandler. When a Pod is deleted and
// created again under the same name while the watch is interrupted, the
// informer delivers one update with two UIDs.
func (s *podSet) OnUpdate(before, after any) {
	old, pod := before.(*corev1.Pod), after.(*corev1.Pod)
	if old.UID != pod.UID {
		s.forget(old.UID)
	}
	s.observe(pod)
}

// OnDelete implements cache.ResourceEventHandler. A delete event that the watch
// missed arrives as DeletedFinalStateUnknown, with the last cached object.
func (s *podSet) OnDelete(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		s.forget(pod.UID)
	}
}

// observe hands the Pod to its worker, or creates the worker on first sight.
// Before begin it only stores the Pod.
func (s *podSet) observe(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.start == nil {
		s.early[pod.UID] = pod
		return
	}
	if w, known := s.workers[pod.UID]; known {
		w.take(pod)
		return
	}
	s.add(pod)
}

// forget signals the Pod's worker that the object is gone. The worker kills
// what still runs, and leaves the set when its goroutine returns.
func (s *podSet) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.early, uid)
	if w, known := s.workers[uid]; known {
		w.take(nil)
	}
}

// add creates a worker and starts it; s.mu is held. The UID becomes a directory
// name, so a UID with a path separator is refused: an API server never
// generates one, and it could otherwise reach outside Dir.
func (s *podSet) add(pod *corev1.Pod) {
	if !filepath.IsLocal(string(pod.UID)) || strings.ContainsRune(string(pod.UID), filepath.Separator) {
		s.host.cfg.Log.Error("refusing a Pod whose UID is no file name", "pod", pod.Name, "uid", pod.UID)
		return
	}
	w := newWorker(s.host, pod, filepath.Join(s.podsDir(), string(pod.UID)))
	s.workers[pod.UID] = w
	s.start(w)
}

// begin creates workers for the Pods collected so far and starts them; they run
// until ctx is done. The informer must have synced: the logs of every Pod that
// is not in the collection are deleted.
func (s *podSet) begin(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start = func(w *worker) {
		s.running.Go(func() {
			w.run(ctx)
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.workers, w.uid)
		})
	}
	existing := make([]*corev1.Pod, 0, len(s.early))
	for _, pod := range s.early {
		existing = append(existing, pod)
	}
	s.early = nil
	// Pods that have an address come first, because add claims it: a Pod
	// without one would otherwise be given an address that is in use. The UID
	// makes the order stable.
	slices.SortFunc(existing, func(a, b *corev1.Pod) int {
		if withA, withB := a.Status.PodIP != "", b.Status.PodIP != ""; withA != withB {
			if withA {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.UID, b.UID)
	})
	s.removeOldLogs(existing)
	for _, pod := range existing {
		s.add(pod)
	}
}

// wait returns when all workers have ended. No worker may be added meanwhile.
func (s *podSet) wait() { s.running.Wait() }

// podsDir is the directory with one subdirectory of logs for each Pod UID.
func (s *podSet) podsDir() string { return filepath.Join(s.host.cfg.Dir, "pods") }

// containerLogDir is the directory of one container's logs. Container names are
// DNS labels, so they are safe as file names.
func containerLogDir(podDir, container string) string { return filepath.Join(podDir, container) }

// removeOldLogs deletes the logs of Pods that were deleted while the node was
// down; no delete event arrives for those.
func (s *podSet) removeOldLogs(existing []*corev1.Pod) {
	entries, err := os.ReadDir(s.podsDir())
	if err != nil {
		return
	}
	for _, entry := range entries {
		known := slices.ContainsFunc(existing, func(p *corev1.Pod) bool { return string(p.UID) == entry.Name() })
		if !known {
			os.RemoveAll(filepath.Join(s.podsDir(), entry.Name()))
		}
	}
}

// views returns the Pods of a namespace that have an address, with the status
// that the node is about to write.
func (s *podSet) views(namespace string) []podView {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []podView
	for _, w := range s.workers {
		if w.Namespace != namespace {
			continue
		}
		if v, ok := w.view(); ok {
			out = append(out, v)
		}
	}
	return out
}

// findLog returns the log file that a request selects, or the status and
// message to respond with. The messages follow the kubelet's, which kubectl
// users recognise.
func (s *podSet) findLog(namespace, pod, name string, previous bool) (*logFile, *httpError) {
	w := s.newest(types.NamespacedName{Namespace: namespace, Name: pod})
	if w == nil {
		return nil, &httpError{http.StatusNotFound, fmt.Sprintf("pod %q does not run on this node", pod)}
	}
	for _, c := range w.containers() {
		if c.status.Name != name {
			continue
		}
		if run, ran := c.currentRun(previous); ran {
			if file, err := c.logs.find(run); err == nil {
				return file, nil
			}
			return nil, &httpError{http.StatusNotFound, fmt.Sprintf("the log of container %q in pod %q is no longer kept", name, pod)}
		}
		if previous {
			return nil, &httpError{http.StatusBadRequest, fmt.Sprintf("previous terminated container %q in pod %q not found", name, pod)}
		}
		reason := reasonCreating
		if waiting := c.snapshot().State.Waiting; waiting != nil {
			reason = waiting.Reason
		}
		return nil, &httpError{http.StatusBadRequest, fmt.Sprintf("container %q in pod %q is waiting to start: %s", name, pod, reason)}
	}
	return nil, &httpError{http.StatusNotFound, fmt.Sprintf("container %q not found in pod %q", name, pod)}
}

// newest returns the worker of the Pod that has the name now. A worker of a
// deleted Pod with the same name may still be stopping; it is returned only
// when there is no other.
func (s *podSet) newest(key types.NamespacedName) *worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *worker
	for _, w := range s.workers {
		if w.NamespacedName == key && (found == nil || !w.gone()) {
			found = w
		}
	}
	return found
}

// configMap implements configSource from the API server.
func (h *shared) configMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return h.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
}

// secret implements configSource from the API server.
func (h *shared) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return h.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}
