// Package job is the request to a render worker, and what the engines share:
// the files that they may read, and refusals.
//
// A job can be sent to another process and means the same there.
package job

import (
	"fmt"
	"strings"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/tree"
)

// Job is one request for objects.
type Job struct {
	App         string   `json:"app"`
	Project     string   `json:"project"`
	Namespace   string   `json:"namespace"`
	KubeVersion string   `json:"kubeVersion"`
	APIVersions []string `json:"apiVersions"`
	Sources     []Source `json:"sources"`
	OutputBytes int64    `json:"outputBytes"`
}

// Source is one source of a Job. Its files are requested by its index.
type Source struct {
	Source v1alpha1.ApplicationSource `json:"source"`
	// Path is the folder of the application.
	Path     string `json:"path"`
	Revision string `json:"revision"`
	// Chart: the files are a chart from a chart repository.
	Chart bool `json:"chart"`
	// OnlyFiles: nothing is rendered, other sources read its files.
	OnlyFiles bool `json:"onlyFiles"`
}

// Files is what an engine may read. A *[tree.View] is one.
type Files interface {
	Stat(path string) (tree.Entry, error)
	Read(path string) ([]byte, error)
	List(path string) ([]tree.Entry, error)
}

// Refusal is an error about something that is never done, for instance to run a
// program. A *[tree.Refusal] is the same for a file.
type Refusal struct {
	Message string
}

// Error is the message.
func (r *Refusal) Error() string { return r.Message }

// Refuse makes a Refusal.
func Refuse(format string, args ...any) error {
	return &Refusal{Message: fmt.Sprintf(format, args...)}
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
