package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// sickness is a probe that says the container has to go.
type sickness struct {
	probe *corev1.Probe
	kind  string
	err   error
}

// farewell ends one process: first the preStop hook, then SIGTERM, and SIGKILL at the deadline.
type farewell struct {
	begun    bool
	deadline time.Time
	hooked   chan struct{} // closed when the preStop hook is over; nil when SIGTERM has been sent
	kill     *time.Timer
}

// by sets or brings forward the moment of SIGKILL.
func (f *farewell) by(deadline time.Time) {
	if f.kill == nil {
		f.kill = time.NewTimer(time.Until(deadline))
	} else if deadline.Before(f.deadline) {
		f.kill.Reset(time.Until(deadline))
	} else {
		return
	}
	f.deadline = deadline
}

// killed is when SIGKILL is due; nil before the farewell has begun.
func (f *farewell) killed() <-chan time.Time {
	if f.kill == nil {
		return nil
	}
	return f.kill.C
}

// supervise stays with a process until it has ended. It returns true when the process was ended for a new image.
func (c *container) supervise(spec *corev1.Container, p *process) (changed bool) {
	var helpers sync.WaitGroup
	defer helpers.Wait()
	alive, cancel := context.WithCancel(context.WithoutCancel(c.ctx))
	defer cancel()
	watching, unwatch := context.WithCancel(c.ctx)
	defer unwatch()
	sick := make(chan sickness, 2) // one for each probe that may report; probes never wait
	helpers.Go(func() { c.probe(watching, spec, sick) })

	bye := &farewell{}
	begin := func(deadline time.Time) {
		bye.by(deadline)
		if bye.begun {
			return
		}
		bye.begun = true
		unwatch()
		c.leave()
		hooked := make(chan struct{})
		bye.hooked = hooked
		helpers.Go(func() {
			defer close(hooked)
			c.preStop(alive, spec, deadline)
		})
	}
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

// probe runs the probes of a container until ctx is done: first the startup probe alone, then the other two.
func (c *container) probe(ctx context.Context, spec *corev1.Container, sick chan<- sickness) {
	if c.kind == initContainer {
		return
	}
	if spec.StartupProbe != nil {
		started := false
		c.watch(ctx, spec, spec.StartupProbe, func(err error) bool {
			if started = err == nil; !started {
				sick <- sickness{spec.StartupProbe, "Startup", err}
			}
			return false
		})
		if !started {
			return
		}
		c.setStarted(spec.ReadinessProbe == nil)
	}
	var both sync.WaitGroup
	defer both.Wait()
	if spec.ReadinessProbe != nil {
		both.Go(func() {
			c.watch(ctx, spec, spec.ReadinessProbe, func(err error) bool {
				if c.setReady(err == nil) && err != nil {
					c.event(corev1.EventTypeWarning, "Unhealthy", "Readiness probe failed: "+err.Error())
				}
				return true
			})
		})
	}
	if spec.LivenessProbe != nil {
		both.Go(func() {
			c.watch(ctx, spec, spec.LivenessProbe, func(err error) bool {
				if err != nil {
					sick <- sickness{spec.LivenessProbe, "Liveness", err}
				}
				return err == nil
			})
		})
	}
}

func (c *container) watch(ctx context.Context, spec *corev1.Container, probe *corev1.Probe, report func(error) bool) {
	p := &probing{spec: probe, check: checkFor(probe, spec.Name, c.ports), eager: probe != spec.LivenessProbe}
	p.watch(ctx, report)
}

func (c *container) setStarted(ready bool) {
	yes := true
	c.change(func(s *corev1.ContainerStatus) {
		s.Started = &yes
		s.Ready = ready && !c.leaving
	})
}

// setReady follows the readiness probe; a container that is leaving stays not ready. It returns true for a change.
func (c *container) setReady(ready bool) (changed bool) {
	c.change(func(s *corev1.ContainerStatus) {
		ready = ready && !c.leaving
		changed = s.Ready != ready
		s.Ready = ready
	})
	return changed
}

// leave makes the container not ready for good: from here on it is going.
func (c *container) leave() {
	c.mu.Lock()
	c.leaveLocked()
	c.mu.Unlock()
	c.notify()
}

func (c *container) leaveLocked() {
	c.leaving = true
	if c.status.State.Running != nil {
		c.status.Ready = false
	}
}

func (c *container) deadline() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopAt
}

func (c *container) image() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spec.Image
}

// grace is how long the process has to end by itself: what the failed probe says, or else the Pod.
func (c *container) grace(probe *corev1.Probe) time.Duration {
	if probe != nil && probe.TerminationGracePeriodSeconds != nil {
		return time.Duration(*probe.TerminationGracePeriodSeconds) * time.Second
	}
	return podGrace(c.pod())
}

// podGrace is the grace period that the Pod's spec asks for.
func podGrace(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(max(*s, 0)) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// preStop runs the preStop hook, at most until the process is killed. A hook that fails changes nothing: the process is
// asked to end all the same.
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
