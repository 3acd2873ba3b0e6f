package render

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/frame"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/render/manifest"
	"slipway.dev/slipway/internal/gitops/tree"
)

// remoteFiles reads the files of a source over the worker's pipe. Responses are
// cached until the job ends, because engines read the same files many times and
// a round trip is slow. One goroutine renders a job, so that the cache needs no
// lock.
type remoteFiles struct {
	call      *call
	source    int
	responses map[string]fileResponse
	// dependencies are where submodules and files of Git LFS are read from, and
	// address is that of the repository. Without them both are refused.
	dependencies map[job.Dependency]job.Files
	address      string
	// repository: it is one of Git, which may have files of Git LFS.
	repository bool
	// nested is how many submodules lead to the repository.
	nested int
}

// fileResponse is the cached response for one path. Errors are cached too.
type fileResponse struct {
	text    []byte
	entries []tree.Entry
	err     error
}

// Stat returns the kind of a path.
func (f *remoteFiles) Stat(name string) (tree.Entry, error) {
	response := f.request(frame.Stat, name)
	if response.err != nil || len(response.entries) != 1 {
		return tree.Entry{}, response.err
	}
	return response.entries[0], nil
}

// List is the entries of a folder. A submodule is one, as after a checkout.
func (f *remoteFiles) List(name string) ([]tree.Entry, error) {
	response := f.request(frame.List, name)
	for i := range response.entries {
		if f.dependencies != nil && response.entries[i].Kind == tree.Submodule {
			response.entries[i].Kind = tree.Folder
		}
	}
	return response.entries, response.err
}

// Read returns the content of a file. YAML with excessive aliases is refused
// here, once for all engines.
func (f *remoteFiles) Read(name string) ([]byte, error) {
	response := f.request(frame.Read, name)
	if incomplete, ok := errors.AsType[*job.Incomplete](response.err); ok {
		// Engines may make text of the error.
		f.call.lacks(incomplete.Missing...)
	}
	return response.text, response.err
}

// Peek is Read for a file that may not be needed: it does not make the job
// incomplete.
func (f *remoteFiles) Peek(name string) ([]byte, error) {
	response := f.request(frame.Read, name)
	return response.text, response.err
}

// request returns the cached response or fetches it. The key has the type of
// the request in its first byte.
func (f *remoteFiles) request(kind frame.Type, name string) fileResponse {
	key := string(kind) + name
	response, ok := f.responses[key]
	if !ok {
		response = f.fetch(kind, name)
		if response.err == nil && kind == frame.Read && isYAML(name) {
			response.err = manifest.CheckAliases(name, response.text, f.call.job.OutputBytes)
		}
		f.responses[key] = response
	}
	return response
}

// isYAML reports whether parsers with alias expansion read the file.
func isYAML(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml":
		return true
	}
	return strings.HasSuffix(name, "Kustomization")
}

// fetch sends a request to the renderer and converts the response.
func (f *remoteFiles) fetch(kind frame.Type, name string) fileResponse {
	got, err := f.call.request(kind, frame.FileRequest{Source: f.source, Path: name})
	if err != nil {
		return fileResponse{err: err}
	}
	switch got.kind {
	case frame.Content:
		return fileResponse{text: got.payload}
	case frame.Listing:
		var entries []tree.Entry
		if err := json.Unmarshal(got.payload, &entries); err != nil {
			return fileResponse{err: f.call.broken(err)}
		}
		return fileResponse{entries: entries}
	case frame.Missing:
		return fileResponse{err: &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}}
	case frame.Module:
		module := &tree.InSubmodule{}
		if err := json.Unmarshal(got.payload, module); err != nil {
			return fileResponse{err: f.call.broken(err)}
		}
		return f.submodule(kind, module)
	case frame.Pointer:
		pointer := &tree.Pointer{}
		if err := json.Unmarshal(got.payload, pointer); err != nil {
			return fileResponse{err: f.call.broken(err)}
		}
		return f.pointer(pointer)
	case frame.Refused:
		refused := &refusal.Refusal{}
		if err := json.Unmarshal(got.payload, refused); err != nil {
			return fileResponse{err: f.call.broken(err)}
		}
		return fileResponse{err: refused}
	}
	return fileResponse{err: f.call.unexpected(got.kind)}
}
