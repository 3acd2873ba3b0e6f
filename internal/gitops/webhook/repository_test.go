package webhook_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/webhook"
)

// TestSameRepository: each group is one repository, and no other one.
func TestSameRepository(t *testing.T) {
	groups := [][]string{
		{
			"https://github.com/argoproj/examples", "https://github.com/argoproj/examples.git", "https://github.com/argoproj/examples/",
			"https://GitHub.com/argoproj/examples.git/", "http://github.com/argoproj/examples", "https://github.com:443/argoproj/examples",
			"https://user:password@github.com/argoproj/examples.git", "HTTPS://github.com/argoproj/examples",
			"git@github.com:argoproj/examples.git", "git@github.com:/argoproj/examples", "github.com:argoproj/examples.git",
			"ssh://git@github.com/argoproj/examples.git", "ssh://git@github.com:22/argoproj/examples", "ssh://github.com:2222/argoproj/examples",
			"git+ssh://git@github.com/argoproj/examples", "ssh://git@ssh.github.com:443/argoproj/examples.git",
		},
		{"https://github.com/argoproj/Examples"}, // the path has a case
		{"https://github.com/argoproj/examples.git.git"},
		{"https://github.com/argoproj/examples-2"},
		{"https://github.com/argoproj"},
		{"https://github.com.example.com/argoproj/examples"},
		{"https://git.example.com:8443/team/project", "https://git.example.com:8443/team/project.git"},
		{"https://git.example.com:9443/team/project"},
		{"https://git.example.com/other/project", "ssh://git@git.example.com:7999/other/project", "http://git.example.com:80/other/project"},
		{"git@[2001:db8::1]:team/project.git", "ssh://git@[2001:db8::1]/team/project", "https://[2001:DB8::1]/team/project"},
		{"oci://registry.example.com/charts/app", "oci://registry.example.com:443/charts/app"},
		{"https://registry.example.com/charts/app"},
	}
	for i, group := range groups {
		for _, a := range group {
			for j, other := range groups {
				for _, b := range other {
					// Ports are compared within a protocol only.
					if a != b && (i == 0 || i == 8) && i == j && isOtherPort(a) != isOtherPort(b) {
						continue
					}
					if got := webhook.SameRepository(a, b); got != (i == j) {
						t.Errorf("%s and %s: %t", a, b, got)
					}
				}
			}
		}
	}
}

// isOtherPort is for the addresses above whose port is not the usual one of
// their protocol.
func isOtherPort(address string) bool {
	return address == "ssh://github.com:2222/argoproj/examples" || address == "ssh://git@git.example.com:7999/other/project"
}

// TestPortsOfProtocols: a port counts within a protocol, and not between two.
func TestPortsOfProtocols(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"ssh://github.com:2222/a/b", "ssh://github.com/a/b", false},
		{"ssh://github.com:2222/a/b", "git@github.com:a/b", false},
		{"ssh://github.com:2222/a/b", "https://github.com/a/b", true},
		{"ssh://git@git.example.com:7999/a/b", "https://git.example.com:8443/a/b", true},
		{"https://git.example.com:8443/a/b", "http://git.example.com:8443/a/b", true},
	} {
		if got := webhook.SameRepository(test.a, test.b); got != test.want {
			t.Errorf("%s and %s: %t", test.a, test.b, got)
		}
	}
}

// TestNoRepository: what is not an address is not even the same as itself. No
// Application can have one of these, so that no push has to find it.
func TestNoRepository(t *testing.T) {
	for _, text := range []string{
		"", "/", "https://", "https://github.com", "https://github.com/", "https://github.com/.git", "://a/b", "a", "c:/x",
		"git@github.com:", "@:a", "https://github.com/a/../b", "https://github.com/a/./b", "https://github.com/a/b?x=1", "https://github.com/a/b#c",
		"https://github.com/a/b\n", "git@github.com:a\x00b", "https://github.com:port/a", "https:///a/b", "https://github.com/%zz", "https://github.com/%00",
		"ssh://git@:22/a", "https://github.com//argoproj//examples", "https://github.com./argoproj/examples", "https://github.com/argoproj/ex%61mples",
		"git://github.com/argoproj/examples.git", "/srv/git/project.git", "file:///srv/git/project",
	} {
		if webhook.SameRepository(text, text) {
			t.Errorf("%q is a repository", text)
		}
	}
}

// FuzzSameRepository: the relation is symmetric, and adding what does not count
// changes nothing.
func FuzzSameRepository(f *testing.F) {
	f.Add("https://github.com/a/b", "git@github.com:a/b.git")
	f.Add("ssh://git@[::1]:22/a", "/srv/git")
	f.Add("git@[::1]:a", "https://x/%2e%2e/b")
	f.Fuzz(func(t *testing.T, a, b string) {
		same := webhook.SameRepository(a, b)
		if same != webhook.SameRepository(b, a) {
			t.Errorf("%q and %q are the same in one direction", a, b)
		}
		if same && (!webhook.SameRepository(a, a) || !webhook.SameRepository(b, b)) {
			t.Errorf("%q or %q is not the same as itself", a, b)
		}
		if webhook.SameRepository(a, a) && !strings.HasSuffix(a, "/") && !webhook.SameRepository(a, a+"/") {
			t.Errorf("a slash makes %q another one", a)
		}
	})
}

func TestFrom(t *testing.T) {
	named := webhook.Push{Repository: "Team/Project", RepositoryURLs: []string{"https://git.example.com/Team/Project.git", "git@git.example.com:Team/Project.git"}}
	nameless := webhook.Push{Repository: "PROJ/repository"}
	for _, test := range []struct {
		push webhook.Push
		url  string
		want bool
	}{
		{named, "https://git.example.com/team/project", true},
		{named, "ssh://git@git.example.com/Team/Project.git", true},
		{named, "https://git.example.com/team/project2", false},
		{named, "https://other.example.com/team/project", false},
		{named, "not an address", false},
		{nameless, "https://bitbucket.example.com/scm/proj/repository.git", true},
		{nameless, "ssh://git@bitbucket.example.com:7999/PROJ/repository.git", true},
		{nameless, "https://bitbucket.example.com/scm/xproj/repository.git", false},
		{webhook.Push{}, "https://git.example.com/a", false},
	} {
		if got := test.push.From(test.url); got != test.want {
			t.Errorf("%v from %s: %t", test.push.Repository, test.url, got)
		}
	}
}

// TestBelow: a push is to a repository of an owner at any depth.
func TestBelow(t *testing.T) {
	push := webhook.Push{Repository: "Team/Sub/Project", RepositoryURLs: []string{"git@git.example.com:Team/Sub/Project.git", "https://git.example.com:8443/Team/Sub/Project.git"}}
	for owner, want := range map[string]bool{
		"https://git.example.com:8443/team": true, "https://git.example.com:8443/Team/Sub": true, "https://git.example.com/team": true,
		"https://git.example.com:8443/tea": false, "https://git.example.com:8443/team/sub/project": false, "https://git.example.com:8443/sub": false,
		"https://other.example.com/team": false, "not an address": false,
	} {
		if got := push.Below(owner); got != want {
			t.Errorf("below %s: %t", owner, got)
		}
	}
	if !(webhook.Push{Repository: "PROJ/repository"}).Below("https://bitbucket.example.com/scm/PROJ") {
		t.Error("a push without an address is below no owner")
	}
}
