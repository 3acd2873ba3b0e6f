package apprights_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/apprights"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/rights"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// caller is a user with a role and groups.
func caller(role store.Role, groups ...string) identity.Caller {
	return identity.Caller{User: store.User{ID: "u", Email: "ann@example.com", Role: role, Groups: groups}}
}

// runtime is one that reported a policy.
func runtime(t *testing.T, id string, policy *platformv1.RightsPolicy) store.Runtime {
	t.Helper()
	state := must.Get(proto.Marshal(&platformv1.HeartbeatRequest{Version: "1.0.0", Rights: policy}))(t)
	return store.Runtime{ID: id, Namespace: "argocd", State: state}
}

func application(project, namespace, name string) *platformv1.Application {
	return &platformv1.Application{Project: project, Namespace: namespace, Name: name}
}

// shop is the policy of a runtime: a role of a project, and a rule that denies.
func shop() *platformv1.RightsPolicy {
	return &platformv1.RightsPolicy{
		Config: map[string]string{"policy.csv": "p, night, applications, sync, shop/db, deny"},
		Projects: []*platformv1.ProjectRights{{Project: "shop", Roles: []*platformv1.ProjectRole{{
			Name: "team", Groups: []string{"shop-team"}, Policies: []string{"p, proj:shop:team, applications, *, shop/*, allow"},
		}}}},
	}
}

func platformPolicy(t *testing.T, text string) *rights.Policy {
	t.Helper()
	policy, refused := rights.Parse(text, "rights.policy")
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	return policy
}

// Without policies the verbs of a role are those of the table of permissions.
func TestRolesAgreeWithTheTable(t *testing.T) {
	for _, role := range permission.Roles() {
		var want []string
		for _, verb := range permission.Verbs() {
			if verb.Rule().Role(role) {
				want = append(want, string(verb))
			}
		}
		got := apprights.New(nil).Of(store.Runtime{}).Verbs(caller(store.Role(role)), application("shop", "argocd", "web"))
		if !slices.Equal(got, want) {
			t.Errorf("%s may %v, and the table has %v", role, got, want)
		}
		if got := (*apprights.Policies)(nil).Of(store.Runtime{}).Verbs(caller(store.Role(role)), application("shop", "argocd", "web")); !slices.Equal(got, want) {
			t.Errorf("%s may %v where there are no policies", role, got)
		}
	}
}

// What roles, the platform's policy and that of the runtime give together.
func TestVerbs(t *testing.T) {
	policies := apprights.New(platformPolicy(t, `
p, oncall, applications, sync, */*, allow
p, oncall, applications, get, */*, allow
p, slipway:operator, applications, override, prod/*, deny
g, shop-guests, role:guest
p, role:guest, applications, get, shop/*, allow
`))
	east, west := policies.Of(runtime(t, "east", shop())), policies.Of(runtime(t, "west", nil))
	web := application("shop", "argocd", "web")
	for _, tt := range []struct {
		name   string
		policy *apprights.Policy
		caller identity.Caller
		on     *platformv1.Application
		want   string
	}{
		{"restricted", east, caller(store.RoleRestricted), web, ""},
		{"a role of the project", east, caller(store.RoleRestricted, "shop-team"), web, "get sync override rollback action delete"},
		{"another project", east, caller(store.RoleRestricted, "shop-team"), application("bank", "argocd", "web"), ""},
		{"another runtime", west, caller(store.RoleRestricted, "shop-team"), web, ""},
		{"a rule of the platform", west, caller(store.RoleRestricted, "oncall"), web, "get sync rollback"},
		{"a role of the platform's policy", west, caller(store.RoleRestricted, "shop-guests"), web, "get"},
		{"beside a role", east, caller(store.RoleViewer, "oncall"), application("bank", "argocd", "web"), "get sync rollback"},
		{"a deny of the runtime", east, caller(store.RoleOperator, "night"), application("shop", "argocd", "db"), "get override logs action"},
		{"a deny of the platform", east, caller(store.RoleOperator), application("prod", "argocd", "web"), "get sync rollback action logs"},
		{"a group that pretends", east, caller(store.RoleRestricted, "slipway:admin", "role:admin", "proj:shop:team"), web, ""},
		{"in a namespace", east, caller(store.RoleRestricted, "shop-team"), application("shop", "team", "web"), "get sync override rollback action delete"},
		{"of the runtime", east, caller(store.RoleOperator), &platformv1.Application{Project: "default", Namespace: "argocd", Name: "src", Labels: map[string]string{wire.EntityLabel: "git-source"}}, "get"},
		{"of the runtime, by its own policy", east, caller(store.RoleRestricted, "shop-team"), &platformv1.Application{Project: "shop", Namespace: "argocd", Name: "src", Labels: map[string]string{wire.EntityLabel: "git-source"}}, "get"},
		{"a label elsewhere", east, caller(store.RoleOperator), &platformv1.Application{Project: "shop", Namespace: "team", Name: "src", Labels: map[string]string{wire.EntityLabel: "git-source"}}, "get sync override rollback action logs"},
	} {
		got := tt.policy.Verbs(tt.caller, tt.on)
		want := strings.Fields(tt.want)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", tt.name, got, want)
		}
	}
	reader := caller(store.RoleOperator)
	reader.Key = &store.Key{Scopes: []string{identity.ScopeRead}}
	if got := east.Verbs(reader, web); !slices.Equal(got, []string{"get", "logs"}) {
		t.Errorf("a key to read: %v", got)
	}
}

// A runtime whose policy is not known is for admins, and one that reports the
// same again keeps its policy.
func TestOf(t *testing.T) {
	policies := apprights.New(nil)
	closed := policies.Of(runtime(t, "big", &platformv1.RightsPolicy{TooLarge: true}))
	if len(closed.Verbs(caller(store.RoleOperator), application("shop", "argocd", "web"))) > 0 || closed.Require(caller(store.RoleOperator), permission.Get) == nil {
		t.Error("an operator has rights on a runtime whose policy is not known")
	}
	if len(closed.Verbs(caller(store.RoleAdmin), application("shop", "argocd", "web"))) == 0 || closed.Require(caller(store.RoleAdmin), permission.Delete) != nil {
		t.Error("an admin has none")
	}
	first := policies.Of(runtime(t, "east", shop()))
	again := runtime(t, "east", shop())
	if policies.Of(again) != first {
		t.Error("the same report is another policy")
	}
	other := must.Get(proto.Marshal(&platformv1.HeartbeatRequest{Version: "1.0.1", Rights: shop()}))(t)
	again.State = other
	if policies.Of(again) != first {
		t.Error("another version of the runtime is another policy")
	}
	changed := shop()
	changed.Config["policy.csv"] = ""
	if policies.Of(runtime(t, "east", changed)) == first {
		t.Error("another policy is the same")
	}
	again.Namespace = "elsewhere"
	if policies.Of(again) == first {
		t.Error("another control namespace is the same")
	}
}

// Before the Application is known, a right that nothing could give is refused
// with the role that has it; the token has what the runtime needs, and no more.
func TestRequireAndClaims(t *testing.T) {
	policies := apprights.New(platformPolicy(t, "p, oncall, applications, sync, */*, allow\np, others, applications, get, */*, allow"))
	policy := policies.Of(runtime(t, "east", shop()))
	for _, tt := range []struct {
		caller identity.Caller
		verb   permission.Verb
		ok     bool
	}{
		{caller(store.RoleRestricted), permission.Get, false},
		{caller(store.RoleRestricted, "shop-team"), permission.Get, true},
		{caller(store.RoleRestricted, "shop-team"), permission.Delete, true},
		{caller(store.RoleRestricted, "shop-team"), permission.Logs, false},
		{caller(store.RoleViewer), permission.Sync, false},
		{caller(store.RoleViewer, "oncall"), permission.Sync, true},
		{caller(store.RoleOperator), permission.Delete, false},
		{caller(store.RoleAdmin), permission.Delete, true},
	} {
		err := policy.Require(tt.caller, tt.verb)
		if (err == nil) != tt.ok {
			t.Errorf("%s as %s with %v: %v", tt.verb, tt.caller.User.Role, tt.caller.User.Groups, err)
		}
		if err != nil && !strings.Contains(err.Error(), "the right "+string(tt.verb)) {
			t.Errorf("%s: %v", tt.verb, err)
		}
	}
	var claims wire.RuntimeClaims
	must.Do(t, policy.Claims(caller(store.RoleViewer, "oncall", "shop-team", "unknown", "night"), &claims))
	if !slices.Equal(claims.Groups, []string{"oncall", "shop-team", "night"}) || claims.Policy.Text != "p,oncall,applications,sync,*/*,allow\n" {
		t.Errorf("got %+v", claims)
	}
	long := apprights.New(platformPolicy(t, strings.Repeat("p, oncall, applications, sync, "+strings.Repeat("x", 200)+"/*, allow\n", 30))).Of(runtime(t, "east", nil))
	if err := long.Claims(caller(store.RoleViewer, "oncall"), &claims); err == nil || !strings.Contains(err.Error(), "ann@example.com") {
		t.Errorf("a policy that does not fit: %v", err)
	}
}
