package project_test

import (
	"net/url"
	"strings"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/must"
)

// compileRepos compiles a project with these sourceRepos.
func compileRepos(repos ...string) (*project.Project, []refusal.Refusal) {
	made := &v1alpha1.AppProject{Spec: v1alpha1.AppProjectSpec{SourceRepos: repos}}
	made.Name = "team"
	return project.Compile(made)
}

// TestDenyRulesHaveNoOtherSpelling: a rule that forbids a repository forbids it
// in every spelling. Most are no addresses at all.
func TestDenyRulesHaveNoOtherSpelling(t *testing.T) {
	spellings := map[string]string{
		"!https://corp.example/team/secret": `https://corp.example/team/secret https://corp.example/team/secret.git https://CORP.example/Team/SECRET https://corp.example:443/team/secret
			https://corp.example/team/secret/ https://corp.example/team/secret.git/ https://user@corp.example/team/secret https://corp.example//team/secret https://corp.example/team//secret
			https://corp.example/team/%73ecret https://corp.example/team%2fsecret https://corp.example./team/secret https://corp.example/x/../team/secret https://corp.example/team/./secret
			http://corp.example/team/secret https://corp.example/team/secret?x https://corp.example/team/secret#x`,
		"!git@corp.example:team/**": `git@corp.example:team/a ssh://git@corp.example/team/a ssh://corp.example/team/a ssh://git@corp.example:22/team/a.git git+ssh://git@corp.example/team/a
			corp.example:team/a git@corp.example:/team/a git@corp.example:~/team/a ssh://git@corp.example/~/team/a git@corp.example:~git/team/a ssh://git@corp.example/~git/team/a git@corp.example:team/../team/a`,
		"!corp.example/team/**":             `https://corp.example/team/a http://corp.example/team/a ssh://git@corp.example/team/a ssh://other@corp.example/team/a oci://corp.example/team/a corp.example/team/a git@corp.example:team/a`,
		"!ssh://git@GITHUB.com:team/secret": "git@github.com:team/secret ssh://git@github.com/team/secret ssh://git@ssh.github.com:443/team/secret",
		"!oci://registry.example/team/**":   "oci://registry.example/team/a registry.example/team/a registry.example:443/team/a oci://registry.example:443/team/a/b",
		"!https://corp.example:443/a":       "https://corp.example/a http://corp.example/a",
		"!https://corp.example./a/":         "https://corp.example/a",
		"!https://user:x@corp.example/a":    "https://corp.example/a",
		"!https://corp.example/%61":         "https://corp.example/a",
		"!https://corp.example/My Project":  "https://corp.example/My%20Project",
		"!https://**/secret":                "https://a/secret https://a/b/secret",
		"!https://git**/secret":             "https://git.example/secret https://git.example/b/secret",
		"!**/secret":                        "https://a/secret git@a:secret https://a/b/secret",
		"!*://corp.example/**":              "https://corp.example/a ssh://git@corp.example/a oci://corp.example/a",
		"!https://*.corp.example/**":        "https://a.corp.example/x http://a.b.corp.example/x",
	}
	for rule, denied := range spellings {
		p, refused := compileRepos("*", rule)
		if len(refused) > 0 {
			t.Fatalf("%s: %v", rule, refused)
		}
		for _, repository := range strings.Fields(denied) {
			if admits(p, repository) {
				t.Errorf("%s allows %s", rule, repository)
			}
		}
		if !admits(p, "https://elsewhere.example/team/other") || !admits(p, "git@elsewhere.example:team/other") {
			t.Errorf("%s forbids others too", rule)
		}
	}
}

// TestPatternsStayInTheirPart: a * of the host takes no path and the reverse, so
// that a repository elsewhere cannot be named to match.
func TestPatternsStayInTheirPart(t *testing.T) {
	for _, test := range []struct{ rule, yes, no string }{
		{"https://*.corp.example/*", "https://git.corp.example/x https://a.b.corp.example/x https://git.corp.example/",
			"https://evil.test/.corp.example/x https://evil.test?.corp.example/x https://evil.test#.corp.example/x https://corp.example/x https://git.corp.example/x/y https://git.corp.example:8443/x https://evil.test/a.corp.example/x"},
		{"https://**.corp.example/x", "https://git.corp.example/x", "https://evil.test/git.corp.example/x"},
		{"**corp.example/team/*", "https://corp.example/team/a git@corp.example:team/a", "https://evil.test/corp.example/team/a https://corp.example/team/a/b"},
		{"*corp.example/team/*", "git@corp.example:team/a corp.example/team/a", "https://corp.example/team/a https://evil.test/corp.example/team/a"},
		{"https://corp.example/**", "https://corp.example/a/b https://corp.example", "https://corp.example.evil.test/a https://corp.example:8443/a http://corp.example/a"},
		{"https://corp.example*/a", "https://corp.example/a https://corp.example:8443/a", "https://corp.example/b/a"},
		{"https://corp.example:*/a", "https://corp.example/a https://corp.example:8443/a", "https://corp.example/b"},
		{"https://**", "https://a/b/c https://a:8443", "http://a/b ssh://git@a/b"},
		{"https://**/team/*", "https://a/team/b https://a/x/team/b", "https://a/team/b/c"},
		{"https://*", "https://charts.example", "https://a/b"},
		{"*://a/b", "https://a/b ssh://git@a/b", "https://b/b"},
		{"{https,ssh}://a/b", "https://a/b ssh://git@a/b", "http://a/b oci://a/b"},
		{"https://a/team[!x]b", "https://a/team-b", "https://a/team/b https://a/teamxb"},
		{"https://{a,b}.example/{x,y}", "https://a.example/x https://b.example/y", "https://c.example/x"},
		{"https://[::1]:8443/a", "https://[::1]:8443/a", "https://[::1]/a https://1/a"},
		{"git@corp.example:team/*", "git@corp.example:team/a ssh://corp.example/team/a corp.example:team/a", "other@corp.example:team/a https://corp.example/team/a git@corp.example:team/a/b"},
		{"*@corp.example:team/*", "git@corp.example:team/a other@corp.example:team/a", "https://corp.example/team/a"},
		{"ssh://git@corp.example:2222/**", "ssh://git@corp.example:2222/a", "ssh://git@corp.example/a git@corp.example:2222/a"},
		{"registry.example:5000/team", "registry.example:5000/team oci://registry.example:5000/team", "registry.example/team https://registry.example:5000/team"},
		{"https://user@corp.example/a", "https://corp.example/a", "https://user@corp.example/a"},
		{"**", "https://a/b git@a:b oci://a/b", "https://a@b/c"},
		{"", "", "https://a/b"},
	} {
		p, refused := compileRepos(test.rule)
		if len(refused) > 0 {
			t.Errorf("%s: %v", test.rule, refused)
		}
		for _, repository := range strings.Fields(test.yes) {
			if !admits(p, repository) {
				t.Errorf("%s refuses %s", test.rule, repository)
			}
		}
		for _, repository := range strings.Fields(test.no) {
			if admits(p, repository) {
				t.Errorf("%s allows %s", test.rule, repository)
			}
		}
	}
}

// TestRulesThatCannotBeRead fail closed.
func TestRulesThatCannotBeRead(t *testing.T) {
	for _, text := range []string{"https://{a/b,c}/d", "https://a[/]b", "https://[a", "{https://a,https://b}/x", "https://a/%zz", "https://a/%2", "https://a:port/b", "https://[x::]/a"} {
		for _, rule := range []string{text, "!" + text} {
			p, refused := compileRepos("https://a/**", rule)
			if len(refused) != 1 || refused[0].Field != "spec.sourceRepos[1]" {
				t.Errorf("%s: %v", rule, refused)
			}
			if allowed := admits(p, "https://a/b"); allowed != !strings.HasPrefix(rule, "!") {
				t.Errorf("with %s, which cannot be read, https://a/b is allowed: %t", rule, allowed)
			}
		}
	}
	for _, rule := range []string{"!*", "!**"} {
		if _, refused := compileRepos(rule); len(refused) != 1 {
			t.Errorf("%s: %v", rule, refused)
		}
	}
}

// TestDenyRulesOfCharts: the chart of a registry is a part of its path.
func TestDenyRulesOfCharts(t *testing.T) {
	p, _ := compileRepos("*", "!oci://registry.example/team/secret", "!https://charts.example/private/**")
	for _, test := range []struct {
		repository, chart string
		want              bool
	}{
		{"registry.example/team", "secret", false},
		{"oci://registry.example", "team/secret", false},
		{"oci://registry.example/team/", "secret", false},
		{"oci://registry.example/team", "other", true},
		{"https://charts.example", "private/a", false},
	} {
		if _, err := p.Admit(v1alpha1.ApplicationSource{RepoURL: test.repository, Chart: test.chart}); (err == nil) != test.want {
			t.Errorf("%s of %s: %v", test.chart, test.repository, err)
		}
	}
}

// TestAdmit: what is admitted has the project and the address, and no refusal
// has a credential in it.
func TestAdmit(t *testing.T) {
	p, _ := compileRepos("https://corp.example/**")
	got, err := p.Admit(v1alpha1.ApplicationSource{RepoURL: "https://CORP.example/a.git", Path: "x", TargetRevision: "main"})
	if err != nil || got.Project() != "team" || got.Address().String() != "https://corp.example/a.git" || got.Source().Path != "x" {
		t.Errorf("got %+v, %v", got, err)
	}
	if bare := got.Revision(); bare.Source().Path != "" || bare.Source().TargetRevision != "main" || bare.Address() != got.Address() || bare.Project() != "team" {
		t.Errorf("the revision is %+v", bare)
	}
	for _, repository := range []string{"https://u:canary@corp.example/a", "https://corp.example/a?token=canary", "https://canary@evil.test/a", "https://other.example/a"} {
		admitted, err := p.Admit(v1alpha1.ApplicationSource{RepoURL: repository})
		if err == nil || strings.Contains(err.Error(), "canary") || !admitted.Address().IsZero() {
			t.Errorf("%s: %v, %+v", repository, err, admitted)
		}
	}
}

// An archive of a Helm repository is a part of it if it is below it. Elsewhere on
// the host the project decides, and on other hosts only a rule that forbids.
func TestCheckArchive(t *testing.T) {
	const repository = "https://charts.example/team"
	for _, test := range []struct {
		at     string
		allows bool
	}{
		{repository + "/web-1.0.0.tgz", true},
		{repository + "/charts/web-1.0.0%2B7.tgz?token=a", true},
		{"https://charts.example/team-b/web.tgz", false},
		{"https://charts.example/other/web.tgz", false},
		{"https://charts.example/", false},
		{"https://charts.example/files/web.tgz", true},
		{repository + "/%2e%2e/other/web.tgz", false},
		{repository + "/..%2Fother/web.tgz", false},
		{repository + "//other/web.tgz", false},
		{repository + "/a%5c..%5cweb.tgz", false},
		{"http://charts.example/other/web.tgz", true}, // it gets no credential
		{"https://charts.example:8443/other/web.tgz", true},
		{"https://files.example/web//1.tgz?X-Signature=a", true},
		{"https://secret.example/web.tgz", false},
		// In repositories that are allowed or forbidden by name.
		{"https://charts.example/shared/charts/web.tgz", true},
		{"https://charts.example/shared/bank/web.tgz", false},
		{"https://charts.example/shared-b/web.tgz", false},
		{"https://files.example/bank/web.tgz", false},
	} {
		p := compile(t, "sourceRepos: ['"+repository+"', 'https://charts.example/files/**', 'https://charts.example/shared', '!https://secret.example/**', '!https://charts.example/shared/bank', '!https://files.example/bank']")
		admitted := must.Get(p.Admit(v1alpha1.ApplicationSource{RepoURL: repository, Chart: "web"}))(t)
		at := must.Get(url.Parse(test.at))(t)
		if err := admitted.CheckArchive(at); (err == nil) != test.allows {
			t.Errorf("%s: %v", test.at, err)
		}
	}
	atRoot := must.Get(compile(t, "sourceRepos: ['https://charts.example']").Admit(v1alpha1.ApplicationSource{RepoURL: "https://charts.example", Chart: "web"}))(t)
	if err := atRoot.CheckArchive(&url.URL{Scheme: "https", Host: "charts.example", Path: "/a/web.tgz"}); err != nil {
		t.Error(err)
	}
}

// A file is allowed by a rule for its address or for a folder above it, and
// forbidden likewise.
func TestAdmitFile(t *testing.T) {
	for _, test := range []struct {
		rules  []string
		file   string
		allows bool
	}{
		{[]string{"*"}, "https://files.example/a/install.yaml", true},
		{[]string{"https://git.example/team/app"}, "https://git.example/team/app/raw/main/install.yaml", true},
		{[]string{"https://git.example/team/app"}, "https://git.example/team/other/raw/main/install.yaml", false},
		{[]string{"https://git.example/team/*"}, "https://files.example/team/install.yaml", false},
		{[]string{"*", "!https://git.example/bank"}, "https://git.example/bank/raw/install.yaml", false},
		{[]string{"*"}, "https://ada:x@files.example/install.yaml", false},
		{[]string{"*"}, "https://files.example/install.yaml?token=x", false},
	} {
		limits := compile(t, "sourceRepos: ['"+strings.Join(test.rules, "', '")+"']")
		if admitted, err := limits.AdmitFile(test.file); (err == nil) != test.allows || err == nil && !admitted.Revision().IsFile() {
			t.Errorf("%q with %q: %v", test.file, test.rules, err)
		}
	}
}

// A file of Git LFS needs its repository, and another server like a file.
func TestAdmitObject(t *testing.T) {
	limits := compile(t, "sourceRepos: ['https://git.example/team/*', 'https://lfs.example/team']")
	for _, test := range []struct {
		repository, server string
		at                 string // empty if it is not allowed
	}{
		{"https://git.example/team/app.git", "", "https://git.example/team/app.git"},
		{"https://git.example/other/app.git", "", ""},
		{"https://git.example/team/app", "https://lfs.example/team/objects", "https://lfs.example/team/objects"},
		{"https://git.example/team/app", "https://lfs.example/other", ""},
		{"https://git.example/other/app", "https://lfs.example/team/objects", ""},
	} {
		admitted, err := limits.AdmitObject(test.repository, test.server, "0a", 5)
		if (err == nil) != (test.at != "") {
			t.Errorf("%+v: %v", test, err)
		}
		if object := admitted.Revision().Object(); err == nil && (admitted.IsFile() || admitted.Address().String() != test.at || object.OID != "0a" || object.Size != 5 || object.Repository.String() != test.repository) {
			t.Errorf("%+v is %+v at %s", test, object, admitted.Address())
		}
	}
}
