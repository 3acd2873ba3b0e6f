// Package job is the request to a render worker, and what the engines share:
// the files that they may read.
//
// A job can be sent to another process and means the same there.
package job

import (
	"encoding/json"
	"strings"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/analysis/evaluate"
	"slipway.dev/slipway/internal/gitops/notify/message"
	"slipway.dev/slipway/internal/gitops/tree"
)

// Job is one request for objects, or what else its last fields name.
type Job struct {
	App         string   `json:"app"`
	Project     string   `json:"project"`
	Namespace   string   `json:"namespace"`
	KubeVersion string   `json:"kubeVersion"`
	APIVersions []string `json:"apiVersions"`
	Sources     []Source `json:"sources"`
	// Dependencies are what the job has of elsewhere. Their files are requested
	// by the numbers after those of the sources.
	Dependencies []Dependency `json:"dependencies,omitempty"`
	OutputBytes  int64        `json:"outputBytes"`
	// Lookup: charts may read objects of the cluster.
	Lookup bool `json:"lookup,omitempty"`
	// Index: the compact form of an index of a Helm repository is wanted. Its
	// file is requested in chunks.
	Index bool `json:"index,omitempty"`
	// Set is an ApplicationSet whose Applications are wanted.
	Set json.RawMessage `json:"set,omitempty"`
	// Script is a Lua script whose result is wanted.
	Script *Script `json:"script,omitempty"`
	// Measurement is a response of a metrics provider whose evaluation is wanted.
	Measurement *evaluate.Request `json:"measurement,omitempty"`
	// Notification has triggers and templates of notifications.
	Notification *message.Request `json:"notification,omitempty"`
}

// Script is a script of the settings and the object that it is about.
type Script struct {
	Source     string            `json:"source"`
	Object     json.RawMessage   `json:"object"`
	Parameters map[string]string `json:"parameters,omitempty"`
	Now        time.Time         `json:"now"`
}

// Source is one source of a Job. Its files are requested by its index.
type Source struct {
	Source v1alpha1.ApplicationSource `json:"source"`
	// Path is the folder of the application.
	Path     string `json:"path"`
	Revision string `json:"revision"`
	// Chart: the files are a chart from a chart repository.
	Chart bool `json:"chart"`
	// Plugin is the config management plugin that matches the source, if its
	// options name none.
	Plugin string `json:"plugin,omitempty"`
	// OnlyFiles: nothing is rendered, other sources read its files.
	OnlyFiles bool `json:"onlyFiles"`
}

// Lookup names an object of the cluster, as the function lookup of Helm does.
type Lookup struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// Files is what an engine may read. A *[tree.View] is one.
type Files interface {
	Stat(path string) (tree.Entry, error)
	Read(path string) ([]byte, error)
	List(path string) ([]tree.Entry, error)
}

// Peek reads a file that may not be needed. One that Git LFS keeps, and that the
// job does not have, is an error that does not yet make the job incomplete; only
// Read does.
func Peek(files Files, path string) ([]byte, error) {
	if able, ok := files.(interface {
		Peek(path string) ([]byte, error)
	}); ok {
		return able.Peek(path)
	}
	return files.Read(path)
}

// Shorten keeps the beginning and the end of a text: libraries put all that
// they were doing into an error, and the reason last.
func Shorten(text string) string {
	const most = 600
	text = strings.TrimSpace(strings.ToValidUTF8(text, "?"))
	if len(text) <= 2*most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " [...] " + strings.ToValidUTF8(text[len(text)-most:], "")
}
