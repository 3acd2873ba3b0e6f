package helm

import (
	"errors"
	"maps"
	"slices"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	release "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"

	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/render/manifest"
)

// notes is the suffix of the file that Helm prints for people after an
// installation. It is no manifest.
const notes = "NOTES.txt"

// part is one entry of the output of "helm template": what stands between two
// comments "# Source: …".
type part struct {
	name string // of the file
	text string
	// rendered is the whole output of the template; a part is a piece of it.
	rendered string
}

// collect adds the objects of a chart: its definitions, then the output of its
// templates, then its hooks.
//
// The objects are those that Argo CD finds in the output of "helm template",
// down to the last byte: which text is one object, where it ends, and the
// order, which decides when two objects have the same name. To get there, the
// text takes the same steps. Helm splits each rendered file wherever a line
// begins with "---", also with text directly behind it, and prints the parts.
// Argo CD splits that output once more, by the rules of kubectl.
func (r *Request) collect(loaded *chart.Chart, rendered map[string]string, into *manifest.Set) error {
	parts, err := r.output(loaded, rendered, into)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := into.AddHelm(part.name, part.text+"\n", part.line); err != nil {
			return err
		}
	}
	return nil
}

// output is what "helm template" prints, in its order.
func (r *Request) output(loaded *chart.Chart, rendered map[string]string, into *manifest.Set) ([]part, error) {
	options := r.options()
	// Notes go first: they are text for people, which SortManifests could fail
	// to parse as YAML.
	for name := range rendered {
		if strings.HasSuffix(name, notes) {
			delete(rendered, name)
		}
	}
	// Helm's own function, so that its rules need no copy here.
	hooks, generic, err := releaseutil.SortManifests(rendered, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, errors.New(job.Shorten(err.Error()))
	}
	// From here on the order is that of "helm template": definitions, objects,
	// hooks.
	var parts []part
	if !options.SkipCrds {
		definitions := loaded.CRDObjects()
		// Helm gives the dependencies of a chart in any order.
		slices.SortStableFunc(definitions, func(a, b chart.CRD) int { return strings.Compare(a.Filename, b.Filename) })
		for _, definition := range definitions {
			text := string(definition.File.Data)
			parts = append(parts, part{definition.Filename, text, text})
		}
	}
	for _, entry := range generic {
		parts = append(parts, part{entry.Name, entry.Content, rendered[entry.Name]})
	}
	// Helm trims the text of all objects that are no hooks before it prints it,
	// which can only change the end of the last one.
	if last := len(parts) - 1; last >= 0 {
		parts[last].text = strings.TrimSpace(parts[last].text)
	}
	for _, hook := range hooks {
		if r.SkipHooks || options.SkipTests && slices.Contains(hook.Events, release.HookTest) {
			continue
		}
		parts = append(parts, part{hook.Path, hook.Manifest, rendered[hook.Path]})
	}
	warnSkipped(rendered, hooks, generic, into)
	return parts, nil
}

// line is the line of the rendered file at which the part begins, from 1. Equal
// parts of one file get the line of the first one, which is good enough for
// messages.
func (p part) line() int {
	before, _, found := strings.Cut(p.rendered, p.text)
	if !found {
		return 1
	}
	return strings.Count(before, "\n") + 1
}

// warnSkipped reports objects that Helm leaves out because their annotation
// names a hook that does not exist, such as crd-install of Helm 2. Without the
// warning, an object in Git would be missing from the cluster with no trace in
// the status.
func warnSkipped(rendered map[string]string, hooks []*release.Hook, generic []releaseutil.Manifest, into *manifest.Set) {
	type entry struct{ name, text string }
	kept := map[entry]bool{}
	for _, hook := range hooks {
		kept[entry{hook.Path, hook.Manifest}] = true
	}
	for _, other := range generic {
		kept[entry{other.Name, other.Content}] = true
	}
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if !strings.Contains(rendered[name], release.HookAnnotation) {
			continue // Helm leaves out nothing else
		}
		for _, text := range releaseutil.SplitManifests(rendered[name]) {
			if !kept[entry{name, text}] {
				into.Warn("%s has an object with a %s that does not exist; Helm leaves it out, and so it is left out here", name, release.HookAnnotation)
			}
		}
	}
}
