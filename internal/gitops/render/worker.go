package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"os"
	"runtime/debug"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/confine"
	"slipway.dev/slipway/internal/gitops/render/directory"
	"slipway.dev/slipway/internal/gitops/render/frame"
	"slipway.dev/slipway/internal/gitops/render/helm"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/render/kustomize"
	"slipway.dev/slipway/internal/gitops/render/manifest"
	"slipway.dev/slipway/internal/gitops/tree"
)

// maxJob bounds a job: values in an Application can be long, but not longer
// than an object of Kubernetes.
const maxJob = 16 << 20

// ServeWorker is the main function of a worker: it confines the process, and
// then renders jobs until its input ends. The confinement cannot be undone, so
// that the process is of no other use afterwards.
func ServeWorker(in io.Reader, out io.Writer) error {
	// Libraries log what is in their errors already.
	log.SetOutput(io.Discard)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	w := &worker{out: frame.NewWriter(out), incoming: make(chan message)}
	go w.receive(in)
	var settings frame.Settings
	if payload, err := w.expect(frame.Hello); err != nil {
		return err
	} else if err := json.Unmarshal(payload, &settings); err != nil {
		return err
	}
	w.limits = confine.Apply(confine.Limits{MemoryBytes: settings.MemoryBytes, CPUSeconds: settings.CPUSeconds})
	if err := w.send(frame.Ready, frame.State{Missing: w.limits.Missing}); err != nil {
		return err
	}
	for {
		payload, err := w.expect(frame.Request)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.render(payload); err != nil {
			return err
		}
	}
}

// message is something that came in.
type message struct {
	kind    frame.Type
	payload []byte
	err     error
}

// worker is the other end of a process.
type worker struct {
	out      *frame.Writer
	incoming chan message
	limits   confine.State
}

// receive reads all the time, so that a worker whose renderer is gone ends at
// once, even in the middle of a template that never does. It is the only reader
// of the pipe. In tests, where the input is no file, the error is passed on
// instead of ending the process.
func (w *worker) receive(in io.Reader) {
	// The limit covers the largest job, and the largest file with its overhead.
	reader := frame.NewReader(in, maxJob+64<<20)
	for {
		kind, payload, err := reader.Next()
		if _, isProcess := in.(*os.File); err != nil && isProcess {
			os.Exit(0)
		}
		w.incoming <- message{kind, payload, err}
		if err != nil {
			return
		}
	}
}

// expect waits for a message of one type. Any other is an internal error of the
// renderer and ends the worker.
func (w *worker) expect(kind frame.Type) ([]byte, error) {
	got := <-w.incoming
	if got.err == nil && got.kind != kind {
		got.err = fmt.Errorf("a message of type %q came in place of %q", got.kind, kind)
	}
	return got.payload, got.err
}

// send writes one message and flushes.
func (w *worker) send(kind frame.Type, value any) error {
	if err := w.out.SendJSON(kind, value); err != nil {
		return err
	}
	return w.out.Flush()
}

// render renders a job and sends the result. Only an error of the pipe ends the
// worker.
func (w *worker) render(payload []byte) error {
	rendering := &rendering{worker: w}
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber() // values keep the spelling of their numbers
	if err := decoder.Decode(&rendering.job); err != nil {
		return err
	}
	// All sources share one Set, so that the limit is for the whole result.
	rendering.into = manifest.NewSet(rendering.job.OutputBytes)
	problem := rendering.run()
	if rendering.pipeErr != nil {
		return rendering.pipeErr
	}
	if problem != nil {
		problem.Exhausted = w.limits.Exhausted()
		return w.send(frame.Failed, problem)
	}
	// Objects are sent after all sources were rendered: a partial result must
	// never look complete.
	for _, object := range rendering.into.Objects() {
		if err := w.out.Send(frame.Object, object); err != nil {
			return err
		}
	}
	return w.send(frame.Done, frame.Report{
		Types: rendering.types, Warnings: rendering.into.Warnings(),
		Revision: rendering.revision, Exhausted: w.limits.Exhausted(),
	})
}

// rendering is one job under way.
type rendering struct {
	worker   *worker
	job      job.Job
	into     *manifest.Set
	types    []v1alpha1.SourceType
	revision bool
	source   int
	pipeErr  error // the renderer is gone
}

// run renders all sources. A panic of a library becomes a problem of the source
// that was being rendered; an overflow of the stack cannot be recovered and
// ends the worker.
func (r *rendering) run() (problem *frame.Failure) {
	defer func() {
		if reason := recover(); reason != nil {
			debug.PrintStack() // to the end of stderr, which the renderer keeps
			problem = &frame.Failure{Source: r.source, Panicked: true, Message: fmt.Sprintf("it cannot be rendered: %v", reason)}
		}
		if problem != nil {
			problem.Revision = r.revision
		}
	}()
	all := make([]job.Files, len(r.job.Sources))
	refs := map[string]job.Files{}
	for i := range all {
		all[i] = &remoteFiles{rendering: r, source: i, responses: map[string]fileResponse{}}
		if ref := r.job.Sources[i].Source.Ref; ref != "" {
			refs[ref] = all[i]
		}
	}
	for i := range r.job.Sources {
		r.source = i
		kind, err := r.render(&r.job.Sources[i], all[i], refs)
		if err != nil {
			return failureOf(i, err)
		}
		r.types = append(r.types, kind)
	}
	return nil
}

// render renders one source.
func (r *rendering) render(source *job.Source, files job.Files, refs map[string]job.Files) (v1alpha1.SourceType, error) {
	if source.OnlyFiles {
		return "", nil
	}
	if err := checkFolder(files, source.Path); err != nil {
		return "", err
	}
	if err := applyOverrides(files, r.job.App, source); err != nil {
		return "", err
	}
	// Overrides go first: they may contain variables.
	variables := newVariables(&r.job, source)
	variables.apply(source)
	r.revision = r.revision || variables.revision
	kind, err := sourceType(files, source)
	if err != nil {
		return "", err
	}
	switch kind {
	case v1alpha1.SourceHelm:
		err = helm.Render(helm.Request{Job: &r.job, Source: source, Files: files, Refs: refs}, r.into)
	case v1alpha1.SourceKustomize:
		err = kustomize.Render(files, source, r.into)
	default:
		err = directory.Render(files, source, r.into)
	}
	return kind, err
}

// checkFolder returns a clear error if the folder of the application is
// missing, before an engine fails with one of its own.
func checkFolder(files job.Files, folder string) error {
	entry, err := files.Stat(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the folder %q does not exist: correct the path of the source", folder)
	case err != nil:
		return err
	case entry.Kind == tree.Submodule:
		_, err := files.List(folder)
		return err // the error names the submodule and the way out
	case entry.Kind != tree.Folder:
		return fmt.Errorf("%q is not a folder: correct the path of the source", folder)
	}
	return nil
}

// failureOf classifies an error for the renderer. Error types do not survive
// the pipe, so that their kinds are sent as flags.
func failureOf(source int, err error) *frame.Failure {
	var refused *refusal.Refusal
	return &frame.Failure{
		Source:  source,
		Refused: errors.As(err, &refused),
		Large:   errors.Is(err, manifest.ErrTooLarge),
		Message: err.Error(),
	}
}
