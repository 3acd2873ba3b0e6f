package render

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	notice "slipway.dev/slipway/internal/gitops/notify/message"
	"slipway.dev/slipway/internal/gitops/render/frame"
	"slipway.dev/slipway/internal/gitops/render/job"
)

// notificationTime is how long triggers and templates may take, on a machine that is
// busy.
const notificationTime = 5 * time.Second

// Notify evaluates triggers and renders templates of notifications in a worker. Projects
// that wait for one take turns. Text that costs a worker is an error.
func (r *Renderer) Notify(ctx context.Context, project string, request notice.Request) (notice.Response, error) {
	if err := waitForSlot(ctx, r.noticeSlots, project); err != nil {
		return notice.Response{}, err
	}
	defer r.noticeSlots.Release(project)
	var running *notificationTask
	_, err := r.attempt(ctx, func() task {
		running = &notificationTask{request: request}
		return running
	})
	if problem, ok := errors.AsType[*Error](err); ok {
		return notice.Response{}, errors.New(problem.Message)
	}
	if err != nil {
		return notice.Response{}, err
	}
	return running.response, nil
}

// notificationTask evaluates triggers or renders one message.
type notificationTask struct {
	request  notice.Request
	response notice.Response
	has      bool
}

// job has the Application and the text.
func (t *notificationTask) job() *job.Job { return &job.Job{Notification: &t.request} }

// limits has the time of an evaluation.
func (t *notificationTask) limits(options *Options) limits {
	return limits{time: min(options.Timeout, notificationTime), bytes: options.OutputBytes}
}

// wording names what to change.
func (t *notificationTask) wording() wording {
	return wording{
		activity: "evaluating the notification",
		slow:     "look for loops over long lists within each other",
		memory:   "look for texts and lists that grow",
	}
}

// message takes the result.
func (t *notificationTask) message(s *session, kind frame.Type, payload []byte) *Error {
	if kind != frame.Object || t.has {
		return s.unexpected(kind)
	}
	if !s.output(payload) {
		return &Error{Kind: TooLarge, Message: "the message is larger than it may be"}
	}
	if err := json.Unmarshal(payload, &t.response); err != nil {
		return s.workerDied(fmt.Errorf("its result cannot be read: %w", err))
	}
	t.has = true
	return nil
}

// done checks that there is a result.
func (t *notificationTask) done(s *session, _ *frame.Report) *Error {
	if !t.has {
		return s.workerDied(errors.New("it returned no result"))
	}
	return nil
}

// failed has nothing to add: errors of templates are for their authors.
func (t *notificationTask) failed(*session, *frame.Failure, *Error) {}

// unavailable is nil: everything is in the job.
func (t *notificationTask) unavailable() *Error { return nil }

// notify is the worker's side.
func (c *call) notify() error {
	response, err := notice.Run(*c.job.Notification)
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(response)
	c.output = append(c.output, encoded)
	return err
}
