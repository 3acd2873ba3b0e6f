package frame

import "slipway.dev/slipway/api/argo/v1alpha1"

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
	// Revision: the result depends on the names of the revisions.
	Revision bool `json:"revision"`
	// Panicked: the worker is not to be trusted any more.
	Panicked  bool `json:"panicked"`
	Exhausted bool `json:"tired"`
}
