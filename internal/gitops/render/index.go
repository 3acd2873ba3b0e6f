package render

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/frame"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/source/helmindex"
)

// chunkBytes is how much of a file or result is in memory of the renderer at a
// time.
const chunkBytes = 256 << 10

// CompactIndex reads the index of a Helm repository in a worker, and passes its
// compact form to take, piece by piece. The compact form has at most limit
// bytes. An index beyond a limit is a *[refusal.Refusal]. It is read in the turn
// of a project.
func (r *Renderer) CompactIndex(ctx context.Context, project string, index io.ReaderAt, limit int64, take func([]byte) error) error {
	if err := waitForSlot(ctx, r.inputSlots, project); err != nil {
		return err
	}
	defer r.inputSlots.Release(project)
	_, err := r.attempt(ctx, func() task { return &indexTask{index: index, limit: limit, take: take} })
	problem, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	switch problem.Kind {
	case TooSlow, OutOfMemory, TooLarge, Refused:
		return refusal.New("index.yaml", refusal.TooLarge, "%s", problem.Message)
	}
	return problem
}

// indexTask compacts one index.
type indexTask struct {
	index io.ReaderAt
	limit int64
	take  func([]byte) error
	// err is the error of index or take.
	err error
}

// job has no content: the worker requests the file.
func (t *indexTask) job() *job.Job { return &job.Job{Index: true} }

// limits has the time of a render.
func (t *indexTask) limits(options *Options) limits {
	return limits{time: options.Timeout, bytes: t.limit}
}

// wording names the options of the agent: the index belongs to no Application.
func (t *indexTask) wording() wording {
	return wording{
		activity: "reading the index",
		slow:     "make the index smaller, or raise render.timeout of the agent",
		memory:   "make the index smaller, or raise render.memoryLimit of the agent",
	}
}

// message serves chunks of the file and takes the compact form.
func (t *indexTask) message(s *session, kind frame.Type, payload []byte) *Error {
	switch kind {
	case frame.Chunk:
		return t.chunk(s, payload)
	case frame.Object:
		if !s.output(payload) {
			return &Error{Kind: TooLarge, Message: "the compact form of the index is larger than it may be"}
		}
		if t.err = t.take(payload); t.err != nil {
			s.worker.kill()
			return &Error{Kind: Unavailable}
		}
		return nil
	}
	return s.unexpected(kind)
}

// chunk sends a part of the file.
func (t *indexTask) chunk(s *session, payload []byte) *Error {
	var wanted frame.ChunkRequest
	if err := json.Unmarshal(payload, &wanted); err != nil || wanted.Offset < 0 {
		return s.workerDied(errors.New("its request cannot be read"))
	}
	content := make([]byte, chunkBytes)
	size, err := t.index.ReadAt(content, wanted.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		t.err = err
		s.worker.kill()
		return &Error{Kind: Unavailable}
	}
	return s.respond(func(writer *frame.Writer) error { return writer.Send(frame.Content, content[:size]) })
}

// done has nothing to add.
func (t *indexTask) done(*session, *frame.Report) *Error { return nil }

// failed has nothing to add: refusals of the index name their limits.
func (t *indexTask) failed(*session, *frame.Failure, *Error) {}

// unavailable is the error of the disk.
func (t *indexTask) unavailable() *Error {
	if t.err == nil {
		return nil
	}
	return &Error{Kind: Unavailable, Message: "the index cannot be read: " + t.err.Error(), Err: t.err}
}

// compactIndex is the worker's side.
func (c *call) compactIndex() error {
	file := &remoteFile{call: c}
	// Each read of the file is a round trip; the buffer is as large as a chunk.
	compact, err := helmindex.Compact(&seekable{Reader: bufio.NewReaderSize(file, chunkBytes), file: file}, c.job.OutputBytes)
	if err != nil {
		return err
	}
	c.output = slices.Collect(slices.Chunk(json.RawMessage(compact), chunkBytes))
	return nil
}

// remoteFile reads the one file of a job over the worker's pipe.
type remoteFile struct {
	call   *call
	offset int64
}

// Read requests the next chunk. It returns less than a chunk if the buffer is
// smaller.
func (f *remoteFile) Read(into []byte) (int, error) {
	got, err := f.call.request(frame.Chunk, frame.ChunkRequest{Offset: f.offset})
	switch {
	case err != nil:
		return 0, err
	case got.kind != frame.Content:
		return 0, f.call.unexpected(got.kind)
	case len(got.payload) == 0:
		return 0, io.EOF
	}
	size := copy(into, got.payload)
	f.offset += int64(size)
	return size, nil
}

// seekable starts a buffered remoteFile again.
type seekable struct {
	*bufio.Reader
	file *remoteFile
}

// Seek goes to the beginning, the only place that is needed.
func (s *seekable) Seek(int64, int) (int64, error) {
	s.file.offset = 0
	s.Reset(s.file)
	return 0, nil
}
