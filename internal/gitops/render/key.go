package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/tree"
)

// requestKey is a hash of everything in a request that decides the result, but
// for the files and the names of their revisions. Only charts and plugins see the
// cluster: a new kind in it must not render everything else again. The order of
// API versions and their duplicates do not change the key.
func requestKey(request *Request, cluster bool) string {
	type input struct {
		Source v1alpha1.ApplicationSource
		Path   string
		Chart  bool
		Plugin string
	}
	// The order of the kinds is that of discovery and means nothing.
	version, versions := "", []string(nil)
	if cluster {
		version, versions = request.KubeVersion, slices.Clone(request.APIVersions)
		slices.Sort(versions)
	}
	content := struct {
		Version                              int
		App, Project, Namespace, KubeVersion string
		APIVersions                          []string
		Lookup                               bool
		Inputs                               []input
	}{1, request.App, request.Project, request.Namespace, version, slices.Compact(versions), cluster && request.Lookup != nil, nil}
	for i := range request.Inputs {
		given := &request.Inputs[i]
		content.Inputs = append(content.Inputs, input{given.Source, given.folder(), given.Chart, given.Plugin})
	}
	text, err := json.Marshal(content)
	if err != nil {
		return "" // values that are not JSON; then nothing holds
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// basis is what a result depends on.
type basis struct {
	key   string
	reads []tree.Reads
	// dependencies are what was read of elsewhere.
	dependencies []dependencyReads
	// lookups are what charts read of the cluster.
	lookups map[Lookup]string
	// cluster: the key covers the version and the kinds of the cluster.
	cluster bool
	// revisions are their names, if the result depends on them.
	revisions []string
}

// newBasis captures the dependencies of a result when it is complete.
func (t *renderTask) newBasis(cluster, revision bool) basis {
	request, views := t.request, t.views
	b := basis{key: requestKey(request, cluster), cluster: cluster, lookups: t.lookups}
	for i, dependency := range request.Dependencies {
		// A plugin is a function of the key and the revision.
		if dependency.Plugin != "" {
			continue
		}
		// What was not read does not count: the sources do not need it any more.
		if reads := views[len(request.Inputs)+i].Reads(); reads.Len() > 0 {
			b.dependencies = append(b.dependencies, dependencyReads{dependency.Dependency, reads})
		}
	}
	for i, view := range views[:len(request.Inputs)] {
		b.reads = append(b.reads, view.Reads())
		if revision {
			b.revisions = append(b.revisions, request.Inputs[i].Revision)
		}
	}
	return b
}

// holds reports whether a request depends on the same. It is called for each
// Application on every new commit, so that it has to be much cheaper than a
// render.
func (b *basis) holds(request *Request) bool {
	if b.key == "" || len(b.reads) != len(request.Inputs) || b.key != requestKey(request, b.cluster) {
		return false
	}
	// Cheap comparisons go first; Reads.Same reads the Store.
	for i, revision := range b.revisions {
		if request.Inputs[i].Revision != revision {
			return false
		}
	}
	for i := range b.reads {
		if request.Inputs[i].Store == nil || !b.reads[i].Same(request.Inputs[i].Store) {
			return false
		}
	}
	for i := range b.dependencies {
		if !b.dependencies[i].same(request) {
			return false
		}
	}
	for wanted, digest := range b.lookups {
		if found, err := request.Lookup(wanted); err != nil || lookupDigest(found) != digest {
			return false
		}
	}
	return true
}
