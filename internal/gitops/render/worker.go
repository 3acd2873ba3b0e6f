package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"runtime/debug"

	"slipway.dev/slipway/internal/gitops/render/confine"
	"slipway.dev/slipway/internal/gitops/render/frame"
)

// maxJob bounds a job: values in an Application can be long, but not longer
// than an object of Kubernetes.
const maxJob = 16 << 20

// workerGCPercent makes the garbage collector run three times as often as the default:
// there are as many workers as processors, and a render is short.
const workerGCPercent = 30

// ServeWorker is the main function of a worker: it confines the process, and
// then renders jobs until its input ends. The confinement cannot be undone, so
// that the process is of no other use afterwards.
func ServeWorker(in io.Reader, out io.Writer) error {
	// Libraries log what is in their errors already.
	log.SetOutput(io.Discard)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	debug.SetGCPercent(workerGCPercent)
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
		if err := w.run(payload); err != nil {
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
