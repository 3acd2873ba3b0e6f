package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/wire"
)

// backup is the content of the Shared Configuration Repository for one runtime.
type backup struct {
	// commit is the head of the branch, which everything else was read at.
	commit string
	// values are nil if the runtime was not an Application of itself: then the
	// repository has none.
	values map[string]any
	// archive is the packed chart, and version its version.
	archive []byte
	version string
	// sources are the names of its Git Sources, and runtimes those of all runtimes in
	// the repository.
	sources, runtimes []string
	// found is set if the repository has a folder of the runtime.
	found bool
}

// readBackup reads the backup of a runtime at the head of the branch. All of it
// comes from one commit, so that values, chart and Git Sources belong together.
func readBackup(ctx context.Context, location wire.SharedRepository, access remote.Access, name string) (*backup, error) {
	repository, err := sharedrepo.Open(sharedrepo.Options{Location: location, Access: access})
	if err != nil {
		return nil, err
	}
	b := &backup{}
	b.commit, err = repository.View(ctx, func(files sharedrepo.Files) error { return b.read(files, name) })
	return b, err
}

// read reads the files of one commit.
func (b *backup) read(files sharedrepo.Files, name string) error {
	// The folders of all runtimes are listed, because the error for an unknown
	// name lists the known ones.
	all, err := files.List(path.Dir(sharedrepo.RuntimeFolder(name)))
	if err != nil {
		return err
	}
	b.runtimes = parentFolders(all)
	b.found = slices.Contains(b.runtimes, name)
	own, err := files.List(sharedrepo.GitSourceFolder(name))
	if err != nil {
		return err
	}
	folder := sharedrepo.ChartFolder(name)
	for _, file := range own {
		base := path.Base(file)
		// An archive is the chart. A YAML file directly in the folder declares
		// a Git Source; one in a subfolder does not.
		switch {
		case strings.HasSuffix(file, ".tgz") && strings.HasPrefix(base, sharedrepo.ChartName+"-"):
			b.archive, _, err = files.Read(path.Join(folder, "charts", base))
			b.version = strings.TrimSuffix(strings.TrimPrefix(base, sharedrepo.ChartName+"-"), ".tgz")
		case strings.HasSuffix(file, ".yaml") && !strings.Contains(strings.TrimPrefix(file, sharedrepo.GitSourceFolder(name)+"/"), "/"):
			b.sources = append(b.sources, strings.TrimSuffix(base, ".yaml"))
		}
		if err != nil {
			return err
		}
	}
	// A runtime that is no Application of itself has no values here, which is
	// no error: the caller uses those of the command line.
	text, there, err := files.Read(path.Join(folder, "values.yaml"))
	if err != nil || !there {
		return err
	}
	// The values are those of a subchart, below its name.
	var groups map[string]map[string]any
	// The decoder's error is dropped, because it may quote part of a secret.
	if err := yaml.Unmarshal(text, &groups); err != nil {
		return fmt.Errorf("%s/values.yaml is no YAML of values", folder)
	}
	b.values = groups[sharedrepo.ChartName]
	return nil
}

// parentFolders returns the names of the folders that files are in, sorted, each
// once.
func parentFolders(files []string) []string {
	seen := map[string]bool{}
	for _, file := range files {
		if parts := strings.Split(file, "/"); len(parts) >= 2 {
			seen[parts[len(parts)-2]] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
