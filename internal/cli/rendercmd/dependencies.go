package rendercmd

import (
	"context"
	"errors"
	"fmt"
	"os"

	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tree"
)

// dependencies fetches what a folder needs of elsewhere into a temporary folder,
// which is made for the first of them: most folders need nothing. It has no
// credentials, as there is no cluster to read them from.
type dependencies struct {
	indexes source.Indexes
	folder  string
	sources *source.Sources
}

// resolve fetches one.
func (d *dependencies) resolve(ctx context.Context, wanted render.Dependency) (tree.Store, error) {
	if wanted.OID != "" {
		return nil, errors.New("its content is not in the folder: get it with \"git lfs pull\"")
	}
	if d.sources == nil {
		folder, err := os.MkdirTemp("", "slipway-render-")
		if err != nil {
			return nil, err
		}
		d.folder = folder
		if d.sources, err = source.New(source.Options{Folder: folder, Indexes: d.indexes}); err != nil {
			return nil, err
		}
	}
	store, err := d.sources.Dependencies(project.Unlimited(""), -1)(ctx, wanted)
	if source.IsKind(err, source.Denied) {
		err = fmt.Errorf("%w; this command has no credentials: get the chart with \"helm dependency build\" first, or run slipway app diff APP", err)
	}
	return store, err
}

// close removes what was fetched.
func (d *dependencies) close() error {
	if d.folder == "" {
		return nil
	}
	var err error
	if d.sources != nil {
		err = d.sources.Close()
	}
	return errors.Join(err, os.RemoveAll(d.folder))
}
