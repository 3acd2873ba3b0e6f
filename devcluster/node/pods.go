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

// podSet holds the workers of the node's Pods. It is the informer's event handler. Until begin is called it only
// collects: addresses that Pods already have must be taken before new ones are handed out.
type podSet struct {
	host    *shared
	running sync.WaitGroup

	mu      sync.Mutex
	start   func(*worker)
	early   map[types.UID]*corev1.Pod
	workers map[types.UID]*worker
}

var _ cache.ResourceEventHandler = (*podSet)(nil)

func newPodSet(host *shared) *podSet {
	return &podSet{host: host, early: map[types.UID]*corev1.Pod{}, workers: map[types.UID]*worker{}}
}

// OnAdd implements cache.ResourceEventHandler.
func (s *podSet) OnAdd(obj any, _ bool) { s.observe(obj.(*corev1.Pod)) }

// OnUpdate implements cache.ResourceEventHandler. A Pod that was deleted and made again while nobody looked arrives as
// an update.
func (s *podSet) OnUpdate(before, after any) {
	old, pod := before.(*corev1.Pod), after.(*corev1.Pod)
	if old.UID != pod.UID {
		s.forget(old.UID)
	}
	s.observe(pod)
}

// OnDelete implements cache.ResourceEventHandler.
func (s *podSet) OnDelete(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		s.forget(pod.UID)
	}
}

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

func (s *podSet) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.early, uid)
	if w, known := s.workers[uid]; known {
		w.take(nil)
	}
}

// add makes a worker and starts it; s.mu is held.
func (s *podSet) add(pod *corev1.Pod) {
	if !filepath.IsLocal(string(pod.UID)) || strings.ContainsRune(string(pod.UID), filepath.Separator) {
		s.host.cfg.Log.Error("refusing a Pod whose UID is no file name", "pod", pod.Name, "uid", pod.UID)
		return
	}
	w := newWorker(s.host, pod, filepath.Join(s.podsDir(), string(pod.UID)))
	s.workers[pod.UID] = w
	s.start(w)
}

// begin takes up the Pods that exist and starts their workers, which run until ctx is done.
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

// wait returns when all workers have ended.
func (s *podSet) wait() { s.running.Wait() }

func (s *podSet) podsDir() string { return filepath.Join(s.host.cfg.Dir, "pods") }

func containerLogDir(podDir, container string) string { return filepath.Join(podDir, container) }

// removeOldLogs removes the logs of Pods that went while no node was there.
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

// views are the Pods of a namespace that have an address.
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

// findLog finds the log that a request asks for.
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

// newest is the worker of the Pod that has the name now; one that is gone may still be ending.
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
