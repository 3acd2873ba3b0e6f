package appproxy

import (
	"net"
	"net/http"
	"strings"
	"sync"

	"slipway.dev/slipway/internal/gitops/webhook"
)

// maxHookSources bounds the sources with secrets of their own.
const maxHookSources = 1000

// WebhookOptions is what hears Git hosts at /webhooks/<runtime>/<source>.
type WebhookOptions struct {
	// Secrets are those of a source that has its own, and whether it has.
	Secrets func(source string, provider webhook.Provider) (secrets []string, own bool)
	// Shared are those of all other sources.
	Shared func(provider webhook.Provider) []string
	Notify func(webhook.Push)
	// Count can be nil.
	Count func(webhook.Provider, webhook.Outcome)
}

// webhooks hears Git hosts. Each source with secrets of its own has a handler, so
// that its requests do not use up the others' allowance.
type webhooks struct {
	options WebhookOptions
	shared  *webhook.Handler

	mu  sync.Mutex
	own map[string]*webhook.Handler
}

// NewWebhooks makes a handler for the router. The source is the path value
// "source". A name that is not known is no error: its requests are verified with
// the secrets that all share.
func NewWebhooks(options WebhookOptions) http.Handler {
	return &webhooks{
		options: options, own: map[string]*webhook.Handler{},
		shared: &webhook.Handler{Secrets: options.Shared, Notify: options.Notify, Count: options.Count, Source: senderOf},
	}
}

// ServeHTTP verifies with the secrets of the source.
func (h *webhooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.handler(r.PathValue("source")).ServeHTTP(w, r)
}

// handler is that of a source. One is kept only for sources that have secrets, so
// that nobody can fill the table with names.
func (h *webhooks) handler(source string) *webhook.Handler {
	if h.options.Secrets == nil || source == "" || !h.hasOwn(source) {
		return h.shared
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	found := h.own[source]
	if found == nil {
		if len(h.own) >= maxHookSources {
			clear(h.own) // sources that are gone go with it
		}
		found = &webhook.Handler{
			Secrets: func(provider webhook.Provider) []string {
				secrets, _ := h.options.Secrets(source, provider)
				return secrets
			},
			Notify: h.options.Notify, Count: h.options.Count, Source: senderOf,
		}
		h.own[source] = found
	}
	return found
}

// hasOwn reports whether a source has secrets for any host.
func (h *webhooks) hasOwn(source string) bool {
	for _, provider := range webhook.Providers() {
		if _, own := h.options.Secrets(source, provider); own {
			return true
		}
	}
	return false
}

// senderOf tells senders apart for the limit of requests. Behind a tunnel or an
// Ingress all of them have one address, so the last hop that was written down
// counts. Who writes it themselves gets a limit of their own, and no more: the
// signature decides.
func senderOf(r *http.Request) string {
	if hops := r.Header.Values("X-Forwarded-For"); len(hops) > 0 {
		last := hops[len(hops)-1]
		if i := strings.LastIndexByte(last, ','); i >= 0 {
			last = last[i+1:]
		}
		if address := net.ParseIP(strings.TrimSpace(last)); address != nil {
			return address.String()
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
