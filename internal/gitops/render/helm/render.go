// Package helm renders charts as "helm template" does: an installation without
// access to a cluster.
//
// Values are merged in Argo CD's order: those of the chart, valueFiles in their
// order, values or valuesObject, parameters, fileParameters. Objects are those
// of Helm's output as Argo CD parses it. Hooks keep their annotations; package
// plan gives them their meaning. The function getHostByName finds nothing, and
// lookup what the project of the Application may read. Functions whose result
// differs each time are warnings.
//
// Dependencies that are not in the folder charts are those that "helm dependency
// build" would get: of the same repository, or charts that the job has. What it
// does not have is a *[job.Incomplete].
//
// Value files at an address are files that the job has, or that it does not have yet.
//
// It refuses schemas at an address, and library charts.
package helm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/render/manifest"
)

// Request is a chart and what it is rendered with.
type Request struct {
	Job    *job.Job
	Source *job.Source
	Files  job.Files
	// Refs are the files of sources that value files name as $ref/path.
	Refs map[string]job.Files
	// Dependencies are charts of elsewhere that the job has.
	Dependencies map[job.Dependency]job.Files
	// SkipHooks leaves hooks out, as "helm template --no-hooks" does.
	SkipHooks bool
	// Lookup is an object of the cluster; without it the function lookup finds
	// nothing.
	Lookup func(job.Lookup) (map[string]any, error)
}

// options are never nil.
func (r *Request) options() *v1alpha1.ApplicationSourceHelm {
	if r.Source.Source.Helm != nil {
		return r.Source.Source.Helm
	}
	return &v1alpha1.ApplicationSourceHelm{}
}

// Render adds the objects of a chart. It has no timeout of its own: the parent
// ends a worker whose deadline is over, as a template can loop without checking
// a context.
func Render(request Request, into *manifest.Set) error {
	loaded, err := request.load()
	if err != nil {
		return err
	}
	if loaded.Metadata.Type == "library" {
		return refusal.New("", refusal.Unsupported, "the chart %s is a library, which has nothing to apply: use a chart that depends on it", loaded.Name())
	}
	values, err := request.values()
	if err != nil {
		return err
	}
	release, err := request.release()
	if err != nil {
		return err
	}
	capabilities, err := request.capabilities()
	if err != nil {
		return err
	}
	// Helm checks this before it renders, and so templates rely on it.
	if needed := loaded.Metadata.KubeVersion; needed != "" && !chartutil.IsCompatibleRange(needed, capabilities.KubeVersion.String()) {
		return fmt.Errorf("the chart needs Kubernetes %s, and the cluster has %s", needed, capabilities.KubeVersion.Version)
	}
	// Conditions, tags and import-values are applied before the values are
	// merged: they decide which subcharts take part.
	if err := chartutil.ProcessDependencies(loaded, values); err != nil {
		return fmt.Errorf("dependencies of the chart: %w", err)
	}
	prepared, err := request.prepare(loaded, values, release, capabilities)
	if err != nil {
		return err
	}
	// The engine has no client for the cluster, so that its own lookup returns an
	// empty map.
	watch := watchFunctions()
	if request.Lookup != nil {
		watch.functions["lookup"] = request.lookup(into)
	}
	rendered, err := engine.Engine{CustomTemplateFuncs: watch.functions}.RenderWithContext(context.Background(), loaded, prepared)
	if err != nil {
		return errors.New(job.Shorten(err.Error()))
	}
	watch.warn(loaded, into)
	return request.collect(loaded, rendered, into)
}

// prepare merges the values with those of the chart, and checks them against
// its schemas unless the Application skips that.
func (r *Request) prepare(loaded *chart.Chart, values map[string]any, release common.ReleaseOptions, capabilities *common.Capabilities) (common.Values, error) {
	// Helm's own check would read files and addresses, so that it is always off.
	prepared, err := commonutil.ToRenderValuesWithSchemaValidation(loaded, values, release, capabilities, true)
	if err != nil {
		return nil, errors.New(job.Shorten(err.Error()))
	}
	if r.options().SkipSchemaValidation {
		return prepared, nil
	}
	merged, err := prepared.Table("Values")
	if err != nil {
		return nil, err
	}
	return prepared, checkValues(loaded, merged)
}

// release is the value of .Release in templates. Every render is an
// installation: templates that depend on .Release.IsUpgrade would differ
// between the first sync and the second.
func (r *Request) release() (common.ReleaseOptions, error) {
	options := r.options()
	release := common.ReleaseOptions{
		Name:      r.Job.App,
		Namespace: r.Job.Namespace,
		Revision:  1,
		IsInstall: true,
	}
	if options.ReleaseName != "" {
		release.Name = options.ReleaseName
	}
	if options.Namespace != "" {
		release.Namespace = options.Namespace
	}
	if err := chartutil.ValidateReleaseName(release.Name); err != nil {
		return release, fmt.Errorf("the name of the release, %q, is not one that Helm allows (%w): set helm.releaseName", release.Name, err)
	}
	return release, nil
}

// capabilities is the value of .Capabilities in templates.
func (r *Request) capabilities() (*common.Capabilities, error) {
	capabilities := common.DefaultCapabilities.Copy()
	options := r.options()
	version, field := r.Job.KubeVersion, "the version of the cluster"
	if options.KubeVersion != "" {
		version, field = options.KubeVersion, "helm.kubeVersion"
	}
	if version != "" {
		parsed, err := common.ParseKubeVersion(version)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is not a version: %w", field, version, err)
		}
		capabilities.KubeVersion = *parsed
	}
	versions := r.Job.APIVersions
	if len(options.APIVersions) > 0 {
		versions = options.APIVersions
	}
	capabilities.APIVersions = slices.Concat(capabilities.APIVersions, versions)
	return capabilities, nil
}
