package rights_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/rights"
)

// A decision names the line and how the subject came to it.
func TestWhy(t *testing.T) {
	policy, refusals := rights.Parse(`
# comment
p, role:ops, applications, sync, shop/*, allow
p, role:ops, applications, sync, shop/db, deny
p, role:base, applications, get, shop/*, allow
g, role:ops, role:base
g, oncall, role:ops
`, "policy.csv")
	if len(refusals) > 0 {
		t.Fatal(refusals)
	}
	project, refusals := rights.ParseProject("shop", []rights.ProjectRole{{Name: "ci", Groups: []string{"robots"}}}, rights.Glob)
	if len(refusals) > 0 {
		t.Fatal(refusals)
	}
	policy = rights.Merge(policy, project)
	alice := func(resource, action, object string) rights.Request {
		return rights.Request{Subject: "alice", Groups: []string{"oncall", "robots"}, Resource: resource, Action: action, Object: object}
	}
	for _, test := range []struct {
		policy  *rights.Policy
		request rights.Request
		want    rights.Decision
	}{
		{policy, alice("applications", "sync", "shop/web"), rights.Decision{
			Allowed: true, Rule: "policy.csv line 3: p, role:ops, applications, sync, shop/*, allow", Why: "a rule allows it to oncall > role:ops",
		}},
		{policy, alice("applications", "sync", "shop/db"), rights.Decision{
			Rule: "policy.csv line 4: p, role:ops, applications, sync, shop/db, deny", Why: "a rule denies it to oncall > role:ops, and a deny wins over every allow",
		}},
		{policy, alice("applications", "get", "shop/db"), rights.Decision{
			Allowed: true, Rule: "policy.csv line 5: p, role:base, applications, get, shop/*, allow", Why: "a rule allows it to oncall > role:ops > role:base",
		}},
		{policy, alice("projects", "get", "shop"), rights.Decision{
			Allowed: true, Rule: "AppProject shop: p, proj:shop:ci, projects, get, shop, allow", Why: "a rule allows it to robots > proj:shop:ci",
		}},
		{policy, alice("applications", "delete", "shop/web"), rights.Decision{Why: "no rule allows alice, oncall, robots to delete applications shop/web"}},
		{policy, rights.Request{Resource: "logs", Action: "get", Object: "a/b"}, rights.Decision{Why: "no rule allows a user without a name to get logs a/b"}},
		{policy, rights.Request{Subject: "proj:shop:ci", Resource: "logs", Action: "get", Object: "a/b"}, rights.Decision{
			Why: "proj:shop:ci is a role of project shop and has no rights in project a",
		}},
		{policy.WithDefault("role:readonly"), alice("logs", "get", "a/b"), rights.Decision{
			Allowed: true, Rule: "built-in line 11: p, role:readonly, logs, get, */*, allow",
			Why: "the default role role:readonly allows it to every user, and no other rule can deny it",
		}},
		{policy.WithDefault("role:ops"), alice("applications", "get", "shop/web"), rights.Decision{
			Allowed: true, Rule: "policy.csv line 5: p, role:base, applications, get, shop/*, allow",
			Why: "the default role role:ops allows it to every user, and no other rule can deny it: role:ops > role:base",
		}},
		{policy.WithDefault("role:ops"), alice("applications", "sync", "shop/db"), rights.Decision{
			Rule: "policy.csv line 4: p, role:ops, applications, sync, shop/db, deny",
			Why:  "the default role role:ops denies it to every user, and no other rule can allow it",
		}},
		{nil, rights.Request{Subject: "role:admin", Resource: "applications", Action: "sync", Object: "a/b"}, rights.Decision{
			Allowed: true, Rule: "built-in line 13: p, role:admin, applications, *, */*, allow", Why: "a rule allows it to role:admin",
		}},
	} {
		if got := test.policy.Decide(test.request); got != test.want {
			t.Errorf("%+v:\n got %+v\nwant %+v", test.request, got, test.want)
		}
	}
}

// Roles that have each other end, and a rollback is denied by a rule about it
// although a sync is allowed.
func TestDecide(t *testing.T) {
	policy, refusals := rights.Parse(`
p, role:b, applications, sync, */*, allow
p, role:b, applications, rollback, */frozen, deny
p, role:c, applications, rollback, */*, allow
p, role:d, logs, sync, */*, allow
p, proj:shop:ci, accounts, get, *, allow
g, role:a, role:b
g, role:b, role:a
`, "policy.csv")
	if len(refusals) > 0 {
		t.Fatal(refusals)
	}
	for request, want := range map[[4]string]bool{
		{"role:a", "applications", "sync", "p/web"}:        true,
		{"role:a", "applications", "rollback", "p/web"}:    true,
		{"role:a", "applications", "sync", "p/frozen"}:     true,
		{"role:a", "applications", "rollback", "p/frozen"}: false,
		{"role:c", "applications", "rollback", "p/web"}:    true,
		{"role:c", "applications", "sync", "p/web"}:        false,
		{"role:d", "logs", "rollback", "p/web"}:            false,
		{"proj:shop:ci", "accounts", "get", "alice"}:       true,
	} {
		got := policy.Decide(rights.Request{Subject: request[0], Resource: request[1], Action: request[2], Object: request[3]})
		if got.Allowed != want {
			t.Errorf("%v: got %+v", request, got)
		}
	}
}

// Inheritance is for update and delete of Applications only.
func TestInheritance(t *testing.T) {
	policy, refusals := rights.Parse("p, a, applications, action, */*, allow\np, a, clusters, update, */*, allow\np, a, applications, update, */*, allow\n", "x")
	if len(refusals) > 0 {
		t.Fatal(refusals)
	}
	for request, want := range map[[2]string]bool{
		{"applications", "update/apps/Deployment/a/b"}: true,
		{"applications", "delete/apps/Deployment/a/b"}: false,
		{"applications", "action/apps/Deployment/a"}:   false,
		{"clusters", "update/apps/Deployment/a/b"}:     false,
	} {
		got := policy.WithInheritance().Decide(rights.Request{Subject: "a", Resource: request[0], Action: request[1], Object: "p/a"})
		if got.Allowed != want {
			t.Errorf("%v: %+v", request, got)
		}
	}
}

// The settings of the first policy that has them count, and the first rule that
// matches is the reason.
func TestMerge(t *testing.T) {
	first, _ := rights.ParseMode("p, a, applications, get, .*, allow", "first", rights.Regex)
	second, _ := rights.Parse("p, a, applications, get, *, allow", "second")
	merged := rights.Merge(first.WithDefault("role:none").WithInheritance(), second.WithDefault("role:admin"))
	request := rights.Request{Subject: "a", Resource: "applications", Action: "get", Object: "p/a"}
	if got := merged.Decide(request); got.Rule != "first line 1: p, a, applications, get, .*, allow" {
		t.Errorf("got %+v", got)
	}
	if request.Action = "update"; merged.Decide(request).Allowed {
		t.Error("the second default role counts")
	}
	update, _ := rights.Parse("p, a, applications, update, *, allow", "third")
	if request.Action = "update/a/b/c/d"; !rights.Merge(merged, update).Decide(request).Allowed {
		t.Error("inheritance is lost")
	}
	if merged.Mode() != rights.Regex {
		t.Errorf("the mode is %s", merged.Mode())
	}
}

// A name from an identity provider is never a role of a policy, and what an
// AppProject writes never counts outside of it.
func TestHostile(t *testing.T) {
	global, _ := rights.Parse("p, proj:shop:ci, applications, sync, */*, allow\ng, trent, proj:shop:admin", "policy.csv")
	project, refusals := rights.ParseProject("shop", []rights.ProjectRole{
		{Name: "ci", Groups: []string{"everyone", ""}, Policies: []string{"p, proj:shop:ci, applications, *, *, allow", "p, proj:shop:ci, clusters, *, *, allow"}},
		{Name: "admin", Policies: []string{"p, proj:shop:admin, *, *, *, allow"}},
	}, rights.Glob)
	if len(refusals) > 0 {
		t.Fatal(refusals)
	}
	policy := rights.Merge(nil, global, project)
	for _, request := range []rights.Request{
		{Subject: "mallory", Groups: []string{"role:admin"}, Resource: "applications", Action: "get", Object: "shop/web"},
		{Subject: "mallory", Groups: []string{"proj:shop:ci"}, Resource: "applications", Action: "get", Object: "shop/web"},
		{Subject: "mallory", Groups: []string{"everyone"}, Resource: "applications", Action: "sync", Object: "bank/web"},
		{Subject: "mallory", Groups: []string{"everyone"}, Resource: "applications", Action: "sync", Object: "bank/shop/web"},
		{Subject: "mallory", Groups: []string{"everyone"}, Resource: "clusters", Action: "get", Object: "https://cluster.example"},
		{Subject: "mallory", Groups: []string{"everyone"}, Resource: "applications", Action: "get", Object: "*"},
		{Subject: "proj:shop:ci", Resource: "applications", Action: "sync", Object: "bank/web"},
		{Subject: "trent", Resource: "applications", Action: "sync", Object: "bank/web"},
		{Subject: "trent", Resource: "projects", Action: "update", Object: "shop"},
		{Subject: "trent", Resource: "projects", Action: "get", Object: "bank"},
		{Subject: "trent", Resource: "accounts", Action: "update", Object: "shop/alice"},
		{Subject: "", Groups: []string{""}, Resource: "applications", Action: "get", Object: "shop/web"},
	} {
		if got := policy.Decide(request); got.Allowed {
			t.Errorf("%+v: %+v", request, got)
		}
	}
	if got := policy.Decide(rights.Request{Subject: "bob", Groups: []string{"everyone"}, Resource: "clusters", Action: "get", Object: "shop/https://c.example"}); !got.Allowed {
		t.Errorf("a cluster of the project: %+v", got)
	}
}

// Each line that could never match is refused with its place and what to write;
// the others count.
func TestRefused(t *testing.T) {
	for line, want := range map[string]string{
		"p, a, applications, get, */*":                     "a p line has six fields, and this one 5: write p, SUBJECT, RESOURCE, ACTION, OBJECT, allow|deny",
		"p, a, applications, get, */*, allow, allow":       "six fields, and this one 7",
		"p, , applications, get, */*, allow":               "six fields",
		"p, a, applications, get, */*, Allow":              `the effect is "Allow": write allow or deny`,
		"p, a, applications, get, */*, allow # all":        `the effect is "allow # all"`,
		"p, a, aplications, get, */*, allow":               `there is no resource "aplications": write one of applications, applicationsets,`,
		"p, a, applications, read, */*, allow":             `there is no action "read": write one of get, create,`,
		"p, a, applications, updte/*, */*, allow":          `there is no action "updte/*"`,
		"p, a, applications, get, web, allow":              "names no project, so no Application matches: write PROJECT/web",
		"p, a, applications, get, [/*, allow":              `pattern "[/*"`,
		"p, a, applications, get, x/*\"y, allow":           "the quotes are not those of CSV",
		"p, a, applications, get, " + long(513) + ", deny": "a pattern has 513 characters, the most is 512",
		"g, alice":                            "a g line has three fields: write g, USER or GROUP, role:NAME",
		"g, alice, role:a, role:b":            "a g line has three fields",
		"g, , role:a":                         "a g line has three fields",
		"g, alice, role:a # the first":        "a comment is a line of its own",
		"g: devops@example.com, role:admin":   `a line begins with p or g, and this one with "g: devops@example.com"`,
		"p2, a, applications, get, */*, deny": `this one with "p2"`,
	} {
		policy, refusals := rights.Parse("# first\n"+line+"\ng, ok, role:admin\n", "policy.csv")
		if len(refusals) != 1 || !strings.HasPrefix(refusals[0].Text(), "policy.csv line 2: ") || !strings.Contains(refusals[0].Message, want) {
			t.Errorf("%.60s:\n got %v\nwant %s", line, refusals, want)
		}
		if !policy.Decide(rights.Request{Subject: "ok", Resource: "applications", Action: "sync", Object: "a/b"}).Allowed {
			t.Errorf("%.60s: the line after it has no effect", line)
		}
	}
	if _, refusals := rights.ParseMode("p, a, applications, *, x/.*, allow", "x", rights.Regex); len(refusals) != 1 || !strings.Contains(refusals[0].Message, "any text is .*") {
		t.Errorf("got %v", refusals)
	}
	if _, refusals := rights.ParseMode("p, a, applications, get, "+long(513)+", allow", "x", rights.Regex); len(refusals) != 1 || !strings.Contains(refusals[0].Message, "the most is 512") {
		t.Errorf("got %v", refusals)
	}
	// A regular expression may match a part, so these can match: restart is the
	// end of an action, and team/web of shop/team/web.
	part := "p, proj:shop:ci, applications, restart, team/web, allow"
	if _, refusals := rights.ParseMode(part, "x", rights.Regex); len(refusals) > 0 {
		t.Errorf("got %v", refusals)
	}
	if _, refusals := rights.ParseProject("shop", []rights.ProjectRole{{Name: "ci", Policies: []string{part}}}, rights.Regex); len(refusals) > 0 {
		t.Errorf("got %v", refusals)
	}
}

func long(n int) string { return strings.Repeat("a", n) }

// A text is bounded as a whole, and so are its refusals.
func TestBounds(t *testing.T) {
	if _, refusals := rights.Parse(strings.Repeat("g, a, role:b\n", 10_000), "x"); len(refusals) > 0 {
		t.Errorf("got %v", refusals)
	}
	policy, refusals := rights.Parse(strings.Repeat("g, a, role:b\n", 10_000)+"g, a, role:admin\ng, a, role:admin\n", "x")
	if len(refusals) != 1 || refusals[0].Reason != "TooMany" || !strings.HasPrefix(refusals[0].Text(), "x line 10001: ") {
		t.Errorf("got %v", refusals)
	}
	if policy.Decide(rights.Request{Subject: "a", Resource: "projects", Action: "get", Object: "a"}).Allowed {
		t.Error("a line beyond the bound counts")
	}
	if _, refusals := rights.Parse(strings.Repeat("#", 1<<20), "x"); len(refusals) > 0 {
		t.Errorf("got %v", refusals)
	}
	if _, refusals := rights.Parse(strings.Repeat("#", 1<<20+1), "x"); len(refusals) != 1 || refusals[0].Reason != "TooLarge" {
		t.Errorf("got %v", refusals)
	}
	if _, refusals := rights.Parse(strings.Repeat("x\n", 1000), "x"); len(refusals) != 51 {
		t.Errorf("got %d refusals", len(refusals))
	}
	lines := make([]string, 10_001)
	for i := range lines {
		lines[i] = "p, proj:a:r, logs, get, a/*, allow"
	}
	if _, refusals := rights.ParseProject("a", []rights.ProjectRole{{Name: "r", Policies: lines}}, rights.Glob); len(refusals) != 1 || refusals[0].Reason != "TooMany" {
		t.Errorf("got %v", refusals)
	}
}

// argocd-rbac-cm is read as Argo CD reads it, and a wrong mode is refused.
func TestParseConfig(t *testing.T) {
	policy, refusals := rights.ParseConfig(map[string]string{
		"policy.csv": "p, a, applications, get, x, allow", "policy.matchMode": "globs", "policy.more.csv": "x", "scopes": "[groups]", "policy.default": " role:readonly ",
		"other.csv": "x",
	})
	var texts []string
	for _, r := range refusals {
		texts = append(texts, r.Error())
	}
	want := []string{
		`ConfigMap argocd-rbac-cm: data[policy.matchMode]: it is "globs": write glob or regex`,
		`ConfigMap argocd-rbac-cm: data[policy.csv] line 1: the object "x" names no project`,
		`ConfigMap argocd-rbac-cm: data[policy.more.csv] line 1: a line begins with p or g`,
	}
	if len(texts) != len(want) {
		t.Fatalf("got %q", texts)
	}
	for i := range want {
		if !strings.HasPrefix(texts[i], want[i]) {
			t.Errorf("got %q, want %q", texts[i], want[i])
		}
	}
	if !policy.Decide(rights.Request{Subject: "a", Resource: "logs", Action: "get", Object: "a/b"}).Allowed {
		t.Error("the default role has no effect")
	}
	if policy.Mode() != rights.Glob || (*rights.Policy)(nil).Mode() != rights.Glob || rights.Merge().Mode() != rights.Glob {
		t.Error("the mode is not glob")
	}
}

// A role of an AppProject has rules for itself and its project only.
func TestParseProject(t *testing.T) {
	for line, want := range map[string]string{
		"g, mallory, role:admin":                       "a role of a project has rules for itself only: write p, proj:shop:ci, RESOURCE",
		"p, role:admin, applications, *, */*, allow":   "a role of a project has rules for itself only",
		"p, proj:bank:ci, applications, *, */*, allow": "a role of a project has rules for itself only",
		"p": "a role of a project has rules for itself only",
		"p, proj:shop:ci, applications, *, bank/*, allow":                   `the object "bank/*" is of project bank, and a role of project shop has no rights there: write shop/*`,
		"p, proj:shop:ci, accounts, *, *, allow":                            "not on accounts: write the rule in policy.csv of argocd-rbac-cm",
		"p, proj:shop:ci, applications, *, shop/*, maybe":                   `the effect is "maybe"`,
		"p, proj:shop:ci, logs, get, shop/*, allow\ng, mallory, role:admin": "it is more than one line",
		`p, "proj:shop:ci, applications, get, shop/*, allow`:                "the quotes are not those of CSV",
	} {
		policy, refusals := rights.ParseProject("shop", []rights.ProjectRole{{Name: "ci", Policies: []string{line, "p, proj:shop:ci, logs, get, */*, allow"}}}, rights.Glob)
		prefix := "AppProject.argoproj.io shop: spec.roles[ci].policies[0]: "
		if len(refusals) != 1 || !strings.HasPrefix(refusals[0].Error(), prefix) || !strings.Contains(refusals[0].Message, want) {
			t.Errorf("%q:\n got %v\nwant %s", line, refusals, want)
		}
		if policy.Decide(rights.Request{Subject: "mallory", Resource: "applications", Action: "get", Object: "shop/web"}).Allowed {
			t.Errorf("%q: it has an effect", line)
		}
		if !policy.Decide(rights.Request{Subject: "proj:shop:ci", Resource: "logs", Action: "get", Object: "shop/web"}).Allowed {
			t.Errorf("%q: the next line has none", line)
		}
	}
}

func TestApplicationObject(t *testing.T) {
	for want, got := range map[string]string{
		"shop/web":      rights.ApplicationObject("shop", "argocd", "web", "argocd"),
		"shop/api":      rights.ApplicationObject("shop", "", "api", "argocd"),
		"shop/team/web": rights.ApplicationObject("shop", "team", "web", "argocd"),
		"default/web":   rights.ApplicationObject("", "argocd", "web", "argocd"),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// FuzzParse looks for a text that is refused and nevertheless has an effect:
// only a line that parses may allow, and never to another subject.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"p, a, applications, get, */*, allow", "g, a, role:admin", "g, \"a\", role:admin # x", "p, a, *, *, {a,b}/*, allow\r\n# x\n",
		`p, "a,b", applications, action//Pod/x, "p/{a,b}", deny`, "p, a, applications, (, *, allow",
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, regex bool) {
		mode := rights.Glob
		if regex {
			mode = rights.Regex
		}
		policy, refusals := rights.ParseMode(text, "fuzz", mode)
		for _, r := range refusals {
			if r.Message == "" || r.Reason == "" {
				t.Errorf("an empty refusal: %+v", r)
			}
		}
		request := rights.Request{Subject: "subject-that-is-not-there", Resource: "applications", Action: "get", Object: "a/b"}
		if !strings.Contains(text, request.Subject) && policy.Decide(request).Allowed {
			t.Errorf("%q allows it to a stranger", text)
		}
		request.Subject = "a"
		decision := policy.Decide(request)
		if decision.Allowed != (decision.Rule != "" && strings.HasSuffix(decision.Rule, ", allow")) {
			t.Errorf("%q: %+v", text, decision)
		}
	})
}
