package glob_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/glob"
)

// matches are texts, with bars between them, that a pattern matches, and others.
type matches struct{ pattern, yes, no string }

func checkMatches(t *testing.T, compile func(string) (glob.Pattern, error), tests []matches) {
	t.Helper()
	for _, test := range tests {
		pattern, err := compile(test.pattern)
		if err != nil {
			t.Errorf("%q: %v", test.pattern, err)
			continue
		}
		for _, text := range strings.Split(test.yes, "|") {
			if !pattern.Match(text) {
				t.Errorf("%q does not match %q", test.pattern, text)
			}
		}
		for _, text := range strings.Split(test.no, "|") {
			if test.no != "" && pattern.Match(text) {
				t.Errorf("%q matches %q", test.pattern, text)
			}
		}
	}
}

func TestMatch(t *testing.T) {
	checkMatches(t, glob.Compile, []matches{
		{"", "|", "a"},
		{"*", "|a|a/b.c", ""},
		{"**", "|a/b", ""},
		{"prod", "prod", "prod-a|Prod| prod"},
		{"*-prod", "a-prod|-prod|a/b-prod", "prod|a-prod-b"},
		{"a?c", "abc|a/c|aéc", "ac|abbc"},
		{"[ab]c", "ac|bc", "cc|abc"},
		{"[a-c]", "a|b|c", "d|-"},
		{"[!a-c]x", "dx|-x", "ax"},
		{"[-a]", "-|a", "b"},
		{"{dev,test}-*", "dev-1|test-", "prod-1|dev"},
		{"{a,b{c,d}}", "a|bc|bd", "b|c"},
		{"a,b", "a,b", "a|b"},
		{`\*`, "*", "a"},
		{`a.b`, "a.b", "axb"},
		{`*.b`, "a.b", "axb"},
		{"https://10.0.0.?:6443", "https://10.0.0.1:6443", "https://10x0.0.1:6443"},
	})
	if (glob.Pattern{}).Match("") {
		t.Error("a pattern that was not compiled matches")
	}
}

// The patterns of sourceRepos are those of Argo CD: * is one part of the path.
func TestAddress(t *testing.T) {
	checkMatches(t, glob.CompileAddress, []matches{
		{"*", "|a|https://a/b/c", ""},
		{"https://github.com/argoproj/*", "https://github.com/argoproj/a", "https://github.com/argoproj/a/b|https://github.com/other/a"},
		{"https://gitlab.com/group/**", "https://gitlab.com/group/a|https://gitlab.com/group/a/b", "https://gitlab.com/groups/a"},
		{"https://*.example.com/a", "https://x.example.com/a|https://x.y.example.com/a", "https://x/.example.com/a"},
		{"a?c", "abc", "a/c"},
		{"{a,b}/*", "a/x|b/x", "c/x|a/x/y"},
	})
}

func TestRefused(t *testing.T) {
	for _, text := range []string{"[", "{a", "a}", "[a", "a]", "[]", "[!]", "[b-a]", `a\`, strings.Repeat("a", 600)} {
		if _, err := glob.Compile(text); err == nil {
			t.Errorf("%.20q is taken", text)
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{"*", "a?[!b-c]{d,e*}", `\{`, "{{{,}}}", "[^-]"} {
		f.Add(seed, "abc")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		pattern, err := glob.Compile(text)
		if err != nil {
			return
		}
		pattern.Match(name)
		if !strings.ContainsAny(text, `*?[]{}\`) && pattern.Match(name) != (text == name) {
			t.Errorf("%q has no special character and matches %q: %v", text, name, pattern.Match(name))
		}
	})
}
