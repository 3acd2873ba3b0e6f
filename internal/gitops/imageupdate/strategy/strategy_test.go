package strategy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/imageupdate/strategy"
)

// TestDocumentedStrategies has the examples of the Image Updater's documentation.
func TestDocumentedStrategies(t *testing.T) {
	registry := strings.Fields("1.0.0 v1.0.1 1.2.4 1.2.5 1.2.12 1.3.0 1.15.2 2.0.0-rc1 2.0.0 2.1.0-rc1 latest master a5fb3d3 f7bb2e3 2024-01-02 2024-11-30")
	for _, tt := range []struct {
		name, strategy, constraint, allow string
		ignore                            []string
		current, want                     string
	}{
		{name: "highest version", want: "2.0.0"},
		{name: "patch branch", constraint: "1.2.x", want: "1.2.12"},
		{name: "patch branch by a tilde", constraint: "~1.2", want: "1.2.12"},
		{name: "major", constraint: "1.x", want: "1.15.2"},
		{name: "major by a caret", constraint: "^1.0", want: "1.15.2"},
		{name: "prefix of the constraint", constraint: "v1.0.x", want: "v1.0.1"},
		{name: "before a release", constraint: "2.x-0", want: "2.1.0-rc1"},
		{name: "no such version", constraint: "3.x"},
		{name: "current tag that is no version", constraint: "1.x", current: "latest", want: "1.15.2"},
		{name: "ignored", constraint: "1.x", ignore: []string{"1.15.*", "1.3.*"}, want: "1.2.12"},
		{name: "everything ignored", ignore: []string{"*"}},
		{name: "allowed by an expression", strategy: "alphabetical", allow: "regexp:^[0-9]{4}-[0-9]{2}-[0-9]{2}$", want: "2024-11-30"},
		{name: "older name", strategy: "name", allow: "regexp:^[0-9a-f]{7}$", want: "f7bb2e3"},
		{name: "any", strategy: "alphabetical", allow: "any", want: "v1.0.1"},
		{name: "digest", strategy: "digest", constraint: "latest", want: "latest"},
		{name: "digest of no tag", strategy: "digest", constraint: "none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			chosen, err := strategy.Parse(tt.strategy)
			if err != nil {
				t.Fatal(err)
			}
			filter, err := strategy.NewFilter(tt.allow, tt.ignore)
			if err != nil {
				t.Fatal(err)
			}
			rule, err := strategy.NewRule(chosen, tt.constraint, filter)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := rule.Choose(rule.Candidates(registry), tt.current); got != tt.want {
					t.Errorf("the tag is %q, want %q", got, tt.want)
				}
				slices.Reverse(registry)
			}
		})
	}
}

// TestSameVersion: tags of one version do not replace each other.
func TestSameVersion(t *testing.T) {
	rule, err := strategy.NewRule(strategy.SemVer, "1.x", strategy.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	sorted := rule.Candidates([]string{"1.2.0", "v1.2.0", "1.1.0"})
	for current, want := range map[string]string{"1.2.0": "1.2.0", "v1.2.0": "v1.2.0", "1.1.0": "v1.2.0", "": "v1.2.0"} {
		if got := rule.Choose(sorted, current); got != want {
			t.Errorf("after %q comes %q, want %q", current, got, want)
		}
	}
}

// TestNewest: of images that were built at once the last name counts, and one without
// a date never does.
func TestNewest(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2024, 1, n, 0, 0, 0, 0, time.UTC) }
	built := map[string]time.Time{"old": day(1), "f33bacd": day(2), "dev": day(2), "latest": day(2), "undated": {}}
	if got := strategy.Newest(built); got != "latest" {
		t.Errorf("the newest is %s", got)
	}
	if got := strategy.Newest(map[string]time.Time{"undated": {}}); got != "" {
		t.Errorf("the newest is %s", got)
	}
}

// TestRefusedRules: a mistake matches no tag.
func TestRefusedRules(t *testing.T) {
	for _, allow := range []string{"regexp:[", "glob:*", "regexp:", "regexp:" + strings.Repeat("a", 2000)} {
		filter, err := strategy.NewFilter(allow, nil)
		if err == nil || filter.Allows("latest") {
			t.Errorf("%.20q is accepted", allow)
		}
	}
	if filter, err := strategy.NewFilter("", []string{"[a"}); err == nil || filter.Allows("latest") {
		t.Error("a pattern that is none is accepted")
	}
	if _, err := strategy.Parse("newest"); err == nil {
		t.Error("an unknown strategy is accepted")
	}
	if _, err := strategy.NewRule(strategy.SemVer, "one", strategy.Filter{}); err == nil {
		t.Error("an unknown constraint is accepted")
	}
	if _, err := strategy.NewRule(strategy.Digest, "", strategy.Filter{}); err == nil {
		t.Error("a digest of no tag is accepted")
	}
}

func TestParseImage(t *testing.T) {
	for text, want := range map[string]strategy.Image{
		"nginx":                     {Registry: "docker.io", Repository: "library/nginx", Written: "nginx"},
		"nginx:~1.26":               {Registry: "docker.io", Repository: "library/nginx", Written: "nginx", Tag: "~1.26"},
		"foo/bar":                   {Registry: "docker.io", Repository: "foo/bar", Written: "foo/bar"},
		"docker.io/library/nginx:1": {Registry: "docker.io", Repository: "library/nginx", Written: "docker.io/library/nginx", Tag: "1"},
		"index.docker.io/foo/bar":   {Registry: "docker.io", Repository: "foo/bar", Written: "index.docker.io/foo/bar"},
		"localhost:5000/team/app":   {Registry: "localhost:5000", Repository: "team/app", Written: "localhost:5000/team/app"},
		"Quay.io/dexidp/dex:latest": {Registry: "quay.io", Repository: "dexidp/dex", Written: "Quay.io/dexidp/dex", Tag: "latest"},
		"127.0.0.1:5000/a:1@sha256:" + strings.Repeat("a", 64): {Registry: "127.0.0.1:5000", Repository: "a", Written: "127.0.0.1:5000/a", Tag: "1", Digest: "sha256:" + strings.Repeat("a", 64)},
	} {
		if got, err := strategy.ParseImage(text); err != nil || got != want {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "Nginx", "a b", "http://a/b", "a//b", "../a", "a@sha256:1", "a/" + strings.Repeat("b", 600), "evil.example\n/a"} {
		if got, err := strategy.ParseImage(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

func FuzzParseImage(f *testing.F) {
	f.Add("docker.io/library/nginx:1.17.10")
	f.Add("localhost:5000/a@sha256:")
	f.Fuzz(func(t *testing.T, text string) {
		image, err := strategy.ParseImage(text)
		if err != nil {
			return
		}
		if strings.ContainsAny(image.Name(), " \n\\?#%") || strings.Contains(image.Name(), "..") || !image.Same(image) {
			t.Errorf("%q is %+v", text, image)
		}
	})
}
