package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"

	"slipway.dev/slipway/internal/gitops/render/frame"
	"slipway.dev/slipway/internal/gitops/render/job"
)

// call is one job under way, on the worker's side.
type call struct {
	worker *worker
	job    job.Job
	source int // the source that is being read
	// report and output are the result. They are sent when the job is done: a
	// partial result must never look complete.
	report frame.Report
	// missing are dependencies that the job does not have.
	missing []job.MissingDependency
	output  []json.RawMessage
	pipeErr error // the renderer is gone
}

// lacks notes dependencies that the job does not have, each once.
func (c *call) lacks(missing ...job.MissingDependency) {
	for _, one := range missing {
		if !slices.Contains(c.missing, one) {
			c.missing = append(c.missing, one)
		}
	}
}

// run executes a job and sends the result. Only an error of the pipe ends the
// worker.
func (w *worker) run(payload []byte) error {
	c := &call{worker: w}
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber() // values keep the spelling of their numbers
	if err := decoder.Decode(&c.job); err != nil {
		return err
	}
	problem := c.execute()
	if c.pipeErr != nil {
		return c.pipeErr
	}
	if problem != nil {
		problem.Exhausted = w.limits.Exhausted()
		return w.send(frame.Failed, problem)
	}
	for _, part := range c.output {
		if err := w.out.Send(frame.Object, part); err != nil {
			return err
		}
	}
	c.report.Exhausted = w.limits.Exhausted()
	return w.send(frame.Done, c.report)
}

// execute runs the engine of the job. A panic of a library becomes a problem of
// the source that was being read; an overflow of the stack cannot be recovered
// and ends the worker.
func (c *call) execute() (problem *frame.Failure) {
	defer func() {
		if reason := recover(); reason != nil {
			debug.PrintStack() // to the end of stderr, which the renderer keeps
			problem = &frame.Failure{Source: c.source, Panicked: true, Message: fmt.Sprintf("it cannot be rendered: %v", reason)}
		}
		if problem != nil {
			problem.Revision = c.report.Revision
		}
	}()
	engine := c.render
	switch {
	case c.job.Index:
		engine = c.compactIndex
	case c.job.Set != nil:
		engine = c.generate
	case c.job.Script != nil:
		engine = c.runScript
	case c.job.Measurement != nil:
		engine = c.evaluate
	case c.job.Notification != nil:
		engine = c.notify
	}
	err := engine()
	if err != nil {
		return failureOf(c.source, err)
	}
	return nil
}

// request sends a request to the renderer and waits for its response. A broken
// pipe ends the job. There is one request in flight at a time: the next message
// is the response to it.
func (c *call) request(kind frame.Type, value any) (message, error) {
	if err := c.worker.send(kind, value); err != nil {
		return message{}, c.broken(err)
	}
	got := <-c.worker.incoming
	if got.err != nil {
		return message{}, c.broken(got.err)
	}
	return got, nil
}

// broken records that the renderer is gone. The worker ends after the job.
func (c *call) broken(err error) error {
	c.pipeErr = err
	return err
}

// unexpected is the error of a response of another type.
func (c *call) unexpected(kind frame.Type) error {
	return c.broken(fmt.Errorf("a message of type %q is unexpected", kind))
}
