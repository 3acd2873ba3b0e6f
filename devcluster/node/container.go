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

// configRetry is how long a container waits before it looks again for a ConfigMap or Secret that was missing.
const configRetry = 3 * time.Second

// container supervises one container of a Pod. Its goroutine goes through these states:
//
//	waiting     not started yet, refused, or in back-off after it ended
//	running     its process lives and is probed
//	leaving     its process was asked to end, because the Pod stops, a probe failed or the image changed
//	terminated  its process ended and is not started again; the goroutine has ended too
//
// The worker of the Pod launches it, reads its status and asks it to stop; nothing else touches it.
type container struct {
	host   *shared
	kind   containerKind
	pod    func() *corev1.Pod // the newest version of the Pod
	config configSource
	logs   *logStore
	notify func()

	// ctx is done when the container is asked to stop.
	ctx      context.Context
	cancel   context.CancelFunc
	done     chan struct{} // closed when nothing runs and nothing will
	wake     chan struct{} // something below has changed
	launched bool          // owned by the worker

	// Owned by the goroutine.
	ports  portMap
	next   int32 // restart count of the next run
	delays restartDelay

	mu      sync.Mutex
	spec    corev1.Container
	status  corev1.ContainerStatus
	leaving bool
	stopAt  time.Time // when a container that was asked to stop is killed
}

// launch starts the supervision. The second and later calls do nothing.
func (c *container) launch(ports portMap) {
	if c.launched {
		return
	}
	c.launched = true
	c.ports = ports
	go c.run()
}

// settle marks a container that is not started again.
func (c *container) settle() {
	c.launched = true
	close(c.done)
}

// ended reports whether nothing runs; of a container that was never launched, nothing does.
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

// stop asks the container to end, and to be killed at the deadline. A later call can only bring the deadline forward.
func (c *container) stop(deadline time.Time) {
	c.mu.Lock()
	if c.stopAt.IsZero() || deadline.Before(c.stopAt) {
		c.stopAt = deadline
	}
	c.leaveLocked()
	c.mu.Unlock()
	c.cancel()
	c.poke()
}

// update gives the container a changed image, which is all that can change.
func (c *container) update(image string) {
	c.mu.Lock()
	changed := c.spec.Image != image
	c.spec.Image = image
	c.mu.Unlock()
	if changed {
		c.poke()
	}
}

func (c *container) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// snapshot is the container's status now.
func (c *container) snapshot() corev1.ContainerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.status.DeepCopy()
}

// change edits the status and tells the worker.
func (c *container) change(edit func(*corev1.ContainerStatus)) {
	c.mu.Lock()
	edit(&c.status)
	c.mu.Unlock()
	c.notify()
}

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

// start prepares the container's process and runs it. The log belongs to the run, so it is made here.
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
	ctx, cancel := context.WithTimeout(c.ctx, apiTimeout)
	defer cancel()
	e := environment{pod: pod, container: &spec, podIP: c.ports.addr, hostIP: c.host.cfg.Address, capacity: c.host.capacity, source: c.config}
	own, env, err := e.build(ctx, image, c.ports.listen(spec.Name))
	if err != nil {
		return spec, nil, &refusal{reason: reasonConfigError, message: err.Error(), passing: true}
	}
	args := append([]string(nil), image.Args...)
	for _, arg := range spec.Args {
		args = append(args, expand(arg, own))
	}
	log, err := c.logs.create(c.next)
	if err != nil {
		return spec, nil, &refusal{reason: reasonStartError, message: err.Error(), passing: true}
	}
	p, err := command{executable: c.host.cfg.Executable, args: args, env: env, log: log}.start()
	if err != nil {
		log.end()
		return spec, nil, &refusal{reason: reasonStartError, message: err.Error(), passing: true}
	}
	c.running(pod, &spec, p)
	return spec, p, nil
}

// running writes the status of a process that has just been started.
func (c *container) running(pod *corev1.Pod, spec *corev1.Container, p *process) {
	started := spec.StartupProbe == nil
	c.mu.Lock()
	c.leaving = !c.stopAt.IsZero()
	c.status.Image = spec.Image
	c.status.ImageID = containerIDScheme + spec.Image
	c.status.ContainerID = runID(pod, spec.Name, c.next)
	c.status.RestartCount = c.next
	c.status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: apiTime(p.started)}}
	c.status.Started = &started
	c.status.Ready = started && spec.ReadinessProbe == nil && c.kind != initContainer && !c.leaving
	c.mu.Unlock()
	c.next++
	c.notify()
	c.event(corev1.EventTypeNormal, "Started", fmt.Sprintf("Started container %s as process %d", spec.Name, p.cmd.Process.Pid))
}

// runID names one run of a container. Hashing keeps it free of what the parts look like.
func runID(pod *corev1.Pod, name string, run int32) string {
	sum := sha256.Sum256([]byte(string(pod.UID) + "\x00" + name + "\x00" + strconv.Itoa(int(run))))
	return containerIDScheme + hex.EncodeToString(sum[:])
}

// refused shows why the container does not start, and waits for what could change that.
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

// exited writes how the process ended. again is false when that is the end of the container; otherwise delay is how
// long to wait before the next run.
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

// backOff waits for the next run. It returns false when the container is asked to stop instead; the run that ended is
// then its last.
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

// currentRun says which run's log belongs to the container now, and which is the one before. ok is false when there is
// no such run. In back-off both are the run that ended last, as with the kubelet.
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

// apiTime is a time as the API server stores it, so that what was written compares equal to what is read.
func apiTime(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
