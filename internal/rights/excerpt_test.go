package rights_test

import (
	"testing"

	"slipway.dev/slipway/internal/rights"
)

// The policy of the tests of excerpts: groups, roles of roles, quotes, and rules
// for a role of the platform.
const company = `
p, role:dev, applications, sync, shop/*, allow
p, role:dev, applications, delete, shop/db, deny
p, role:base, applications, get, "{shop,bank}/*", allow
p, bob@example.com, applications, get, */*, allow
p, slipway:operator, applications, override, */*, deny
p, role:guest, applications, get, public/*, allow
g, dev, role:dev
g, role:dev, role:base
g, "ops, night", role:admin
`

// An excerpt decides about its user as the whole policy does, and has no rules
// of others.
func TestExcerpt(t *testing.T) {
	whole, refusals := rights.Parse(company, "company")
	if len(refusals) > 0 {
		t.Fatal(refusals)
	}
	whole = whole.WithDefault("role:guest")
	decisions := 0
	for _, user := range []rights.Request{
		{Subject: "ann@example.com", Groups: []string{"dev"}},
		{Subject: "bob@example.com", Roles: []string{rights.PlatformRole("operator")}},
		{Subject: "eve@example.com", Groups: []string{"ops, night", "slipway:admin", "role:admin"}},
		{Subject: "joe@example.com", Roles: []string{rights.PlatformRole("restricted")}},
	} {
		excerpt := whole.Excerpt(user)
		part := excerpt.Policy("platform")
		for _, object := range []string{"shop/web", "shop/db", "bank/web", "public/web", "other/web"} {
			for _, action := range []string{"get", "sync", "override", "rollback", "delete", "action/apps/Deployment/restart"} {
				request := user
				request.Resource, request.Action, request.Object = rights.Applications, action, object
				want, got := whole.Decide(request), part.Decide(request)
				if got.Allowed != want.Allowed {
					t.Errorf("%+v: %+v by the excerpt, %+v by the policy", request, got, want)
				}
				if want.Allowed {
					decisions++
				}
			}
		}
		for _, other := range []string{"bob@example.com", "ops, night", "role:base"} {
			request := rights.Request{Subject: other, Resource: rights.Applications, Action: "get", Object: "bank/web"}
			if other != user.Subject && user.Subject == "joe@example.com" && part.Decide(request).Allowed {
				t.Errorf("the excerpt of %s has rules of %s: %s", user.Subject, other, excerpt.Text)
			}
		}
	}
	if decisions < 30 {
		t.Errorf("only %d are allowed", decisions)
	}
	if got := (*rights.Policy)(nil).Excerpt(rights.Request{Subject: "ann@example.com"}); got != (rights.Excerpt{}) {
		t.Errorf("of no policy: %+v", got)
	}
	regex, _ := rights.ParseMode("p, ann, applications, get, ^shop/.*$, allow", "company", rights.Regex)
	request := rights.Request{Subject: "ann", Resource: rights.Applications, Action: "get", Object: "shop/web"}
	if !regex.Excerpt(request).Policy("platform").Decide(request).Allowed {
		t.Error("regular expressions are lost")
	}
}

// What the roles of the platform may do in every project.
func TestPlatformRoles(t *testing.T) {
	for action, roles := range map[string]map[string]bool{
		"get":                            {"viewer": true, "operator": true, "admin": true},
		"sync":                           {"operator": true, "admin": true},
		"override":                       {"operator": true, "admin": true},
		"rollback":                       {"operator": true, "admin": true},
		"action/apps/Deployment/restart": {"operator": true, "admin": true},
		"delete":                         {"admin": true},
		"logs":                           {"operator": true, "admin": true},
	} {
		for _, role := range []string{"restricted", "viewer", "operator", "admin", ""} {
			request := rights.Request{Subject: "x", Roles: []string{rights.PlatformRole(role)}, Resource: rights.Applications, Action: action, Object: "shop/team/web"}
			if action == "logs" {
				request.Resource, request.Action = rights.Logs, rights.Get
			}
			if got := (*rights.Policy)(nil).Decide(request); got.Allowed != roles[role] {
				t.Errorf("%s as %q: %+v", action, role, got)
			}
			if got := (*rights.Policy)(nil).May(request); got != roles[role] {
				t.Errorf("%s as %q could be %v", action, role, got)
			}
		}
	}
}

// Before the object is known, a rule of any project could allow.
func TestMay(t *testing.T) {
	policy, _ := rights.Parse("g, dev, role:dev\np, role:dev, applications, sync, shop/web, allow\np, dev, applications, delete, */*, deny\n"+
		"p, dev, applications, action/apps/Deployment/restart, */*, allow\np, clerks, applications, action/apps/*/*, */*, deny", "company")
	project, refusals := rights.ParseProject("bank", []rights.ProjectRole{{Name: "clerks", Groups: []string{"clerks"}, Policies: []string{"p, proj:bank:clerks, applications, override, bank/*, allow"}}}, rights.Glob)
	if len(refusals) > 0 {
		t.Fatal(refusals)
	}
	policy = rights.Merge(policy, project)
	for request, want := range map[[2]string]bool{
		{"dev", "sync"}: true, {"dev", "rollback"}: true, {"dev", "override"}: false, {"dev", "delete"}: false,
		{"dev", "action/*"}: true, {"clerks", "action/*"}: false, {"others", "action/*"}: false,
		{"clerks", "override"}: true, {"clerks", "sync"}: false, {"others", "sync"}: false, {"proj:bank:clerks", "override"}: false,
	} {
		got := policy.May(rights.Request{Groups: []string{request[0]}, Resource: rights.Applications, Action: request[1]})
		if got != want {
			t.Errorf("%v: %v", request, got)
		}
	}
	if !policy.WithDefault("role:readonly").May(rights.Request{Resource: rights.Applications, Action: "get"}) {
		t.Error("the default role does not count")
	}
}

// TestNames: a name that only a rule or only a binding has is named.
func TestNames(t *testing.T) {
	policy, _ := rights.Parse("g, dev, role:dev\np, ops, applications, get, */*, allow", "company")
	for name, want := range map[string]bool{"dev": true, "ops": true, "others": false} {
		if policy.Names(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
	if (*rights.Policy)(nil).Names("dev") {
		t.Error("a policy that is not there names a group")
	}
}
