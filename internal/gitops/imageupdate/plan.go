package imageupdate

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
)

// jobKey is an Application with what names its images: an ImageUpdater, or its own
// annotations if it is empty.
type jobKey struct {
	app     types.NamespacedName
	updater string
}

// job is what one of them updates.
type job struct {
	settings Settings
	// refused is why nothing is updated; conflicts are images that another one updates.
	refused, conflicts []refusal.Refusal
}

// planJobs decides who updates which image of an Application. An image has one updater:
// the oldest ImageUpdater that names it, and annotations only if none does. Two would
// overwrite each other for ever.
func planJobs(app *v1alpha1.Application, updaters []*updater) map[string]job {
	jobs, owners := map[string]job{}, map[string]string{}
	claim := func(who string, settings Settings, refused []refusal.Refusal) job {
		var conflicts []refusal.Refusal
		settings.Images = slices.DeleteFunc(settings.Images, func(image ImageSettings) bool {
			name := image.Image.Name()
			owner, taken := owners[name]
			if taken {
				conflicts = append(conflicts, *refusal.New("images", refusal.Conflict, "the image %s of the Application %s is updated by the ImageUpdater %s, which is older: remove it from one of them", name, app.Name, owner))
				return true
			}
			owners[name] = who
			return false
		})
		return job{settings: settings, refused: refused, conflicts: conflicts}
	}
	for _, one := range updaters {
		if len(one.refused) > 0 {
			continue
		}
		if settings, refused, selected := one.settingsFor(app); selected {
			jobs[one.name.Name] = claim(one.name.Name, settings, refused)
		}
	}
	if hasAnnotations(app) {
		settings, refused := annotated(app)
		jobs[""] = claim("", settings, refused)
	}
	return jobs
}
