package render

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/frame"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/render/manifest"
	"slipway.dev/slipway/internal/gitops/tree"
)

// session is one request at one worker.
type session struct {
	worker     *process
	request    *Request
	options    *Options
	views      []*tree.View
	result     Result
	bytes      int64
	lastSource int // the source of the last request for a file
	limit      struct {
		time  time.Duration
		bytes int64
	}
	// reason is why the worker was killed.
	reason atomic.Pointer[Error]

	// responded: the worker did something, so that it was alive.
	responded bool
	// usable: the worker can have another request.
	usable bool
}

// newSession applies the limits of the request. A request can lower the limits
// of the Options but not raise them.
func newSession(worker *process, request *Request, options *Options) *session {
	s := &session{worker: worker, request: request, options: options, views: newViews(request)}
	s.limit.time, s.limit.bytes = options.Timeout, options.OutputBytes
	if given := request.Limits.Timeout; given > 0 {
		s.limit.time = min(given, options.Timeout)
	}
	if given := request.Limits.OutputBytes; given > 0 {
		s.limit.bytes = min(given, options.OutputBytes)
	}
	return s
}

// run sends the request and serves the worker until it is done.
func (s *session) run(ctx context.Context) (*Result, error) {
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(ctx, done)
	}()
	problem := s.serve()
	// watch has to be over before the reason is read: it may be about to kill
	// the worker for a render that has just ended.
	close(done)
	<-watched
	if reason := s.reason.Load(); reason != nil {
		s.usable, problem = false, reason
		problem.Source = s.lastSource
	}
	if problem == nil {
		return &s.result, nil
	}
	// A Store that failed is the cause, even if the worker reported another.
	for i, view := range s.views {
		if err := view.Failure(); err != nil {
			problem = &Error{Kind: Unavailable, Source: i, Message: "files cannot be read: " + err.Error(), Err: err}
			break
		}
	}
	return nil, problem
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
			s.stop(&Error{Kind: TooSlow, Message: fmt.Sprintf("rendering took longer than %s and was stopped: "+
				"look for a loop in the templates, or raise the timeout of renders", s.limit.time)})
			return
		case <-ticker.C:
			if s.worker.memory() > s.options.MemoryBytes {
				s.stop(s.memoryError())
				return
			}
		}
	}
}

// memoryError is the error of a render that exceeds the memory limit.
func (s *session) memoryError() *Error {
	return &Error{Kind: OutOfMemory, Message: fmt.Sprintf("rendering needs more than %d MiB of memory and was stopped: "+
		"look for something in the templates that grows without end, or raise the memory limit of renders", s.options.MemoryBytes>>20)}
}

// stop kills the worker and keeps the reason, which replaces the error of the
// broken pipe.
func (s *session) stop(reason *Error) {
	s.reason.Store(reason)
	s.worker.kill()
}

// serve sends the job and handles the worker's messages until the job ends.
func (s *session) serve() *Error {
	work := job.Job{
		App: s.request.App, Project: s.request.Project, Namespace: s.request.Namespace,
		KubeVersion: s.request.KubeVersion, APIVersions: s.request.APIVersions, OutputBytes: s.limit.bytes,
	}
	for i := range s.request.Inputs {
		input := &s.request.Inputs[i]
		work.Sources = append(work.Sources, job.Source{
			Source: input.Source, Path: input.folder(), Revision: input.Revision, Chart: input.Chart, OnlyFiles: input.onlyFiles(),
		})
	}
	text, err := json.Marshal(work)
	if err != nil || len(text) > maxJob {
		s.usable = true
		return &Error{Kind: Refused, Source: -1, Message: fmt.Sprintf("the application is larger than %d bytes, or has values that are not JSON", maxJob), Err: err}
	}
	// From here the worker drives: it sends requests for files and then the
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
	case frame.Stat, frame.Read, frame.List:
		if err := s.serveFile(kind, payload); err != nil {
			return true, s.workerDied(err)
		}
		return false, nil
	case frame.Object:
		return false, s.object(payload)
	case frame.Done:
		return true, s.done(payload)
	case frame.Failed:
		return true, s.failed(payload)
	}
	return true, s.workerDied(fmt.Errorf("a message of type %q came", kind))
}

// serveFile responds to a request for a file. Errors of the Store are sent as
// refusals; session.run reports their cause afterwards.
func (s *session) serveFile(kind frame.Type, payload []byte) error {
	var wanted frame.FileRequest
	if err := json.Unmarshal(payload, &wanted); err != nil {
		return err
	}
	// The worker is untrusted after it has read a template.
	if wanted.Source < 0 || wanted.Source >= len(s.views) {
		return fmt.Errorf("it requests the source %d, which is not there", wanted.Source)
	}
	s.lastSource = wanted.Source
	view, writer := s.views[wanted.Source], s.worker.writer
	var entries []tree.Entry
	var content []byte
	var err error
	switch kind {
	case frame.Stat:
		var entry tree.Entry
		entry, err = view.Stat(wanted.Path)
		entries = []tree.Entry{entry}
	case frame.List:
		entries, err = view.List(wanted.Path)
	default:
		content, err = view.Read(wanted.Path)
	}
	var refused *refusal.Refusal
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = writer.Send(frame.Missing, nil)
	case errors.As(err, &refused):
		err = writer.SendJSON(frame.Refused, refused)
	case err != nil:
		err = writer.SendJSON(frame.Refused, refusal.New(wanted.Path, refusal.Unreadable, "it cannot be read"))
	case kind == frame.Read:
		err = writer.Send(frame.Content, content)
	default:
		err = writer.SendJSON(frame.Listing, entries)
	}
	if err != nil {
		return err
	}
	return writer.Flush()
}

// object takes one object. The worker has checked it; that it did is checked
// again where memory depends on it.
func (s *session) object(payload []byte) *Error {
	// A worker that was taken over could send more than it was allowed.
	if s.bytes += int64(len(payload)); s.bytes > s.limit.bytes || !manifest.WithinValues(payload) {
		s.worker.kill()
		return s.tooLarge()
	}
	var content map[string]any
	if err := utiljson.Unmarshal(payload, &content); err != nil {
		return s.workerDied(err)
	}
	s.result.Objects = append(s.result.Objects, &unstructured.Unstructured{Object: content})
	return nil
}

// tooLarge is the error of a render that exceeds the output limit.
func (s *session) tooLarge() *Error {
	return &Error{Kind: TooLarge, Source: s.lastSource, Message: fmt.Sprintf("the objects are larger than %d bytes, or have more than %d values: "+
		"split the application, or raise the output limit of renders", s.limit.bytes, manifest.MaxValues), basis: newBasis(s.request, s.views, true, false)}
}

// done completes the result. The result depends on the cluster only if a chart
// was rendered; other sources cannot see it.
func (s *session) done(payload []byte) *Error {
	var report frame.Report
	if err := json.Unmarshal(payload, &report); err != nil || len(report.Types) != len(s.request.Inputs) {
		return s.workerDied(errors.Join(errors.New("its report cannot be read"), err))
	}
	// A worker that used up its CPU limit would be killed in the middle of the
	// next render.
	s.usable = !report.Exhausted
	s.result.Types, s.result.Warnings = report.Types, report.Warnings
	s.result.basis = newBasis(s.request, s.views, slices.Contains(report.Types, v1alpha1.SourceHelm), report.Revision)
	s.result.Key, s.result.Reads = s.result.basis.key, s.result.basis.reads
	return nil
}

// failed converts the error of the worker. It holds for other requests with the
// same files, so that a broken commit is rendered once. A worker that panicked
// is not used again: its libraries may be left in any state.
func (s *session) failed(payload []byte) *Error {
	var report frame.Failure
	if err := json.Unmarshal(payload, &report); err != nil {
		return s.workerDied(err)
	}
	s.usable = !report.Exhausted && !report.Panicked
	problem := &Error{Kind: Failed, Source: report.Source, Message: report.Message, basis: newBasis(s.request, s.views, true, report.Revision)}
	switch {
	case report.Large:
		limit := s.tooLarge()
		problem.Kind, problem.Message = limit.Kind, limit.Message
	case report.Refused:
		problem.Kind = Refused
	}
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
		return &Error{Kind: Failed, Source: s.lastSource, Err: err, Message: "rendering was stopped, for something calls itself without end: look for templates that include themselves"}
	case stderr.contains("out of memory", "cannot allocate memory", "failed to allocate"):
		problem := s.memoryError()
		problem.Source, problem.Err = s.lastSource, err
		return problem
	}
	message := "the worker ended while rendering"
	if line := stderr.firstLine(); line != "" {
		message += ": " + line
	} else if state := s.worker.command.ProcessState; state != nil {
		message += " (" + state.String() + ")"
	}
	return &Error{Kind: WorkerDied, Source: s.lastSource, Message: message + "; it is tried again", Err: err}
}
