package render

import (
	"context"
	"path"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/tree"
)

// Request is what to render, and for which cluster.
type Request struct {
	// App is the name of the Application, which is also that of the release.
	App string
	// Project is the name of its AppProject, for variables.
	Project string
	// Namespace is that of the destination.
	Namespace string
	// KubeVersion and APIVersions are those of the cluster.
	KubeVersion string
	APIVersions []string
	Inputs      []Input
	// Dependencies are files of elsewhere that the sources may need.
	Dependencies []DependencyFiles
	// Resolve fetches a dependency that the request lacks; without it such a
	// source is refused. No worker is occupied meanwhile, and the render is
	// repeated with what was fetched. An error that is [ErrPending] lets the
	// others of the render be requested too.
	Resolve func(context.Context, Dependency) (tree.Store, error)
	// Lookup is an object of the cluster as JSON for the function lookup of
	// charts; nil if there is none. Without it lookup finds nothing.
	Lookup func(Lookup) ([]byte, error)
	Limits Limits
}

// Input is one source with its files. One that has a Ref and neither a path nor
// a chart renders nothing: it has files for the others.
type Input struct {
	Source v1alpha1.ApplicationSource
	Store  tree.Store
	// Path is the folder of the application in the Store; "" is its root.
	Path     string
	Revision string
	// Chart: the Store is a chart from a chart repository.
	Chart bool
	// Plugin is the config management plugin that matches an Untyped input; empty
	// if none does.
	Plugin string
}

// Untyped reports whether the files decide how the input is rendered, so that a
// config management plugin may match it.
func (i *Input) Untyped() bool {
	given := &i.Source
	return !i.OnlyFiles() && !isGiven(given.Helm) && !isGiven(given.Kustomize) && !isGiven(given.Directory) && (given.Plugin == nil || given.Plugin.Name == "")
}

// folder is Path as the Store spells it.
func (i *Input) folder() string { return strings.TrimPrefix(path.Clean("/"+i.Path), "/") }

// OnlyFiles reports whether the input is there for the others.
func (i *Input) OnlyFiles() bool {
	return i.Source.Ref != "" && i.Source.Path == "" && i.Source.Chart == "" && !i.Chart
}

// Limits bound one request. What is zero is as in Options.
type Limits struct {
	Files       tree.Limits
	Timeout     time.Duration
	OutputBytes int64
}

// Result is what was rendered.
type Result struct {
	// Objects are of JSON types, in the order of the inputs.
	Objects []*unstructured.Unstructured
	// Types is how each input was rendered; it is empty for an input that only
	// has files for the others.
	Types    []v1alpha1.SourceType
	Warnings []string
	// Key is a hash of everything in the request that decides the result, but
	// for the files.
	Key string
	// Reads is what was read of each input.
	Reads []tree.Reads
	// Dependencies are those that were read.
	Dependencies []Dependency

	basis basis
}

// Holds reports whether a request, on these or other revisions, gives this very
// result, because everything that was read is the same.
func (r *Result) Holds(request Request) bool { return r.basis.holds(&request) }
