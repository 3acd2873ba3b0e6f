// Package localrepo makes render inputs of a folder on this machine, which
// stands for the repository of an Application's sources.
package localrepo

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tree"
)

// Inputs returns the render inputs of an Application's sources, all with the
// files of store. Charts are refused: they come from a registry and not from
// the folder.
func Inputs(sources []v1alpha1.ApplicationSource, store tree.Store) ([]render.Input, error) {
	var inputs []render.Input
	for _, source := range sources {
		if source.Chart != "" {
			return nil, fmt.Errorf("the chart %s is not in a folder of this machine: slipway app diff APP fetches charts", source.Chart)
		}
		folder, err := CleanPath(source.Path)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, render.Input{Source: source, Store: store, Path: folder})
	}
	return inputs, nil
}

// CleanPath returns a folder in the form of a tree.Store, where the root is
// empty. It refuses absolute paths and paths that leave the repository, so that
// a manifest cannot read other files of the machine.
func CleanPath(folder string) (string, error) {
	cleaned := path.Clean(filepath.ToSlash(folder))
	switch {
	case cleaned == ".":
		return "", nil
	case !fs.ValidPath(cleaned):
		return "", fmt.Errorf("the path %q leaves the repository: write one below its root, such as apps/web", folder)
	}
	return cleaned, nil
}
