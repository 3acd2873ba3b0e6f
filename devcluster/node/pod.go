package node

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// shutdownGrace is what processes get when the node itself ends.
	shutdownGrace = 5 * time.Second
	// sidecarGrace is the least that sidecars get after the containers that they serve, as with the kubelet.
	sidecarGrace = 2 * time.Second
	attachRetry  = 5 * time.Second
)

// podID identifies a Pod for as long as it exists.
type podID struct {
	types.NamespacedName
	uid types.UID
}

// worker runs one Pod. Its goroutine goes through these states, and never back:
//
//	attaching     the Pod has no address or ports yet; tried again until it has
//	initialising  init containers run one after the other, and sidecars are started among them
//	running       the regular containers have been launched
//	stopping      nothing is started any more; containers are asked to end, sidecars last
//	ended         nothing runs; a Pod that is being deleted is now removed from the API server
//	gone          the object does not exist any more: what is left is killed, and everything is given back
//
// When the node ends, processes end too and the API server keeps the status it has: the next node goes on from there.
type worker struct {
	podID
	host *shared
	dir  string        // of the Pod's logs
	wake chan struct{} // the Pod or one of its containers has changed

	mu      sync.Mutex
	newest  *corev1.Pod
	deleted bool
	offered podView

	// Owned by the goroutine.
	inits, regular []*container
	ports          *reservedPorts
	problem        string // why there are no ports
	stopping       bool
	stopAt         time.Time
	expired        bool
	written        *corev1.PodStatus // what the API server was last told
	compared       string            // the resource version that was last compared with it
	removed        bool              // the API server was told to remove the Pod
}

func newWorker(host *shared, pod *corev1.Pod, dir string) *worker {
	w := &worker{
		podID: podID{types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod.UID},
		host:  host, dir: dir, wake: make(chan struct{}, 1), newest: pod,
	}
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	final := over || pod.DeletionTimestamp != nil
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		kind := initContainer
		if isSidecar(c) {
			kind = sidecarContainer
		}
		w.inits = append(w.inits, w.newContainer(c, kind, findStatus(pod.Status.InitContainerStatuses, c.Name), final))
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		w.regular = append(w.regular, w.newContainer(c, regularContainer, findStatus(pod.Status.ContainerStatuses, c.Name), final))
	}
	if over {
		w.beginStop(time.Now())
		return w
	}
	w.attach(pod)
	w.offer(pod, nextStatus(pod, w.observe(pod)))
	return w
}

func findStatus(list []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	if i := slices.IndexFunc(list, func(s corev1.ContainerStatus) bool { return s.Name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

// newContainer takes a container up where its last status left it. A final one is not started, whatever it did.
func (w *worker) newContainer(spec *corev1.Container, kind containerKind, old *corev1.ContainerStatus, final bool) *container {
	pod := w.newest
	taken := resume(spec, old, time.Now(), func(code int32) bool {
		return !final && restartsAfter(&pod.Spec, spec, kind, code)
	})
	if old == nil && kind == regularContainer && len(pod.Spec.InitContainers) > 0 {
		taken.status.State.Waiting.Reason = reasonInitializing
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &container{
		host: w.host, kind: kind, pod: w.pod, config: w.host, notify: w.poke,
		logs: newLogStore(containerLogDir(w.dir, spec.Name)),
		ctx:  ctx, cancel: cancel, done: make(chan struct{}), wake: make(chan struct{}, 1),
		next: taken.next, spec: *spec.DeepCopy(), status: taken.status,
	}
	if taken.settled {
		c.settle()
	}
	return c
}

// pod is the newest version of the Pod.
func (w *worker) pod() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newest
}

// take accepts a newer version of the Pod; nil means that the object is gone.
func (w *worker) take(pod *corev1.Pod) {
	w.mu.Lock()
	if pod == nil {
		w.deleted = true
	} else {
		w.newest = pod
	}
	w.mu.Unlock()
	w.poke()
}

func (w *worker) gone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deleted
}

func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run is the worker's goroutine. It returns when the Pod is gone, or when ctx is done and its processes have ended.
func (w *worker) run(ctx context.Context) {
	retry := retryFirst
	for {
		again := w.advance(time.Now())
		if err := w.report(ctx); err == nil {
			retry = retryFirst
		} else if ctx.Err() == nil {
			w.host.cfg.Log.Warn("cannot report a Pod; trying again", "pod", w.NamespacedName, "error", err)
			again, retry = earlier(again, retry), min(2*retry, retryLast)
		}
		if w.gone() && w.allEnded() {
			w.discard()
			return
		}
		if !w.sleep(ctx, again) {
			w.shutDown()
			return
		}
	}
}

// earlier is the shorter of two waits, of which zero means none.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// sleep waits until there is something to do, or until the limit if it is not zero. It returns false when ctx is
// done.
func (w *worker) sleep(ctx context.Context, limit time.Duration) bool {
	var timeout <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-w.wake:
	case <-timeout:
	}
	return true
}

// advance does what the Pod's state asks for. It returns when to come back without being woken, or zero.
func (w *worker) advance(now time.Time) (again time.Duration) {
	if w.gone() {
		w.beginStop(now)
		for _, c := range w.containers() {
			c.stop(now)
		}
		return 0
	}
	pod := w.pod()
	if pod.DeletionTimestamp != nil {
		if !w.stopping {
			w.event(pod, "Killing", "Stopping the Pod's processes")
		}
		grace := podGrace(pod)
		if s := pod.DeletionGracePeriodSeconds; s != nil {
			grace = time.Duration(*s) * time.Second
		}
		w.beginStop(now.Add(grace))
	}
	if left, limited := w.activeLeft(pod, now); limited && !w.stopping {
		if left > 0 {
			again = left
		} else {
			w.expired = true
			w.beginStop(now.Add(podGrace(pod)))
		}
	}
	if w.stopping {
		w.stopInOrder(now)
		return 0
	}
	for i := range pod.Spec.Containers {
		w.regular[i].update(pod.Spec.Containers[i].Image)
	}
	for i := range pod.Spec.InitContainers {
		w.inits[i].update(pod.Spec.InitContainers[i].Image)
	}
	if !w.attach(pod) {
		return earlier(again, attachRetry)
	}
	w.startNext(pod, now)
	return again
}

// activeLeft is what is left of activeDeadlineSeconds.
func (w *worker) activeLeft(pod *corev1.Pod, now time.Time) (left time.Duration, limited bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil || pod.Status.StartTime == nil {
		return 0, false
	}
	end := pod.Status.StartTime.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second)
	return end.Sub(now), true
}

// attach gives the Pod its address and ports, once. An address that the Pod had under an earlier node is kept if it is
// still free.
func (w *worker) attach(pod *corev1.Pod) bool {
	if w.ports != nil {
		return true
	}
	cfg := &w.host.cfg
	var err error
	switch {
	case cfg.hostMode():
		w.ports, err = reservePorts(cfg.Address, pod)
	case pod.Spec.HostNetwork:
		w.ports = directPorts(cfg.Address, pod)
	default:
		addr, parseErr := netip.ParseAddr(pod.Status.PodIP)
		if parseErr != nil || !w.host.addresses.claim(addr) {
			addr, err = w.host.addresses.next()
		}
		if err == nil {
			w.ports = directPorts(addr, pod)
		}
	}
	w.problem = ""
	if err != nil {
		w.problem = err.Error()
		w.event(pod, "FailedCreatePodSandBox", w.problem)
	}
	return err == nil
}

// detach gives address and ports back.
func (w *worker) detach() {
	if w.ports == nil {
		return
	}
	w.ports.release()
	if w.host.addresses != nil && w.ports.addr != w.host.cfg.Address {
		w.host.addresses.release(w.ports.addr)
	}
	w.ports = nil
}

// startNext launches what may run now.
func (w *worker) startNext(pod *corev1.Pod, now time.Time) {
	initialising := !slices.ContainsFunc(w.regular, func(c *container) bool { return c.launched })
	for _, c := range w.inits {
		if !initialising {
			// A sidecar that a node before this one had started is started again, beside the others.
			if c.kind == sidecarContainer {
				c.launch(w.ports.portMap)
			}
			continue
		}
		c.launch(w.ports.portMap)
		s := c.snapshot()
		switch {
		case c.kind == sidecarContainer && !isTrue(s.Started):
			return
		case c.kind == initContainer && !c.ended():
			return
		case c.kind == initContainer && s.State.Terminated != nil && s.State.Terminated.ExitCode != 0:
			w.beginStop(now.Add(podGrace(pod)))
			w.stopInOrder(now)
			return
		}
	}
	ended := true
	for _, c := range w.regular {
		c.launch(w.ports.portMap)
		ended = ended && c.ended()
	}
	if ended {
		w.beginStop(now.Add(podGrace(pod)))
		w.stopInOrder(now)
	}
}

// beginStop ends the Pod's active life. A later call can only bring the deadline forward.
func (w *worker) beginStop(deadline time.Time) {
	if !w.stopping || deadline.Before(w.stopAt) {
		w.stopAt = deadline
	}
	w.stopping = true
}

// stopInOrder asks everything to end: first the regular and init containers, then the sidecars, last one first.
func (w *worker) stopInOrder(now time.Time) {
	served := false
	for _, c := range w.containers() {
		if c.kind != sidecarContainer {
			c.stop(w.stopAt)
			served = served || !c.ended()
		}
	}
	if served {
		return
	}
	deadline := w.stopAt
	if least := now.Add(sidecarGrace); deadline.Before(least) {
		deadline = least
	}
	for _, c := range slices.Backward(w.inits) {
		if c.kind == sidecarContainer && !c.ended() {
			c.stop(deadline)
			return
		}
	}
	w.detach()
}

func (w *worker) containers() []*container {
	return append(slices.Clone(w.inits), w.regular...)
}

func (w *worker) allEnded() bool {
	return !slices.ContainsFunc(w.containers(), func(c *container) bool { return !c.ended() })
}

// shutDown ends the processes because the node ends. All are asked at once: the order that serves a Pod's last requests
// is not worth waiting for when the whole node goes.
func (w *worker) shutDown() {
	deadline := time.Now().Add(shutdownGrace)
	for _, c := range w.containers() {
		c.stop(deadline)
	}
	for _, c := range w.containers() {
		if c.launched {
			<-c.done
		}
	}
	w.detach()
}

// discard gives back what is left of a Pod that is gone.
func (w *worker) discard() {
	w.detach()
	for _, c := range w.containers() {
		c.cancel()
	}
	if err := os.RemoveAll(w.dir); err != nil {
		w.host.cfg.Log.Warn("cannot remove the logs of a Pod that is gone", "dir", w.dir, "error", err)
	}
	w.host.changed(w.Namespace)
}
