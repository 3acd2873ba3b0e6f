package job

import (
	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/tree"
)

// Dependency names files of elsewhere that a source needs: a chart of a Helm
// repository or a registry, a Git repository at a revision, one file at an
// address, a file of a Git repository that Git LFS keeps, or what a config
// management plugin generates.
type Dependency struct {
	RepoURL  string `json:"repoURL"`
	File     bool   `json:"file,omitempty"`
	Chart    string `json:"chart,omitempty"`
	Revision string `json:"revision,omitempty"`
	// OID and Size are those of a file of Git LFS. Server is the address that
	// .lfsconfig has; without one it is the server of the repository.
	OID    string `json:"oid,omitempty"`
	Size   int64  `json:"size,omitempty"`
	Server string `json:"server,omitempty"`
	// Plugin is the options of a plugin, as JSON, and Input the number of the
	// source that it generates manifests of.
	Plugin string `json:"plugin,omitempty"`
	Input  int    `json:"input,omitempty"`
}

// FileName is the name of the only file of a dependency that is a file, or one of
// Git LFS.
const FileName = "file"

// PluginFile is the name of the only file of a dependency that a plugin
// generates: YAML, whose aliases are checked when it is read.
const PluginFile = "manifests.yaml"

// Source is a dependency that is no single file as a project admits it.
func (d Dependency) Source() v1alpha1.ApplicationSource {
	return v1alpha1.ApplicationSource{RepoURL: d.RepoURL, Chart: d.Chart, TargetRevision: d.Revision}
}

// MissingDependency is a dependency that a job does not have.
type MissingDependency struct {
	Dependency
	// By is what needs it, for messages.
	By string `json:"by"`
}

// Incomplete is the error of an engine that needs more than the job has. It
// lists all that can be seen at once, so that few renders are repeated.
type Incomplete struct{ Missing []MissingDependency }

// Error is for callers that fetch nothing.
func (e *Incomplete) Error() string {
	first := e.Missing[0]
	if first.OID != "" {
		return first.By + ", and its content is not fetched: " + tree.PointerAdvice
	}
	if first.Plugin != "" {
		return first.By + " generates the source, and config management plugins run beside the agent only: compare the Application in the console, or commit what the plugin generates"
	}
	if first.Chart == "" {
		return first.By + ", and nothing is fetched while rendering: copy it into the repository, or make it a source of its own"
	}
	return first.By + ", which is not in its folder charts: commit that folder, filled by \"helm dependency build\" or, for helmCharts, \"helm pull\""
}
