package appcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"slipway.dev/slipway/internal/cli/localrepo"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tree"
)

// inputs returns the sources of an Application with their files: of a local
// folder, or fetched into a temporary folder that the returned function
// removes. After an error the caller has nothing to clean up. The comparison can
// fetch what the sources need of elsewhere, unless the folder is local.
func (f *diffFlags) inputs(ctx context.Context, cluster *appCluster, compared *inspect.Comparison, warnings io.Writer) ([]render.Input, func(), error) {
	sources := compared.App.Spec.AllSources()
	if f.local != "" {
		// Nothing is fetched and no credential is read for a local folder.
		store, err := tree.NewFolder(f.local)
		if err != nil {
			return nil, nil, fmt.Errorf("read the folder %s: %w", f.local, err)
		}
		inputs, err := localrepo.Inputs(sources, store)
		return inputs, func() {}, err
	}
	if f.revision != "" {
		if len(sources) != 1 {
			return nil, nil, errors.New("the Application has several sources, and --revision is for one")
		}
		// The slice may share its array with the Application; only this command
		// uses it.
		sources[0].TargetRevision = f.revision
	}
	book, err := cluster.Credentials(ctx, f.controlNamespace, func(text string) {
		_, _ = fmt.Fprintln(warnings, text, "With --local nothing is fetched.")
	})
	if err != nil {
		return nil, nil, err
	}
	// A temporary cache: the command must not touch the agent's.
	folder, err := os.MkdirTemp("", "slipway-diff-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { _ = os.RemoveAll(folder) }
	fetched, err := source.New(source.Options{Folder: folder, Credentials: book})
	if err != nil {
		remove()
		return nil, nil, err
	}
	closeAll := func() {
		_ = fetched.Close()
		remove()
	}
	inputs, err := compared.Fetch(ctx, fetched, sources)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	return inputs, closeAll, nil
}
