package kustomize

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/helm"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/render/manifest"
)

// charts renders the entries of helmCharts as Kustomize does with "helm pull" and
// "helm template", and makes their objects resources of the kustomization. It
// reports whether there are any. Kustomize runs no program for them.
func (s *scanner) charts(folder, file string, parsed *types.Kustomization) (bool, error) {
	home := types.HelmDefaultHome
	if globals := parsed.HelmGlobals; globals != nil {
		if globals.ConfigHome != "" {
			return false, refusal.New(file, refusal.Unsupported, "helmGlobals.configHome is for the program helm, which is not run (CVE-2026-113709): remove it")
		}
		home = cmp.Or(globals.ChartHome, home)
	}
	entries := parsed.HelmCharts
	parsed.HelmCharts, parsed.HelmGlobals = nil, nil
	for i := range entries {
		objects, err := s.chart(folder, file, home, &entries[i])
		if incomplete, ok := errors.AsType[*job.Incomplete](err); ok {
			s.missing = append(s.missing, incomplete.Missing...)
			continue
		}
		if err != nil {
			return false, fmt.Errorf("%s: helmCharts: %s: %w", file, short(entries[i].Name), err)
		}
		name := fmt.Sprintf(".slipway-chart-%d.yaml", i)
		s.disk.edited[local(path.Join(folder, name))] = objects
		parsed.Resources = append(parsed.Resources, name)
	}
	return len(entries) > 0, nil
}

// chart is the objects of one entry, as a text with one document for each.
func (s *scanner) chart(folder, file, home string, entry *types.HelmChart) ([]byte, error) {
	if entry.Name == "" || entry.NameTemplate != "" {
		return nil, refusal.New(file, refusal.Unsupported, "a chart has a name and no nameTemplate")
	}
	values, err := s.chartValues(folder, file, entry)
	if err != nil {
		return nil, err
	}
	request, err := s.chartRequest(folder, file, home, entry)
	if err != nil {
		return nil, err
	}
	request.Source.Source.Helm = &v1alpha1.ApplicationSourceHelm{
		// Helm would make a name of the time, which is another one in each render.
		ReleaseName: cmp.Or(entry.ReleaseName, "release-name"), Namespace: cmp.Or(entry.Namespace, "default"),
		ValuesObject: values, SkipCrds: !entry.IncludeCRDs, SkipTests: entry.SkipTests,
		KubeVersion: cmp.Or(s.options.KubeVersion, entry.KubeVersion), APIVersions: entry.ApiVersions,
	}
	if len(s.options.APIVersions) > 0 {
		request.Source.Source.Helm.APIVersions = s.options.APIVersions
	}
	set := manifest.NewSet(s.job.OutputBytes)
	if err := helm.Render(*request, set); err != nil {
		return nil, err
	}
	for _, warning := range set.Warnings() {
		s.into.Warn("%s", warning)
	}
	return marked(set.Objects())
}

// marked is objects with the annotation by which Kustomize leaves their
// namespaces to Helm. It removes the annotation at the end.
func marked(objects []json.RawMessage) ([]byte, error) {
	var out bytes.Buffer
	for _, text := range objects {
		var object map[string]any
		if err := json.Unmarshal(text, &object); err != nil {
			return nil, err
		}
		metadata, _ := object["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
			object["metadata"] = metadata
		}
		annotations, _ := metadata["annotations"].(map[string]any)
		if annotations == nil {
			annotations = map[string]any{}
			metadata["annotations"] = annotations
		}
		annotations[konfig.HelmGeneratedAnnotation] = "true"
		marked, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(marked)
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}

// chartRequest finds the chart: in the folder of charts, or in its repository.
func (s *scanner) chartRequest(folder, file, home string, entry *types.HelmChart) (*helm.Request, error) {
	at := path.Join(home, entry.Name)
	if entry.Version != "" && entry.Repo != "" {
		at = path.Join(home, entry.Name+"-"+entry.Version, entry.Name)
	}
	if err := checkEntry(folder, file, "helmGlobals.chartHome", at); err != nil {
		return nil, err
	}
	request := &helm.Request{Job: s.job, Source: &job.Source{}, Dependencies: s.disk.dependencies, SkipHooks: entry.SkipHooks}
	if s.disk.IsDir(path.Join(folder, at)) {
		request.Files, request.Source.Path = s.disk.place(path.Join(folder, at))
		return request, nil
	}
	if entry.Repo == "" {
		return nil, refusal.New(file, refusal.NotFound, "the chart is not in %s and has no repo: add one of them", at)
	}
	wanted := job.Dependency{RepoURL: strings.TrimSuffix(entry.Repo, "/"), Chart: entry.Name, Revision: helm.Revision(entry.Version)}
	files, found := s.disk.dependencies[wanted]
	if !found {
		by := strings.TrimSpace(fmt.Sprintf("%s: helmCharts has the chart %s %s", file, short(entry.Name), short(entry.Version)))
		return nil, &job.Incomplete{Missing: []job.MissingDependency{{Dependency: wanted, By: by}}}
	}
	request.Files = files
	return request, nil
}

// chartValues are the values of an entry: its file and valuesInline, of which
// valuesMerge decides which wins, and then the additional files.
func (s *scanner) chartValues(folder, file string, entry *types.HelmChart) (map[string]any, error) {
	values, err := s.valuesFile(folder, file, "valuesFile", entry.ValuesFile)
	if err != nil {
		return nil, err
	}
	switch entry.ValuesMerge {
	case "", "override":
		values = loader.MergeMaps(values, entry.ValuesInline)
	case "merge":
		values = loader.MergeMaps(entry.ValuesInline, values)
	case "replace":
		if len(entry.ValuesInline) > 0 {
			values = entry.ValuesInline
		}
	default:
		return nil, refusal.New(file, refusal.Invalid, "valuesMerge is %q: write merge, override or replace", short(entry.ValuesMerge))
	}
	for _, name := range entry.AdditionalValuesFiles {
		more, err := s.valuesFile(folder, file, "additionalValuesFiles", name)
		if err != nil {
			return nil, err
		}
		values = loader.MergeMaps(values, more)
	}
	return values, nil
}

// valuesFile reads a file of values, which is below the kustomization.
func (s *scanner) valuesFile(folder, file, name, entry string) (map[string]any, error) {
	if entry == "" {
		return nil, nil
	}
	if err := checkEntry(folder, file, "helmCharts."+name, entry); err != nil {
		return nil, err
	}
	text, err := s.disk.ReadFile(path.Join(folder, entry))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %q does not exist", name, short(entry))
	}
	if err != nil {
		return nil, err
	}
	values, err := loader.LoadValues(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", entry, err)
	}
	return values, nil
}
