package gitprovider_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitprovider"
)

// R15, R21, R58, R59: provider and API URL come from the repository's address alone.
func TestInfer(t *testing.T) {
	for _, test := range []struct{ address, kind, api string }{
		{"https://github.com/acme/config.git", "github", "https://api.github.com"},
		{"https://github.com/acme/config", "github", "https://api.github.com"},
		{"https://user:token@GitHub.com/acme/config.git", "github", "https://api.github.com"},
		{"git@github.com:acme/config.git", "github", "https://api.github.com"},
		{"ssh://git@ssh.github.com:443/acme/config.git", "github", "https://api.github.com"},
		{"https://github.com/acme/config.git/envs/prod?ref=main", "github", "https://api.github.com"},
		{"https://octo.ghe.com/acme/config.git", "github", "https://api.octo.ghe.com"},
		{"https://github.example.com/acme/config.git", "github", "https://github.example.com/api/v3"},
		{"https://ghe.example.com:8443/acme/config.git", "github", "https://ghe.example.com:8443/api/v3"},
		{"git@github.example.com:acme/config.git", "github", "https://github.example.com/api/v3"},
		{"https://gitlab.com/acme/platform/team/config.git", "gitlab", "https://gitlab.com/api/v4"},
		{"ssh://git@altssh.gitlab.com:443/acme/config.git", "gitlab", "https://gitlab.com/api/v4"},
		{"https://gitlab.example.com/acme/platform/config.git", "gitlab", "https://gitlab.example.com/api/v4"},
		{"ssh://git@gitlab.example.com:2222/acme/config.git", "gitlab", "https://gitlab.example.com/api/v4"},
		{"https://my-gitlab.example.com/a/b", "gitlab", "https://my-gitlab.example.com/api/v4"},
		{"https://acme@bitbucket.org/acme/config.git", "bitbucket", "https://api.bitbucket.org/2.0"},
		{"git@bitbucket.org:acme/config.git", "bitbucket", "https://api.bitbucket.org/2.0"},
		{"https://bitbucket.example.com/scm/acme/config.git", "bitbucket-server", "https://bitbucket.example.com"},
		{"https://git.example.com/scm/~robot/config.git", "bitbucket-server", "https://git.example.com"},
		{"https://example.com/bitbucket/scm/acme/config.git", "bitbucket-server", "https://example.com/bitbucket"},
		{"ssh://git@bitbucket.example.com:7999/acme/config.git", "bitbucket-server", "https://bitbucket.example.com"},
		{"https://git.example.com/acme/config.git", "", ""},
		{"https://github.com.evil.example/acme/config.git", "github", "https://github.com.evil.example/api/v3"},
		{"https://evil.example/github.com/acme/config.git", "", ""},
	} {
		kind, api, ok := gitprovider.Infer(test.address)
		if string(kind) != test.kind || api != test.api || ok != (test.kind != "") {
			t.Errorf("Infer(%q) = %q, %q, %v; want %q, %q", test.address, kind, api, ok, test.kind, test.api)
		}
	}
}

// Addresses that could mean something else to a program or a server are refused.
func TestParseAddressRefuses(t *testing.T) {
	for _, address := range []string{
		"", "config", "https://", "https://github.com", "https://github.com/", "ftp://github.com/a/b", "file:///etc/passwd",
		"https://github.com/../../a/b", "https://github.com/a/%2e%2e/b", "https://github.com/a/b%2fc", "https://github.com/a/-b",
		"git@-oProxyCommand=x:a/b", "ext::sh -c id", "https://git hub.com/a/b", "https://github.com/a/b#c", "https://exa%6dple\\.com/a/b",
		"https://github.com/a//b.git", "https://" + strings.Repeat("a", 3000) + "/a/b", "git@host", "https://github.com/a\n/b",
	} {
		if got, err := gitprovider.ParseAddress(address); err == nil {
			t.Errorf("ParseAddress(%q) = %+v, want an error", address, got)
		} else if found := failure(t, err); found.Kind != gitprovider.Invalid {
			t.Errorf("ParseAddress(%q) is of kind %s", address, found.Kind)
		}
	}
}

// R59: what a user writes as the server becomes the API URL.
func TestDefaultAPI(t *testing.T) {
	for _, test := range []struct{ kind, server, want string }{
		{"github", "", "https://api.github.com"},
		{"github", "https://github.com", "https://api.github.com"},
		{"github", "https://api.github.com", "https://api.github.com"},
		{"github", "https://github.example.com/", "https://github.example.com/api/v3"},
		{"github", "https://github.example.com/api/v3", "https://github.example.com/api/v3"},
		{"github", "https://octo.ghe.com", "https://api.octo.ghe.com"},
		{"github", "https://api.octo.ghe.com", "https://api.octo.ghe.com"},
		{"gitlab", "gitlab.example.com", "https://gitlab.example.com/api/v4"},
		{"gitlab", "https://example.com/gitlab", "https://example.com/gitlab/api/v4"},
		{"gitlab", "https://gitlab.com", "https://gitlab.com/api/v4"},
		{"bitbucket", "", "https://api.bitbucket.org/2.0"},
		{"bitbucket", "https://bitbucket.org", "https://api.bitbucket.org/2.0"},
		{"bitbucket", "https://bitbucket.example.com", "error"},
		{"bitbucket-server", "https://bitbucket.example.com/rest/api/1.0", "https://bitbucket.example.com"},
		{"bitbucket-server", "https://example.com/bitbucket", "https://example.com/bitbucket"},
		{"bitbucket-server", "", "error"},
		{"gitlab", "https://user:password@gitlab.example.com", "error"},
		{"gitea", "https://gitea.example.com", "error"},
	} {
		got, err := gitprovider.DefaultAPI(gitprovider.Kind(test.kind), test.server)
		if err != nil {
			got = "error"
		}
		if got != test.want {
			t.Errorf("DefaultAPI(%s, %q) = %q (%v), want %q", test.kind, test.server, got, err, test.want)
		}
	}
}

// An address never leads a token to another host than its own or its cloud's.
func FuzzParseAddress(f *testing.F) {
	for _, seed := range []string{
		"https://github.com/a/b.git", "git@host:a/b", "ssh://git@h:7999/~u/r.git", "https://h/scm/K/r.git/p?ref=x",
		"https://u:p@h:8443/ctx/scm/k/r", "https://gitlab.com/a/b/-/tree/main", "://", "a@b@c:d", "https://[::1]:80/a/b", "https://x.ghe.com/a/b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		address, err := gitprovider.ParseAddress(text)
		kind, api, ok := gitprovider.Infer(text)
		if err != nil {
			if ok {
				t.Fatalf("Infer accepts %q, ParseAddress does not", text)
			}
			return
		}
		if address.Host == "" || address.Host != strings.ToLower(address.Host) || len(address.Segments) == 0 {
			t.Fatalf("ParseAddress(%q) = %+v", text, address)
		}
		for _, segment := range address.Segments {
			if segment == "" || segment == "." || segment == ".." || strings.ContainsAny(segment, "/?#%\\ \n") {
				t.Fatalf("ParseAddress(%q) has the segment %q", text, segment)
			}
		}
		if !ok {
			return
		}
		if normal, err := gitprovider.DefaultAPI(kind, api); err != nil || normal != api {
			t.Fatalf("Infer(%q) = %q, which DefaultAPI makes %q (%v)", text, api, normal, err)
		}
		cloud := strings.HasSuffix(address.Host, "github.com") || strings.HasSuffix(address.Host, "gitlab.com") || strings.HasSuffix(address.Host, "bitbucket.org") || strings.HasSuffix(address.Host, ".ghe.com")
		if !cloud && !strings.Contains(api, "//"+address.Host) && !strings.Contains(api, "//["+address.Host) {
			t.Fatalf("Infer(%q) leads to %q", text, api)
		}
	})
}
