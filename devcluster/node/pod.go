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
	// shutdownGrace is the grace period of all processes when the node itself
	// stops. It replaces the Pods' own periods, which may be longer than a user
	// waits for a command to end.
	shutdownGrace = 5 * time.Second
	// sidecarGrace is the minimum that sidecars get after the containers that
	// they serve have ended, as with the kubelet.
	sidecarGrace = 2 * time.Second
	// attachRetry is the interval between attempts to give a Pod its address
	// and ports. Other Pods free them, and no event announces it.
	attachRetry = 5 * time.Second
)

// podID identifies a Pod for as long as it exists. The UID distinguishes it
// from a later Pod of the same name.
type podID struct {
	types.NamespacedName
	uid types.UID
}

// worker runs one Pod. Its goroutine goes through these states, and never back:
//
//	attaching     the Pod has no address or ports yet; retried until it has
//	initialising  init containers run one after the other, and sidecars are
//	              started among them
//	running       the regular containers have been launched
//	stopping      nothing is started any more; containers are terminated,
//	              sidecars last
//	ended         nothing runs; a terminating Pod is now deleted at
//	              the API server
//	gone          the object does not exist any more: remaining processes are
//	              killed, and all resources are released
//
// When the node stops, processes stop too and the API server keeps the status
// it has: the next node resumes from there.
type worker struct {
	podID
	host *shared
	dir  string        // of the Pod's logs
	wake chan struct{} // signals a change of the Pod or one of its containers

	// mu guards the fields that the informer's handlers and the readers of
	// views share with the goroutine.
	mu      sync.Mutex
	newest  *corev1.Pod
	deleted bool
	offered podView

	// Owned by the goroutine. The slices themselves never change after
	// newWorker, so other goroutines may iterate over them.
	inits, regular []*container
	ports          *reservedPorts
	problem        string // error of the last attach
	stopping       bool
	stopAt         time.Time
	expired        bool
	written        *corev1.PodStatus // status last written to the API server
	compared       string            // resource version at the last write
	removed        bool              // the final delete request has succeeded
}

// newWorker returns a worker that resumes the Pod from its status. It attaches
// the Pod here and not in the goroutine, so that addresses are claimed in the
// order in which begin adds the Pods. A Pod that has finished gets no address:
// it only waits for its deletion.
func newWorker(host *shared, pod *corev1.Pod, dir string) *worker {
	w := &worker{
		podID: podID{types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod.UID},
		host:  host, dir: dir, wake: make(chan struct{}, 1), newest: pod,
	}
	// A finished Pod never runs again, and one that is being deleted is not
	// restarted: its processes ended with the node that ran them.
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
	// Publish the Pod before its first pass: the slice writer may read the
	// views before the goroutine runs.
	w.offer(pod, nextStatus(pod, w.observe(pod)))
	return w
}

// findStatus returns the status of the named container, or nil when the Pod has
// none yet. Statuses are matched by name: their order in the API is not
// guaranteed.
func findStatus(list []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	if i := slices.IndexFunc(list, func(s corev1.ContainerStatus) bool { return s.Name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

// newContainer resumes a container from its last status; old is nil for a new
// one. A final container is not started again, regardless of its restart
// policy.
func (w *worker) newContainer(spec *corev1.Container, kind containerKind, old *corev1.ContainerStatus, final bool) *container {
	pod := w.newest
	taken := resume(spec, old, time.Now(), func(code int32) bool {
		return !final && restartsAfter(&pod.Spec, spec, kind, code)
	})
	if old == nil && kind == regularContainer && len(pod.Spec.InitContainers) > 0 {
		taken.status.State.Waiting.Reason = reasonInitializing
	}
	// Not derived from the node's context: a container ends through stop, which
	// sets the deadline for SIGKILL first.
	ctx, cancel := context.WithCancel(context.Background())
	c := &container{
		host: w.host, kind: kind, pod: w.pod, config: w.host, notify: w.poke,
		logs: newLogStore(containerLogDir(w.dir, spec.Name)),
		// No container is called that: names have no dot.
		root: containerLogDir(w.dir, spec.Name) + ".root",
		ctx:  ctx, cancel: cancel, done: make(chan struct{}), wake: make(chan struct{}, 1),
		next: taken.next, spec: *spec.DeepCopy(), status: taken.status,
	}
	if taken.settled {
		c.settle()
	}
	return c
}

// pod returns the newest version of the Pod. It is shared with the informer's
// cache and must not be modified.
func (w *worker) pod() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newest
}

// take stores a newer version of the Pod and wakes the goroutine; nil means
// that the object is gone.
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

// gone reports whether the object no longer exists at the API server.
func (w *worker) gone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deleted
}

// poke wakes the goroutine without blocking. The channel holds one token:
// changes that arrive together cause one reconcile.
func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run reconciles the Pod until it is gone, or until ctx is done and its
// processes have ended. Each pass advances the Pod and then writes its status;
// a failed write is retried with exponential backoff. Meanwhile each container
// supervises its process in a goroutine of its own.
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

// earlier returns the shorter of two waits, of which zero means none.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// sleep waits for a wake-up, or until the limit if it is not zero. It returns
// false when ctx is done.
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

// advance takes the next steps of the Pod's life cycle. It returns the wait
// until the next step that no event announces, or zero when there is none.
func (w *worker) advance(now time.Time) (again time.Duration) {
	// The object is gone: either its processes have ended, or it was force
	// deleted and they are killed without a grace period.
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
		// The grace period of the delete request overrides the one in the spec.
		// A second delete request may shorten it, so it is read on every pass.
		grace := podGrace(pod)
		if s := pod.DeletionGracePeriodSeconds; s != nil {
			grace = time.Duration(*s) * time.Second
		}
		w.beginStop(now.Add(grace))
	}
	// A Pod that is stopping already keeps its reason and its deadline.
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

// activeLeft returns the remainder of activeDeadlineSeconds, counted from the
// Pod's start time. limited is false when the Pod has no deadline, or has not
// started.
func (w *worker) activeLeft(pod *corev1.Pod, now time.Time) (left time.Duration, limited bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil || pod.Status.StartTime == nil {
		return 0, false
	}
	end := pod.Status.StartTime.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second)
	return end.Sub(now), true
}

// attach gives the Pod its address and ports, once, and reports whether it has
// them. The address that the Pod had under an earlier node is kept if it is
// still free. On failure the error goes into an Event and into the
// PodReadyToStartContainers condition, and the caller retries.
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
			w.ports, err = w.host.connect(addr, pod)
		}
	}
	w.problem = ""
	if err != nil {
		w.problem = err.Error()
		w.event(pod, "FailedCreatePodSandBox", w.problem)
	}
	return err == nil
}

// connect returns the ports of a Pod with an allocated address, in a network
// namespace of its own if Pods have one. On error the address is free again.
func (h *shared) connect(addr netip.Addr, pod *corev1.Pod) (*reservedPorts, error) {
	ports := directPorts(addr, pod)
	if h.network == nil {
		return ports, nil
	}
	var err error
	if ports.namespace, err = h.network.attach(addr); err != nil {
		h.addresses.release(addr)
		return nil, err
	}
	return ports, nil
}

// detach releases address and ports. It may be called more than once. The
// node's own address, which host-network Pods use, is not part of the pool.
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

// startNext launches the containers that may run now: the init containers up to
// the first one that has not finished, then all regular containers. A failed
// init container, and the end of the last regular one, begin the stop of the
// Pod.
func (w *worker) startNext(pod *corev1.Pod, now time.Time) {
	// A settled container counts as launched: a Pod with a regular container
	// that has already finished is past its init containers.
	initialising := !slices.ContainsFunc(w.regular, func(c *container) bool { return c.launched })
	for _, c := range w.inits {
		if !initialising {
			// A sidecar that an earlier node had started is restarted, in
			// parallel with the others.
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

// beginStop ends the Pod's active life: no container starts after it. A later
// call can only bring the deadline forward.
func (w *worker) beginStop(deadline time.Time) {
	if !w.stopping || deadline.Before(w.stopAt) {
		w.stopAt = deadline
	}
	w.stopping = true
}

// stopInOrder terminates the containers: first the regular and init containers,
// then the sidecars one by one, last started first. Each pass stops what may
// stop now; the end of a container wakes the worker for the next. When all have
// ended it releases address and ports.
func (w *worker) stopInOrder(now time.Time) {
	served := false
	for _, c := range w.containers() {
		if c.kind != sidecarContainer {
			c.stop(w.stopAt)
			served = served || !c.ended()
		}
	}
	// Sidecars may proxy the traffic of the others: they run until those have
	// ended.
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

// containers returns all containers of the Pod, in the order of the spec. The
// clone keeps append from writing into the array of inits.
func (w *worker) containers() []*container {
	return append(slices.Clone(w.inits), w.regular...)
}

// allEnded reports whether no process of the Pod runs.
func (w *worker) allEnded() bool {
	return !slices.ContainsFunc(w.containers(), func(c *container) bool { return !c.ended() })
}

// shutDown stops the processes because the node stops, and waits for them. All
// are terminated at once: the order that lets a Pod finish its last requests is
// not worth the wait when the whole node goes away. It writes no status; the
// next node resumes from the one at the API server.
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

// discard releases the resources of a Pod that is gone, deletes its logs, and
// triggers the removal of its EndpointSlices.
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
