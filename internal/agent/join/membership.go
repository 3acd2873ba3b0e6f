package join

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	corev1 "k8s.io/api/core/v1"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// Membership is a runtime's registration at the platform. It is safe for
// concurrent use.
type Membership struct {
	options Options
	http    *http.Client
	// runtimes and renewals authenticate with an API key or a refresh token;
	// agent adds the access token to each request.
	runtimes platformv1connect.RuntimeServiceClient
	renewals platformv1connect.AgentServiceClient
	agent    platformv1connect.AgentServiceClient

	// renewNow triggers a renewal after a token was rejected. wake is signalled
	// when the Secret changes, and beatSoon when the state does.
	renewNow, wake, beatSoon chan struct{}

	mu      sync.Mutex
	current *credential
	status  Status
	changed chan struct{} // closed when current or status change
	leading bool
	// configuration is the value of the last heartbeat's response.
	configuration bool

	// The goroutine of Lead owns these.
	pending *credential // got, and not in the Secret yet
	renewAt time.Time   // by our clock
	renewed time.Time
	beat    *platformv1.HeartbeatRequest // the last one with a response
}

const (
	// readLimit bounds a response of the platform.
	readLimit = 4 << 20
	// sendLimit bounds a heartbeat; a batch of reports is smaller.
	sendLimit = 8 << 20
)

// New returns a membership. It sends no request before Lead.
func New(options Options) (*Membership, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	client, err := options.httpClient()
	if err != nil {
		return nil, err
	}
	m := &Membership{
		options: options, http: client,
		renewNow: make(chan struct{}, 1), wake: make(chan struct{}, 1), beatSoon: make(chan struct{}, 1), changed: make(chan struct{}),
		status: Status{Phase: Joining, Message: "the platform has not been contacted yet", Since: time.Now()},
	}
	limits := []connect.ClientOption{connect.WithReadMaxBytes(readLimit), connect.WithSendMaxBytes(sendLimit), connect.WithSendGzip(), connect.WithCompressMinBytes(1 << 10)}
	m.runtimes = platformv1connect.NewRuntimeServiceClient(client, options.PlatformURL, limits...)
	m.renewals = platformv1connect.NewAgentServiceClient(client, options.PlatformURL, limits...)
	m.agent = platformv1connect.NewAgentServiceClient(client, options.PlatformURL, append(limits, connect.WithInterceptors(m.authenticate()))...)
	return m, nil
}

// Client returns a client of the platform that authenticates with the access
// token.
func (m *Membership) Client() platformv1connect.AgentServiceClient { return m.agent }

// authenticate adds the access token to requests. A rejected token is renewed
// soon.
func (m *Membership) authenticate() connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			token, err := m.AccessToken(ctx)
			if err != nil {
				return nil, connect.NewError(connect.CodeUnavailable, err)
			}
			request.Header().Set("Authorization", "Bearer "+token)
			response, err := next(ctx, request)
			if connect.CodeOf(err) == connect.CodeUnauthenticated {
				signal(m.renewNow)
			}
			return response, err
		}
	}
}

// ReportSoon requests a heartbeat before its turn: the state of the runtime has
// changed, and a user may be waiting to see it.
func (m *Membership) ReportSoon() { signal(m.beatSoon) }

// signal sends on a channel without blocking: one pending signal is enough.
func signal(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// AccessToken returns the token for requests to the platform and for tunnels.
// It waits for one until the context is done, unless the runtime cannot get one
// without an action of a user.
func (m *Membership) AccessToken(ctx context.Context) (string, error) {
	for {
		m.mu.Lock()
		current, status, changed := m.current, m.status, m.changed
		m.mu.Unlock()
		if current != nil && !current.Access.IsZero() {
			return current.Access.Reveal(), nil
		}
		if status.Phase == Revoked || status.Phase == Uninstalled {
			return "", fmt.Errorf("the runtime has no credential: %s", status.Message)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", fmt.Errorf("the runtime has no credential yet: %s: %w", status.Message, context.Cause(ctx))
		}
	}
}

// Changes returns a channel that is closed when a result of the other methods
// changes.
func (m *Membership) Changes() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// credential returns the current credential, or an empty one.
func (m *Membership) credential() *credential {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current == nil {
		return &credential{}
	}
	return m.current
}

// RuntimeID returns the platform's id of the runtime; empty before it is
// registered.
func (m *Membership) RuntimeID() string { return m.credential().RuntimeID }

// AccountID returns the account of the runtime; empty before it is registered.
func (m *Membership) AccountID() string { return m.credential().AccountID }

// PlatformKeys returns the JSON Web Key Set that verifies the platform's
// requests.
func (m *Membership) PlatformKeys() string { return m.credential().PlatformKeys }

// TunnelURLs returns the addresses that tunnels connect to.
func (m *Membership) TunnelURLs() []string { return slices.Clone(m.credential().TunnelURLs) }

// TunnelHost returns the host name that the platform serves the tunnel at.
func (m *Membership) TunnelHost() string { return m.credential().TunnelHost }

// GitSettings returns the account's Git settings; nil if there are none.
func (m *Membership) GitSettings() *platformv1.GitSettings { return m.credential().Git }

// ConfigurationRuntime reports whether this is the account's configuration
// runtime. Only the leader receives it.
func (m *Membership) ConfigurationRuntime() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.configuration
}

// adopt replaces the current credential and notifies the callers of Changes.
func (m *Membership) adopt(c *credential) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current = c
	m.broadcast()
}

// broadcast closes the channel of Changes. The lock must be held.
func (m *Membership) broadcast() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// dropAccess removes the access token, so that AccessToken waits for the next
// one. The lock must be held.
func (m *Membership) dropAccess() {
	if m.current == nil {
		return
	}
	m.current = m.current.redacted()
}

// secrets is the client for the Secrets of the control namespace.
func (m *Membership) secrets() typedcore.SecretInterface {
	return m.options.Cluster.Client.CoreV1().Secrets(m.options.Namespace)
}

// Run watches the Secret until the context is done, so that every replica has
// the credential. Failed requests are retried.
func (m *Membership) Run(ctx context.Context) error {
	defer m.http.CloseIdleConnections()
	_ = kube.Follow(ctx, m.secrets(), kube.Named(SecretName), nil, func(found []*corev1.Secret) {
		m.onSecret(ctx, found)
	}) // it ends with the context alone
	return nil
}

// onSecret takes over a credential that another replica stored. The leader
// keeps its own.
func (m *Membership) onSecret(ctx context.Context, found []*corev1.Secret) {
	signal(m.wake)
	m.mu.Lock()
	leading := m.leading
	m.mu.Unlock()
	if leading {
		return
	}
	if len(found) == 0 {
		m.adopt(nil)
		return
	}
	seen := parseCredential(found[0].Data)
	switch {
	case seen.Uninstall == uninstallDone:
		m.setPhase(ctx, Uninstalled, m.uninstalledMessage())
	case seen.Revoked:
		m.setPhase(ctx, Revoked, m.revokedMessage())
	case seen.matches(&m.options):
		m.adopt(seen)
		m.setPhase(ctx, Joined, "the replica that leads has joined the platform")
	}
}
