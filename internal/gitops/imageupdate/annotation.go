package imageupdate

import (
	"maps"
	"slices"
	"strings"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
)

// annotationPrefix is that of the Image Updater.
const annotationPrefix = "argocd-image-updater.argoproj.io/"

// pullRequestAnnotation proposes the updates of an Application as pull requests.
// Upstream has no annotation for it.
const pullRequestAnnotation = "slipway.dev/image-pull-requests"

// imageList is the annotation that marks an Application.
const imageList = "image-list"

// maxImages bounds the images of one Application.
const maxImages = 50

// hasAnnotations reports whether an Application names images.
func hasAnnotations(app *v1alpha1.Application) bool {
	return app.Annotations[annotationPrefix+imageList] != ""
}

// annotated reads the settings of an Application from its annotations. With refusals
// nothing is updated: a filter that is misspelt must not let more tags through.
func annotated(app *v1alpha1.Application) (Settings, []refusal.Refusal) {
	given := map[string]string{}
	for key, value := range app.Annotations {
		if name, ours := strings.CutPrefix(key, annotationPrefix); ours {
			given[name] = value
		}
	}
	reader := &annotationReader{given: given, used: map[string]bool{imageList: true}, namespace: app.Namespace}
	settings := Settings{WriteBack: reader.writeBack()}
	if name := app.Annotations[pullRequestAnnotation]; name != "" && name != "false" {
		with, refused := parseProvider(name)
		if refused == nil {
			refused = settings.WriteBack.propose(with)
		}
		if refused != nil {
			refused.Field = "metadata.annotations[" + pullRequestAnnotation + "]"
			reader.refused = append(reader.refused, *refused)
		}
	}
	for entry := range strings.SplitSeq(given[imageList], ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		if len(settings.Images) == maxImages {
			reader.refuse(imageList, *refusal.New("", refusal.TooMany, "it has more than %d images", maxImages))
			break
		}
		settings.Images = append(settings.Images, reader.image(entry))
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !reader.used[name] {
			reader.refuse(name, *refusal.New("", refusal.Unknown, "there is no such annotation, or no image of %s has the alias", imageList))
		}
	}
	return settings, reader.refused
}

// annotationReader reads annotations and notes which were read.
type annotationReader struct {
	given     map[string]string
	used      map[string]bool
	namespace string
	refused   []refusal.Refusal
}

// refuse adds a refusal about an annotation.
func (r *annotationReader) refuse(name string, one refusal.Refusal) {
	one.Field = "metadata.annotations[" + annotationPrefix + name + "]"
	r.refused = append(r.refused, one)
}

// get reads an annotation.
func (r *annotationReader) get(name string) string {
	r.used[name] = true
	return strings.TrimSpace(r.given[name])
}

// writeBack reads the annotations about Git.
func (r *annotationReader) writeBack() WriteBack {
	secret, refused := parseMethod(r.get("write-back-method"), r.namespace)
	if refused != nil {
		r.refuse("write-back-method", *refused)
	}
	target, refused := parseTarget(r.get("write-back-target"))
	if refused != nil {
		r.refuse("write-back-target", *refused)
	}
	back := WriteBack{Repository: r.get("git-repository"), Target: target, Secret: secret}
	// base:write, or :write for the branch of the source.
	back.Branch, back.WriteBranch, _ = strings.Cut(r.get("git-branch"), ":")
	if older := r.get("git-write-branch"); older != "" {
		back.WriteBranch = older
	}
	if back.WriteBranch != "" {
		if err := checkBranchTemplate(back.WriteBranch); err != nil {
			r.refuse("git-branch", *refusal.New("", refusal.Invalid, "%v", err))
		}
	}
	return back
}

// image reads an entry [alias=]name[:constraint] with its annotations. Those without an
// alias are for all images.
func (r *annotationReader) image(entry string) ImageSettings {
	alias, name, found := strings.Cut(entry, "=")
	// An equals sign of a constraint is no alias.
	if !found || strings.ContainsAny(alias, ":<>~^!") {
		alias, name = "", entry
	}
	key := strings.ReplaceAll(alias, "/", "_")
	if alias == "" {
		image, _, _ := strings.Cut(name, ":")
		key = strings.ReplaceAll(image, "/", "_")
	}
	option := func(of string) string {
		common := r.get(of)
		if own := r.get(key + "." + of); own != "" {
			return own
		}
		return common
	}
	own := func(of string) string { return r.get(key + "." + of) }
	list := func(of string) []string {
		if text := option(of); text != "" {
			return strings.Split(text, ",")
		}
		return nil
	}
	image, refused := newImage(imageOptions{
		alias: alias, name: name, strategy: option("update-strategy"), allow: option("allow-tags"), ignore: list("ignore-tags"),
		platforms: list("platforms"), pullSecret: option("pull-secret"), force: option("force-update") == "true",
		helmName: own("helm.image-name"), helmTag: own("helm.image-tag"), helmSpec: own("helm.image-spec"), kustomize: own("kustomize.image-name"),
	}, r.namespace)
	for _, one := range refused {
		place := key + "." + one.Field
		if one.Field == "image" {
			place = imageList
			one.Message = "the image " + name + " " + one.Message
		}
		r.refuse(place, one)
	}
	return image
}
