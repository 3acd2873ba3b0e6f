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

// backup is what the Shared Configuration Repository has of a runtime.
type backup struct {
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
	found             bool
}

// readBackup reads what the repository has of a runtime, at the head of its branch.
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
	text, there, err := files.Read(path.Join(folder, "values.yaml"))
	if err != nil || !there {
		return err
	}
	// The values are those of a subchart, below its name.
	var groups map[string]map[string]any
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
