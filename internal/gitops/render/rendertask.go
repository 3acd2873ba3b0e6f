package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/frame"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/render/manifest"
	"slipway.dev/slipway/internal/gitops/tree"
)

// renderTask renders one request.
type renderTask struct {
	request *Request
	views   []*tree.View
	result  Result
	// lookups are the digests of what charts read of the cluster, and lookupErr is
	// why one of them failed.
	lookups   map[Lookup]string
	lookupErr error
}

// newRenderTask begins to read the files of each input.
func newRenderTask(request *Request) *renderTask {
	return &renderTask{request: request, views: newViews(request), lookups: map[Lookup]string{}}
}

// job has the sources without their files.
func (t *renderTask) job() *job.Job { return t.request.Job() }

// Job is the request as a worker gets it.
func (r *Request) Job() *job.Job {
	work := &job.Job{
		App: r.App, Project: r.Project, Namespace: r.Namespace,
		KubeVersion: r.KubeVersion, APIVersions: r.APIVersions, Lookup: r.Lookup != nil,
	}
	for i := range r.Inputs {
		input := &r.Inputs[i]
		work.Sources = append(work.Sources, job.Source{
			Source: input.Source, Path: input.folder(), Revision: input.Revision, Chart: input.Chart, Plugin: input.Plugin, OnlyFiles: input.OnlyFiles(),
		})
	}
	for _, dependency := range r.Dependencies {
		work.Dependencies = append(work.Dependencies, dependency.Dependency)
	}
	return work
}

// limits are those of the request. It can lower the limits of the Options but
// not raise them.
func (t *renderTask) limits(options *Options) limits {
	limit := limits{time: options.Timeout, bytes: options.OutputBytes}
	if given := t.request.Limits.Timeout; given > 0 {
		limit.time = min(given, limit.time)
	}
	if given := t.request.Limits.OutputBytes; given > 0 {
		limit.bytes = min(given, limit.bytes)
	}
	return limit
}

// wording blames the templates.
func (t *renderTask) wording() wording {
	return wording{
		activity: "rendering",
		slow:     "look for a loop in the templates, or raise the timeout of renders",
		memory:   "look for something in the templates that grows without end, or raise the memory limit of renders",
	}
}

// message serves files and takes objects.
func (t *renderTask) message(s *session, kind frame.Type, payload []byte) *Error {
	switch kind {
	case frame.Stat, frame.Read, frame.List:
		source := s.lastSource
		problem := serveFile(s, t.views, kind, payload)
		if s.lastSource >= len(t.request.Inputs) {
			s.lastSource = source // a dependency is read for the source before
		}
		return problem
	case frame.Lookup:
		return t.lookup(s, payload)
	case frame.Object:
		return t.object(s, payload)
	}
	return s.unexpected(kind)
}

// serveFile responds to a request for a file. Errors of the Store are sent as
// refusals; the task reports their cause afterwards.
func serveFile[F job.Files](s *session, all []F, kind frame.Type, payload []byte) *Error {
	var wanted frame.FileRequest
	if err := json.Unmarshal(payload, &wanted); err != nil {
		return s.workerDied(err)
	}
	// The worker is untrusted after it has read a template.
	if wanted.Source < 0 || wanted.Source >= len(all) {
		return s.workerDied(fmt.Errorf("it requests the source %d, which is not there", wanted.Source))
	}
	s.lastSource = wanted.Source
	files := all[wanted.Source]
	var entries []tree.Entry
	var content []byte
	var err error
	switch kind {
	case frame.Stat:
		var entry tree.Entry
		entry, err = files.Stat(wanted.Path)
		entries = []tree.Entry{entry}
	case frame.List:
		entries, err = files.List(wanted.Path)
	default:
		content, err = files.Read(wanted.Path)
	}
	var refused *refusal.Refusal
	var module *tree.InSubmodule
	var pointer *tree.Pointer
	return s.respond(func(writer *frame.Writer) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return writer.Send(frame.Missing, nil)
		case errors.As(err, &module):
			return writer.SendJSON(frame.Module, module)
		case errors.As(err, &pointer):
			return writer.SendJSON(frame.Pointer, pointer)
		case errors.As(err, &refused):
			return writer.SendJSON(frame.Refused, refused)
		case err != nil:
			return writer.SendJSON(frame.Refused, refusal.New(wanted.Path, refusal.Unreadable, "it cannot be read"))
		case kind == frame.Read:
			return writer.Send(frame.Content, content)
		}
		return writer.SendJSON(frame.Listing, entries)
	})
}

// object takes one object. The worker has checked it; that it did is checked
// again where memory depends on it.
func (t *renderTask) object(s *session, payload []byte) *Error {
	if !s.output(payload) || !manifest.WithinValues(payload) {
		s.worker.kill()
		return t.tooLarge(s)
	}
	var content map[string]any
	if err := utiljson.Unmarshal(payload, &content); err != nil {
		return s.workerDied(err)
	}
	t.result.Objects = append(t.result.Objects, &unstructured.Unstructured{Object: content})
	return nil
}

// tooLarge is the error of a render that exceeds the output limit.
func (t *renderTask) tooLarge(s *session) *Error {
	return &Error{Kind: TooLarge, Source: s.lastSource, Message: fmt.Sprintf("the objects are larger than %d bytes, or have more than %d values: "+
		"split the application, or raise the output limit of renders", s.limit.bytes, manifest.MaxValues), basis: t.newBasis(true, false)}
}

// done completes the result. The result depends on the cluster only if a chart
// was rendered or a plugin called; other sources cannot see it.
func (t *renderTask) done(s *session, report *frame.Report) *Error {
	if len(report.Types) != len(t.request.Inputs) {
		return s.workerDied(errors.New("its report cannot be read"))
	}
	t.result.Types, t.result.Warnings = report.Types, report.Warnings
	t.result.basis = t.newBasis(SeesCluster(report.Types), report.Revision)
	t.result.Key, t.result.Reads = t.result.basis.key, t.result.basis.reads
	for _, dependency := range t.result.basis.dependencies {
		t.result.Dependencies = append(t.result.Dependencies, dependency.Dependency)
	}
	return nil
}

// SeesCluster reports whether a source of one of the types may depend on the
// version and the kinds of the cluster.
func SeesCluster(types []v1alpha1.SourceType) bool {
	return slices.Contains(types, v1alpha1.SourceHelm) || slices.Contains(types, v1alpha1.SourcePlugin)
}

// failed adds what the error depends on. It holds for other requests with the
// same files, so that a broken commit is rendered once.
func (t *renderTask) failed(s *session, report *frame.Failure, problem *Error) {
	problem.basis = t.newBasis(true, report.Revision)
	problem.missing = report.Missing
	if report.Large {
		limit := t.tooLarge(s)
		problem.Kind, problem.Message = limit.Kind, limit.Message
	}
}

// unavailable is the failure of a Store or of the cluster, even if the worker
// reported another error.
func (t *renderTask) unavailable() *Error {
	if t.lookupErr != nil {
		return &Error{Kind: Unavailable, Source: -1, Message: "an object that a chart looks up cannot be read: " + t.lookupErr.Error(), Err: t.lookupErr}
	}
	for i, view := range t.views {
		if err := view.Failure(); err != nil {
			if i >= len(t.request.Inputs) {
				i = -1
			}
			return &Error{Kind: Unavailable, Source: i, Message: "files cannot be read: " + err.Error(), Err: err}
		}
	}
	return nil
}
