package up

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// part is one piece of the product that `slipway up` brings up. Its state is in
// a directory of its name below the state directory.
type part struct {
	name string
	// ports are the fixed ports it listens on.
	ports []fixedPort
	// start begins it. A part that is not a process returns no child.
	start func(ctx context.Context, s *scene) (*child, error)
	// ready returns when the part can be used, with a note for the progress. It
	// passes what it waits for to say.
	ready func(ctx context.Context, s *scene, report func(string)) (string, error)
	// show gives the part's row of the table and what to try with it.
	show func(s *scene) (Row, []Hint)
}

// supervisor starts parts in order, watches them, and stops them in reverse
// order. Its states are starting (startAll), up (await) and stopping (stopAll).
type supervisor struct {
	parts    []part
	scene    *scene
	progress *progress
	ui       UI
	timeout  time.Duration
	grace    time.Duration

	// started has the processes in the order of their start. Only the goroutine
	// of run uses it.
	started []startedPart
}

// explainDelay is how long a failed start waits for a better explanation: the
// end of a process often follows the refused connection.
const explainDelay = time.Second

// startedPart is a part with a process, for the stop.
type startedPart struct {
	name  string
	child *child
}

// errStopped is the cause when the user ends a start.
var errStopped = errors.New("stopped before everything was ready")

// run starts everything, calls up when all parts are ready, and returns when
// everything has stopped. It returns nil only after a stop that the user
// requested.
func (s *supervisor) run(ctx context.Context, up func() error) error {
	watched, end := context.WithCancelCause(ctx)
	err := s.startAll(watched, end)
	s.progress.finish()
	if err == nil {
		err = up()
	}
	if err == nil {
		err = await(watched)
	}
	// From here on the end of a process is expected.
	end(nil)
	return errors.Join(err, s.stopAll())
}

// startAll starts the parts in order; each may use those before it.
func (s *supervisor) startAll(ctx context.Context, end context.CancelCauseFunc) error {
	late := fmt.Errorf("not ready within %s (--timeout)", s.timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, late)
	defer cancel()
	for _, p := range s.parts {
		if err := s.startPart(ctx, p, end); err != nil {
			s.progress.failed(p.name)
			return err
		}
	}
	return nil
}

// startPart starts one part and waits until it is ready.
func (s *supervisor) startPart(ctx context.Context, p part, end context.CancelCauseFunc) error {
	// last is what the part waited for when its time was over.
	last := "starting"
	report := func(note string) {
		last = note
		s.progress.starting(p.name, note)
	}
	report(last)
	child, err := p.start(ctx, s.scene)
	// A process is recorded even if the start fails after it, so that stopAll
	// ends it.
	if child != nil {
		s.started = append(s.started, startedPart{p.name, child})
		watch(p.name, child, end)
	}
	if err == nil {
		var note string
		if note, err = p.ready(ctx, s.scene, report); err == nil {
			s.progress.ready(p.name, note)
			return nil
		}
	}
	return s.explain(ctx, p.name, last, err)
}

// explain finds the reason of a failed start: a part that died, the user's
// stop, the timeout with what the part waited for, or else the error itself.
func (s *supervisor) explain(ctx context.Context, name, last string, err error) error {
	// A refused connection is often the first sign of a part that is dying,
	// and its end the better explanation.
	settle, cancel := context.WithTimeout(ctx, explainDelay)
	defer cancel()
	<-settle.Done()
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return fmt.Errorf("%s: %w", name, err)
	case errors.Is(cause, errDied):
		// The part that died is the reason, whichever part was starting.
		return cause
	case errors.Is(ctx.Err(), context.Canceled):
		return errStopped
	default:
		return fmt.Errorf("%s: %w: %s%s", name, cause, last, s.logs())
	}
}

// logs lists the log files, for the message of a failure.
func (s *supervisor) logs() string {
	var b strings.Builder
	for _, one := range s.started {
		fmt.Fprintf(&b, "\nthe log of %s is %s", one.name, one.child.log)
	}
	return b.String()
}

// watch cancels the run with the reason when a child ends by itself. The run
// does not wait for its goroutine, which lives as long as the process: one that
// survives SIGKILL must not keep the run from ending.
func watch(name string, c *child, end context.CancelCauseFunc) {
	go func() {
		<-c.exited
		end(death(name, c))
	}()
}

// await returns when the user stops the run, or with the reason of a part that
// died.
func await(watched context.Context) error {
	<-watched.Done()
	if cause := context.Cause(watched); errors.Is(cause, errDied) {
		return cause
	}
	return nil
}

// stopAll stops what was started, the last first. Each stop is bounded.
func (s *supervisor) stopAll() error {
	var findings []error
	for i := len(s.started) - 1; i >= 0; i-- {
		one := s.started[i]
		select {
		case <-one.child.exited:
			continue // it is the one that died, and was reported
		default:
		}
		began := time.Now()
		s.ui.line("%s: stopping", one.name)
		if err := one.child.stop(s.grace, s.ui.KillNow); err != nil {
			s.ui.line("%s: %s", one.name, err)
			findings = append(findings, fmt.Errorf("%s: %w", one.name, err))
			continue
		}
		s.ui.line("%s: stopped after %s", one.name, tenths(time.Since(began)))
	}
	s.started = nil
	return errors.Join(findings...)
}
