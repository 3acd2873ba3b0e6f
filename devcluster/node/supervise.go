package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// sickness is the failure of a startup or liveness probe, which restarts the
// container.
type sickness struct {
	probe *corev1.Probe
	kind  string
	err   error
}

// gracefulStop is the termination of one process: first the preStop hook, then
// SIGTERM, and SIGKILL at the deadline. It belongs to the supervise loop and
// has no lock.
type gracefulStop struct {
	begun    bool
	deadline time.Time
	hooked   chan struct{} // closed when the preStop hook is over; nil when SIGTERM has been sent
	kill     *time.Timer
}

// by sets the time of SIGKILL, or brings it forward; a later deadline than the
// current one is ignored.
func (f *gracefulStop) by(deadline time.Time) {
	if f.kill == nil {
		f.kill = time.NewTimer(time.Until(deadline))
	} else if deadline.Before(f.deadline) {
		f.kill.Reset(time.Until(deadline))
	} else {
		return
	}
	f.deadline = deadline
}

// killed returns the channel that fires when SIGKILL is due. Before the
// termination has begun it is nil, which blocks forever in a select.
func (f *gracefulStop) killed() <-chan time.Time {
	if f.kill == nil {
		return nil
	}
	return f.kill.C
}

// supervise runs the probes of a process and terminates it when the container
// stops, a probe fails or the image changes. It returns when the process has
// ended, and reports true when it was terminated for a new image.
func (c *container) supervise(spec *corev1.Container, p *process) (changed bool) {
	// Deferred calls run in reverse: both contexts are cancelled first, then
	// the probes and the hook are waited for. So no goroutine of this run
	// touches the status of the next one.
	var helpers sync.WaitGroup
	defer helpers.Wait()
	// The preStop hook starts when c.ctx is already done, so its context must
	// not inherit that; it lasts as long as the process.
	alive, cancel := context.WithCancel(context.WithoutCancel(c.ctx))
	defer cancel()
	watching, unwatch := context.WithCancel(c.ctx)
	defer unwatch()
	// Room for one failure of the startup and one of the liveness probe, each
	// of which reports at most one: a send never blocks.
	sick := make(chan sickness, 2)
	helpers.Go(func() { c.probe(watching, alive, spec, sick) })

	// begin starts the termination; later calls only shorten its deadline.
	// Startup and liveness are not probed from then on. Readiness is, as by the
	// kubelet: the EndpointSlice shows that the Pod terminates.
	bye := &gracefulStop{}
	begin := func(deadline time.Time) {
		bye.by(deadline)
		if bye.begun {
			return
		}
		bye.begun = true
		unwatch()
		hooked := make(chan struct{})
		bye.hooked = hooked
		helpers.Go(func() {
			defer close(hooked)
			c.preStop(alive, spec, deadline)
		})
	}
	// Set to nil after its first event, because a closed channel would make the
	// loop spin.
	stop := c.ctx.Done()
	for {
		select {
		case <-p.exited:
			return changed
		case <-stop:
			stop = nil
			begin(c.deadline())
		case s := <-sick:
			c.event(corev1.EventTypeWarning, "Unhealthy", fmt.Sprintf("%s probe failed: %v; container %s is restarted", s.kind, s.err, spec.Name))
			begin(time.Now().Add(c.grace(s.probe)))
		case <-c.wake:
			switch {
			case c.ctx.Err() != nil:
				begin(c.deadline())
			case c.image() != spec.Image:
				changed = true
				begin(time.Now().Add(c.grace(nil)))
			}
		case <-bye.hooked:
			bye.hooked = nil
			p.terminate()
		case <-bye.killed():
			p.kill()
		}
	}
}

// probe runs the probes of a container: first the startup probe alone, then
// readiness and liveness in parallel. Readiness is probed until alive is done,
// the others until watching is. Init containers that run to completion have no
// probes.
func (c *container) probe(watching, alive context.Context, spec *corev1.Container, sick chan<- sickness) {
	if c.kind == initContainer {
		return
	}
	if spec.StartupProbe != nil {
		started := false
		c.watch(watching, spec, spec.StartupProbe, func(err error) bool {
			if started = err == nil; !started {
				sick <- sickness{spec.StartupProbe, "Startup", err}
			}
			return false
		})
		if !started {
			return
		}
		// Without a readiness probe a started container is ready at once.
		c.setStarted(spec.ReadinessProbe == nil)
	}
	var both sync.WaitGroup
	defer both.Wait()
	if spec.ReadinessProbe != nil {
		both.Go(func() {
			c.watch(alive, spec, spec.ReadinessProbe, func(err error) bool {
				// A readiness failure never restarts the container. The Event
				// is recorded only when readiness changes.
				if c.setReady(err == nil) && err != nil {
					c.event(corev1.EventTypeWarning, "Unhealthy", "Readiness probe failed: "+err.Error())
				}
				return true
			})
		})
	}
	if spec.LivenessProbe != nil {
		both.Go(func() {
			c.watch(watching, spec, spec.LivenessProbe, func(err error) bool {
				if err != nil {
					sick <- sickness{spec.LivenessProbe, "Liveness", err}
				}
				return err == nil
			})
		})
	}
}

// watch runs one probe until ctx is done or report returns false. The liveness
// probe is not eager: an early success of it changes nothing.
func (c *container) watch(ctx context.Context, spec *corev1.Container, probe *corev1.Probe, report func(error) bool) {
	p := &probing{spec: probe, check: checkFor(probe, spec.Name, c.ports), eager: probe != spec.LivenessProbe}
	p.watch(ctx, report)
}

// setStarted sets the started flag after a successful startup probe.
func (c *container) setStarted(ready bool) {
	yes := true
	c.change(func(s *corev1.ContainerStatus) {
		s.Started = &yes
		s.Ready = ready
	})
}

// setReady sets readiness from the probe. It returns true when the value
// changed.
func (c *container) setReady(ready bool) (changed bool) {
	c.change(func(s *corev1.ContainerStatus) {
		changed = s.Ready != ready
		s.Ready = ready
	})
	return changed
}

// deadline returns the time of SIGKILL that stop has set.
func (c *container) deadline() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopAt
}

// image returns the image of the newest spec, which may be newer than the image
// that runs.
func (c *container) image() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spec.Image
}

// grace returns the grace period of a restart: that of the failed probe if it
// has one, otherwise the Pod's.
func (c *container) grace(probe *corev1.Probe) time.Duration {
	if probe != nil && probe.TerminationGracePeriodSeconds != nil {
		return time.Duration(*probe.TerminationGracePeriodSeconds) * time.Second
	}
	return podGrace(c.pod())
}

// podGrace returns the grace period of the Pod's spec, or the API's default of
// 30 seconds. A negative value counts as 0.
func podGrace(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(max(*s, 0)) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// preStop runs the preStop hook, at most until the process is killed. SIGTERM
// follows even if the hook fails; the failure only gives an Event.
func (c *container) preStop(ctx context.Context, spec *corev1.Container, deadline time.Time) {
	if spec.Lifecycle == nil || spec.Lifecycle.PreStop == nil {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	switch hook := spec.Lifecycle.PreStop; {
	case hook.Sleep != nil:
		pause(ctx, time.Duration(hook.Sleep.Seconds)*time.Second)
	case hook.HTTPGet != nil:
		if err := getHTTP(ctx, hook.HTTPGet, spec.Name, c.ports); err != nil && ctx.Err() == nil {
			c.event(corev1.EventTypeWarning, "FailedPreStopHook", "PreStop hook failed: "+err.Error())
		}
	}
}
