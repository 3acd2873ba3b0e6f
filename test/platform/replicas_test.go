package platform

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"

	"slipway.dev/slipway/internal/access/tunnel"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/server"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// TestWatchAcrossReplicas: what one replica stores, watches of the other see.
func TestWatchAcrossReplicas(t *testing.T) {
	at := postgresPlace(t)
	one := start(t, at)
	key := one.firstKey(t)
	two := start(t, at, "--tunnel.url=ws://127.0.0.1:1")
	if two.Out.String() != "" {
		t.Errorf("the second replica prints %q", two.Out)
	}
	stream := must.Get(two.with(t, key).runtimes.WatchRuntimes(within(t), connect.NewRequest(&platformv1.WatchRuntimesRequest{})))(t)
	defer stream.Close()
	seen := func(want string, matches func(*platformv1.WatchRuntimesResponse) bool) {
		t.Helper()
		for stream.Receive() {
			if matches(stream.Msg()) {
				return
			}
		}
		t.Fatalf("never saw %s: %v", want, stream.Err())
	}
	seen("everything", (*platformv1.WatchRuntimesResponse).GetSynced)
	credential := join(t, one.with(t, key), "prod")
	seen("the registration", func(m *platformv1.WatchRuntimesResponse) bool { return m.GetRuntime().GetName() == "prod" })
	heartbeat(t, one.with(t, credential.GetAccessToken()))
	seen("the heartbeat", func(m *platformv1.WatchRuntimesResponse) bool { return m.GetRuntime().GetOnline() })

	applications, err := two.with(t, key).applications.WatchApplications(within(t), connect.NewRequest(&platformv1.WatchApplicationsRequest{}))
	if err != nil || !applications.Receive() || !applications.Msg().GetSynced() {
		t.Fatalf("%v, %v", err, applications.Err())
	}
	defer applications.Close()
	must.Get(report(t.Context(), one.with(t, credential.GetAccessToken()), resyncBegin(1), application(2, "shop"), resyncEnd(3)))(t)
	if !applications.Receive() || applications.Msg().GetApplication().GetName() != "shop" {
		t.Errorf("got %v, %v", applications.Msg(), applications.Err())
	}
	one.Kill() // its watches and tunnels are gone, what it stored is not
	heartbeat(t, two.with(t, credential.GetAccessToken()))
}

// TestTwoReplicas: a request at one replica reaches a runtime whose tunnel only the
// other has; when that one is killed the tunnel moves, and a replica that comes new
// finds it.
func TestTwoReplicas(t *testing.T) {
	at := postgresPlace(t)
	one := startReplica(t, at, "")
	key := one.firstKey(t)
	two := startReplica(t, at, "::ffff:")
	credential := join(t, one.with(t, key), "prod")
	var reachable atomic.Pointer[[]string]
	reachable.Store(&[]string{one.url})
	openTunnel(t, credential, func() []string { return *reachable.Load() })
	const want = "POST /app-proxy/slipway.runtime.v1.RuntimeService/GetInfo"
	answers := func(p *process, where string) {
		t.Helper()
		programs.Until(t, "an answer at "+where, func() bool { status, _ := p.ask(t, key); return status == http.StatusOK })
		for range 20 {
			if status, body := p.ask(t, key); status != http.StatusOK || body != want {
				t.Errorf("at %s: %d %s", where, status, body)
			}
		}
	}
	answers(one, "the replica with the tunnel")
	answers(two, "the other replica")
	if got := two.handedOver(t); got < 20 {
		t.Errorf("%d requests were handed over", got)
	}
	for _, token := range []string{"", credential.GetAccessToken(), key} {
		if status := two.askAsPeer(t, token); status != http.StatusUnauthorized {
			t.Errorf("somebody who is no replica hands a request over: %d", status)
		}
	}

	reachable.Store(&[]string{one.url, two.url})
	one.Kill()
	answers(two, "the replica that is left")
	three := startReplica(t, at, "")
	answers(three, "a new replica")
	if got := three.handedOver(t); got < 20 {
		t.Errorf("%d requests were handed over", got)
	}
	three.Stop(t)
	two.Stop(t)
}

// startReplica starts one of several replicas. It has an address of its own of this
// machine, so that it is known before it listens. The family is put before the
// address that other replicas use: with ::ffff: it is one of IPv6, without brackets
// as the chart writes it.
func startReplica(t *testing.T, at place, family string) *process {
	t.Helper()
	random := make([]byte, 3)
	_, _ = rand.Read(random) // it never fails
	// The port is below those that clients get.
	at.address = fmt.Sprintf("127.%d.%d.%d:20086", 1+random[0]%250, 1+random[1]%250, 1+random[2]%250)
	return start(t, at, "--peer.url=http://"+family+at.address)
}

// ask asks the platform for something of the runtime prod.
func (p *process) ask(t *testing.T, key string) (int, string) {
	t.Helper()
	return post(t, p.url+"/runtimes/prod/app-proxy/slipway.runtime.v1.RuntimeService/GetInfo", http.Header{"Authorization": {"Bearer " + key}})
}

// askAsPeer hands over a request as another replica would.
func (p *process) askAsPeer(t *testing.T, token string) int {
	t.Helper()
	status, _ := post(t, p.url+wire.PeerPath+"some-runtime/app-proxy/slipway.runtime.v1.RuntimeService/GetInfo", http.Header{"Slipway-Peer": {token}})
	return status
}

// handedOver is how many requests the platform has sent through other replicas.
func (p *process) handedOver(t *testing.T) int {
	t.Helper()
	_, text := p.look(t, "/metrics")
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, `slipway_hub_requests_total{outcome="peer"} `); found {
			return must.Get(strconv.Atoi(strings.TrimSpace(value)))(t)
		}
	}
	return 0
}

// look asks the server for health and metrics.
func (p *process) look(t *testing.T, path string) (int, string) {
	t.Helper()
	status, text, err := programs.Get(t.Context(), "http://"+p.Address(t, "health")+path)
	must.Do(t, err)
	return status, text
}

func post(t *testing.T, url string, header http.Header) (int, string) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(within(t), http.MethodPost, url, strings.NewReader("{}")))(t)
	header.Set("Content-Type", "application/json")
	request.Header = header
	response := must.Get(http.DefaultTransport.RoundTrip(request))(t)
	defer response.Body.Close()
	body := must.Get(io.ReadAll(response.Body))(t)
	return response.StatusCode, string(body)
}

// TestTunnel: a request to the platform reaches the runtime at the end of its
// tunnel, and revoking the runtime's credentials cuts it off within seconds.
func TestTunnel(t *testing.T) {
	onBoth(t, func(t *testing.T, at place) {
		p := start(t, at)
		key := p.firstKey(t)
		admin := p.with(t, key)
		credential := join(t, admin, "prod")
		openTunnel(t, credential, credential.GetTunnelUrls)
		ask := func() (int, string) { return p.ask(t, key) }
		programs.Until(t, "a tunnel", func() bool { status, _ := ask(); return status == http.StatusOK })
		if status, body := ask(); status != http.StatusOK || body != "POST /app-proxy/slipway.runtime.v1.RuntimeService/GetInfo" {
			t.Errorf("got %d %s", status, body)
		}
		must.Get(admin.runtimes.RevokeCredentials(t.Context(), connect.NewRequest(&platformv1.RevokeCredentialsRequest{Name: "prod"})))(t)
		revoked := time.Now()
		programs.Until(t, "the end of the tunnel", func() bool { status, _ := ask(); return status == http.StatusServiceUnavailable })
		if took := time.Since(revoked); took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// openTunnel connects an agent with a router that responds with the request.
func openTunnel(t *testing.T, credential *platformv1.Credential, urls func() []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- tunnel.Run(ctx, tunnel.Options{
			URLs:  urls,
			Token: func(context.Context) (string, error) { return credential.GetAccessToken(), nil },
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set(wire.RouterHeader, "prod")
				_, _ = fmt.Fprintf(w, "%s %s", r.Method, r.URL.Path)
			}),
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// TestDatabaseAway: without its database the platform is alive, not ready, and reports
// it; when the database is back, it goes on by itself.
func TestDatabaseAway(t *testing.T) {
	at := postgresPlace(t)
	p := start(t, at)
	admin := p.with(t, p.firstKey(t))
	credential := join(t, admin, "prod")
	ready := func() bool { status, _ := p.look(t, "/readyz"); return status == http.StatusOK }
	programs.Until(t, "ready", ready)
	config, err := pgx.ParseConfig(at.url)
	must.Do(t, err)
	name := config.Database
	config.Database = "postgres"
	server := must.Get(pgx.ConnectConfig(t.Context(), config))(t)
	defer func() { _ = server.Close(context.WithoutCancel(t.Context())) }()
	do := func(query string, args ...any) {
		t.Helper()
		must.Get(server.Exec(t.Context(), query, args...))(t)
	}
	do("ALTER DATABASE " + pgx.Identifier{name}.Sanitize() + " ALLOW_CONNECTIONS false")
	do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
	programs.Until(t, "not ready", func() bool {
		status, text := p.look(t, "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(text, "database: the database does not respond")
	})
	if status, _ := p.look(t, "/healthz"); status != http.StatusOK {
		t.Errorf("it is not alive: %d", status)
	}
	_, err = admin.runtimes.ListRuntimes(within(t), connect.NewRequest(&platformv1.ListRuntimesRequest{}))
	if connect.CodeOf(err) != connect.CodeUnavailable || strings.Contains(err.Error(), name) {
		t.Errorf("asked without a database: %v", err)
	}
	do("ALTER DATABASE " + pgx.Identifier{name}.Sanitize() + " ALLOW_CONNECTIONS true")
	programs.Until(t, "ready again", ready)
	heartbeat(t, p.with(t, credential.GetAccessToken()))
	p.Stop(t)
}

// TestBackup: a backup of a running platform is everything, in the other database
// too; a damaged one is refused.
func TestBackup(t *testing.T) {
	onBoth(t, func(t *testing.T, at place) {
		p := start(t, at)
		key := p.firstKey(t)
		join(t, p.with(t, key), "prod")
		file := filepath.Join(t.TempDir(), "platform.backup")
		if out, err := run(t, at, "backup", file); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if out, err := run(t, at, "backup", file); err == nil || !strings.Contains(out, "is there already") {
			t.Errorf("a file is written over: %v\n%s", err, out)
		}
		keyFile := filepath.Join(at.dir, "secret.key")
		for _, option := range at.args {
			if name, found := strings.CutPrefix(option, "--database.secretKeyFile="); found {
				keyFile = name
			}
		}
		p.Stop(t)
		for name, target := range map[string]place{"sqlite": sqlitePlace(t), "postgres": postgresPlace(t)} {
			target.args = append(target.args, "--database.secretKeyFile="+keyFile)
			if name == "postgres" { // it names another key file already
				target.args = append(target.args[:1], target.args[2])
			}
			if out, err := run(t, target, "restore", file); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, out)
			}
			if out, err := run(t, target, "restore", file); err == nil {
				t.Errorf("%s: a database that is not empty is written over: %s", name, out)
			}
			restored := start(t, target)
			admin, self := restored.with(t, key), server.OperatorName(os.Getuid())
			// The backup was made while the entry of its end did not exist yet.
			if got, want := admin.audited(t, "platform.backup"), self+"|platform|begun|"; got != want {
				t.Errorf("%s: backups in the audit log:\n%s\nwant\n%s", name, got, want)
			}
			if got, want := admin.audited(t, "platform.restore"), self+"|platform|ok|"; got != want {
				t.Errorf("%s: restores in the audit log:\n%s\nwant\n%s", name, got, want)
			}
			list, err := admin.runtimes.ListRuntimes(t.Context(), connect.NewRequest(&platformv1.ListRuntimesRequest{}))
			if err != nil || len(list.Msg.GetRuntimes()) != 1 || restored.Out.String() != "" {
				t.Errorf("%s: %v, %v, %q", name, list, err, restored.Out)
			}
			restored.Stop(t)
		}
	})
}
