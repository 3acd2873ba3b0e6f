package appproxy

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"slipway.dev/slipway/internal/gitops/webhook"
)

// maxHookSources bounds the handlers of sources with their own secrets.
const maxHookSources = 1000

// WebhookOptions configures the endpoint /webhooks/<runtime>/<source>.
type WebhookOptions struct {
	// Secrets returns the secrets of a source, and whether it has its own.
	Secrets func(source string, provider webhook.Provider) (secrets []string, own bool)
	// Shared returns the secrets of all other sources.
	Shared func(provider webhook.Provider) []string
	Notify func(webhook.Push)
	// Count may be nil.
	Count func(webhook.Provider, webhook.Outcome)
}

// webhooks receives requests of Git hosts. Each source with its own secrets has
// a handler, so that its requests do not exhaust the rate limit of the others.
type webhooks struct {
	options WebhookOptions
	shared  *webhook.Handler

	mu  sync.Mutex
	own map[string]*webhook.Handler
}

// NewWebhooks returns a handler for the router. The source is the path value
// "source". An unknown name is no error: such requests are verified with the
// shared secrets.
func NewWebhooks(options WebhookOptions) http.Handler {
	return &webhooks{
		options: options, own: map[string]*webhook.Handler{},
		shared: &webhook.Handler{Secrets: options.Shared, Notify: options.Notify, Count: options.Count, Source: senderOf},
	}
}

// ServeHTTP verifies the request with the secrets of the source.
func (h *webhooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.handler(r.PathValue("source")).ServeHTTP(w, r)
}

// handler returns the handler of a source. One is kept only for a source that
// has secrets, so that requests cannot fill the map with names.
func (h *webhooks) handler(source string) *webhook.Handler {
	if h.options.Secrets == nil || source == "" || !h.hasOwn(source) {
		return h.shared
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	found := h.own[source]
	if found == nil {
		if len(h.own) >= maxHookSources {
			// Sources that no longer exist go with it.
			clear(h.own) // sources that are gone go with it
		}
		found = &webhook.Handler{
			Secrets: func(provider webhook.Provider) []string {
				// Read with each request, so that a changed secret counts at
				// once.
				secrets, _ := h.options.Secrets(source, provider)
				return secrets
			},
			Notify: h.options.Notify, Count: h.options.Count, Source: senderOf,
		}
		h.own[source] = found
	}
	return found
}

// hasOwn reports whether a source has its own secrets for any host.
func (h *webhooks) hasOwn(source string) bool {
	return slices.ContainsFunc(webhook.Providers(), func(provider webhook.Provider) bool {
		_, own := h.options.Secrets(source, provider)
		return own
	})
}

// senderOf identifies the sender for the rate limit. Behind a tunnel or an
// Ingress all requests come from one address, so the last hop of
// X-Forwarded-For counts. A client that forges it only gets a rate limit of its
// own: the signature decides.
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
