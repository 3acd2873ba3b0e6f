package router_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/access/router"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
)

// enough is the lowest role for each procedure of a runtime; the service decides
// itself about any. The procedures are written out once more, so that a change
// of the table of permissions is seen here.
const enough = `
ApplicationService/ListApplications any
ApplicationService/GetApplication any
ApplicationService/WatchApplication any
ApplicationService/GetTree any
ApplicationService/WatchTree any
ApplicationService/GetResource any
ApplicationService/Diff any
ApplicationService/GetHistory any
ApplicationService/ListEvents any
ApplicationService/WatchEvents any
ApplicationService/Logs any
ApplicationService/Sync any
ApplicationService/Rollback any
ApplicationService/Revert any
ApplicationService/Terminate any
ApplicationService/Refresh any
ApplicationService/DeleteApplication any
ApplicationService/ListActions any
ApplicationService/RunAction any
ReleaseService/ListReleases any
ReleaseService/RequestAction any
PromotionService/ListPromotions any
PromotionService/StartPromotion any
PromotionService/ApprovePromotion any
PromotionService/AbortPromotion any
RuntimeService/GetInfo viewer
RuntimeService/ComponentLogs admin
RuntimeService/ConfigureAsApplication admin
RuntimeService/Preflight admin
GitSourceService/ListGitSources any
GitSourceService/CreateGitSource any
GitSourceService/EditGitSource any
GitSourceService/DeleteGitSource any
ClusterService/ListClusters viewer
ClusterService/AddCluster admin
ClusterService/RemoveCluster admin
IntegrationService/ListIntegrations restricted
IntegrationService/AddIntegration admin
IntegrationService/EditIntegration admin
IntegrationService/RemoveIntegration admin
IntegrationService/Register restricted
IntegrationService/Deregister restricted
IntegrationService/SetRuntimeCredentials admin
IntegrationService/GetRuntimeCredentials admin
IntegrationService/BeginOAuth restricted
IntegrationService/FinishOAuth restricted
TrafficService/WatchTraffic viewer
TrafficService/Explain viewer
`

// TestProcedureMatrix: every procedure of a runtime with every role.
func TestProcedureMatrix(t *testing.T) {
	const prefix = "/slipway.runtime.v1."
	handler := newRouter(nil)
	missing := slices.DeleteFunc(permission.Procedures(), func(procedure string) bool { return !strings.HasPrefix(procedure, prefix) })
	for line := range strings.Lines(strings.TrimSpace(enough)) {
		cells := strings.Fields(line)
		procedure := prefix + cells[0]
		at := slices.Index(missing, procedure)
		if at < 0 {
			t.Errorf("%s is no procedure of a runtime, or is here twice", procedure)
			continue
		}
		missing = slices.Delete(missing, at, at+1)
		for rank, role := range permission.Roles() {
			want := http.StatusForbidden
			if cells[1] == "any" || rank >= slices.Index(permission.Roles(), cells[1]) {
				want = http.StatusOK
			}
			if got := ask(handler, http.MethodPost, "/app-proxy"+procedure, role, strings.NewReader("{}")); got.Code != want {
				t.Errorf("%s as %s: %d %s", procedure, role, got.Code, got.Body)
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("there is no line for %v", missing)
	}
}

// TestPathMatrix: every other path of the router with every role.
func TestPathMatrix(t *testing.T) {
	workflows := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer workflows.Close()
	server := must.Get(url.Parse(workflows.URL))(t)
	handler := newRouter(func(o *router.Options) { o.Workflows = server })
	for _, c := range []struct {
		method, path                                string
		nobody, restricted, viewer, operator, admin int
	}{
		{"GET", "/healthz", 200, 200, 200, 200, 200},
		{"GET", "/readyz", 200, 200, 200, 200, 200},
		{"POST", wire.WebhooksPath + "prod/shop", 200, 200, 200, 200, 200},
		{"GET", wire.WorkflowsPath + "x", 401, 403, 200, 200, 200},
		{"POST", wire.WorkflowsPath + "x", 401, 403, 403, 200, 200},
		{"DELETE", wire.WorkflowsPath + "x", 401, 403, 403, 200, 200},
		{"POST", wire.AppProxyPath + "x", 401, 501, 501, 501, 501},
	} {
		suffix := ""
		if strings.HasPrefix(c.path, wire.WorkflowsPath) {
			suffix = "-workflows"
		}
		for bearer, want := range map[string]int{"": c.nobody, "restricted" + suffix: c.restricted, "viewer" + suffix: c.viewer, "operator" + suffix: c.operator, "admin" + suffix: c.admin} {
			if got := ask(handler, c.method, c.path, bearer, strings.NewReader("{}")); got.Code != want {
				t.Errorf("%s %s as %q: %d, want %d: %s", c.method, c.path, bearer, got.Code, want, got.Body)
			}
		}
	}
	// An upgraded connection may change something.
	request := httptest.NewRequest(http.MethodGet, wire.WorkflowsPath+"x", nil)
	request.Header.Set("Authorization", "Bearer viewer-workflows")
	request.Header.Set("Upgrade", "websocket")
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)
	if response.Code != http.StatusForbidden {
		t.Errorf("a viewer upgrades a connection: %d", response.Code)
	}
}
