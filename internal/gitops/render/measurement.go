package render

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"slipway.dev/slipway/internal/gitops/analysis/evaluate"
	"slipway.dev/slipway/internal/gitops/render/frame"
	"slipway.dev/slipway/internal/gitops/render/job"
)

// measurementTime is how long an evaluation may take, on a machine that is busy.
const measurementTime = 5 * time.Second

// Evaluate computes a measurement of an analysis run in a worker. Namespaces that wait
// for one take turns. An evaluation that costs a worker is an error.
func (r *Renderer) Evaluate(ctx context.Context, namespace string, request evaluate.Request) (evaluate.Result, error) {
	if err := waitForSlot(ctx, r.analysisSlots, namespace); err != nil {
		return evaluate.Result{}, err
	}
	defer r.analysisSlots.Release(namespace)
	var running *measurementTask
	_, err := r.attempt(ctx, func() task {
		running = &measurementTask{request: request}
		return running
	})
	if problem, ok := errors.AsType[*Error](err); ok {
		return evaluate.Result{}, errors.New(problem.Message)
	}
	if err != nil {
		return evaluate.Result{}, err
	}
	return running.result, nil
}

// measurementTask evaluates one response.
type measurementTask struct {
	request evaluate.Request
	result  evaluate.Result
	has     bool
}

// job has the response and the conditions.
func (t *measurementTask) job() *job.Job { return &job.Job{Measurement: &t.request} }

// limits has the time of an evaluation.
func (t *measurementTask) limits(options *Options) limits {
	return limits{time: min(options.Timeout, measurementTime), bytes: options.OutputBytes}
}

// wording names what to change.
func (t *measurementTask) wording() wording {
	return wording{
		activity: "evaluating the condition",
		slow:     "look for loops over long lists within each other",
		memory:   "look for texts and lists that grow",
	}
}

// message takes the result.
func (t *measurementTask) message(s *session, kind frame.Type, payload []byte) *Error {
	if kind != frame.Object || t.has {
		return s.unexpected(kind)
	}
	if !s.output(payload) {
		return &Error{Kind: TooLarge, Message: "the value is larger than it may be"}
	}
	if err := json.Unmarshal(payload, &t.result); err != nil {
		return s.workerDied(fmt.Errorf("its result cannot be read: %w", err))
	}
	t.has = true
	return nil
}

// done checks that there is a result.
func (t *measurementTask) done(s *session, _ *frame.Report) *Error {
	if !t.has {
		return s.workerDied(errors.New("it returned no result"))
	}
	return nil
}

// failed has nothing to add: errors of conditions are for their authors.
func (t *measurementTask) failed(*session, *frame.Failure, *Error) {}

// unavailable is nil: everything is in the job.
func (t *measurementTask) unavailable() *Error { return nil }

// evaluate is the worker's side.
func (c *call) evaluate() error {
	encoded, err := json.Marshal(evaluate.Evaluate(*c.job.Measurement))
	c.output = append(c.output, encoded)
	return err
}
