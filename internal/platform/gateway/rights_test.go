package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/apprights"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/rights"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// setGroups gives the user of a key groups of the identity provider.
func (w *world) setGroups(t *testing.T, key string, groups ...string) {
	t.Helper()
	id := strings.Split(key, "_")[1]
	stored, err := w.store.KeyByID(t.Context(), id)
	if err == nil {
		_, err = w.store.ChangeUser(t.Context(), stored.AccountID, stored.UserID, func(user *store.User) (store.Ending, error) {
			user.Groups = groups
			return store.EndNothing, nil
		})
	}
	must.Do(t, err)
}

// reportsPolicy stores the policy of the runtime as a heartbeat has it.
func (w *world) reportsPolicy(t *testing.T, policy *platformv1.RightsPolicy) {
	t.Helper()
	state, err := proto.Marshal(&platformv1.HeartbeatRequest{Rights: policy})
	if err == nil {
		_, err = w.store.UpdateRuntime(t.Context(), w.runtime.ID, func(runtime *store.Runtime) error {
			runtime.State = state
			return nil
		})
	}
	must.Do(t, err)
}

// rightsWorld has a policy of the platform and one of the runtime, and an
// application of the project shop.
func rightsWorld(t *testing.T) *world {
	t.Helper()
	policy, refused := rights.Parse("p, oncall, applications, sync, shop/*, allow\np, oncall, applications, get, shop/*, allow\np, night, applications, sync, shop/web, deny\n"+
		"p, restarters, applications, get, shop/*, allow\np, restarters, applications, action/apps/Deployment/restart, shop/*, allow", "rights.policy")
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	w := newWorld(t, func(w *world) { w.policies = apprights.New(policy) })
	w.reportsPolicy(t, &platformv1.RightsPolicy{Projects: []*platformv1.ProjectRights{{Project: "shop", Roles: []*platformv1.ProjectRole{
		{Name: "team", Groups: []string{"team"}, Policies: []string{"p, proj:shop:team, applications, *, shop/*, allow"}},
	}}}})
	w.reports(t, "prod", "web", "shop", "main")
	return w
}

// TestRights: a change is decided by role and policies before it is sent, and the
// runtime gets what it needs to decide itself.
func TestRights(t *testing.T) {
	w := rightsWorld(t)
	const service = "/runtimes/prod/app-proxy/slipway.runtime.v1.ApplicationService/"
	for _, tt := range []struct {
		name, role, groups, procedure, body string
		want                                int
		part                                string
	}{
		{"restricted", "restricted", "", "Sync", `{"ref":{"name":"web"}}`, 403, "the right sync on Applications"},
		{"restricted reads", "restricted", "", "GetApplication", `{"ref":{"name":"web"}}`, 403, "the right get"},
		{"a role of the project", "restricted", "team", "DeleteApplication", `{"ref":{"name":"web"}}`, 200, ""},
		{"a role of the project reads", "restricted", "team", "GetApplication", `{"ref":{"name":"web"}}`, 200, ""},
		{"without logs", "restricted", "team", "Logs", `{"ref":{"name":"web"}}`, 403, "the right logs"},
		{"a rule of the platform", "restricted", "oncall", "Sync", `{"ref":{"namespace":"prod","name":"web"}}`, 200, ""},
		{"the revision of the spec", "restricted", "oncall", "Sync", `{"ref":{"name":"web"},"revision":"main"}`, 200, ""},
		{"another revision", "restricted", "oncall", "Sync", `{"ref":{"name":"web"},"revision":"refs/pull/7/head"}`, 403, "the right override on shop/web"},
		{"another revision, by the role", "operator", "oncall", "Sync", `{"ref":{"name":"web"},"revision":"refs/pull/7/head"}`, 200, ""},
		{"a deny wins", "operator", "night", "Sync", `{"ref":{"name":"web"}}`, 403, "p, night, applications, sync, shop/web, deny"},
		{"a deny wins over the role of the project", "restricted", "team,night", "Sync", `{"ref":{"name":"web"}}`, 403, "you lack the right sync on shop/web"},
		{"not reported yet", "restricted", "oncall", "Sync", `{"ref":{"name":"new"}}`, 200, ""},
		{"an action", "restricted", "restarters", "RunAction", `{"ref":{"name":"web"},"action":"restart"}`, 200, ""},
		{"no action", "restricted", "oncall", "RunAction", `{"ref":{"name":"web"},"action":"restart"}`, 403, "the right action on Applications"},
		{"viewer", "viewer", "", "Rollback", `{"ref":{"name":"web"}}`, 403, "the role operator"},
	} {
		key := w.key(t, store.Role(tt.role), identity.ScopeAll)
		w.setGroups(t, key, strings.Split(tt.groups, ",")...)
		w.received()
		response, body := w.call(t, http.MethodPost, service+tt.procedure, bearer(key), content(tt.body))
		if response.StatusCode != tt.want || !strings.Contains(body, tt.part) {
			t.Errorf("%s: %d %s", tt.name, response.StatusCode, body)
		}
		if got := len(w.received()); (got == 1) != (tt.want == 200) {
			t.Errorf("%s: the runtime got %d requests", tt.name, got)
		}
	}
	last := w.entries(t)
	if entry := last[len(last)-1]; entry.Outcome != identity.OutcomeDenied {
		t.Errorf("the denial is not in the audit log: %+v", entry)
	}
}

// TestApplicationOfOthers: a change of an application that the caller may not get
// does not disclose that it exists.
func TestApplicationOfOthers(t *testing.T) {
	w := rightsWorld(t)
	w.reports(t, "prod", "secret", "bank", "main")
	w.serveApplications()
	key := w.key(t, store.RoleRestricted, identity.ScopeAll)
	w.setGroups(t, key, "oncall")
	w.received()
	response, body := w.call(t, http.MethodPost, "/runtimes/prod/app-proxy/slipway.runtime.v1.ApplicationService/Sync", bearer(key), content(`{"ref":{"name":"secret"}}`))
	if response.StatusCode != http.StatusNotFound || strings.Contains(body, "bank") || len(w.received()) > 0 {
		t.Errorf("%d %s", response.StatusCode, body)
	}
}

// TestRightsInTheToken: the runtime gets the groups that policies name and the
// platform's rules about the user.
func TestRightsInTheToken(t *testing.T) {
	w := rightsWorld(t)
	key := w.key(t, store.RoleViewer, identity.ScopeAll)
	w.setGroups(t, key, "team", "unknown", "oncall")
	w.received()
	if response, body := w.call(t, http.MethodPost, "/runtimes/prod"+list, bearer(key)); response.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", response.StatusCode, body)
	}
	claims := w.claimsOf(t, w.received()[0].Header.Get("Authorization"))
	if claims.Role != permission.RoleViewer || !slices.Equal(claims.Groups, []string{"team", "oncall"}) {
		t.Errorf("got %+v", claims)
	}
	if rules := strings.Fields(claims.Policy.Text); len(rules) != 2 || strings.Contains(claims.Policy.Text, "night") {
		t.Errorf("the rules are %q", claims.Policy.Text)
	}
}
