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

// open returns the writer of a branch, which begins at that of the source.
func (r *run) open(ctx context.Context, branch string) (*gitwrite.Repository, error) {
	access, secret, err := r.access(ctx)
	if err != nil {
		return nil, err
	}
	return r.writers.Get(gitwrite.PoolKey{
		Repository: r.at.of.Address().Canonical().String(), Branch: branch, Base: r.at.branch, Project: r.at.of.Project(), Secret: secret,
	}, gitwrite.Options{
		RepoURL: r.at.repoURL, Branch: branch, Base: r.at.branch, Access: access, MaxPackBytes: maxRepositoryBytes,
		Folder: r.options.Folder, Committer: gitwrite.Author{Name: defaultAuthor, Email: defaultEmail},
	})
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
