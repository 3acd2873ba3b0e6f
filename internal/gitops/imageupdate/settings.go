package imageupdate

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/imageupdate/strategy"
	"slipway.dev/slipway/internal/gitprovider"
)

// Settings is how the images of one Application are updated.
type Settings struct {
	Images    []ImageSettings
	WriteBack WriteBack
}

// ImageSettings is how one image is updated.
type ImageSettings struct {
	// Alias is a name for people; empty where none is given.
	Alias string
	Image strategy.Image
	Rule  strategy.Rule
	// Platforms limit newest-build to images for one of them.
	Platforms []string
	// PullSecret is a Secret with the password for the registry; empty for the
	// credential of the project.
	PullSecret secretReference
	// Force updates an image that no object of the Application has.
	Force bool
	// HelmName, HelmTag and HelmSpec are the paths of Helm values. The spec comes in
	// the place of the others. NameGiven is set if the name is no default.
	HelmName, HelmTag, HelmSpec string
	NameGiven                   bool
	// KustomizeName is the name in the manifests, if that is another one.
	KustomizeName string
}

// WriteBack is where updates are written.
type WriteBack struct {
	// Repository is that of the source if it is empty, and Branch its revision.
	Repository, Branch string
	// WriteBranch is the template of a branch that gets the commit in the place of
	// Branch, where it begins. It may be empty.
	WriteBranch string
	Target      Target
	// PullRequest proposes the commit; its branch is WriteBranch then.
	PullRequest *PullRequest
	// Secret has the credential of the repository; its name is empty for that of the
	// project.
	Secret secretReference
}

// PullRequest is where pull requests are opened.
type PullRequest struct {
	// Provider is empty to detect it from the repository.
	Provider gitprovider.Kind
}

// proposalBranch is the template of the branch of a pull request, that of upstream:
// Applications that share a target and a change share the pull request.
const proposalBranch = "image-updater-{{.TargetKey}}-{{.SHA256}}"

// propose makes a write-back one by pull requests.
func (w *WriteBack) propose(with *PullRequest) *refusal.Refusal {
	if w.WriteBranch != "" {
		return refusal.New("", refusal.Invalid, "pull requests have branches of their own: name the base branch alone, without a colon")
	}
	w.PullRequest, w.WriteBranch = with, proposalBranch
	return nil
}

// providers are the Git hosts by the names of fields: github and gitlab are those of
// upstream.
func providers() map[string]gitprovider.Kind {
	return map[string]gitprovider.Kind{
		"github": gitprovider.GitHub, "gitlab": gitprovider.GitLab, "gitea": gitprovider.Gitea, "bitbucket": gitprovider.Bitbucket,
		"bitbucketServer": gitprovider.BitbucketServer, "azureDevOps": gitprovider.AzureDevOps,
	}
}

// parsePullRequest reads the field pullRequest of an ImageUpdater: an object with the
// name of the Git host.
func parsePullRequest(text json.RawMessage) (*PullRequest, *refusal.Refusal) {
	var given map[string]struct{}
	if err := json.Unmarshal(text, &given); err != nil {
		return nil, refusal.New("", refusal.Invalid, "it is no object such as {github: {}}")
	}
	if len(given) > 1 {
		return nil, refusal.New("", refusal.Invalid, "it names %d Git hosts: name one", len(given))
	}
	for name := range given {
		return parseProvider(name)
	}
	return &PullRequest{}, nil
}

// parseProvider reads the name of a Git host; "true" detects it.
func parseProvider(name string) (*PullRequest, *refusal.Refusal) {
	kind, known := providers()[name]
	if !known && name != "true" {
		return nil, refusal.New("", refusal.Invalid, "%.50q is no Git host: write %s", name, strings.Join(slices.Sorted(maps.Keys(providers())), ", "))
	}
	return &PullRequest{Provider: kind}, nil
}

// secretReference is a Secret in the namespace of the object that names it.
type secretReference struct {
	name string
	// field has username:password; empty for a Secret of registry credentials.
	field string
}

// TargetKind is the kind of file that has the images.
type TargetKind string

// The kinds of files.
const (
	// TargetDefault is chosen by the type of the source: an override, or manifests.
	TargetDefault       TargetKind = ""
	TargetKustomization TargetKind = "kustomization"
	TargetHelmValues    TargetKind = "helmvalues"
	TargetManifests     TargetKind = "manifests"
)

// Target is the file, or the folder of a kustomization or of manifests. A path that
// begins with a slash is one of the repository, all others are below that of the source.
type Target struct {
	Kind TargetKind
	Path string
}

// parseTarget reads a write-back target.
func parseTarget(text string) (Target, *refusal.Refusal) {
	kind, path, _ := strings.Cut(strings.TrimSpace(text), ":")
	switch TargetKind(kind) {
	case TargetDefault, TargetKustomization, TargetHelmValues, TargetManifests:
		return Target{Kind: TargetKind(kind), Path: path}, nil
	}
	return Target{}, refusal.New("", refusal.Invalid, "%q is no target: write kustomization, helmvalues or manifests, with :path for another place than that of the source", text)
}

// parseMethod reads a write-back method. namespace is that of the object which has it:
// a Secret of another one is not read.
func parseMethod(text, namespace string) (secretReference, *refusal.Refusal) {
	method, credentials, _ := strings.Cut(strings.TrimSpace(text), ":")
	switch {
	case method == "" || method == "argocd":
		return secretReference{}, refusal.New("", refusal.Unsupported, "the method argocd changes the Application and not Git, where the next sync undoes it: write git")
	case method != "git":
		return secretReference{}, refusal.New("", refusal.Invalid, "%q is no write-back method: write git", text)
	case credentials == "" || credentials == "repocreds":
		return secretReference{}, nil
	}
	name, found := strings.CutPrefix(credentials, "secret:")
	if !found {
		return secretReference{}, refusal.New("", refusal.Invalid, "%q names no credentials: write git, git:repocreds or git:secret:NAME", text)
	}
	return parseSecretName(name, namespace)
}

// parsePullSecret reads a reference to the credentials of a registry.
func parsePullSecret(text, namespace string) (secretReference, *refusal.Refusal) {
	kind, rest, _ := strings.Cut(strings.TrimSpace(text), ":")
	switch kind {
	case "":
		return secretReference{}, nil
	case "pullsecret":
		return parseSecretName(rest, namespace)
	case "secret":
		name, field, found := strings.Cut(rest, "#")
		if !found || field == "" {
			return secretReference{}, refusal.New("", refusal.Invalid, "%q has no field: write secret:NAMESPACE/NAME#FIELD", text)
		}
		reference, refused := parseSecretName(name, namespace)
		reference.field = field
		return reference, refused
	case "env", "ext":
		return secretReference{}, refusal.New("", refusal.Unsupported, "credentials from the environment or a script of the agent are not read: write pullsecret:NAMESPACE/NAME, or add the registry as a repository of the project")
	}
	return secretReference{}, refusal.New("", refusal.Invalid, "%q is no reference: write pullsecret:NAMESPACE/NAME or secret:NAMESPACE/NAME#FIELD", text)
}

// parseSecretName reads [namespace/]name.
func parseSecretName(text, namespace string) (secretReference, *refusal.Refusal) {
	of, name, found := strings.Cut(text, "/")
	if !found {
		of, name = namespace, text
	}
	switch {
	case name == "" || strings.Contains(name, "/"):
		return secretReference{}, refusal.New("", refusal.Invalid, "%q is no name of a Secret: write NAMESPACE/NAME", text)
	case of != namespace:
		return secretReference{}, refusal.New("", refusal.NotAllowed, "the Secret %s/%s is in another namespace than the object that names it, which is %s", of, name, namespace)
	}
	return secretReference{name: name}, nil
}

// imageOptions are the texts that an image is made of, from annotations or fields.
type imageOptions struct {
	alias, name, strategy, allow, pullSecret string
	ignore, platforms                        []string
	force                                    bool
	helmName, helmTag, helmSpec, kustomize   string
}

// The paths of Helm values that most charts have, as upstream.
const (
	defaultHelmName = "image.name"
	defaultHelmTag  = "image.tag"
)

// maxPlatforms bounds a list of platforms.
const maxPlatforms = 16

// newImage checks the texts of an image. The fields of refusals are those of the
// options; the caller completes them.
func newImage(of imageOptions, namespace string) (ImageSettings, []refusal.Refusal) {
	var refused []refusal.Refusal
	refuse := func(field string, err error) {
		refused = append(refused, *refusal.New(field, refusal.Invalid, "%v", err))
	}
	image, err := strategy.ParseImage(strings.TrimSpace(of.name))
	if err != nil {
		refuse("image", err)
	}
	chosen, err := strategy.Parse(of.strategy)
	if err != nil {
		refuse("update-strategy", err)
	}
	filter, err := strategy.NewFilter(of.allow, of.ignore)
	if err != nil {
		refuse("allow-tags", err)
	}
	constraint := image.Tag
	if chosen != strategy.SemVer && chosen != strategy.Digest {
		constraint = "" // without effect, as upstream
	}
	rule := strategy.Rule{}
	if len(refused) == 0 {
		if rule, err = strategy.NewRule(chosen, constraint, filter); err != nil {
			refuse("image", err)
		}
	}
	secret, problem := parsePullSecret(of.pullSecret, namespace)
	if problem != nil {
		problem.Field = "pull-secret"
		refused = append(refused, *problem)
	}
	platforms := slices.DeleteFunc(slices.Clone(of.platforms), func(p string) bool { return strings.TrimSpace(p) == "" })
	for _, platform := range platforms {
		if parts := strings.Split(platform, "/"); len(parts) < 2 || len(parts) > 3 || len(platforms) > maxPlatforms {
			refused = append(refused, *refusal.New("platforms", refusal.Invalid, "%q is no platform, such as linux/amd64", platform))
		}
	}
	settings := ImageSettings{
		Alias: of.alias, Image: image, Rule: rule, Platforms: platforms, PullSecret: secret, Force: of.force,
		HelmName: of.helmName, HelmTag: of.helmTag, HelmSpec: of.helmSpec, NameGiven: of.helmName != "", KustomizeName: of.kustomize,
	}
	if settings.HelmSpec == "" && settings.HelmName == "" && settings.HelmTag == "" {
		settings.HelmName, settings.HelmTag = defaultHelmName, defaultHelmTag
	}
	return settings, refused
}
