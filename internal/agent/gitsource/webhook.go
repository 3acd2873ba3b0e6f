package gitsource

import (
	"context"
	"errors"
	"fmt"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

var errNoAddress = errors.New("the runtime has no address that the Git provider could call yet; the repository is polled")

// secretKey is the field of the Secret that the receiver reads for a provider.
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

// registerWebhook tells the provider where to say that something was pushed.
// Without one the repository is polled, so that no error of it is fatal. It gives
// the address of the webhook.
func (s *Service) registerWebhook(ctx context.Context, given *runtimev1.GitSource) (string, error) {
	address := s.webhookURL(given.GetName())
	if address == "" {
		return "", errNoAddress
	}
	provider, kind, err := s.options.Integrations.Provider(ctx)
	if err != nil {
		return "", err
	}
	shared, err := s.options.Integrations.WebhookSecret(ctx, s.options.WebhookSecret, secretKey(kind))
	if err != nil {
		return "", err
	}
	if err := provider.EnsureWebhook(ctx, given.GetRepoUrl(), gitprovider.Webhook{URL: address, Secret: shared}); err != nil {
		return "", fmt.Errorf("register the webhook: %w; the repository is polled", err)
	}
	return address, nil
}

func (s *Service) webhookURL(source string) string {
	if s.options.WebhookURL == nil {
		return ""
	}
	return s.options.WebhookURL(source)
}

// removeWebhook tries to take away what registerWebhook made. A provider that
// calls in vain does no harm.
func (s *Service) removeWebhook(ctx context.Context, source, repoURL, address string) {
	if address == "" || repoURL == "" {
		return
	}
	provider, _, err := s.options.Integrations.Provider(ctx)
	if err == nil {
		err = provider.RemoveWebhook(ctx, repoURL, address)
	}
	if err != nil {
		s.options.Log.Info("the webhook of a Git Source could not be removed", "source", source, observe.KeyError, err)
	}
}
