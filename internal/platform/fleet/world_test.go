package fleet_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/apprights"
	"slipway.dev/slipway/internal/platform/fleet"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/platform/store/pgtest"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/rights"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"), goleak.IgnoreAnyFunction("os/exec.(*Cmd).watchCtx"))
}

// retention is how long deployments are kept.
const retention = 48 * time.Hour

// clock is a time that a test moves forward.
type clock struct {
	mu sync.Mutex
	by time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.by)
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by += d
}

// world is the services of the fleet behind a real server, with one account.
type world struct {
	store     *store.Store
	clock     *clock
	url       string
	accountID string
	admin     clients
	stop      chan struct{}
}

// clients are the services with one credential.
type clients struct {
	runtimes     platformv1connect.RuntimeServiceClient
	git          platformv1connect.GitServiceClient
	applications platformv1connect.ApplicationServiceClient
	agent        platformv1connect.AgentServiceClient
}

// onBoth runs a test with each database.
func onBoth(t *testing.T, test func(t *testing.T, w *world)) {
	t.Run("sqlite", func(t *testing.T) { test(t, newWorld(t, "sqlite://"+filepath.Join(t.TempDir(), "p.db"))) })
	t.Run("postgres", func(t *testing.T) { test(t, newWorld(t, pgtest.URL(t))) })
}

func newWorld(t *testing.T, database string) *world {
	t.Helper()
	w := serve(t, database)
	account := must.Get(w.store.CreateAccount(t.Context(), store.Account{Name: "acme"}))(t)
	w.accountID = account.ID
	w.admin = w.with(t, w.key(t, store.RoleAdmin, identity.ScopeAll))
	return w
}

// replica is the same account at another replica.
func (w *world) replica(t *testing.T, database string) *world {
	t.Helper()
	other := serve(t, database)
	other.accountID = w.accountID
	other.admin = other.with(t, other.key(t, store.RoleAdmin, identity.ScopeAll))
	return other
}

// serve starts the services.
func serve(t *testing.T, database string) *world {
	t.Helper()
	w := &world{clock: &clock{}, stop: make(chan struct{})}
	opened := must.Get(store.Open(t.Context(), store.Options{URL: database}))(t)
	w.store = opened
	signer := must.Get(signing.New(t.Context(), opened, secret.New(strings.Repeat("k", 32)), w.clock.now))(t)
	callers := must.Get(identity.New(t.Context(), identity.Options{
		Store: opened, Key: secret.New(strings.Repeat("k", 32)), Runtimes: fleet.NewVerifier(opened, signer), PublicURL: &url.URL{Scheme: "http", Host: "127.0.0.1"},
	}))(t)
	policy, refused := rights.Parse("p, oncall, applications, get, bank/*, allow\np, night, applications, get, shop/db, deny", "rights.policy")
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	ships := must.Get(fleet.New(fleet.Options{
		Policies: apprights.New(policy), DeploymentRetention: retention,
		Store: opened, Signer: signer, TunnelDomain: "tunnels.example.com", Version: "1.2.0", Now: w.clock.now,
		TunnelURLs: func() []string { return []string{"wss://one.example.com"} }, Stopping: w.stop,
	}))(t)
	mux := http.NewServeMux()
	for path, handler := range ships.Handlers(callers.HandlerOptions(fleet.MaxMessage)) {
		mux.Handle(path, handler)
	}
	server := httptest.NewServer(mux)
	w.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// key makes a user with an API key.
func (w *world) key(t *testing.T, role store.Role, scope string, groups ...string) string {
	t.Helper()
	user := must.Get(w.store.CreateUser(t.Context(), store.User{AccountID: w.accountID, Email: rand.Text() + "@example.com", Role: role, Groups: groups}))(t)
	value := strings.ToLower(rand.Text() + rand.Text())
	hash := sha256.Sum256([]byte(value))
	key := must.Get(w.store.CreateKey(t.Context(), store.Key{AccountID: w.accountID, UserID: user.ID, Name: "k", Prefix: "slw_", Hash: hash[:], Scopes: []string{scope}}))(t)
	return "slw_" + key.ID + "_" + value
}

// with gives the services with a bearer token.
func (w *world) with(t *testing.T, token string) clients {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: programs.Bearer(token, transport)}
	return clients{
		runtimes:     platformv1connect.NewRuntimeServiceClient(client, w.url),
		git:          platformv1connect.NewGitServiceClient(client, w.url),
		applications: platformv1connect.NewApplicationServiceClient(client, w.url),
		agent:        platformv1connect.NewAgentServiceClient(client, w.url),
	}
}

// registration is one that is good.
func registration(name, cluster string) *platformv1.RegisterRuntimeRequest {
	return &platformv1.RegisterRuntimeRequest{
		Name: name, Namespace: "slipway", Cluster: cluster, ClusterUid: "uid-" + cluster, KubernetesVersion: "v1.36.0",
		Version: "1.1.0", ChartVersion: "1.1.0", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL,
	}
}

// join registers a runtime and gives its clients.
func (w *world) join(t *testing.T, name, cluster string) (clients, *platformv1.Credential) {
	t.Helper()
	answer := must.Get(w.admin.runtimes.RegisterRuntime(t.Context(), connect.NewRequest(registration(name, cluster))))(t)
	credential := answer.Msg.GetCredential()
	return w.with(t, credential.GetAccessToken()), credential
}

// beat is a complete heartbeat.
func beat() *platformv1.HeartbeatRequest {
	return &platformv1.HeartbeatRequest{
		Version: "1.1.0", ChartVersion: "1.1.0", KubernetesVersion: "v1.36.0", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL,
		Sync: platformv1.SyncStatus_SYNC_STATUS_SYNCED, Health: platformv1.HealthStatus_HEALTH_STATUS_HEALTHY,
		Components: []*platformv1.Component{{Name: "agent", Health: platformv1.HealthStatus_HEALTH_STATUS_HEALTHY}},
	}
}

func heartbeat(t *testing.T, agent clients, given *platformv1.HeartbeatRequest) *platformv1.HeartbeatResponse {
	t.Helper()
	answer := must.Get(agent.agent.Heartbeat(t.Context(), connect.NewRequest(given)))(t)
	return answer.Msg
}

func (w *world) get(t *testing.T, name string) *platformv1.Runtime {
	t.Helper()
	answer := must.Get(w.admin.runtimes.GetRuntime(t.Context(), connect.NewRequest(&platformv1.GetRuntimeRequest{Name: name})))(t)
	return answer.Msg.GetRuntime()
}

// wantError checks the code and a part of the text of an error.
func wantError(t *testing.T, what string, err error, code connect.Code, part string) {
	t.Helper()
	var coded *connect.Error
	if !errors.As(err, &coded) || coded.Code() != code || !strings.Contains(coded.Message(), part) {
		t.Errorf("%s: got %v, want %v with %q", what, err, code, part)
	}
}

// within gives a context that is longer than anything should take.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
