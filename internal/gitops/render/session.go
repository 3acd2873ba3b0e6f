package render

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/gitops/render/frame"
	"slipway.dev/slipway/internal/gitops/render/job"
)

// task is the renderer's side of one kind of job. A session runs it at one
// worker.
type task interface {
	// job is the request to the worker.
	job() *job.Job
	// limits bound the job. A task can lower those of the Options.
	limits(options *Options) limits
	// wording is for messages about exceeded limits.
	wording() wording
	// message handles a message that only this kind of job has.
	message(s *session, kind frame.Type, payload []byte) *Error
	// done takes the end of a job that was done.
	done(s *session, report *frame.Report) *Error
	// failed completes the error of a job that was not done.
	failed(s *session, report *frame.Failure, problem *Error)
	// unavailable is the error of inputs that could not be read; it replaces
	// what the worker reported.
	unavailable() *Error
}

// limits bound one job.
type limits struct {
	time  time.Duration
	bytes int64 // of the output
}

// wording is what a job is called in messages, and what to do about limits.
type wording struct{ activity, slow, memory string }

// session is one task at one worker.
type session struct {
	worker  *process
	task    task
	options *Options
	limit   limits
	// bytes is the output so far.
	bytes      int64
	lastSource int // the source of the last request for a file
	// reason is why the worker was killed.
	reason atomic.Pointer[Error]

	// responded: the worker did something, so that it was alive.
	responded bool
	// usable: the worker can have another request.
	usable bool
}

// newSession prepares a task for a worker.
func newSession(worker *process, task task, options *Options) *session {
	return &session{worker: worker, task: task, options: options, limit: task.limits(options)}
}

// run sends the request and serves the worker until it is done.
func (s *session) run(ctx context.Context) error {
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(ctx, done)
	}()
	problem := s.serve()
	// watch has to be over before the reason is read: it may be about to kill
	// the worker for a job that has just ended.
	close(done)
	<-watched
	if reason := s.reason.Load(); reason != nil {
		s.usable, problem = false, reason
		problem.Source = s.lastSource
	}
	if problem == nil {
		return nil
	}
	if cause := s.task.unavailable(); cause != nil {
		problem = cause
	}
	return problem
}

// watchInterval is how often a worker's memory is measured. It can grow by
// some 100 MB until then; the kernel's limit is there for more.
const watchInterval = 20 * time.Millisecond

// watch kills the worker when it exceeds a limit. A template that loops cannot
// be interrupted in any other way.
func (s *session) watch(ctx context.Context, done <-chan struct{}) {
	timeout := time.NewTimer(s.limit.time)
	defer timeout.Stop()
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ctx.Done():
			s.stop(&Error{Kind: WorkerDied, Message: "the request was canceled", Err: ctx.Err()})
			return
		case <-timeout.C:
			s.stop(&Error{Kind: TooSlow, Message: fmt.Sprintf("%s took longer than %s and was stopped: %s",
				s.task.wording().activity, s.limit.time, s.task.wording().slow)})
			return
		case <-ticker.C:
			if s.worker.memory() > s.options.MemoryBytes {
				s.stop(s.memoryError())
				return
			}
		}
	}
}

// memoryError is the error of a job that exceeds the memory limit.
func (s *session) memoryError() *Error {
	return &Error{Kind: OutOfMemory, Message: fmt.Sprintf("%s needs more than %d MiB of memory and was stopped: %s",
		s.task.wording().activity, s.options.MemoryBytes>>20, s.task.wording().memory)}
}

// stop kills the worker and keeps the reason, which replaces the error of the
// broken pipe.
func (s *session) stop(reason *Error) {
	s.reason.Store(reason)
	s.worker.kill()
}

// serve sends the job and handles the worker's messages until the job ends.
func (s *session) serve() *Error {
	work := s.task.job()
	work.OutputBytes = s.limit.bytes
	text, err := json.Marshal(work)
	if err != nil || len(text) > maxJob {
		s.usable = true
		return &Error{Kind: Refused, Source: -1, Message: fmt.Sprintf("the application is larger than %d bytes, or has values that are not JSON", maxJob), Err: err}
	}
	// From here the worker drives: it sends requests for inputs and then the
	// result.
	if err := s.worker.writer.Send(frame.Request, text); err != nil {
		return s.workerDied(err)
	}
	if err := s.worker.writer.Flush(); err != nil {
		return s.workerDied(err)
	}
	for {
		kind, payload, err := s.worker.reader.Next()
		if err != nil {
			return s.workerDied(err)
		}
		s.responded = true
		if over, problem := s.handle(kind, payload); over || problem != nil {
			return problem
		}
	}
}

// handle processes one message of the worker. over is true when the job has
// ended.
func (s *session) handle(kind frame.Type, payload []byte) (over bool, problem *Error) {
	switch kind {
	case frame.Done:
		var report frame.Report
		if err := json.Unmarshal(payload, &report); err != nil {
			return true, s.workerDied(fmt.Errorf("its report cannot be read: %w", err))
		}
		// A worker that used up its CPU limit would be killed in the middle of
		// the next job.
		s.usable = !report.Exhausted
		return true, s.task.done(s, &report)
	case frame.Failed:
		return true, s.failed(payload)
	}
	return false, s.task.message(s, kind, payload)
}

// unexpected is the error of a message that a task does not have.
func (s *session) unexpected(kind frame.Type) *Error {
	return s.workerDied(fmt.Errorf("a message of type %q came", kind))
}

// respond sends a response to the worker.
func (s *session) respond(send func(*frame.Writer) error) *Error {
	err := send(s.worker.writer)
	if err == nil {
		err = s.worker.writer.Flush()
	}
	if err != nil {
		return s.workerDied(err)
	}
	return nil
}

// output counts a part of the result. It is false beyond the limit: a worker
// that was taken over could send more than it was allowed, and is killed.
func (s *session) output(payload []byte) bool {
	if s.bytes += int64(len(payload)); s.bytes <= s.limit.bytes {
		return true
	}
	s.worker.kill()
	return false
}

// failed converts the error of the worker. A worker that panicked is not used
// again: its libraries may be left in any state.
func (s *session) failed(payload []byte) *Error {
	var report frame.Failure
	if err := json.Unmarshal(payload, &report); err != nil {
		return s.workerDied(err)
	}
	s.usable = !report.Exhausted && !report.Panicked
	problem := &Error{Kind: Failed, Source: report.Source, Message: report.Message}
	if report.Refused {
		problem.Kind = Refused
	}
	s.task.failed(s, &report, problem)
	return problem
}

// workerDied explains why a worker exited, by its error output: the Go runtime
// prints a recognizable first line for an overflow of the stack and for memory.
// It waits for the exit, so that the error output is complete.
func (s *session) workerDied(err error) *Error {
	s.worker.kill()
	<-s.worker.exited
	stderr := s.worker.stderr
	switch {
	case stderr.contains("stack overflow", "stack exceeds"):
		return &Error{Kind: Failed, Source: s.lastSource, Err: err, Message: s.task.wording().activity + " was stopped, for something calls itself without end: look for templates that include themselves"}
	case stderr.contains("out of memory", "cannot allocate memory", "failed to allocate"):
		problem := s.memoryError()
		problem.Source, problem.Err = s.lastSource, err
		return problem
	}
	message := "the worker ended while " + s.task.wording().activity
	if line := stderr.firstLine(); line != "" {
		message += ": " + line
	} else if state := s.worker.command.ProcessState; state != nil {
		message += " (" + state.String() + ")"
	}
	return &Error{Kind: WorkerDied, Source: s.lastSource, Message: message + "; it is tried again", Err: err}
}
