package integration

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

const hostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"

// FuzzKnownHosts: what is accepted names the Git server and no other host, and
// merging it keeps the lines of other hosts.
func FuzzKnownHosts(f *testing.F) {
	f.Add("git.example.com " + hostKey)
	f.Add("[git.example.com]:2222,git.example.com " + hostKey + "\n# comment\n")
	f.Add("*.example.com " + hostKey)
	f.Add("@cert-authority git.example.com " + hostKey)
	f.Add("git.example.com,evil.example.com " + hostKey)
	f.Fuzz(func(t *testing.T, text string) {
		lines, err := checkKnownHosts(text, "git.example.com:8443")
		if err != nil {
			return
		}
		for line := range strings.Lines(lines) {
			for host := range strings.SplitSeq(strings.Fields(line)[0], ",") {
				if strings.ToLower(hostName(host)) != "git.example.com" {
					t.Errorf("%q is for %q", text, host)
				}
			}
		}
		const other = "other.example.com " + hostKey + "\n"
		merged := mergeKnownHosts(other, lines)
		if !strings.HasPrefix(merged, other) || mergeKnownHosts(merged, lines) != merged {
			t.Errorf("merging %q gives %q", lines, merged)
		}
	})
}

// TestMergeKnownHosts: the lines of a host are replaced, comments and others stay.
func TestMergeKnownHosts(t *testing.T) {
	got := mergeKnownHosts("# ours\na "+hostKey+"\nb old\n", "b "+hostKey+"\n")
	if want := "# ours\na " + hostKey + "\nb " + hostKey + "\n"; got != want {
		t.Errorf("it is %q, not %q", got, want)
	}
}

// TestGitHost: where repositories are, from the address of one or of the API.
func TestGitHost(t *testing.T) {
	for _, one := range []struct{ api, shared, host string }{
		{"https://api.github.com", "", "github.com"},
		{"https://api.bitbucket.org/2.0", "", "bitbucket.org"},
		{"https://gitlab.example.com:8443/api/v4", "git@gitlab.example.com:team/config.git", "gitlab.example.com:8443"},
		{"https://api.acme.ghe.com", "", "acme.ghe.com"},
		{"https://ghe.example.com/api/v3", "https://ghe.example.com:444/team/config.git/a?ref=b", "ghe.example.com:444"},
	} {
		if got, plain, err := gitHost(one.api, one.shared); err != nil || plain || got != one.host {
			t.Errorf("%v: the host is %s: %v", one, got, err)
		}
	}
}

// TestSealerKeys: the errors for another key and for a damaged text differ.
func TestSealerKeys(t *testing.T) {
	one, err := newSealer([]byte(strings.Repeat("a", keyBytes)))
	must.Do(t, err)
	other := must.Get(newSealer([]byte(strings.Repeat("b", keyBytes))))(t)
	to := binding{Purpose: "test", User: "ada"}
	sealed := one.seal([]byte("text"), to)
	if plain, err := one.open(sealed, to); err != nil || string(plain) != "text" {
		t.Errorf("it opens as %q: %v", plain, err)
	}
	if _, err := other.open(sealed, to); err != errOtherKey { //nolint:errorlint // it is this very one
		t.Errorf("another key: %v", err)
	}
	for i := range sealed {
		broken := append([]byte(nil), sealed...)
		broken[i] ^= 1
		if _, err := one.open(broken, to); err == nil {
			t.Errorf("it opens with byte %d changed", i)
		}
	}
	if _, err := one.open(nil, to); err == nil {
		t.Error("nothing opens")
	}
	if _, err := newSealer([]byte("short")); err == nil {
		t.Error("a short key is taken")
	}
}
