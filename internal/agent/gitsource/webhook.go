package gitsource

import (
	"context"
	"errors"
	"fmt"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// errNoAddress is no failure: a runtime behind a tunnel gets its address later,
// and Run registers the webhook then.
var errNoAddress = errors.New("the runtime has no address that the Git provider could call yet; the repository is polled")

// secretKey is the key of the Secret that the webhook receiver reads for a
// provider.
func secretKey(kind gitprovider.Kind) string {
	switch kind {
	case gitprovider.GitLab:
		return "webhook.gitlab.secret"
	case gitprovider.Bitbucket:
		return "webhook.bitbucket.secret"
	case gitprovider.BitbucketServer:
		return "webhook.bitbucketserver.secret"
	}
	return "webhook.github.secret"
}

// registerWebhook registers the runtime's address at the provider and returns
// it. Without a webhook the repository is polled, so that no error of it is
// fatal.
func (s *Service) registerWebhook(ctx context.Context, given *runtimev1.GitSource) (string, error) {
	address := s.webhookURL(given.GetName())
	if address == "" {
		return "", errNoAddress
	}
	provider, kind, err := s.options.Integrations.Provider(ctx)
	if err != nil {
		return "", err
	}
	// The secret is created on first use, so that the receiver can verify
	// signatures.
	shared, err := s.options.Integrations.WebhookSecret(ctx, s.options.WebhookSecret, secretKey(kind))
	if err != nil {
		return "", err
	}
	if err := provider.EnsureWebhook(ctx, given.GetRepoUrl(), gitprovider.Webhook{URL: address, Secret: shared}); err != nil {
		return "", fmt.Errorf("register the webhook: %w; the repository is polled", err)
	}
	return address, nil
}

// webhookURL returns the address for a source; empty if there is none.
func (s *Service) webhookURL(source string) string {
	if s.options.WebhookURL == nil {
		return ""
	}
	return s.options.WebhookURL(source)
}

// removeWebhook removes what registerWebhook created, on a best-effort basis:
// requests to an address that is gone do no harm.
func (s *Service) removeWebhook(ctx context.Context, source, repoURL, address string) {
	if address == "" || repoURL == "" {
		return
	}
	// The provider may be unreachable or replaced; then the webhook is left.
	provider, _, err := s.options.Integrations.Provider(ctx)
	if err == nil {
		err = provider.RemoveWebhook(ctx, repoURL, address)
	}
	if err != nil {
		s.options.Log.Info("cannot remove webhook of Git Source", "source", source, observe.KeyError, err)
	}
}
