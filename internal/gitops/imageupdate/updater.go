package imageupdate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
)

// The kind of the Image Updater.
const (
	updaterGroup    = "argocd-image-updater.argoproj.io"
	updaterVersion  = updaterGroup + "/v1alpha1"
	updaterResource = "imageupdaters"
)

// updaterGVR is the resource of ImageUpdaters.
func updaterGVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: updaterGroup, Version: "v1alpha1", Resource: updaterResource}
}

// updaterSpec has the fields of an ImageUpdater, by the names of upstream.
type updaterSpec struct {
	// Namespace was removed upstream; it has to be that of the object.
	Namespace            string           `json:"namespace"`
	CommonUpdateSettings *updaterSettings `json:"commonUpdateSettings"`
	WriteBackConfig      *updaterWrite    `json:"writeBackConfig"`
	ApplicationRefs      []applicationRef `json:"applicationRefs"`
}

// updaterSettings are settings of images, at three levels.
type updaterSettings struct {
	UpdateStrategy *string  `json:"updateStrategy"`
	ForceUpdate    *bool    `json:"forceUpdate"`
	AllowTags      *string  `json:"allowTags"`
	IgnoreTags     []string `json:"ignoreTags"`
	PullSecret     *string  `json:"pullSecret"`
	Platforms      []string `json:"platforms"`
}

// updaterWrite is where updates are written, at two levels.
type updaterWrite struct {
	Method    *string     `json:"method"`
	GitConfig *updaterGit `json:"gitConfig"`
}

// updaterGit is a place in Git.
type updaterGit struct {
	Repository      *string         `json:"repository"`
	Branch          *string         `json:"branch"`
	WriteBackTarget *string         `json:"writeBackTarget"`
	PullRequest     json.RawMessage `json:"pullRequest"`
}

// applicationRef selects Applications.
type applicationRef struct {
	NamePattern          string                `json:"namePattern"`
	LabelSelectors       *metav1.LabelSelector `json:"labelSelectors"`
	UseAnnotations       bool                  `json:"useAnnotations"`
	CommonUpdateSettings *updaterSettings      `json:"commonUpdateSettings"`
	WriteBackConfig      *updaterWrite         `json:"writeBackConfig"`
	Images               []updaterImage        `json:"images"`
}

// updaterImage is an image of a reference.
type updaterImage struct {
	Alias                string           `json:"alias"`
	ImageName            string           `json:"imageName"`
	CommonUpdateSettings *updaterSettings `json:"commonUpdateSettings"`
	ManifestTargets      *struct {
		Helm      *struct{ Name, Tag, Spec string } `json:"helm"`
		Kustomize *struct{ Name string }            `json:"kustomize"`
	} `json:"manifestTargets"`
}

// updater is an ImageUpdater.
type updater struct {
	name    types.NamespacedName
	uid     types.UID
	created time.Time
	// generation is that of the spec.
	generation int64
	spec       updaterSpec
	// refused is why nothing of it is used; nil if it is.
	refused []refusal.Refusal
	// status is the condition that was written last.
	status string
}

// maxUpdaterBytes bounds the spec of an ImageUpdater.
const maxUpdaterBytes = 256 << 10

// parseUpdater reads an ImageUpdater. Fields that are not known are refused by name.
func parseUpdater(object *unstructured.Unstructured) *updater {
	u := &updater{
		name: types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}, uid: object.GetUID(),
		created: object.GetCreationTimestamp().Time, generation: object.GetGeneration(),
	}
	text, err := json.Marshal(object.Object["spec"])
	if err == nil && len(text) > maxUpdaterBytes {
		err = errors.New("it is too large")
	}
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(&u.spec)
	}
	switch {
	case err != nil:
		u.refused = append(u.refused, *refusal.New("spec", refusal.Invalid, "%s", strings.TrimPrefix(err.Error(), "json: ")))
	case u.spec.Namespace != "" && u.spec.Namespace != u.name.Namespace:
		u.refused = append(u.refused, *refusal.New("spec.namespace", refusal.NotAllowed, "an ImageUpdater is for Applications of its own namespace: create it in %s", u.spec.Namespace))
	}
	return u
}

// older orders updaters by their age, and then by name.
func older(x, y *updater) int {
	return cmp.Or(x.created.Compare(y.created), cmp.Compare(x.name.Name, y.name.Name))
}

// refFor returns the first reference that selects an Application; nil if none does.
func (u *updater) refFor(app *v1alpha1.Application) (*applicationRef, int) {
	if u.name.Namespace != app.Namespace {
		return nil, 0
	}
	for i := range u.spec.ApplicationRefs {
		ref := &u.spec.ApplicationRefs[i]
		matched, err := path.Match(ref.NamePattern, app.Name)
		if err != nil || !matched {
			continue
		}
		if ref.LabelSelectors != nil {
			selector, err := metav1.LabelSelectorAsSelector(ref.LabelSelectors)
			if err != nil || !selector.Matches(labels.Set(app.Labels)) {
				continue
			}
		}
		return ref, i
	}
	return nil, 0
}

// settingsFor are the settings of an Application that an updater selects; false if it
// selects none of its images.
func (u *updater) settingsFor(app *v1alpha1.Application) (Settings, []refusal.Refusal, bool) {
	ref, index := u.refFor(app)
	if ref == nil || ref.UseAnnotations {
		return Settings{}, nil, false
	}
	place := fmt.Sprintf("spec.applicationRefs[%d]", index)
	back, refused := writeBackOf(place, u.name.Namespace, u.spec.WriteBackConfig, ref.WriteBackConfig)
	settings := Settings{WriteBack: back}
	if len(ref.Images) > maxImages {
		refused = append(refused, *refusal.New(place+".images", refusal.TooMany, "it has more than %d images", maxImages))
	}
	for i := range ref.Images {
		given := &ref.Images[i]
		common := merged(u.spec.CommonUpdateSettings, ref.CommonUpdateSettings, given.CommonUpdateSettings)
		options := imageOptions{
			alias: given.Alias, name: given.ImageName, strategy: text(common.UpdateStrategy), allow: text(common.AllowTags), ignore: common.IgnoreTags,
			platforms: common.Platforms, pullSecret: text(common.PullSecret), force: common.ForceUpdate != nil && *common.ForceUpdate,
		}
		if to := given.ManifestTargets; to != nil && to.Helm != nil {
			options.helmName, options.helmTag, options.helmSpec = to.Helm.Name, to.Helm.Tag, to.Helm.Spec
		} else if to != nil && to.Kustomize != nil {
			options.kustomize = to.Kustomize.Name
		}
		image, problems := newImage(options, u.name.Namespace)
		for _, one := range problems {
			one.Field = fmt.Sprintf("%s.images[%d].%s", place, i, one.Field)
			refused = append(refused, one)
		}
		settings.Images = append(settings.Images, image)
	}
	return settings, refused, true
}

// text is the value of an optional text.
func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

// merged are settings of all levels; later ones win.
func merged(levels ...*updaterSettings) updaterSettings {
	var all updaterSettings
	for _, level := range levels {
		if level == nil {
			continue
		}
		all.UpdateStrategy = cmp.Or(level.UpdateStrategy, all.UpdateStrategy)
		all.ForceUpdate = cmp.Or(level.ForceUpdate, all.ForceUpdate)
		all.AllowTags = cmp.Or(level.AllowTags, all.AllowTags)
		all.PullSecret = cmp.Or(level.PullSecret, all.PullSecret)
		if level.IgnoreTags != nil {
			all.IgnoreTags = slices.Clone(level.IgnoreTags)
		}
		if level.Platforms != nil {
			all.Platforms = slices.Clone(level.Platforms)
		}
	}
	return all
}

// writeBackOf is where the updates of a reference are written.
func writeBackOf(place, namespace string, levels ...*updaterWrite) (WriteBack, []refusal.Refusal) {
	var refused []refusal.Refusal
	refuse := func(field string, one *refusal.Refusal) {
		if one != nil {
			one.Field = place + ".writeBackConfig." + field
			refused = append(refused, *one)
		}
	}
	var method, repository, branch, target *string
	var proposal json.RawMessage
	for _, level := range levels {
		if level == nil {
			continue
		}
		method = cmp.Or(level.Method, method)
		if git := level.GitConfig; git != nil {
			repository, branch, target = cmp.Or(git.Repository, repository), cmp.Or(git.Branch, branch), cmp.Or(git.WriteBackTarget, target)
			if len(git.PullRequest) > 0 && string(git.PullRequest) != "null" {
				proposal = git.PullRequest
			}
		}
	}
	var one *refusal.Refusal
	back := WriteBack{Repository: text(repository)}
	back.Secret, one = parseMethod(text(method), namespace)
	refuse("method", one)
	back.Target, one = parseTarget(text(target))
	refuse("gitConfig.writeBackTarget", one)
	back.Branch, back.WriteBranch, _ = strings.Cut(text(branch), ":")
	if back.WriteBranch != "" {
		if err := checkBranchTemplate(back.WriteBranch); err != nil {
			refuse("gitConfig.branch", refusal.New("", refusal.Invalid, "%v", err))
		}
	}
	if proposal != nil {
		with, one := parsePullRequest(proposal)
		if refuse("gitConfig.pullRequest", one); one == nil {
			refuse("gitConfig.branch", back.propose(with))
		}
	}
	return back, refused
}
