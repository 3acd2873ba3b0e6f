package render

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"slipway.dev/slipway/internal/gitops/render/frame"
	"slipway.dev/slipway/internal/gitops/render/manifest"
	"slipway.dev/slipway/internal/gitops/tree"
)

// remoteFiles are the files of a source, which a worker asks its renderer for.
// What was answered is kept until the job is over.
type remoteFiles struct {
	rendering *rendering
	source    int
	responses map[string]fileResponse
}

type fileResponse struct {
	text    []byte
	entries []tree.Entry
	err     error
}

// Stat tells the kind of a path.
func (f *remoteFiles) Stat(name string) (tree.Entry, error) {
	answer := f.request(frame.Stat, name)
	if answer.err != nil || len(answer.entries) != 1 {
		return tree.Entry{}, answer.err
	}
	return answer.entries[0], nil
}

// List is the entries of a folder.
func (f *remoteFiles) List(name string) ([]tree.Entry, error) {
	answer := f.request(frame.List, name)
	return answer.entries, answer.err
}

// Read is the content of a file. YAML that expands to much more is refused here
// once, whoever reads it.
func (f *remoteFiles) Read(name string) ([]byte, error) {
	answer := f.request(frame.Read, name)
	return answer.text, answer.err
}

func (f *remoteFiles) request(kind frame.Type, name string) fileResponse {
	key := string(kind) + name
	answer, ok := f.responses[key]
	if !ok {
		answer = f.fetch(kind, name)
		if answer.err == nil && kind == frame.Read && isYAML(name) {
			answer.err = manifest.CheckAliases(name, answer.text, f.rendering.job.OutputBytes)
		}
		f.responses[key] = answer
	}
	return answer
}

func isYAML(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml":
		return true
	}
	return strings.HasSuffix(name, "Kustomization")
}

// fetch asks the renderer. A pipe that is broken ends the job.
func (f *remoteFiles) fetch(kind frame.Type, name string) fileResponse {
	worker := f.rendering.worker
	if err := worker.send(kind, frame.FileRequest{Source: f.source, Path: name}); err != nil {
		return f.broken(err)
	}
	got := <-worker.incoming
	if got.err != nil {
		return f.broken(got.err)
	}
	switch got.kind {
	case frame.Content:
		return fileResponse{text: got.payload}
	case frame.Listing:
		var entries []tree.Entry
		if err := json.Unmarshal(got.payload, &entries); err != nil {
			return f.broken(err)
		}
		return fileResponse{entries: entries}
	case frame.Missing:
		return fileResponse{err: &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}}
	case frame.Refused:
		var refusal frame.Refusal
		if err := json.Unmarshal(got.payload, &refusal); err != nil {
			return f.broken(err)
		}
		return fileResponse{err: &tree.Refusal{Path: refusal.Path, Reason: refusal.Reason, Pointer: refusal.Pointer}}
	}
	return f.broken(fmt.Errorf("a message of type %q is no answer", got.kind))
}

func (f *remoteFiles) broken(err error) fileResponse {
	f.rendering.pipeErr = err
	return fileResponse{err: err}
}
