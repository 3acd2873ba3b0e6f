// Package revert writes to Git what a rollback did to a cluster: the files of an
// Application become those of a past sync again, by a commit to the branch that it
// syncs from, or by a pull request.
//
//	plan      what has to change in which repository
//	write     commits and pull requests
//
// The folders and files of the past revision come back by their ids, so that the
// commit is small whatever changed in between. Other files of the repository stay as
// they are.
//
// It refuses Applications whose sources themselves have changed since: Git does not
// have what is in the Application about them.
package revert

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"k8s.io/apimachinery/pkg/api/equality"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/source/objects"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/gitops/tree"
)

// generatePaths is the annotation that names the folders of an Application beside
// that of its source.
const generatePaths = "argocd.argoproj.io/manifest-generate-paths"

// StateError is an Application that cannot be reverted as it is.
type StateError struct{ message string }

// Error returns the reason.
func (e *StateError) Error() string { return e.message }

// refuse makes a StateError.
func refuse(format string, args ...any) error { return &StateError{fmt.Sprintf(format, args...)} }

// pastSource is a Git source and the revision that it goes back to.
type pastSource struct {
	source   v1alpha1.ApplicationSource
	revision string
	// paths are the files and folders of the Application there.
	paths []string
}

// pastSources finds the Git sources of an Application at a past sync.
func pastSources(app *v1alpha1.Application, past *v1alpha1.SyncOperation) ([]pastSource, error) {
	now, before, revisions := app.Spec.AllSources(), past.Sources, past.Revisions
	if past.Source != nil {
		before, revisions = []v1alpha1.ApplicationSource{*past.Source}, []string{past.Revision}
	}
	// Revisions belong to sources by their place in the list.
	if len(now) != len(before) || len(revisions) != len(before) {
		return nil, refuse("the Application has other sources than at that sync: change them back first")
	}
	var found []pastSource
	for i := range now {
		if !sameSource(now[i], before[i]) {
			return nil, refuse("the source %s of the Application has changed since that sync: change it back first, which no commit to the repository does", now[i].RepoURL)
		}
		// A chart comes from its repository by a version. Its values can still be in Git.
		if now[i].Chart != "" {
			if now[i].TargetRevision != before[i].TargetRevision {
				return nil, refuse("the version of the chart %s is in the Application: change it back there", now[i].Chart)
			}
			continue
		}
		found = append(found, pastSource{source: now[i], revision: revisions[i]})
	}
	if len(found) == 0 {
		return nil, refuse("the Application has no source in Git")
	}
	return found, addPaths(app, found)
}

// sameSource reports whether two sources differ in their revision alone.
func sameSource(x, y v1alpha1.ApplicationSource) bool {
	if x.Chart == "" {
		x.TargetRevision, y.TargetRevision = "", ""
	} else {
		y.TargetRevision = x.TargetRevision
	}
	return equality.Semantic.DeepEqual(x, y)
}

// addPaths finds the files and folders of each source: its path, the files of Helm
// values, which can be in a source that they reference, and what the annotation names.
func addPaths(app *v1alpha1.Application, sources []pastSource) error {
	add := func(to *pastSource, name string) error {
		clean := strings.TrimPrefix(path.Clean("/"+name), "/")
		if strings.HasPrefix(path.Clean(name), "../") {
			return refuse("the path %s leaves the repository", name)
		}
		to.paths = append(to.paths, clean)
		return nil
	}
	for i := range sources {
		one := &sources[i]
		// A source with ref and without a path renders nothing itself.
		folder := one.source.Path
		if folder != "" || one.source.Ref == "" {
			if err := add(one, folder); err != nil {
				return err
			}
		}
		for name := range strings.SplitSeq(app.Annotations[generatePaths], ";") {
			if name = strings.TrimSpace(name); name == "" || folder == "" {
				continue
			}
			// As in Argo CD: relative to the path of the source, or from the root.
			if !strings.HasPrefix(name, "/") {
				name = path.Join(folder, name)
			}
			if err := add(one, strings.TrimPrefix(name, "/")); err != nil {
				return err
			}
		}
		if err := addValues(sources, one, add); err != nil {
			return err
		}
	}
	// A folder and a file below it would be restored twice, and the folder alone is
	// enough.
	for i := range sources {
		sources[i].paths = outermost(sources[i].paths)
	}
	return nil
}

// addValues finds the files of Helm values of a source. Those with an address are in no
// repository.
func addValues(sources []pastSource, of *pastSource, add func(*pastSource, string) error) error {
	if of.source.Helm == nil {
		return nil
	}
	for _, name := range of.source.Helm.ValueFiles {
		reference, rest, found := strings.Cut(name, "/")
		switch {
		case strings.Contains(name, "://") || strings.Contains(name, "*"):
		// $values/prod.yaml is in the source with ref: values, from its root.
		case strings.HasPrefix(name, "$") && found:
			at := slices.IndexFunc(sources, func(one pastSource) bool { return "$"+one.source.Ref == reference })
			if at < 0 {
				continue
			}
			if err := add(&sources[at], rest); err != nil {
				return err
			}
		case strings.HasPrefix(name, "/"):
			if err := add(of, name[1:]); err != nil {
				return err
			}
		default:
			if err := add(of, path.Join(of.source.Path, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// outermost removes paths that are below others.
func outermost(paths []string) []string {
	// Sorted, a folder comes before what is below it.
	slices.Sort(paths)
	var kept []string
	for _, one := range paths {
		if !slices.ContainsFunc(kept, func(above string) bool {
			return above == "" || one == above || strings.HasPrefix(one, above+"/")
		}) {
			kept = append(kept, one)
		}
	}
	return kept
}

// restored is an object of the past revision; its id is zero if there was none.
type restored struct {
	path string
	mode filemode.FileMode
	id   objects.ID
}

// pastObjects finds the objects of the past revision.
func pastObjects(store tree.Store, paths []string) ([]restored, error) {
	var found []restored
	for _, name := range paths {
		// A path that was added later has no entry, and goes away.
		entry, err := store.Entry(name)
		if errors.Is(err, fs.ErrNotExist) {
			found = append(found, restored{path: name})
			continue
		}
		if err != nil {
			return nil, err
		}
		id, ok := remote.ParseID(entry.Hash)
		if !ok {
			return nil, refuse("%s has no id in Git", cmp.Or(name, "the repository"))
		}
		mode := filemode.Regular
		switch {
		case entry.Kind == tree.Folder:
			mode = filemode.Dir
		case entry.Kind == tree.File && entry.Executable:
			mode = filemode.Executable
		case entry.Kind != tree.File:
			return nil, refuse("%s is a link or a submodule, which is not reverted", name)
		}
		found = append(found, restored{path: name, mode: mode, id: id})
	}
	return found, nil
}
