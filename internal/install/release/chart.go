package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/registry"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/install/chart"
	"slipway.dev/slipway/internal/preflight"
)

// pullTime bounds fetching a chart from a registry.
const pullTime = 2 * time.Minute

// ociPrefix starts the address of a chart in a registry.
const ociPrefix = "oci://"

// Chart is an installable chart.
type Chart struct {
	loaded *helmchart.Chart
	// crds are the definitions in the chart's folder crds. Helm would apply
	// them in an installation only and never upgrade them.
	crds []*unstructured.Unstructured
}

// Version is that of the chart.
func (c *Chart) Version() string { return c.loaded.Metadata.Version }

// Name is that of the chart.
func (c *Chart) Name() string { return c.loaded.Metadata.Name }

// ReadChart reads a packed chart.
func ReadChart(archive []byte) (*Chart, error) {
	loaded, err := loader.LoadArchive(bytes.NewReader(archive))
	if err != nil {
		return nil, fmt.Errorf("read the chart: %w", err)
	}
	return newChart(loaded)
}

// Source is the location of a chart.
type Source struct {
	// Place is a folder, an archive or oci://registry/repository.
	Place string
	// Version is for a registry; empty is the newest. Elsewhere it has to be that of
	// the chart.
	Version string
	// PlainHTTP is for a registry without TLS.
	PlainHTTP bool
}

// FindChart loads a chart from a folder, an archive or a registry.
func FindChart(ctx context.Context, from Source) (*Chart, error) {
	if strings.HasPrefix(from.Place, ociPrefix) {
		return pullChart(ctx, from)
	}
	// The loader's own error does not name the forms that are accepted.
	if _, err := os.Stat(from.Place); err != nil {
		return nil, fmt.Errorf("there is no chart at %s: name a folder, an archive, or oci://registry/repository", from.Place)
	}
	loaded, err := loader.Load(from.Place)
	if err != nil {
		return nil, fmt.Errorf("read the chart %s: %w", from.Place, err)
	}
	if from.Version != "" && loaded.Metadata != nil && loaded.Metadata.Version != from.Version {
		return nil, fmt.Errorf("the chart at %s has the version %s, and not %s: leave the version out, or name another chart", from.Place, loaded.Metadata.Version, from.Version)
	}
	return newChart(loaded)
}

// pullChart fetches a chart. Helm's library cannot be interrupted, so a fetch
// that takes too long is left behind in its goroutine.
func pullChart(ctx context.Context, from Source) (*Chart, error) {
	options := []registry.ClientOption{}
	if from.PlainHTTP {
		options = append(options, registry.ClientOptPlainHTTP())
	}
	client, err := registry.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("prepare the registry: %w", err)
	}
	type pulled struct {
		archive []byte
		err     error
	}
	// The channel is buffered, so that a fetch which was left behind can end.
	results := make(chan pulled, 1)
	go func() {
		archive, err := pullArchive(client, from)
		results <- pulled{archive, err}
	}()
	ctx, cancel := context.WithTimeout(ctx, pullTime)
	defer cancel()
	select {
	case result := <-results:
		if result.err != nil {
			return nil, fmt.Errorf("fetch the chart %s: %w", from.Place, result.err)
		}
		return ReadChart(result.archive)
	case <-ctx.Done():
		return nil, fmt.Errorf("fetch the chart %s: %w", from.Place, context.Cause(ctx))
	}
}

// pullArchive fetches the archive of a chart.
func pullArchive(client *registry.Client, from Source) ([]byte, error) {
	reference := strings.TrimPrefix(from.Place, ociPrefix)
	version := from.Version
	// Helm returns the tags in the order of semantic versions, newest first.
	if version == "" {
		tags, err := client.Tags(reference)
		if err != nil {
			return nil, err
		}
		if len(tags) == 0 {
			return nil, errors.New("the repository has no versions")
		}
		version = tags[0] // the newest: they come in order
	}
	response, err := client.Pull(reference+":"+version, registry.PullOptWithChart(true))
	if err != nil {
		return nil, err
	}
	return response.Chart.Data, nil
}

// newChart checks that a chart can be installed.
func newChart(loaded *helmchart.Chart) (*Chart, error) {
	if err := loaded.Validate(); err != nil {
		return nil, fmt.Errorf("the chart: %w", err)
	}
	made := &Chart{loaded: loaded}
	// The definitions of subcharts are included.
	for _, one := range loaded.CRDObjects() {
		objects, err := objectsOf(string(one.File.Data))
		if err != nil {
			return nil, fmt.Errorf("the chart's %s: %w", one.Name, err)
		}
		made.crds = append(made.crds, objects...)
	}
	return made, nil
}

// Objects returns what the chart installs with the values, hooks included. It
// needs no cluster: the preflight checks derive the permissions from it before
// anything is read with them.
func (c *Chart) Objects(ctx context.Context, place Place, values map[string]any) ([]preflight.Object, error) {
	rendered, err := chart.New(c.loaded).Render(ctx, values, chart.Release{Name: place.Release, Namespace: place.Namespace})
	if err != nil {
		return nil, err
	}
	var all []preflight.Object
	add := func(objects []*unstructured.Unstructured, hook bool) {
		for _, one := range objects {
			all = append(all, preflight.Object{GroupVersionKind: one.GroupVersionKind(), Namespace: one.GetNamespace(), Name: one.GetName(), Hook: hook})
		}
	}
	add(rendered.Objects, false)
	add(rendered.Hooks, true)
	return all, nil
}

// Older reports whether a version precedes another. Versions that cannot be
// compared are an error.
func Older(version, than string) (bool, error) {
	a, err := semver.NewVersion(version)
	if err != nil {
		return false, fmt.Errorf("%q is no version: %w", version, err)
	}
	b, err := semver.NewVersion(than)
	if err != nil {
		return false, fmt.Errorf("%q is no version: %w", than, err)
	}
	return a.LessThan(b), nil
}
