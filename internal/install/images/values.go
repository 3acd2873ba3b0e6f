package images

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"slipway.dev/slipway/internal/install/chart"
)

// Wish is what the values of a private registry say.
type Wish struct {
	// Registry is where images are taken from, such as registry.example.com/mirror.
	Registry string
	// Digest pins the image; empty leaves the tag.
	Digest string
	// PullSecrets are Secrets of the namespace that images are pulled with.
	PullSecrets []string
}

// values are those of the charts: one registry for all images.
func (w Wish) values() map[string]any {
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

// Values are what has a chart take its images from a private registry. They are
// rendered together with the given ones, to see that every image is from there.
func Values(ctx context.Context, of *chart.Chart, given map[string]any, wish Wish) (map[string]any, error) {
	if wish.Registry == "" {
		return nil, errors.New("no registry is named")
	}
	made := wish.values()
	rendered, err := of.Render(ctx, Merged(given, made), Release())
	if err != nil {
		return nil, err
	}
	prefix := strings.TrimSuffix(wish.Registry, "/") + "/"
	for _, image := range List(rendered) {
		if !strings.HasPrefix(image.Reference, prefix) {
			return nil, fmt.Errorf("%s of %s does not come from %s: the values name it elsewhere", image.Reference, strings.Join(image.UsedBy, ", "), wish.Registry)
		}
	}
	return made, nil
}

// Release is what a chart is rendered for when only its images matter.
func Release() chart.Release { return chart.Release{Name: "slipway-runtime", Namespace: "slipway"} }

// Bare are values with which a chart can be rendered that needs to know more than
// where its images are.
func Bare(given map[string]any) map[string]any {
	platform := map[string]any{"global": map[string]any{"platform": map[string]any{"enabled": false}}}
	return Merged(platform, given)
}

// Merged has the second over the first. Neither is changed.
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
