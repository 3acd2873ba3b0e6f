package job

import "slipway.dev/slipway/api/argo/v1alpha1"

// Dependency names files of elsewhere that a source needs: a chart of a Helm
// repository or a registry, a Git repository at a revision, or one file at an
// address.
type Dependency struct {
	RepoURL  string `json:"repoURL"`
	File     bool   `json:"file,omitempty"`
	Chart    string `json:"chart,omitempty"`
	Revision string `json:"revision,omitempty"`
}

// FileName is the name of the only file of a dependency that is a file.
const FileName = "file"

// Source is a dependency that is not a file as a project admits it.
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
	if first.Chart == "" {
		return first.By + ", and nothing is fetched while rendering: copy it into the repository, or make it a source of its own"
	}
	return first.By + ", which is not in its folder charts: commit that folder, filled by \"helm dependency build\" or, for helmCharts, \"helm pull\""
}
