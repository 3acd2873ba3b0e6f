package platform

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/access/tunnel"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// TestTwoReplicas: what one replica stores, watches of the other see, and a request
// at one reaches a runtime whose tunnel the other has.
func TestTwoReplicas(t *testing.T) {
	at := postgresPlace(t)
	one := start(t, at)
	key := one.firstKey(t)
	two := start(t, at, "--tunnel.url=ws://127.0.0.1:1")
	if two.out.String() != "" {
		t.Errorf("the second replica prints %q", two.out)
	}
	stream, err := two.with(t, key).runtimes.WatchRuntimes(within(t), connect.NewRequest(&platformv1.WatchRuntimesRequest{}))
	if err != nil {
		t.Fatal(err)
	}
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
	if _, err := report(t.Context(), one.with(t, credential.GetAccessToken()), resyncBegin(1), application(2, "shop"), resyncEnd(3)); err != nil {
		t.Fatal(err)
	}
	if !applications.Receive() || applications.Msg().GetApplication().GetName() != "shop" {
		t.Errorf("got %v, %v", applications.Msg(), applications.Err())
	}
	one.kill() // its watches and tunnels are gone, what it stored is not
	heartbeat(t, two.with(t, credential.GetAccessToken()))
}

// TestTunnel: a request to the platform reaches the runtime at the end of its
// tunnel, and revoking the runtime's credentials cuts it off within seconds.
func TestTunnel(t *testing.T) {
	onBoth(t, func(t *testing.T, at place) {
		p := start(t, at)
		key := p.firstKey(t)
		admin := p.with(t, key)
		credential := join(t, admin, "prod")
		openTunnel(t, credential)
		ask := func() (int, string) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/runtimes/prod/app-proxy/slipway.runtime.v1.RuntimeService/GetInfo", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Authorization", "Bearer "+key)
			response, err := http.DefaultTransport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			return response.StatusCode, string(body)
		}
		eventually(t, "a tunnel", func() bool { status, _ := ask(); return status == http.StatusOK })
		if status, body := ask(); status != http.StatusOK || body != "POST /app-proxy/slipway.runtime.v1.RuntimeService/GetInfo" {
			t.Errorf("got %d %s", status, body)
		}
		if _, err := admin.runtimes.RevokeCredentials(t.Context(), connect.NewRequest(&platformv1.RevokeCredentialsRequest{Name: "prod"})); err != nil {
			t.Fatal(err)
		}
		revoked := time.Now()
		eventually(t, "the end of the tunnel", func() bool { status, _ := ask(); return status == http.StatusServiceUnavailable })
		if took := time.Since(revoked); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// openTunnel connects an agent with a router that says what it is asked.
func openTunnel(t *testing.T, credential *platformv1.Credential) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- tunnel.Run(ctx, tunnel.Options{
			URLs:  credential.GetTunnelUrls,
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
		p.stop(t)
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
			list, err := restored.with(t, key).runtimes.ListRuntimes(t.Context(), connect.NewRequest(&platformv1.ListRuntimesRequest{}))
			if err != nil || len(list.Msg.GetRuntimes()) != 1 || restored.out.String() != "" {
				t.Errorf("%s: %v, %v, %q", name, list, err, restored.out)
			}
			restored.stop(t)
		}
	})
}
