// Package chart renders the charts with Helm's library: what an installation
// would send to a cluster, without a cluster.
//
// It promises that values are checked against the chart's schema first, and
// that objects come in the order of their files, hooks apart from the rest.
//
// It refuses a chart that needs a newer Kubernetes.
package chart

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// hookAnnotation marks an object that exists during an operation only.
const hookAnnotation = "helm.sh/hook"

// testedKubernetes is the newest version that the charts are tested with.
// Helm's library has no version of its own.
const testedKubernetes = "v1.37.0"

// notesFile is the text that Helm shows after an installation.
const notesFile = "NOTES.txt"

// Chart is a loaded chart.
type Chart struct{ loaded *helmchart.Chart }

// Load reads a chart from a folder, or from an archive as Helm packs it.
func Load(place string) (*Chart, error) {
	loaded, err := loader.Load(place)
	if err != nil {
		return nil, fmt.Errorf("read the chart %s: %w", place, err)
	}
	if err := loaded.Validate(); err != nil {
		return nil, fmt.Errorf("the chart %s: %w", place, err)
	}
	return &Chart{loaded}, nil
}

// Read reads the archive of a chart.
func Read(archive []byte) (*Chart, error) {
	loaded, err := loader.LoadArchive(bytes.NewReader(archive))
	if err != nil {
		return nil, fmt.Errorf("read the chart: %w", err)
	}
	return &Chart{loaded}, loaded.Validate()
}

// New returns a chart that is loaded already.
func New(loaded *helmchart.Chart) *Chart { return &Chart{loaded} }

// Version is that of the chart.
func (c *Chart) Version() string { return c.loaded.Metadata.Version }

// Release is what a chart is rendered for.
type Release struct {
	Name, Namespace string
	// Upgrade is set if there is a release already.
	Upgrade bool
	// Kubernetes is the version of the cluster; empty is the newest that is tested.
	Kubernetes string
}

// Rendered is the result of a render.
type Rendered struct {
	Objects []*unstructured.Unstructured
	Hooks   []*unstructured.Unstructured
	Notes   string
}

// Render renders a chart with values over its defaults. It has no connection to
// a cluster, so the template function lookup returns nothing.
func (c *Chart) Render(ctx context.Context, values map[string]any, release Release) (Rendered, error) {
	capabilities := common.DefaultCapabilities.Copy()
	version, err := common.ParseKubeVersion(cmp.Or(release.Kubernetes, testedKubernetes))
	if err != nil {
		return Rendered{}, fmt.Errorf("%q is no version of Kubernetes: %w", release.Kubernetes, err)
	}
	capabilities.KubeVersion = *version
	// Helm's install action checks the version of Kubernetes, its engine does
	// not.
	if needed := c.loaded.Metadata.KubeVersion; needed != "" && !chartutil.IsCompatibleRange(needed, capabilities.KubeVersion.String()) {
		return Rendered{}, fmt.Errorf("the chart needs Kubernetes %s, and the cluster has %s: upgrade the cluster", needed, capabilities.KubeVersion.Version)
	}
	options := common.ReleaseOptions{
		Name: release.Name, Namespace: release.Namespace, Revision: 1, IsInstall: !release.Upgrade, IsUpgrade: release.Upgrade,
	}
	// The values are merged over the defaults and validated against the schema
	// here.
	prepared, err := commonutil.ToRenderValues(c.loaded, values, options, capabilities)
	if err != nil {
		return Rendered{}, fmt.Errorf("the values: %w", err)
	}
	files, err := engine.Engine{}.RenderWithContext(ctx, c.loaded, prepared)
	if err != nil {
		return Rendered{}, fmt.Errorf("render the chart: %w", err)
	}
	return collect(files)
}

// collect sorts rendered files into objects, hooks and notes.
func collect(files map[string]string) (Rendered, error) {
	var made Rendered
	var problems []error
	// The engine returns a map. Sorting makes the order stable.
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Base(name) == notesFile {
			made.Notes = files[name]
			continue
		}
		for document := range strings.SplitSeq(files[name], "\n---\n") {
			content := map[string]any{}
			if err := yaml.UnmarshalStrict([]byte(document), &content); err != nil {
				problems = append(problems, fmt.Errorf("%s is no YAML: %w", name, err))
				continue
			}
			// A template whose conditions are all false renders an empty
			// document.
			if len(content) == 0 {
				continue
			}
			object := &unstructured.Unstructured{Object: content}
			if object.GetAnnotations()[hookAnnotation] != "" {
				made.Hooks = append(made.Hooks, object)
			} else {
				made.Objects = append(made.Objects, object)
			}
		}
	}
	return made, errors.Join(problems...)
}
