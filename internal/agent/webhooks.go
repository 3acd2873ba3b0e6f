package agent

import (
	"context"
	"errors"
	"fmt"
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

// What the server for webhooks allows. Hosts wait ten seconds for an answer.
const (
	hookReadTimeout  = 15 * time.Second
	hookWriteTimeout = 20 * time.Second
	hookIdleTimeout  = time.Minute
	hookStopTimeout  = 5 * time.Second
	hookHeaderBytes  = 32 << 10
)

// hookKeys are the keys of the Secret by host: Argo CD's, and our own where it
// has none. The first one that is there counts.
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

// uselessHookKeys are keys of Argo CD that open nothing here, and what to do.
func uselessHookKeys() map[string]string {
	return map[string]string{
		"webhook.bitbucket.uuid":       "everybody who sees one request knows it: give the webhook a secret, and write it as webhook.bitbucket.secret",
		"webhook.azuredevops.username": "webhooks of Azure DevOps are not supported: its repositories are polled",
	}
}

// hookSecrets are the secrets that Git hosts sign with.
type hookSecrets struct {
	log *slog.Logger

	mu    sync.RWMutex
	known map[webhook.Provider][]secret.Text
	told  map[string]bool
}

// take takes the Secret; without one every request is refused.
func (h *hookSecrets) take(found []*corev1.Secret) {
	known := map[webhook.Provider][]secret.Text{}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told == nil {
		h.told = map[string]bool{}
	}
	for _, given := range found {
		for provider, keys := range hookKeys() {
			for _, key := range keys {
				if text := strings.TrimSpace(string(given.Data[key])); text != "" {
					known[provider] = append(known[provider], secret.New(text))
					break
				}
			}
		}
		for key, fix := range uselessHookKeys() {
			if len(given.Data[key]) > 0 && !h.told[key] {
				h.told[key] = true
				h.log.Warn("a secret for webhooks is not used", "secret", given.Namespace+"/"+given.Name, "key", key, observe.KeyReason, fix)
			}
		}
	}
	h.known = known
}

// of are the secrets of a host, for the one call that compares them.
func (h *hookSecrets) of(provider webhook.Provider) []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var texts []string
	for _, text := range h.known[provider] {
		texts = append(texts, text.Reveal())
	}
	return texts
}

// serveWebhooks hears Git hosts until the context is done.
func (a *agent) serveWebhooks(ctx context.Context) error {
	handler := &webhook.Handler{Secrets: a.secrets.of, Notify: a.heard, Count: a.metrics.heard}
	mux := http.NewServeMux()
	mux.Handle("/webhooks", handler)
	mux.Handle("/api/webhook", handler) // as in Argo CD
	return serveHTTP(ctx, a.options.Webhooks, &http.Server{
		Handler: mux, ReadTimeout: hookReadTimeout, WriteTimeout: hookWriteTimeout,
	}, a.log.With(observe.KeyServer, "webhooks"))
}

// serveHTTP serves until the context is done, and lets running requests end.
func serveHTTP(ctx context.Context, listener net.Listener, server *http.Server, log *slog.Logger) error {
	server.ReadHeaderTimeout, server.IdleTimeout, server.MaxHeaderBytes = hookReadTimeout, hookIdleTimeout, hookHeaderBytes
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	log.Info("server listens", observe.KeyAddress, listener.Addr().String())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("server at %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), hookStopTimeout)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		log.Warn("server cut running requests", observe.KeyError, errors.Join(err, server.Close()))
	}
	<-served
	return nil
}

// heard passes a push on: to the loops if this replica leads, and else to the
// replica that does.
func (a *agent) heard(push webhook.Push) {
	if !a.leading.pushed(push) {
		a.mailbox.put(push)
	}
}
