package images

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"slipway.dev/slipway/internal/install/chart"
)

// RegistrySpec describes a private registry and how to pull from it.
type RegistrySpec struct {
	// Registry is where images are taken from, such as registry.example.com/mirror.
	Registry string
	// Digest pins the image; empty leaves the tag.
	Digest string
	// PullSecrets are Secrets of the namespace that images are pulled with.
	PullSecrets []string
}

// values returns the chart's values: one registry for all images.
func (w RegistrySpec) values() map[string]any {
	global := map[string]any{"imageRegistry": strings.TrimSuffix(w.Registry, "/")}
	if len(w.PullSecrets) > 0 {
		names := make([]any, 0, len(w.PullSecrets))
		for _, each := range w.PullSecrets {
			names = append(names, each)
		}
		global["imagePullSecrets"] = names
	}
	made := map[string]any{"global": global}
	if w.Digest != "" {
		made["image"] = map[string]any{"digest": w.Digest}
	}
	return made
}

// Values returns the values that make a chart pull its images from a private
// registry. The chart is rendered with them and the given ones, to see that no
// image is left out.
func Values(ctx context.Context, of *chart.Chart, given map[string]any, spec RegistrySpec) (map[string]any, error) {
	if spec.Registry == "" {
		return nil, errors.New("no registry is named")
	}
	made := spec.values()
	rendered, err := of.Render(ctx, Merged(given, made), Release())
	if err != nil {
		return nil, err
	}
	prefix := strings.TrimSuffix(spec.Registry, "/") + "/"
	// The given values may set an image to another registry, which a private
	// cluster cannot reach.
	for _, image := range List(rendered) {
		if !strings.HasPrefix(image.Reference, prefix) {
			return nil, fmt.Errorf("%s of %s does not come from %s: the values name it elsewhere", image.Reference, strings.Join(image.UsedBy, ", "), spec.Registry)
		}
	}
	return made, nil
}

// Release is what a chart is rendered for if only its images matter.
func Release() chart.Release { return chart.Release{Name: "slipway-runtime", Namespace: "slipway"} }

// Bare returns values with which a chart can be rendered that requires more
// than where its images are. The platform is disabled, because joining one
// needs a URL and an API key.
func Bare(given map[string]any) map[string]any {
	platform := map[string]any{"global": map[string]any{"platform": map[string]any{"enabled": false}}}
	return Merged(platform, given)
}

// Merged merges the second over the first, group by group. Lists and single
// values are replaced. Neither argument is changed.
func Merged(first, second map[string]any) map[string]any {
	made := maps.Clone(first)
	if made == nil {
		made = map[string]any{}
	}
	for name, value := range second {
		above, ok := value.(map[string]any)
		below, also := made[name].(map[string]any)
		if ok && also {
			made[name] = Merged(below, above)
		} else {
			made[name] = value
		}
	}
	return made
}
