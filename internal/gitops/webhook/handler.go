package webhook

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// The defaults of a Handler.
const (
	// DefaultMaxBytes is enough for a push of some ten thousand files. Hosts
	// send up to 25 MiB; a larger push is found by the next poll.
	DefaultMaxBytes = 4 << 20
	// DefaultPerMinute is more than a busy repository is pushed to, with bursts
	// of a fifth of it.
	DefaultPerMinute = 300
)

// Bounds of requests that are read at the same time, and of the time to read
// one. They keep slow clients from holding memory.
const (
	// maxInFlight bounds the bodies that are held in memory at one time.
	maxInFlight = 16
	// readTimeout is for the body, which a host sends at once.
	readTimeout = 10 * time.Second
)

// Outcome is what became of a request, for a counter.
type Outcome string

// What becomes of requests.
const (
	OutcomePush            Outcome = "push"
	OutcomePing            Outcome = "ping"
	OutcomeIgnored         Outcome = "ignored"
	OutcomeMalformed       Outcome = "malformed"
	OutcomeUnauthenticated Outcome = "unauthenticated"
	OutcomeTooLarge        Outcome = "too_large"
	OutcomeLimited         Outcome = "limited"
	OutcomeOverloaded      Outcome = "overloaded"
)

// Handler serves the webhooks of Git hosts. Secrets and Notify must be set. It
// caches no secret and calls Secrets for each request, so that new ones apply
// at once.
type Handler struct {
	// Secrets gives the secrets of a host. Several are for the time of a change.
	// Without one, requests of the host are refused.
	Secrets func(Provider) []string
	// Notify is called for each push, in the goroutine of the request. It must
	// not block: hosts wait only some seconds for the response.
	Notify func(Push)
	// RegistrySecrets gives the secrets of a kind of registry, and NotifyImage is called
	// for each image that was pushed, as registry/repository. Without them events of
	// registries are refused.
	RegistrySecrets func(Registry) []string
	NotifyImage     func(string)
	// Count is called with the outcome of each request. It can be nil. The
	// provider is empty if it could not be detected.
	Count func(Provider, Outcome)
	// Source identifies the sender, for the rate limit. Without it, it is the
	// remote address of the connection.
	Source func(*http.Request) string
	// MaxBytes bounds a body, and PerMinute the requests of a source. 0 is the
	// default.
	MaxBytes  int64
	PerMinute int

	limiter  limiter
	inFlight atomic.Int64
}

// ServeHTTP authenticates and parses a request, and notifies of its pushes.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	provider, outcome := h.serve(w, r)
	if h.Count != nil {
		h.Count(provider, outcome)
	}
}

// serve checks what is cheap first: method, rate limit, sender, size. The body
// is read after that, and parsed only if it is authenticated.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) (Provider, Outcome) {
	// Browsers and probes land here.
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		respond(w, http.StatusMethodNotAllowed, "webhooks are sent with POST")
		return "", OutcomeMalformed
	}
	if wait, allowed := h.allow(r); !allowed {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		respond(w, http.StatusTooManyRequests, "there are too many requests: send it again later")
		return "", OutcomeLimited
	}
	if of := registryOf(r.URL.Query()); of != "" {
		return Provider(of), h.serveRegistry(w, r, of)
	}
	provider, event, ok := detect(r.Header)
	if !ok {
		respond(w, http.StatusBadRequest, errUnknownSender.Error())
		return "", OutcomeMalformed
	}
	defer h.inFlight.Add(-1)
	if h.inFlight.Add(1) > maxInFlight {
		w.Header().Set("Retry-After", "5")
		respond(w, http.StatusServiceUnavailable, "too many requests are being read: send it again later")
		return provider, OutcomeOverloaded
	}
	body, err := h.read(w, r)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		respond(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes: what was pushed is found by the next poll", tooLarge.Limit))
		return provider, OutcomeTooLarge
	case err != nil:
		respond(w, http.StatusBadRequest, "the body cannot be read")
		return provider, OutcomeMalformed
	}
	if err := Authenticate(provider, r.Header, body, h.Secrets(provider)); err != nil {
		return provider, refuse(w, provider, event, err)
	}
	return provider, h.deliver(w, r, body)
}

// serveRegistry serves an event of a registry.
func (h *Handler) serveRegistry(w http.ResponseWriter, r *http.Request, of Registry) Outcome {
	if h.RegistrySecrets == nil || !slices.Contains(Registries(), of) {
		respond(w, http.StatusBadRequest, fmt.Sprintf("events of this kind of registry are not read: write one of %q as the type in the address", Registries()))
		return OutcomeMalformed
	}
	defer h.inFlight.Add(-1)
	if h.inFlight.Add(1) > maxInFlight {
		w.Header().Set("Retry-After", "5")
		respond(w, http.StatusServiceUnavailable, "too many requests are being read: send it again later")
		return OutcomeOverloaded
	}
	body, err := h.read(w, r)
	if err != nil || len(body) > maxRegistryBytes {
		respond(w, http.StatusBadRequest, "the body cannot be read, or is too large")
		return OutcomeMalformed
	}
	if err := AuthenticateRegistry(of, r, body, h.RegistrySecrets(of)); err != nil {
		return refuse(w, Provider(of), "", err)
	}
	image, err := ParseRegistry(of, body, r.URL.Query())
	switch {
	case err != nil:
		respond(w, http.StatusBadRequest, err.Error())
		return OutcomeMalformed
	case image == "":
		respond(w, http.StatusAccepted, "nothing is done: no image was pushed")
		return OutcomeIgnored
	}
	h.NotifyImage(image)
	respond(w, http.StatusOK, "the tags of the image are read")
	return OutcomePush
}

// refuse responds to a request that is not authenticated. The connection test
// of a Bitbucket that does not sign it gets a success: it has no effect.
func refuse(w http.ResponseWriter, provider Provider, event string, err error) Outcome {
	switch {
	case provider == BitbucketServer && event == pingOfBitbucketServer && errors.Is(err, errUnsigned):
		respond(w, http.StatusOK, "pong, but the request is not signed: pushes have to be")
		return OutcomePing
	case errors.Is(err, errNoSecret):
		respond(w, http.StatusForbidden, err.Error())
	default:
		respond(w, http.StatusUnauthorized, err.Error())
	}
	return OutcomeUnauthenticated
}

// deliver parses an authenticated request.
func (h *Handler) deliver(w http.ResponseWriter, r *http.Request, body []byte) Outcome {
	event, err := Parse(r, body)
	switch {
	case err != nil:
		respond(w, http.StatusBadRequest, err.Error())
		return OutcomeMalformed
	case event.Ping:
		respond(w, http.StatusOK, "pong")
		return OutcomePing
	case event.Ignored != "":
		respond(w, http.StatusAccepted, "nothing is done: "+event.Ignored)
		return OutcomeIgnored
	}
	for _, push := range event.Pushes {
		h.Notify(push)
	}
	respond(w, http.StatusOK, "applications of the repository are refreshed")
	return OutcomePush
}

// allow applies the rate limit of the source.
func (h *Handler) allow(r *http.Request) (time.Duration, bool) {
	perMinute := h.PerMinute
	if perMinute <= 0 {
		perMinute = DefaultPerMinute
	}
	return h.limiter.allow(h.source(r), perMinute, max(1, perMinute/5), time.Now())
}

// source identifies the sender for the rate limit.
func (h *Handler) source(r *http.Request) string {
	if h.Source != nil {
		return h.Source(r)
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// read reads the body, bounded in bytes and time.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limit := h.MaxBytes
	if limit <= 0 {
		limit = DefaultMaxBytes
	}
	if r.ContentLength > limit {
		// The declared length is enough to refuse it without reading.
		return nil, &http.MaxBytesError{Limit: limit}
	}
	// A writer that has no deadlines is not a connection.
	control := http.NewResponseController(w)
	if control.SetReadDeadline(time.Now().Add(readTimeout)) == nil {
		defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
}

// respond writes a plain text response.
func respond(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	// A client that is gone needs no response.
	_, _ = io.WriteString(w, text+"\n")
}
