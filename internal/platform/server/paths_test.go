package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/identity/oidctest"
	"slipway.dev/slipway/internal/platform/server"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// TestPathMatrix: every path of the platform that is no procedure with every kind
// of caller. The procedures are in the tests of identity, fleet and gateway; the
// paths of a runtime's router in its own.
func TestPathMatrix(t *testing.T) {
	provider := oidctest.New(t)
	p := launch(t, func(o *server.Options) {
		o.OIDC = &identity.OIDCOptions{Issuer: provider.URL, ClientID: oidctest.ClientID, ClientSecret: secret.New(oidctest.ClientSecret)}
	})
	admin := p.key(identity.ScopeAll)
	registered, err := platformv1connect.NewRuntimeServiceClient(client(t, admin, nil), p.url).RegisterRuntime(t.Context(), connect.NewRequest(&platformv1.RegisterRuntimeRequest{
		Name: "prod", Namespace: "slipway", ClusterUid: "uid", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL,
	}))
	check(t, err)
	runtime := registered.Msg.GetCredential().GetAccessToken()
	// The runtime is offline, which only those are let know who are permitted to
	// reach it.
	missing := slices.DeleteFunc(permission.Paths(), func(path string) bool {
		return slices.Contains([]string{wire.AppProxyPath, wire.WebhooksPath, wire.WorkflowsPath, "/healthz", "/readyz"}, path)
	})
	for _, c := range []struct {
		row, method, path      string
		nobody, admin, runtime int
	}{
		{"/", "GET", "/", 302, 302, 302},
		{"/console", "GET", "/console", 302, 302, 302},
		{"/console/", "PUT", "/console/settings", 405, 405, 405},
		{"/applications", "GET", "/applications", 302, 302, 302},
		{"/applications/", "GET", "/applications/argocd/shop", 302, 302, 302},
		{"/auth/oidc/login", "GET", "/auth/oidc/login", 303, 303, 303},
		{"/auth/oidc/callback", "GET", "/auth/oidc/callback", 403, 403, 403}, // without a code of the provider
		{wire.TunnelPath, "GET", wire.TunnelPath, 401, 401, 426},
		{wire.PeerPath, "POST", wire.PeerPath + "x", 401, 401, 401},
		{wire.RuntimesPath, "POST", "/runtimes/prod/app-proxy/slipway.runtime.v1.RuntimeService/GetInfo", 401, 503, 403},
		{wire.RuntimesPath, "POST", "/runtimes/prod/app-proxy/none", 401, 403, 403},
		{wire.RuntimesPath, "GET", "/runtimes/prod/workflows/", 401, 503, 403},
	} {
		missing = slices.DeleteFunc(missing, func(path string) bool { return path == c.row })
		for token, want := range map[string]int{"": c.nobody, admin: c.admin, runtime: c.runtime} {
			request, err := http.NewRequestWithContext(t.Context(), c.method, p.url+c.path, strings.NewReader(""))
			check(t, err)
			request.Header.Set("Content-Type", "application/json")
			one := client(t, token, nil)
			one.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			response, err := one.Do(request)
			check(t, err)
			check(t, response.Body.Close())
			if response.StatusCode != want {
				t.Errorf("%s %s with %.10q: %s, want %d", c.method, c.path, token, response.Status, want)
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("there is no case for %v", missing)
	}
}
