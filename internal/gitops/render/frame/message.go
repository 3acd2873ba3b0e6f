package frame

import (
	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/render/job"
)

// Settings are how a worker limits itself. It is the payload of Hello.
type Settings struct {
	MemoryBytes int64 `json:"memoryBytes"`
	CPUSeconds  int64 `json:"cpuSeconds"`
}

// State is what a worker has done about its Settings. It is the payload of
// Ready.
type State struct {
	// Missing are limits that the system does not permit.
	Missing []string `json:"missing"`
}

// FileRequest names a path of a source. It is the payload of Stat, Read and
// List.
type FileRequest struct {
	Source int    `json:"source"`
	Path   string `json:"path"`
}

// ChunkRequest names a place in the one file of a job. It is the payload of
// Chunk. The response is Content, which is empty at the end of the file.
type ChunkRequest struct {
	Offset int64 `json:"offset"`
}

// TreeRequest names a repository and a revision. It is the payload of Tree.
type TreeRequest struct {
	RepoURL  string `json:"repoURL"`
	Revision string `json:"revision"`
}

// OpenedTree is the response to Tree: its files are requested as those of a
// source.
type OpenedTree struct {
	Source int    `json:"source"`
	Commit string `json:"commit"`
}

// FleetRequest selects clusters by their labels. It is the payload of Fleet.
type FleetRequest struct {
	Selector string `json:"selector"`
}

// FetchRequest is a generator whose input comes from elsewhere; one of them is
// set. It is the payload of Fetch.
type FetchRequest struct {
	// Set is the name of the ApplicationSet.
	Set         string                         `json:"set,omitzero"`
	SCMProvider *v1alpha1.SCMProviderGenerator `json:"scmProvider,omitzero"`
	PullRequest *v1alpha1.PullRequestGenerator `json:"pullRequest,omitzero"`
	Plugin      *v1alpha1.PluginGenerator      `json:"plugin,omitzero"`
	Decision    *v1alpha1.DuckTypeGenerator    `json:"decision,omitzero"`
}

// Report is the end of a job that is done. It is the payload of Done.
type Report struct {
	Types    []v1alpha1.SourceType `json:"types"`
	Warnings []string              `json:"warnings"`
	// Revision: the result depends on the names of the revisions.
	Revision bool `json:"revision"`
	// Exhausted: the worker has used so much CPU time that it needs to be replaced.
	Exhausted bool `json:"tired"`
}

// Failure is the end of a job that is not done. It is the payload of Failed.
type Failure struct {
	Source  int    `json:"source"`
	Refused bool   `json:"refused"`
	Large   bool   `json:"large"`
	Message string `json:"message"`
	// Missing are dependencies without which there is no result.
	Missing []job.MissingDependency `json:"missing,omitempty"`
	// Revision: the result depends on the names of the revisions.
	Revision bool `json:"revision"`
	// Panicked: the worker is not to be trusted any more.
	Panicked  bool `json:"panicked"`
	Exhausted bool `json:"tired"`
}
