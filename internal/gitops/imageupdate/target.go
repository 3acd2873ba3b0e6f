package imageupdate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"strings"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gitwrite"
	"slipway.dev/slipway/internal/gitops/imageupdate/edit"
)

// update is the tag that an image gets.
type update struct {
	settings ImageSettings
	tag      string
	// digest is set by the strategy digest.
	digest string
	// current is the reference of the running image; it may be empty.
	current string
	labels  map[string]string
}

// reference is the image with its new tag.
func (u *update) reference() string {
	if u.digest != "" {
		return u.settings.Image.Written + "@" + u.digest
	}
	return u.settings.Image.Written + ":" + u.tag
}

// value is what files have in the place of the tag.
func (u *update) value() string { return tagText(u.tag, u.digest) }

// change describes the update for messages.
func (u *update) change(old string) Change {
	return Change{
		Image: u.settings.Image.Written, Name: u.settings.Image.Written, Alias: u.settings.Alias,
		OldTag: cmp.Or(old, oldTag(u.current)), NewTag: cmp.Or(u.digest, u.tag), Labels: u.labels,
	}
}

// place is where the images of an Application are in a repository.
type place struct {
	app  string
	kind TargetKind
	// helm: the override file has parameters of Helm, and images of Kustomize
	// otherwise.
	helm bool
	// folder is that of the source, and path the target, both below the root.
	folder, path string
}

// locate finds the place of a target for a source.
func locate(app string, target Target, source *v1alpha1.ApplicationSource, kind v1alpha1.SourceType) (place, error) {
	found := place{app: app, kind: target.Kind, folder: path.Clean("/" + source.Path)[1:]}
	switch {
	case strings.HasPrefix(target.Path, "/"):
		found.path = path.Clean(target.Path)[1:]
	default:
		joined := path.Join(found.folder, target.Path)
		if joined == ".." || strings.HasPrefix(joined, "../") {
			return place{}, fmt.Errorf("the target %s leaves the repository", target.Path)
		}
		if joined != "." {
			found.path = joined
		}
	}
	if target.Kind == TargetDefault {
		switch kind {
		case v1alpha1.SourceHelm:
			found.helm = true
		case v1alpha1.SourceKustomize:
		case v1alpha1.SourceDirectory:
			found.kind = TargetManifests
		default:
			return place{}, fmt.Errorf("sources of the type %q have no images to write: name a target, such as helmvalues:values.yaml", cmp.Or(string(kind), "unknown"))
		}
	}
	if target.Kind == TargetHelmValues && target.Path == "" {
		return place{}, errors.New("helmvalues names no file: write helmvalues:values.yaml")
	}
	return found, nil
}

// apply writes updates to the files and returns what changed.
func (p place) apply(files gitwrite.Files, updates []update) ([]Change, error) {
	var changes []Change
	for i := range updates {
		var made []Change
		var err error
		switch p.kind {
		case TargetKustomization:
			made, err = p.kustomization(files, &updates[i])
		case TargetHelmValues:
			made, err = p.helmValues(files, &updates[i])
		case TargetManifests:
			made, err = p.manifests(files, &updates[i])
		default:
			made, err = p.override(files, &updates[i])
		}
		if err != nil {
			return nil, err
		}
		changes = append(changes, made...)
	}
	return changes, nil
}

// change edits one file, and reports whether it did.
func change(files gitwrite.Files, name string, needed bool, with func([]byte) ([]byte, error)) (bool, error) {
	text, found, err := files.Read(name)
	if err != nil {
		return false, err
	}
	if !found && needed {
		return false, fmt.Errorf("there is no file %s", name)
	}
	changed, err := with(text)
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	if bytes.Equal(text, changed) {
		return false, nil
	}
	return true, files.Write(name, changed)
}

// kustomizationNames are the names that Kustomize reads.
func kustomizationNames() []string {
	return []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}
}

// kustomization sets the image of a kustomization.
func (p place) kustomization(files gitwrite.Files, of *update) ([]Change, error) {
	name := ""
	for _, usual := range kustomizationNames() {
		if _, found, err := files.Read(path.Join(p.path, usual)); err != nil {
			return nil, err
		} else if found {
			name = path.Join(p.path, usual)
			break
		}
	}
	if name == "" {
		return nil, fmt.Errorf("there is no kustomization in %q", p.path)
	}
	inManifests := cmp.Or(of.settings.KustomizeName, of.settings.Image.Written)
	image := edit.Image{Name: inManifests, NewName: of.settings.Image.Written, NewTag: of.tag, Digest: of.digest}
	if image.Digest != "" {
		image.NewTag = ""
	}
	old := ""
	changed, err := change(files, name, true, func(text []byte) ([]byte, error) {
		if before, found := edit.GetImage(text, inManifests); found {
			old = cmp.Or(before.Digest, before.NewTag)
		}
		return edit.SetImage(text, image)
	})
	if err != nil || !changed {
		return nil, err
	}
	return []Change{of.change(old)}, nil
}

// values are the Helm values of an update.
func (u *update) values() []edit.Value {
	if u.settings.HelmSpec != "" {
		return []edit.Value{{Path: u.settings.HelmSpec, Value: u.settings.Image.Written + ":" + u.value()}}
	}
	var values []edit.Value
	if u.settings.HelmName != "" {
		values = append(values, edit.Value{Path: u.settings.HelmName, Value: u.settings.Image.Written, Optional: !u.settings.NameGiven})
	}
	if u.settings.HelmTag != "" {
		values = append(values, edit.Value{Path: u.settings.HelmTag, Value: u.value()})
	}
	return values
}

// helmValues sets the values of a file.
func (p place) helmValues(files gitwrite.Files, of *update) ([]Change, error) {
	old := ""
	changed, err := change(files, p.path, true, func(text []byte) ([]byte, error) {
		values := of.values()
		if len(values) > 0 {
			old = edit.GetValue(text, values[len(values)-1].Path)
		}
		return edit.SetValues(text, values)
	})
	if err != nil || !changed {
		return nil, err
	}
	if of.settings.HelmSpec != "" {
		old = oldTag(old)
	}
	return []Change{of.change(old)}, nil
}

// override sets the parameters or images of the file .argocd-source-NAME.yaml.
func (p place) override(files gitwrite.Files, of *update) ([]Change, error) {
	name, old := path.Join(p.folder, ".argocd-source-"+p.app+".yaml"), ""
	changed, err := change(files, name, false, func(text []byte) ([]byte, error) {
		if p.helm {
			values := of.values()
			if len(values) > 0 {
				old = edit.GetParameter(text, values[len(values)-1].Path)
			}
			return edit.SetParameters(text, values)
		}
		inManifests := cmp.Or(of.settings.KustomizeName, of.settings.Image.Written)
		reference := of.reference()
		if inManifests != of.settings.Image.Written {
			reference = inManifests + "=" + reference
		}
		if before := edit.GetOverrideImage(text, inManifests); before != "" {
			_, before, _ = cutLast(before, "=")
			old = oldTag(before)
		}
		return edit.SetOverrideImage(text, inManifests, reference)
	})
	if err != nil || !changed {
		return nil, err
	}
	return []Change{of.change(old)}, nil
}

// cutLast cuts a text at the last separator; without one everything is behind it.
func cutLast(text, separator string) (before, after string, found bool) {
	if at := strings.LastIndex(text, separator); at >= 0 {
		return text[:at], text[at+len(separator):], true
	}
	return "", text, false
}

// maxManifestFiles bounds the files of a folder that are searched for an image.
const maxManifestFiles = 500

// manifests sets the fields of manifests: of one file, or of all files of a folder.
func (p place) manifests(files gitwrite.Files, of *update) ([]Change, error) {
	names := []string{p.path}
	if !isYAML(p.path) {
		all, err := files.List(p.path)
		if err != nil {
			return nil, err
		}
		names = nil
		for _, name := range all {
			if path.Dir(name) == path.Clean(p.path) && isYAML(name) {
				names = append(names, name)
			}
		}
	}
	if len(names) > maxManifestFiles {
		return nil, fmt.Errorf("the folder %q has more than %d files: name one", p.path, maxManifestFiles)
	}
	var changes []Change
	for _, name := range names {
		var replaced []string
		changed, err := change(files, name, true, func(text []byte) ([]byte, error) {
			changed, all, err := edit.SetManifestImages(text, of.settings.Image, of.reference())
			replaced = all
			return changed, err
		})
		if err != nil {
			return nil, err
		}
		if changed && len(changes) == 0 {
			changes = append(changes, of.change(oldTag(replaced[0])))
		}
	}
	return changes, nil
}

// isYAML reports whether a file is named as one of YAML.
func isYAML(name string) bool { return path.Ext(name) == ".yaml" || path.Ext(name) == ".yml" }
