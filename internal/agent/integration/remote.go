package integration

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/secret"
)

// errNoCredentials is the error before the first step after the installation.
func (s *Service) errNoCredentials() error {
	return sharedrepo.NotReady("the runtime has no Git credentials: set them first, in the console or with slipway integration git set-runtime-token --runtime %s --token-file FILE", s.options.Runtime)
}

// RuntimeAccess is Access for repositories that need the runtime's own
// credential, such as the Shared Configuration Repository.
func (s *Service) RuntimeAccess(ctx context.Context, repoURL string) (remote.Access, error) {
	c, err := s.loadRuntime(ctx)
	if err != nil {
		return remote.Access{}, err
	}
	if c == nil {
		return remote.Access{}, s.errNoCredentials()
	}
	return s.Access(ctx, "", repoURL)
}

// Provider returns the Git provider of the account, with the runtime's token.
func (s *Service) Provider(ctx context.Context) (gitprovider.Provider, gitprovider.Kind, error) {
	c, err := s.loadRuntime(ctx)
	if err != nil {
		return nil, "", err
	}
	if c == nil {
		return nil, "", s.errNoCredentials()
	}
	provider, err := s.provider(ctx, providerChoice{kind: c.kind, apiURL: c.apiURL, clear: c.clearToken, authorities: []byte(c.authorities)})
	return provider, c.kind, err
}

// CreateRepository creates a private repository at the provider. An existing
// one is no error.
func (s *Service) CreateRepository(ctx context.Context, repoURL string) error {
	provider, _, err := s.Provider(ctx)
	if err != nil {
		return err
	}
	_, err = provider.CreateRepository(ctx, repoURL, true)
	if refused, ok := errors.AsType[*gitprovider.Error](err); ok && refused.Kind == gitprovider.Conflict {
		return nil
	}
	return err
}

// SSHReady reports whether the runtime has an SSH key for a repository of a
// project (R67). It uses the lookup of the agent itself, so that both choose
// the same credential for an address.
func (s *Service) SSHReady(ctx context.Context, project string, at address.Address) (bool, error) {
	book, err := s.loadCredentials(ctx)
	if err != nil {
		return false, err
	}
	given, found := book.For(at, project)
	return found && !given.SSHPrivateKey.IsZero(), nil
}

// WebhookSecret returns the key that Git hosts sign with: a field of a Secret
// of the control namespace, which is created if it does not exist. Concurrent
// replicas may create it; the one that loses reads the other's.
func (s *Service) WebhookSecret(ctx context.Context, name, field string) (secret.Text, error) {
	if name == "" {
		return secret.Text{}, errors.New("the runtime has no Secret for webhooks: set webhooks.secret")
	}
	// Another replica may create or change the Secret at the same time.
	for range 5 {
		found, err := s.secrets().Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(found.Data[field]) > 0 {
			return secret.New(strings.TrimSpace(string(found.Data[field]))), nil
		}
		made := []byte(randomText())
		switch {
		case apierrors.IsNotFound(err):
			found, err = s.secrets().Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels("webhooks")}, Data: map[string][]byte{field: made},
			}, metav1.CreateOptions{})
		case err == nil:
			if found.Data == nil {
				found.Data = map[string][]byte{}
			}
			found.Data[field] = made
			found, err = s.secrets().Update(ctx, found, metav1.UpdateOptions{})
		}
		if err == nil {
			return secret.New(string(found.Data[field])), nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return secret.Text{}, storeError("write the Secret", name, err)
		}
	}
	return secret.Text{}, errors.New("write the Secret " + name + ": too many conflicting changes: try again")
}
