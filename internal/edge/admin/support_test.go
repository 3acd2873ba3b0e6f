package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// canary is in every secret of the test table, and must be in no response.
const canary = "canary-d41d8cd9"

// parts is an edge made of its real parts, without the proxy in between.
type parts struct {
	table   *route.Table
	program *program.Program
	set     *upstream.Set
	index   *tlsstore.Index
}

func (p *parts) Table() *route.Table                      { return p.table }
func (p *parts) Program() *program.Program                { return p.program }
func (p *parts) Upstreams() []upstream.BackendState       { return p.set.Snapshot() }
func (p *parts) Certificates() []tlsstore.CertificateInfo { return p.index.Certificates() }

func (p *parts) EntryPoints() []admin.EntryPoint {
	return []admin.EntryPoint{
		{Name: "web", Address: "127.0.0.1:8080", Limits: h1.DefaultLimits()},
		{Name: "websecure", Address: "127.0.0.1:8443", TLS: true, Limits: h1.DefaultLimits()},
	}
}

// newParts makes an edge of a table.
func newParts(t *testing.T, table *route.Table) *parts {
	t.Helper()
	table.EntryPoints = []string{"web", "websecure"}
	compiled := must.Get(program.Compiler{}.Compile(table))(t)
	p := &parts{table: table, program: compiled, set: upstream.NewSet(upstream.DefaultConfig())}
	t.Cleanup(p.set.Close)
	change := route.Diff(nil, table)
	p.set.Apply(&change)
	var in tlsstore.Input
	for _, c := range table.Certificates {
		in.Certificates = append(in.Certificates, tlsstore.Certificate{
			ID: tlsstore.ID{Namespace: c.ID.Namespace, Name: c.ID.Name}, CertPEM: c.Chain, KeyPEM: c.Key.Text, Hosts: c.Hosts,
		})
	}
	index, problems := tlsstore.Build(in, nil)
	for _, problem := range problems {
		t.Fatal(problem)
	}
	p.index = index
	return p
}

// shopTable has rules that compete, and a secret everywhere one can be.
func shopTable(t *testing.T) *route.Table {
	t.Helper()
	cart := route.BackendID{Namespace: "shop", Name: "cart", Port: 80}
	pair := pkitest.SelfSigned(t, pkitest.Certificate{Names: []string{"shop.example.com"}, Until: time.Now().Add(25 * time.Hour)})
	prefix := func(value string) route.Match {
		return route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: value}}
	}
	rule := func(name string, match route.Match) *route.Rule {
		return &route.Rule{
			ID: route.ID{Kind: "Ingress", Namespace: "shop", Name: name}, Host: "shop.example.com", Match: match,
			Backends: []route.BackendRef{{Backend: cart, Weight: 3}},
		}
	}
	guarded := rule("guarded", prefix("/admin"))
	guarded.Match.Headers = []route.ValueMatch{{Name: "X-Api-Key", Value: canary}}
	guarded.Match.Query = []route.ValueMatch{{Name: "access_token", Value: canary}}
	guarded.Policies = []route.Policy{
		{BasicAuth: &route.BasicAuth{Users: route.NewSecret("u:" + canary)}},
		{Chain: &route.Chain{Policies: []route.Policy{
			{RequestHeaders: &route.RequestHeaders{Set: []route.HeaderValue{{Name: "Authorization", Value: canary}, {Name: "X-Plain", Value: "visible"}}}},
			{ResponseHeaders: &route.ResponseHeaders{Add: []route.HeaderValue{{Name: "Set-Cookie", Value: canary}}}},
		}}},
	}
	gone := rule("gone", prefix("/old"))
	gone.Backends, gone.Response = nil, &route.Response{Status: 410, Reason: route.ReasonConfigured}
	return &route.Table{
		Rules:        []*route.Rule{rule("cart", prefix("/cart")), rule("all", prefix("/")), guarded, gone},
		Backends:     []*route.Backend{{ID: cart, Endpoints: []route.Endpoint{{Address: netip.MustParseAddrPort("10.0.0.1:80")}}}},
		Certificates: []*route.Certificate{{ID: route.CertificateID{Namespace: "shop", Name: "tls"}, Hosts: []string{"shop.example.com"}, Chain: pair.Chain, Key: route.NewSecret(pair.Key)}},
	}
}

// served is a Handler on the real admin server.
type served struct {
	*admin.Handler
	address string
}

func serve(t *testing.T) *served {
	t.Helper()
	listener := programs.Listen(t, "")
	handler := admin.New(admin.Build{Version: "v1", Commit: "abc"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- observe.ServeAdmin(ctx, listener, slog.New(slog.DiscardHandler), observe.Mount{Prefix: admin.Prefix, Handler: handler})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return &served{handler, listener.Addr().String()}
}

// get asks for a path below the prefix.
func (s *served) get(t *testing.T, path string, change ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.address+admin.Prefix+path, nil))(t)
	for _, c := range change {
		c(request)
	}
	response := must.Get(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	body := must.Get(io.ReadAll(io.LimitReader(response.Body, 16<<20)))(t)
	return response, string(body)
}

// decode asks for a path and decodes the response, which may have no unknown field.
func decode[V any](t *testing.T, s *served, path string) V {
	t.Helper()
	response, body := s.get(t, path)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s", path, response.StatusCode, body)
	}
	if strings.Contains(body, canary) || strings.Contains(body, "PRIVATE KEY") {
		t.Errorf("%s shows a secret: %s", path, body)
	}
	var value V
	decoder := json.NewDecoder(bytes.NewReader([]byte(body)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, body)
	}
	return value
}
