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

// Membership is a runtime's place at the platform. It is safe for concurrent use.
type Membership struct {
	options Options
	http    *http.Client
	// runtimes and renewals show a key or a refresh token; agent adds the access
	// token.
	runtimes platformv1connect.RuntimeServiceClient
	renewals platformv1connect.AgentServiceClient
	agent    platformv1connect.AgentServiceClient

	// hurry has the credential renewed: it was not taken. wake is poked when the
	// Secret changes.
	hurry, wake chan struct{}

	mu      sync.Mutex
	current *credential
	status  Status
	changed chan struct{} // closed when current or status change
	leading bool
	// configuration is what the last heartbeat answered.
	configuration bool

	// The goroutine of Lead owns these.
	pending *credential // got, and not in the Secret yet
	renewAt time.Time   // by our clock
	renewed time.Time
	beat    *platformv1.HeartbeatRequest // the last one that was answered
}

const (
	// readLimit bounds an answer of the platform.
	readLimit = 4 << 20
	// sendLimit bounds a heartbeat; a batch of reports is smaller.
	sendLimit = 8 << 20
)

// New makes a membership. It asks nobody yet.
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
		hurry: make(chan struct{}, 1), wake: make(chan struct{}, 1), changed: make(chan struct{}),
		status: Status{Phase: Joining, Message: "the platform has not been asked yet", Since: time.Now()},
	}
	limits := []connect.ClientOption{connect.WithReadMaxBytes(readLimit), connect.WithSendMaxBytes(sendLimit), connect.WithSendGzip(), connect.WithCompressMinBytes(1 << 10)}
	m.runtimes = platformv1connect.NewRuntimeServiceClient(client, options.PlatformURL, limits...)
	m.renewals = platformv1connect.NewAgentServiceClient(client, options.PlatformURL, limits...)
	m.agent = platformv1connect.NewAgentServiceClient(client, options.PlatformURL, append(limits, connect.WithInterceptors(m.authenticate()))...)
	return m, nil
}

// Client asks the platform with the access token.
func (m *Membership) Client() platformv1connect.AgentServiceClient { return m.agent }

// authenticate adds the access token. A token that is not taken is renewed soon.
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
				poke(m.hurry)
			}
			return response, err
		}
	}
}

func poke(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// AccessToken is the token for requests to the platform and for tunnels. It waits
// for one until the context is done, unless none will come.
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

// Changes is closed when something that the other methods answer has changed.
func (m *Membership) Changes() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// known is the credential, or an empty one.
func (m *Membership) known() *credential {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current == nil {
		return &credential{}
	}
	return m.current
}

// RuntimeID is the platform's id of the runtime; empty before it is registered.
func (m *Membership) RuntimeID() string { return m.known().RuntimeID }

// AccountID is the account of the runtime; empty before it is registered.
func (m *Membership) AccountID() string { return m.known().AccountID }

// PlatformKeys is the JSON Web Key Set that the platform's requests are signed
// with.
func (m *Membership) PlatformKeys() string { return m.known().PlatformKeys }

// TunnelURLs are where tunnels connect.
func (m *Membership) TunnelURLs() []string { return slices.Clone(m.known().TunnelURLs) }

// TunnelHost is the host name that the platform serves the runtime's tunnel at.
func (m *Membership) TunnelHost() string { return m.known().TunnelHost }

// GitSettings are the account's; nil when none are known.
func (m *Membership) GitSettings() *platformv1.GitSettings { return m.known().Git }

// ConfigurationRuntime reports whether this is the account's configuration
// runtime. Only the replica that leads knows.
func (m *Membership) ConfigurationRuntime() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.configuration
}

// adopt makes a credential the one that is used.
func (m *Membership) adopt(c *credential) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current = c
	m.broadcast()
}

// broadcast and dropAccess need the lock.
func (m *Membership) broadcast() {
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *Membership) dropAccess() {
	if m.current == nil {
		return
	}
	m.current = m.current.without()
}

func (m *Membership) secrets() typedcore.SecretInterface {
	return m.options.Cluster.Client.CoreV1().Secrets(m.options.Namespace)
}

// Run follows the Secret, so that every replica has the credential, until the
// context is done. What it cannot read is read again.
func (m *Membership) Run(ctx context.Context) error {
	defer m.http.CloseIdleConnections()
	_ = kube.Follow(ctx, m.secrets(), kube.Named(SecretName), nil, func(found []*corev1.Secret) {
		m.saw(ctx, found)
	}) // it ends with the context alone
	return nil
}

// saw takes the credential of another replica. The one that leads has its own.
func (m *Membership) saw(ctx context.Context, found []*corev1.Secret) {
	poke(m.wake)
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
		m.became(ctx, Uninstalled, m.uninstalledMessage())
	case seen.Revoked:
		m.became(ctx, Revoked, m.revokedMessage())
	case seen.fits(&m.options):
		m.adopt(seen)
		m.became(ctx, Joined, "the replica that leads has joined the platform")
	}
}
