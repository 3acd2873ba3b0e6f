package kustomize

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/render/job"
)

// edit puts the options of an Application into its kustomization, as "kustomize
// edit" would, in memory: a worker may not write files, and the commit must not
// change.
func (d *fileSystem) edit(folder string, options *v1alpha1.ApplicationSourceKustomize) error {
	// Kustomize accepts one of three names; the first that exists is edited.
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := path.Join(folder, name)
		text, err := d.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		given := *options
		if given.IgnoreMissingComponents {
			given.Components = d.existing(folder, given.Components)
		}
		edited, err := applyOptions(text, &given)
		if err != nil {
			return fmt.Errorf("%s: %s", file, job.Shorten(err.Error()))
		}
		d.edited[local(file)] = edited
		return nil
	}
	return fmt.Errorf("there is no kustomization in %q: correct the path of the source", "/"+folder)
}

// existing are the components that are there. One of another repository, and one
// that cannot be read, stays in the list: the build reports it.
func (d *fileSystem) existing(folder string, components []string) []string {
	return slices.DeleteFunc(slices.Clone(components), func(component string) bool {
		if _, isBase := parseBase(component); isBase {
			return false
		}
		_, err := d.stat(path.Join(folder, component))
		return errors.Is(err, fs.ErrNotExist)
	})
}

// applyOptions merges the options into a kustomization. An option replaces the
// value of the kustomization where "kustomize edit set" does, and adds to it
// where "kustomize edit add" does. Options that add to maps run in sorted
// order, so that the first conflict, and with it the error message, is the same
// on every render.
func applyOptions(text []byte, options *v1alpha1.ApplicationSourceKustomize) ([]byte, error) {
	var edited types.Kustomization
	if err := unmarshal(&edited, text); err != nil {
		return nil, err
	}
	if options.NamePrefix != "" {
		edited.NamePrefix = options.NamePrefix
	}
	if options.NameSuffix != "" {
		edited.NameSuffix = options.NameSuffix
	}
	if options.Namespace != "" {
		edited.Namespace = options.Namespace
	}
	setImages(&edited, options.Images)
	if err := setReplicas(&edited, options.Replicas); err != nil {
		return nil, err
	}
	if err := addLabels(&edited, options); err != nil {
		return nil, err
	}
	if err := addAnnotations(&edited, options); err != nil {
		return nil, err
	}
	if err := addPatches(&edited, options.Patches); err != nil {
		return nil, err
	}
	for _, component := range options.Components {
		if !slices.Contains(edited.Components, component) {
			edited.Components = append(edited.Components, component)
		}
	}
	return yaml.Marshal(&edited)
}

// setImages adds images, or changes those that the kustomization has already.
func setImages(edited *types.Kustomization, images []string) {
	for _, text := range images {
		image := parseImage(text)
		at := slices.IndexFunc(edited.Images, func(other types.Image) bool { return other.Name == image.Name })
		if at < 0 {
			edited.Images = append(edited.Images, image)
			continue
		}
		// What the option does not set stays as the kustomization has it.
		existing := edited.Images[at]
		if image.NewName == "" {
			image.NewName = existing.NewName
		}
		if image.NewTag == "" && image.Digest == "" {
			image.NewTag, image.Digest = existing.NewTag, existing.Digest
		}
		edited.Images[at] = image
	}
	// "kustomize edit" sorts images too; the order decides when two match.
	slices.SortStableFunc(edited.Images, func(a, b types.Image) int { return strings.Compare(a.Name, b.Name) })
}

// parseImage reads [name=]image[:tag][@digest]. A colon before the last slash
// belongs to the port of the registry and is no tag.
func parseImage(text string) types.Image {
	name, rest, renamed := strings.Cut(text, "=")
	if !renamed {
		rest = text
	}
	rest, digest, _ := strings.Cut(rest, "@")
	tag := ""
	if colon := strings.LastIndexByte(rest, ':'); colon > strings.LastIndexByte(rest, '/') {
		rest, tag = rest[:colon], rest[colon+1:]
	}
	image := types.Image{Name: name, NewTag: tag, Digest: digest}
	switch {
	case !renamed:
		image.Name = rest
	// name=*:tag keeps the name of the image and sets only the tag.
	case rest != "*" && rest != name:
		image.NewName = rest
	}
	return image
}

// setReplicas replaces or adds replica counts by name.
func setReplicas(edited *types.Kustomization, replicas []v1alpha1.KustomizeReplica) error {
	for i := range replicas {
		count, err := replicas[i].Number()
		if err != nil {
			return fmt.Errorf("replicas of %s: %w", replicas[i].Name, err)
		}
		at := slices.IndexFunc(edited.Replicas, func(other types.Replica) bool { return other.Name == replicas[i].Name })
		if at >= 0 {
			edited.Replicas[at].Count = count
			continue
		}
		edited.Replicas = append(edited.Replicas, types.Replica{Name: replicas[i].Name, Count: count})
	}
	return nil
}

// addLabels adds labels that the kustomization does not have, or all of them by
// force. A conflict is an error without force, as in "kustomize edit add
// label": a label that is in a selector cannot change on an existing
// Deployment, so that it must not be overwritten by accident.
func addLabels(edited *types.Kustomization, options *v1alpha1.ApplicationSourceKustomize) error {
	if len(options.CommonLabels) == 0 {
		return nil
	}
	added := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(options.CommonLabels)) {
		value := options.CommonLabels[name]
		has := false
		for _, place := range labelPlaces(edited) {
			if _, ok := place[name]; ok {
				has = true
				place[name] = value
			}
		}
		if has && !options.ForceCommonLabels {
			return fmt.Errorf("commonLabels: the kustomization has the label %s already: remove it from one of them, or set forceCommonLabels", name)
		}
		if !has {
			added[name] = value
		}
	}
	if len(added) == 0 {
		return nil
	}
	// commonLabels include selectors unless the option turns that off.
	label := types.Label{Pairs: added, IncludeSelectors: true}
	if options.LabelWithoutSelector {
		label = types.Label{Pairs: added, IncludeTemplates: options.LabelIncludeTemplates}
	}
	edited.Labels = append(edited.Labels, label)
	return nil
}

// labelPlaces are where a kustomization has labels. The maps are those of the
// kustomization, not copies: addLabels writes through them.
func labelPlaces(edited *types.Kustomization) []map[string]string {
	//lint:ignore SA1019 kustomizations have it, whether it is deprecated or not
	places := []map[string]string{edited.CommonLabels}
	for _, label := range edited.Labels {
		places = append(places, label.Pairs)
	}
	return places
}

// addAnnotations adds annotations. One that the kustomization has already is an
// error unless forced, as in "kustomize edit add annotation".
func addAnnotations(edited *types.Kustomization, options *v1alpha1.ApplicationSourceKustomize) error {
	for _, name := range slices.Sorted(maps.Keys(options.CommonAnnotations)) {
		if _, ok := edited.CommonAnnotations[name]; ok && !options.ForceCommonAnnotations {
			return fmt.Errorf("commonAnnotations: the kustomization has the annotation %s already: remove it from one of them, or set forceCommonAnnotations", name)
		}
		if edited.CommonAnnotations == nil {
			edited.CommonAnnotations = map[string]string{}
		}
		edited.CommonAnnotations[name] = options.CommonAnnotations[name]
	}
	return nil
}

// addPatches adds patches. Argo CD's have the same fields as Kustomize's. The
// round trip through JSON is strict, so that a field that Kustomize does not
// have is an error and not lost.
func addPatches(edited *types.Kustomization, patches []v1alpha1.KustomizePatch) error {
	for i := range patches {
		text, err := json.Marshal(&patches[i])
		if err != nil {
			return err
		}
		var patch types.Patch
		if err := yaml.UnmarshalStrict(text, &patch); err != nil {
			return fmt.Errorf("patches[%d]: %w", i, err)
		}
		edited.Patches = append(edited.Patches, patch)
	}
	return nil
}
