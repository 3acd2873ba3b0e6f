package imageupdate

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/gitops/gitwrite"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/source/remote"
)

// maxRepositoryBytes bounds the newest commit of a repository that is written to.
const maxRepositoryBytes = 1 << 30

// maxOpen bounds the repositories that are kept open: each has its newest commit on the
// disk.
const maxOpen = 32

// writers keeps repositories open, so that a commit that did not change is not fetched
// again. One branch has one writer: commits to it take turns.
type writers struct {
	options Options

	mu    sync.Mutex
	known map[writerKey]*openWriter
}

// writerKey is a branch of a repository with the credential that opens it.
type writerKey struct {
	repository, branch, base, project string
	secret                            string
}

// openWriter is a writer and when it was used.
type openWriter struct {
	repository *gitwrite.Repository
	access     remote.Access
	used       time.Time
}

// newWriters makes it empty.
func newWriters(options Options) *writers {
	return &writers{options: options, known: map[writerKey]*openWriter{}}
}

// open returns the writer of a branch, which begins at that of the source.
func (r *run) open(ctx context.Context, branch string) (*gitwrite.Repository, error) {
	access, secret, err := r.access(ctx)
	if err != nil {
		return nil, err
	}
	key := writerKey{r.at.of.Address().Canonical().String(), branch, r.at.branch, r.at.of.Project(), secret}
	return r.writers.get(key, access, gitwrite.Options{RepoURL: r.at.repoURL, Branch: branch, Base: r.at.branch})
}

// access returns the credential of the repository: that of the project, or of the
// Secret that the settings name, which it returns as well.
func (r *run) access(ctx context.Context) (remote.Access, string, error) {
	access, err := r.options.Sources.Access(ctx, r.at.of)
	name := r.at.secret.name
	if err != nil || name == "" {
		return access, "", err
	}
	own, version, err := r.gitSecret(ctx, r.app.Namespace, name)
	if err != nil {
		return remote.Access{}, "", err
	}
	// How the server is reached is a matter of the project, and not of the Secret.
	own.Insecure, own.Proxy, own.NoProxy = access.Credential.Insecure, access.Credential.Proxy, access.Credential.NoProxy
	access.Credential = own
	access, err = r.options.Sources.WithAppToken(ctx, access)
	return access, r.app.Namespace + "/" + name + "@" + version, err
}

// get returns the writer of a key.
func (w *writers) get(key writerKey, access remote.Access, options gitwrite.Options) (*gitwrite.Repository, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.known[key]
	if one == nil || !sameAccess(one.access, access) {
		options.Access, options.MaxPackBytes, options.Folder = access, maxRepositoryBytes, w.options.Folder
		options.Committer = gitwrite.Author{Name: defaultAuthor, Email: defaultEmail}
		opened, err := gitwrite.Open(options)
		if err != nil {
			return nil, err
		}
		one = &openWriter{repository: opened, access: access}
		w.known[key] = one
	}
	one.used = time.Now()
	w.evict()
	return one.repository, nil
}

// evict forgets the writers that were not used for longest.
func (w *writers) evict() {
	for len(w.known) > maxOpen {
		var oldest writerKey
		for key, one := range w.known {
			if found := w.known[oldest]; found == nil || one.used.Before(found.used) {
				oldest = key
			}
		}
		delete(w.known, oldest)
	}
}

// sameAccess reports whether a credential is the one that a writer was opened with.
func sameAccess(x, y remote.Access) bool {
	a, b := x.Credential, y.Credential
	return a.Username == b.Username && a.Password.Reveal() == b.Password.Reveal() && a.BearerToken.Reveal() == b.BearerToken.Reveal() &&
		a.SSHPrivateKey.Reveal() == b.SSHPrivateKey.Reveal() && a.ClientKey.Reveal() == b.ClientKey.Reveal() && a.Proxy.Reveal() == b.Proxy.Reveal() &&
		string(x.Authorities) == string(y.Authorities) && string(x.KnownHosts) == string(y.KnownHosts)
}

// gitSecret reads the credential of a repository from a Secret that a user named.
func (c *Controller) gitSecret(ctx context.Context, namespace, name string) (credential.Credential, string, error) {
	found, err := c.options.Cluster.Client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return credential.Credential{}, "", fmt.Errorf("read the Secret %s/%s: %w", namespace, name, err)
	}
	// Argo CD's own form has a label and an address; this one has the login alone.
	given := found.DeepCopy()
	given.Labels = map[string]string{"argocd.argoproj.io/secret-type": "repository"}
	if given.Data == nil {
		given.Data = map[string][]byte{}
	}
	given.Data["url"] = []byte("https://example.com/placeholder.git")
	delete(given.Data, "project")
	parsed, err := credential.Parse(given)
	if err != nil {
		return credential.Credential{}, "", fmt.Errorf("the Secret %s/%s: %w", namespace, name, err)
	}
	return parsed, found.ResourceVersion, nil
}

// The author of commits, as upstream names it.
const (
	defaultAuthor = "argocd-image-updater"
	defaultEmail  = "noreply@argoproj.io"
)

// configName is the ConfigMap of the Image Updater, in the control namespace.
const configName = "argocd-image-updater-config"

// configAge is how long its content is used.
const configAge = 15 * time.Second

// commitConfig is what the ConfigMap configures about commits.
type commitConfig struct {
	author  gitwrite.Author
	message string
}

// configReader reads the ConfigMap when a commit is made. Only commits need it, so that
// it is not watched.
type configReader struct {
	options Options

	mu    sync.Mutex
	known commitConfig
	at    time.Time
}

// read returns what is configured.
func (r *configReader) read(ctx context.Context) (commitConfig, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) < configAge {
		return r.known, nil
	}
	found, err := r.options.Cluster.Client.CoreV1().ConfigMaps(r.options.ControlNamespace).Get(ctx, configName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		found = &corev1.ConfigMap{}
	case err != nil:
		return commitConfig{}, fmt.Errorf("read the ConfigMap %s: %w", configName, err)
	}
	r.known, r.at = commitConfig{
		author:  gitwrite.Author{Name: defaultAuthor, Email: defaultEmail},
		message: found.Data["git.commit-message-template"],
	}, time.Now()
	if name := found.Data["git.user"]; name != "" {
		r.known.author.Name = name
	}
	if email := found.Data["git.email"]; email != "" {
		r.known.author.Email = email
	}
	return r.known, nil
}
