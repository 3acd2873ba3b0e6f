package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// configRetry is the wait before a container that could not start for a passing
// reason, such as a missing ConfigMap or Secret, is tried again. ConfigMaps and
// Secrets are not watched.
const configRetry = 3 * time.Second

// container supervises one container of a Pod. Its goroutine goes through these
// states:
//
//	waiting     not started yet, refused, or in back-off after it ended
//	running     its process lives and is probed
//	leaving     its process is being terminated, because the Pod stops, a
//	            probe failed or the image changed
//	terminated  its process ended and is not started again; the goroutine has
//	            ended too
//
// The worker of the Pod launches it, reads its status and stops it; the logs
// endpoint reads its status and its logs.
type container struct {
	host   *shared
	kind   containerKind
	pod    func() *corev1.Pod // the newest version of the Pod
	config configSource
	logs   *logStore
	root   string // directory that a program sees as its root
	notify func()

	// ctx is done when the container is to stop. It carries no deadline: stopAt
	// has the time of SIGKILL.
	ctx      context.Context
	cancel   context.CancelFunc
	done     chan struct{} // closed when nothing runs and nothing will start
	wake     chan struct{} // signals a changed image or a stop
	launched bool          // owned by the worker

	// Owned by the goroutine; launch sets ports before it starts.
	ports  portMap
	next   int32 // restart count of the next run
	delays restartDelay

	// mu guards the fields below, which the worker writes or reads while the
	// goroutine runs.
	mu     sync.Mutex
	spec   corev1.Container
	status corev1.ContainerStatus
	stopAt time.Time // time of SIGKILL; zero until stop is called
}

// launch starts the goroutine. The second and later calls do nothing, so the
// worker may call it on every pass.
func (c *container) launch(ports portMap) {
	if c.launched {
		return
	}
	c.launched = true
	c.ports = ports
	go c.run()
}

// settle marks a container that is not started again: launched and done,
// without a goroutine. It is called once, before the worker runs.
func (c *container) settle() {
	c.launched = true
	close(c.done)
}

// ended reports whether no process runs and the goroutine has returned; a
// container that was never launched counts as ended. Only the worker's
// goroutine may call it.
func (c *container) ended() bool {
	if !c.launched {
		return true
	}
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// stop terminates the container: SIGTERM after the preStop hook, and SIGKILL at
// the deadline. A later call can only bring the deadline forward. The deadline
// is set before cancel, because the goroutine reads it as soon as ctx is done;
// poke makes it read a shortened one.
func (c *container) stop(deadline time.Time) {
	c.mu.Lock()
	if c.stopAt.IsZero() || deadline.Before(c.stopAt) {
		c.stopAt = deadline
	}
	c.mu.Unlock()
	c.cancel()
	c.poke()
}

// update sets a changed image, the only field of a running container that the
// API allows to change. The goroutine restarts the process for it.
func (c *container) update(image string) {
	c.mu.Lock()
	changed := c.spec.Image != image
	c.spec.Image = image
	c.mu.Unlock()
	if changed {
		c.poke()
	}
}

// poke wakes the goroutine without blocking; one token stands for any number of
// changes.
func (c *container) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// snapshot returns a copy of the container's current status.
func (c *container) snapshot() corev1.ContainerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.status.DeepCopy()
}

// change edits the status under the lock and then wakes the worker, which
// writes it to the API server. edit must not take c.mu again.
func (c *container) change(edit func(*corev1.ContainerStatus)) {
	c.mu.Lock()
	edit(&c.status)
	c.mu.Unlock()
	c.notify()
}

// run starts the process, supervises it, and restarts it by the restart policy
// until the container stops or completes. A restart for a new image skips the
// back-off.
func (c *container) run() {
	defer func() {
		close(c.done)
		c.notify()
	}()
	for c.ctx.Err() == nil {
		spec, p, refused := c.start()
		if refused != nil {
			c.refused(refused)
			continue
		}
		changed := c.supervise(&spec, p)
		again, delay := c.exited(&spec, p.end)
		if !again {
			return
		}
		if !changed && !c.backOff(delay, p.end) {
			return
		}
	}
}

// start prepares the container's process and runs it. It returns the copy of
// the spec that this run uses, which a later update does not change. The log of
// the run is created last, so that a refused container leaves no empty file.
func (c *container) start() (corev1.Container, *process, *refusal) {
	c.mu.Lock()
	spec := *c.spec.DeepCopy()
	c.mu.Unlock()
	pod := c.pod()
	image, err := c.host.cfg.Images(spec.Image)
	if err != nil {
		return spec, nil, &refusal{reason: reasonImage, message: err.Error()}
	}
	if r := refuse(pod, &spec); r != nil {
		return spec, nil, r
	}
	// The timeout covers all reads of ConfigMaps and Secrets; a stop of the
	// container cancels them.
	ctx, cancel := context.WithTimeout(c.ctx, apiTimeout)
	defer cancel()
	e := environment{pod: pod, container: &spec, podIP: c.ports.addr, hostIP: c.host.cfg.Address, capacity: c.host.capacity, source: c.config}
	own, env, err := e.build(ctx, image, c.ports.listen(spec.Name))
	if err != nil {
		return spec, nil, &refusal{reason: reasonConfigError, message: err.Error(), passing: true}
	}
	// Only the container's args are expanded, with its own variables, as in
	// Kubernetes. The copy keeps append from writing into the image's array.
	args := append([]string(nil), image.Args...)
	for _, arg := range spec.Args {
		args = append(args, expand(arg, own))
	}
	run := command{executable: c.host.cfg.Executable, args: args, env: env, namespace: c.ports.namespace}
	if image.Program != "" {
		root := containerRoot{dir: c.root, pod: pod, container: &spec, source: c.config}
		if run.executable, err = root.build(ctx, image.Program); err != nil {
			return spec, nil, &refusal{reason: reasonConfigError, message: err.Error(), passing: true}
		}
		run.root = c.root
	}
	if run.log, err = c.logs.create(c.next); err != nil {
		return spec, nil, &refusal{reason: reasonStartError, message: err.Error(), passing: true}
	}
	p, err := run.start()
	if err != nil {
		run.log.end()
		return spec, nil, &refusal{reason: reasonStartError, message: err.Error(), passing: true}
	}
	c.running(pod, &spec, p)
	return spec, p, nil
}

// running sets the status of a process that has just been started. A container
// without a startup probe counts as started at once, and without a readiness
// probe also as ready; an init container is ready only when it has completed.
func (c *container) running(pod *corev1.Pod, spec *corev1.Container, p *process) {
	started := spec.StartupProbe == nil
	c.mu.Lock()
	c.status.Image = spec.Image
	c.status.ImageID = containerIDScheme + spec.Image
	c.status.ContainerID = runID(pod, spec.Name, c.next)
	c.status.RestartCount = c.next
	c.status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: apiTime(p.started)}}
	c.status.Started = &started
	c.status.Ready = started && spec.ReadinessProbe == nil && c.kind != initContainer
	c.mu.Unlock()
	c.next++
	c.notify()
	c.event(corev1.EventTypeNormal, "Started", fmt.Sprintf("Started container %s as process %d", spec.Name, p.cmd.Process.Pid))
}

// runID returns the container ID of one run, unique for each restart. The hash
// gives it the form that container runtimes use.
func runID(pod *corev1.Pod, name string, run int32) string {
	sum := sha256.Sum256([]byte(string(pod.UID) + "\x00" + name + "\x00" + strconv.Itoa(int(run))))
	return containerIDScheme + hex.EncodeToString(sum[:])
}

// refused sets the waiting state with the reason of a refusal, and waits for an
// event that could change it: a new image, a stop, or for a passing refusal the
// retry interval. The Event is recorded once per reason and message, not on
// every retry.
func (c *container) refused(r *refusal) {
	if c.ctx.Err() != nil {
		return
	}
	var news bool
	c.change(func(s *corev1.ContainerStatus) {
		w := s.State.Waiting
		news = w == nil || w.Reason != r.reason || w.Message != r.message
		s.Image, s.Ready = c.spec.Image, false
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: r.reason, Message: r.message}}
	})
	if news {
		c.event(corev1.EventTypeWarning, "Failed", r.message)
	}
	var retry <-chan time.Time
	if r.passing {
		timer := time.NewTimer(configRetry)
		defer timer.Stop()
		retry = timer.C
	}
	select {
	case <-c.ctx.Done():
	case <-c.wake:
	case <-retry:
	}
}

// exited sets the status of a process that ended. again is false when the
// container is terminated for good; otherwise delay is the back-off before the
// next run.
func (c *container) exited(spec *corev1.Container, end ending) (again bool, delay time.Duration) {
	pod := c.pod()
	again = c.ctx.Err() == nil && restartsAfter(&pod.Spec, spec, c.kind, end.code)
	if again {
		delay = c.delays.next(end.finished.Sub(end.started))
	}
	no := false
	c.change(func(s *corev1.ContainerStatus) {
		s.Started = &no
		s.Ready = c.kind == initContainer && end.code == 0
		terminated := corev1.ContainerState{Terminated: terminatedState(end, s.ContainerID)}
		if !again {
			s.State = terminated
			return
		}
		s.LastTerminationState = terminated
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reasonBackOff, Message: fmt.Sprintf(
			"back-off %s restarting container=%s pod=%s_%s", delay, spec.Name, pod.Name, pod.Namespace)}}
	})
	return again, delay
}

// terminatedState returns how a run ended, with the kubelet's reasons:
// Completed for exit code 0, Error for any other.
func terminatedState(end ending, id string) *corev1.ContainerStateTerminated {
	t := &corev1.ContainerStateTerminated{
		ExitCode: end.code, Signal: end.signal, Reason: reasonError, ContainerID: id,
		StartedAt: apiTime(end.started), FinishedAt: apiTime(end.finished),
	}
	if end.code == 0 {
		t.Reason = reasonCompleted
	}
	return t
}

// backOff waits for the next run, and a new image ends the wait early. It
// returns false when the container is stopped meanwhile: the run that ended was
// the last one, and its termination becomes the current state again.
func (c *container) backOff(delay time.Duration, end ending) bool {
	if end.code != 0 {
		c.event(corev1.EventTypeWarning, "BackOff", fmt.Sprintf("Back-off %s restarting failed container %s", delay, c.status.Name))
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.wake:
		if c.ctx.Err() == nil {
			return true
		}
	case <-c.ctx.Done():
	}
	c.change(func(s *corev1.ContainerStatus) {
		s.State, s.LastTerminationState = s.LastTerminationState, corev1.ContainerState{}
	})
	return false
}

// currentRun returns the restart count whose log a request selects: that of the
// current run, or of the previous one. ok is false when there is no such run.
// In back-off both are the run that ended last, as with the kubelet.
func (c *container) currentRun(previous bool) (run int32, ok bool) {
	s := c.snapshot()
	ranBefore := s.LastTerminationState.Terminated != nil
	if s.State.Waiting != nil {
		return s.RestartCount, ranBefore
	}
	if previous {
		return s.RestartCount - 1, ranBefore && s.RestartCount > 0
	}
	return s.RestartCount, true
}

// event records an Event on the Pod with the container's field path, which is
// how kubectl describe attributes it to a container.
func (c *container) event(kind, reason, message string) {
	pod, list := c.pod(), "initContainers"
	if c.kind == regularContainer {
		list = "containers"
	}
	c.host.events.Event(&corev1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		FieldPath: "spec." + list + "{" + c.status.Name + "}",
	}, kind, reason, message)
}

// apiTime truncates a time to the second, the precision of the API, so that a
// written status compares equal to the one that is read back.
func apiTime(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
