package imageupdate

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/cache"
	"slipway.dev/slipway/internal/gitops/imageupdate/strategy"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/secret"
)

// Bounds of what newest-build reads: the manifest and the configuration of each tag.
const (
	maxBuilds        = 1000
	maxFactsBytes    = 8 << 20
	factsEntryBytes  = 512
	parallelManifest = 4
)

// finder reads registries. The facts of a tag are kept: all strategies but digest
// expect that a tag stays what it is.
type finder struct {
	options Options

	mu    sync.Mutex
	facts *cache.LRU[factsKey, source.ImageFacts]
}

// factsKey is a tag of a repository, as a project sees it.
type factsKey struct{ project, repository, tag, platforms string }

// newFinder makes a finder with an empty cache.
func newFinder(options Options) *finder {
	return &finder{options: options, facts: cache.NewLRU[factsKey, source.ImageFacts](cache.Limits{Bytes: maxFactsBytes})}
}

// find returns the update of an image; false if there is none to make. current is the
// reference of the running image.
func (f *finder) find(ctx context.Context, app *v1alpha1.Application, of *project.Project, image ImageSettings, maxAge time.Duration) (update, bool, error) {
	current, running := currentImage(app, image.Image)
	if !running && !image.Force {
		return update{}, false, nil
	}
	request, err := f.request(ctx, app.Namespace, of, image)
	if err != nil {
		return update{}, false, err
	}
	found := update{settings: image, current: current}
	tags, err := f.options.Sources.ImageTags(ctx, request, maxAge)
	if err != nil {
		return update{}, false, err
	}
	candidates := image.Rule.Candidates(tags)
	switch image.Rule.Strategy {
	case strategy.NewestBuild:
		found.tag, err = f.newest(ctx, request, image, candidates)
	case strategy.Digest:
		if found.tag = image.Rule.Choose(candidates, ""); found.tag != "" {
			found.digest, err = f.options.Sources.ImageDigest(ctx, request, found.tag)
		}
	default:
		found.tag = image.Rule.Choose(candidates, currentTag(current))
	}
	return found, found.tag != "" && err == nil, err
}

// currentImage returns the reference of an image among those of the objects of an
// Application.
func currentImage(app *v1alpha1.Application, image strategy.Image) (string, bool) {
	for _, text := range app.Status.Summary.Images {
		if used, err := strategy.ParseImage(text); err == nil && used.Same(image) {
			return text, true
		}
	}
	return "", false
}

// currentTag is the tag of a reference.
func currentTag(reference string) string {
	image, err := strategy.ParseImage(reference)
	if err != nil {
		return ""
	}
	return image.Tag
}

// request is the repository of an image, if the project allows it.
func (f *finder) request(ctx context.Context, namespace string, of *project.Project, image ImageSettings) (source.ImageRequest, error) {
	admitted, err := of.Admit(v1alpha1.ApplicationSource{RepoURL: "oci://" + image.Image.Host() + "/" + image.Image.Repository})
	if err != nil {
		return source.ImageRequest{}, err
	}
	request := source.ImageRequest{Of: admitted}
	if image.PullSecret.name == "" {
		return request, nil
	}
	request.Username, request.Password, err = f.pullSecret(ctx, namespace, image.PullSecret, image.Image)
	return request, err
}

// pullSecret reads the password for a registry from a Secret.
func (f *finder) pullSecret(ctx context.Context, namespace string, of secretReference, image strategy.Image) (string, secret.Text, error) {
	found, err := f.options.Cluster.Client.CoreV1().Secrets(namespace).Get(ctx, of.name, metav1.GetOptions{})
	if err != nil {
		return "", secret.Text{}, fmt.Errorf("read the Secret %s/%s: %w", namespace, of.name, err)
	}
	if of.field != "" {
		user, password, ok := strings.Cut(strings.TrimSpace(string(found.Data[of.field])), ":")
		if !ok || user == "" {
			return "", secret.Text{}, fmt.Errorf("the field %s of the Secret %s/%s is not username:password", of.field, namespace, of.name)
		}
		return user, secret.New(password), nil
	}
	user, password, ok := dockerLogin(found.Data[".dockerconfigjson"], image)
	if !ok {
		return "", secret.Text{}, fmt.Errorf("the Secret %s/%s has no login for %s in .dockerconfigjson", namespace, of.name, image.Registry)
	}
	return user, password, nil
}

// dockerLogin returns the login of a registry in a configuration of Docker.
func dockerLogin(text []byte, image strategy.Image) (string, secret.Text, bool) {
	var config struct {
		Auths map[string]struct{ Username, Password, Auth string } `json:"auths"`
	}
	if json.Unmarshal(text, &config) != nil {
		return "", secret.Text{}, false
	}
	for server, login := range config.Auths {
		server = strings.TrimPrefix(strings.TrimPrefix(server, "https://"), "http://")
		host, _, _ := strings.Cut(server, "/")
		if host != image.Registry && host != image.Host() && !(image.Registry == strategy.DockerHub && host == "index.docker.io") {
			continue
		}
		if login.Username == "" {
			if plain, err := base64.StdEncoding.DecodeString(login.Auth); err == nil {
				login.Username, login.Password, _ = strings.Cut(string(plain), ":")
			}
		}
		return login.Username, secret.New(login.Password), login.Username != ""
	}
	return "", secret.Text{}, false
}

// newest returns the tag of the image that was built last.
func (f *finder) newest(ctx context.Context, request source.ImageRequest, image ImageSettings, tags []string) (string, error) {
	if len(tags) > maxBuilds {
		return "", fmt.Errorf("%s has %d tags to compare by date, the most is %d: allow fewer with allow-tags", image.Image.Name(), len(tags), maxBuilds)
	}
	var mu sync.Mutex
	built := map[string]time.Time{}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(parallelManifest)
	for _, tag := range tags {
		work.Go(func() error {
			facts, err := f.factsOf(ctx, request, image, tag)
			switch {
			// Another platform, or a tag that was deleted meanwhile.
			case source.IsKind(err, source.NotFound), source.IsKind(err, source.Invalid):
				return nil
			case err != nil:
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			built[tag] = facts.Created
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return "", err
	}
	return strategy.Newest(built), nil
}

// factsOf reads the facts of a tag once.
func (f *finder) factsOf(ctx context.Context, request source.ImageRequest, image ImageSettings, tag string) (source.ImageFacts, error) {
	key := factsKey{request.Of.Project() + " " + request.Username, image.Image.Name(), tag, strings.Join(slices.Sorted(slices.Values(image.Platforms)), ",")}
	f.mu.Lock()
	known, found := f.facts.Get(key)
	f.mu.Unlock()
	if found {
		return known, nil
	}
	facts, err := f.options.Sources.ImageFacts(ctx, request, tag, image.Platforms)
	if err != nil {
		return source.ImageFacts{}, err
	}
	size := factsEntryBytes
	for name, value := range facts.Labels {
		size += len(name) + len(value)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.facts.Put(key, facts, int64(size))
	return facts, nil
}

// addLabels reads the labels of an image that is updated, for templates of messages. An
// image without them is updated as well.
func (f *finder) addLabels(ctx context.Context, app *v1alpha1.Application, of *project.Project, found *update) {
	request, err := f.request(ctx, app.Namespace, of, found.settings)
	if err != nil {
		return
	}
	if facts, err := f.factsOf(ctx, request, found.settings, found.tag); err == nil {
		found.labels = facts.Labels
	}
}
