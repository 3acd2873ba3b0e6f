package agent

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/internal/gitops/webhook"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/secret"
)

// Limits of the webhook server. Git hosts give up after ten seconds.
const (
	hookReadTimeout  = 15 * time.Second
	hookWriteTimeout = 20 * time.Second
	hookIdleTimeout  = time.Minute
	hookStopTimeout  = 5 * time.Second
	hookHeaderBytes  = 32 << 10
)

// hookKeys are the keys of the Secret by provider: Argo CD's, and our own where
// it has none. The first one that is present counts.
func hookKeys() map[webhook.Provider][]string {
	return map[webhook.Provider][]string{
		webhook.GitHub:           {"webhook.github.secret"},
		webhook.GitHubEnterprise: {"webhook.githubenterprise.secret", "webhook.github.secret"},
		webhook.GitLab:           {"webhook.gitlab.secret"},
		webhook.BitbucketCloud:   {"webhook.bitbucket.secret"},
		webhook.BitbucketServer:  {"webhook.bitbucketserver.secret"},
		webhook.Gitea:            {"webhook.gitea.secret", "webhook.gogs.secret"},
	}
}

// registryKeys are the keys of the Secret by registry, as Argo CD's Image Updater names
// them.
func registryKeys() map[webhook.Registry]string {
	return map[webhook.Registry]string{
		webhook.DockerHub: "webhook.docker-secret", webhook.GitHubPackage: "webhook.ghcr-secret",
		webhook.Harbor: "webhook.harbor-secret", webhook.Quay: "webhook.quay-secret", webhook.AliyunACR: "webhook.aliyun-acr-secret",
		webhook.AzureACR: "webhook.acr-secret", webhook.GoogleArtifact: "webhook.artifact-registry-secret", webhook.CloudEvents: "webhook.cloudevents-secret",
	}
}

// unsupportedHookKeys are keys of Argo CD that have no effect, with what to do.
func unsupportedHookKeys() map[string]string {
	return map[string]string{
		"webhook.bitbucket.uuid":       "it is part of every request and proves nothing: give the webhook a secret, and write it as webhook.bitbucket.secret",
		"webhook.azuredevops.username": "webhooks of Azure DevOps are not supported: its repositories are polled",
	}
}

// hookSecrets has the keys that Git hosts sign with. It is safe for concurrent
// use.
type hookSecrets struct {
	log *slog.Logger

	mu         sync.RWMutex
	byProvider map[webhook.Provider][]secret.Text
	byRegistry map[webhook.Registry][]secret.Text
	reported   map[string]bool
}

// update replaces the keys by those of the Secret. Without a Secret every
// request is refused.
func (h *hookSecrets) update(found []*corev1.Secret) {
	known := map[webhook.Provider][]secret.Text{}
	registries := map[webhook.Registry][]secret.Text{}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reported == nil {
		h.reported = map[string]bool{}
	}
	for _, given := range found {
		// The first key with a value counts.
		for provider, keys := range hookKeys() {
			for _, key := range keys {
				if text := strings.TrimSpace(string(given.Data[key])); text != "" {
					known[provider] = append(known[provider], secret.New(text))
					break
				}
			}
		}
		for registry, key := range registryKeys() {
			if text := strings.TrimSpace(string(given.Data[key])); text != "" {
				registries[registry] = append(registries[registry], secret.New(text))
			}
		}
		for key, fix := range unsupportedHookKeys() {
			if len(given.Data[key]) > 0 && !h.reported[key] {
				h.reported[key] = true
				h.log.Warn("ignored webhook secret", "secret", given.Namespace+"/"+given.Name, "key", key, observe.KeyReason, fix)
			}
		}
	}
	h.byProvider, h.byRegistry = known, registries
}

// forRegistry returns the secrets of a kind of registry.
func (h *hookSecrets) forRegistry(registry webhook.Registry) []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var texts []string
	for _, text := range h.byRegistry[registry] {
		texts = append(texts, text.Reveal())
	}
	return texts
}

// forProvider returns the keys of a provider, for the comparison with a
// signature.
func (h *hookSecrets) forProvider(provider webhook.Provider) []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var texts []string
	for _, text := range h.byProvider[provider] {
		texts = append(texts, text.Reveal())
	}
	return texts
}

// serveWebhooks serves requests of Git hosts until the context is done.
func (a *agent) serveWebhooks(ctx context.Context) error {
	handler := &webhook.Handler{Secrets: a.secrets.forProvider, Notify: a.onPush, Count: a.metrics.webhookReceived}
	if a.options.Features.ImageUpdates {
		handler.RegistrySecrets = a.secrets.forRegistry
		handler.NotifyImage = func(image string) { a.onPush(webhook.Push{Image: image}) }
	}
	mux := http.NewServeMux()
	// Both paths, so that webhooks that were registered for Argo CD keep
	// working.
	mux.Handle("/webhooks", handler)
	mux.Handle("/api/webhook", handler) // as in Argo CD
	mux.Handle("/webhook", handler)     // as in the Image Updater
	return serveHTTP(ctx, a.options.Webhooks, &http.Server{
		Handler: mux, ReadTimeout: hookReadTimeout, WriteTimeout: hookWriteTimeout,
	}, a.log.With(observe.KeyServer, "webhooks"))
}

// serveHTTP serves until the context is done, and then drains running requests
// up to hookStopTimeout.
func serveHTTP(ctx context.Context, listener net.Listener, server *http.Server, log *slog.Logger) error {
	server.ReadHeaderTimeout, server.IdleTimeout, server.MaxHeaderBytes = hookReadTimeout, hookIdleTimeout, hookHeaderBytes
	return observe.Serve(ctx, listener, server, hookStopTimeout, log)
}

// deliver passes a push from the relay to the controllers if this replica leads. Where the
// Applications are divided, theirs get it from the relay in any case.
func (a *agent) deliver(push webhook.Push) bool {
	if !a.options.Features.Division.Enabled {
		a.leading.polled(push)
	}
	return a.leading.pushed(push)
}

// onPush passes a push to the controllers of this replica, and through the relay to
// those that others run: of the leader, or of all if the Applications are divided.
func (a *agent) onPush(push webhook.Push) {
	a.leading.polled(push)
	if !a.leading.pushed(push) || a.options.Features.Division.Enabled {
		a.relay.forward(push)
	}
}
