package render

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"slipway.dev/slipway/internal/gitops/render/frame"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/script"
)

// scriptTime is how long a script may take, on a machine that is busy.
const scriptTime = 10 * time.Second

// RunScript runs a Lua script of the settings on an object in a worker, and
// returns its result. A script that costs a worker is a [script.ErrExhausted].
func (r *Renderer) RunScript(ctx context.Context, source string, given script.Input) (any, error) {
	encoded, err := json.Marshal(given.Object)
	if err != nil {
		return nil, err
	}
	const settings = "" // scripts belong to no project
	if err := waitForSlot(ctx, r.scriptSlots, settings); err != nil {
		return nil, err
	}
	defer r.scriptSlots.Release(settings)
	var running *scriptTask
	_, err = r.attempt(ctx, func() task {
		running = &scriptTask{script: job.Script{Source: source, Object: encoded, Parameters: given.Parameters, Now: given.Now}}
		return running
	})
	if problem, ok := errors.AsType[*Error](err); ok {
		switch problem.Kind {
		case TooSlow, OutOfMemory, TooLarge:
			return nil, fmt.Errorf("%w: %s", script.ErrExhausted, problem.Message)
		}
		return nil, errors.New(problem.Message)
	}
	if err != nil {
		return nil, err
	}
	var result any
	err = utiljson.Unmarshal(running.result, &result)
	return result, err
}

// scriptTask runs one script.
type scriptTask struct {
	script job.Script
	result []byte
}

// job has the script and its object.
func (t *scriptTask) job() *job.Job { return &job.Job{Script: &t.script} }

// limits has the time of a script.
func (t *scriptTask) limits(options *Options) limits {
	return limits{time: min(options.Timeout, scriptTime), bytes: options.OutputBytes}
}

// wording names what to change: scripts have no options.
func (t *scriptTask) wording() wording {
	return wording{
		activity: "running the script",
		slow:     "look for patterns and loops that do not end",
		memory:   "look for texts and tables that grow",
	}
}

// message takes the result.
func (t *scriptTask) message(s *session, kind frame.Type, payload []byte) *Error {
	if kind != frame.Object || t.result != nil {
		return s.unexpected(kind)
	}
	if !s.output(payload) {
		return &Error{Kind: TooLarge, Message: "its result is larger than it may be"}
	}
	t.result = payload
	return nil
}

// done checks that there is a result.
func (t *scriptTask) done(s *session, _ *frame.Report) *Error {
	if t.result == nil {
		return s.workerDied(errors.New("it returned no result"))
	}
	return nil
}

// failed has nothing to add: errors of scripts are for their authors.
func (t *scriptTask) failed(*session, *frame.Failure, *Error) {}

// unavailable is nil: everything is in the job.
func (t *scriptTask) unavailable() *Error { return nil }

// runScript is the worker's side.
func (c *call) runScript() error {
	compiled, err := script.Compile("script", c.job.Script.Source)
	if err != nil {
		return err
	}
	given := script.Input{Parameters: c.job.Script.Parameters, Now: c.job.Script.Now}
	if err := utiljson.Unmarshal(c.job.Script.Object, &given.Object); err != nil {
		return err
	}
	result, err := compiled.Run(given)
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(result)
	c.output = append(c.output, encoded)
	return err
}
