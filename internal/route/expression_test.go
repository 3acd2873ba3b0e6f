package route

import (
	"regexp"
	"strings"
	"testing"
)

func TestLiteralPrefix(t *testing.T) {
	for expression, want := range map[string]string{
		"^/api":               "/api",
		"^/api/v[0-9]+":       "/api/v",
		"^/api$":              "/api",
		`\A/api`:              "/api",
		"^(/api)(/.*)?":       "/api",
		"^(?:/api)/x":         "/api/x",
		"^/(api|app)":         "/ap",
		"^/a|^/b":             "",
		"^/a+":                "/",
		"^/ab?":               "/a",
		"^^/a":                "/a",
		"/api":                "",
		"(?i)^/api":           "",
		"^(?i:/API)/x":        "",
		"(?m)^/api":           "",
		"^/a^b":               "/a",
		"":                    "",
		"^":                   "",
		"(":                   "",
		`^/\Qa.b\E`:           "/a.b",
		"^/ü":                 "/ü",
		"^/v1(/|$)":           "/v1",
		"^/a{3}":              "/",
		"(^/a)b":              "/ab",
		"x*^/a":               "",
		"^/a(?:)b":            "/ab",
		"^/[a]":               "/a",
		"^/api(?P<rest>/.*)$": "/api/",
	} {
		if got := LiteralPrefix(expression); got != want {
			t.Errorf("LiteralPrefix(%q) = %q, want %q", expression, got, want)
		}
	}
}

func TestExpressionBounds(t *testing.T) {
	for _, c := range []struct{ name, expression, fragment string }{
		{"fine", "^/api/(v[0-9]{1,3})/", ""},
		{"empty", "", "is empty"},
		{"long", strings.Repeat("a", MaxExpressionLength+1), "at most 1024"},
		{"lookahead", "^/(?!x)", "RE2"},
		{"backreference", `(a)\1`, "RE2"},
		{"repeats", strings.Repeat(".{1000}", 5), "repeats too much"},
		{"nested", "((a{10}){10}){10}", ""},
		{"nested more", "((((a{9}){9}){9}){1}){1}" + strings.Repeat("b{1000}", 4), "repeats too much"},
		{"not UTF-8", "\xff", "RE2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := checkExpression(c.expression)
			switch {
			case c.fragment == "" && err != nil:
				t.Error(err)
			case c.fragment != "" && (err == nil || !strings.Contains(err.Error(), c.fragment)):
				t.Errorf("error %v, want %q in it", err, c.fragment)
			}
		})
	}
}

// FuzzLiteralPrefix: what an expression finds something in starts with its
// literal text, and what passes the check compiles.
func FuzzLiteralPrefix(f *testing.F) {
	for _, seed := range [][2]string{
		{"^/api/v[0-9]+", "/api/v1"}, {"^(/a|/b)", "/b"}, {"(?i)^/a", "/A"}, {"^/a|b", "xb"}, {"^(a^)?/b", "/b"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, expression, path string) {
		if checkExpression(expression) != nil {
			return
		}
		compiled, err := regexp.Compile(expression)
		if err != nil {
			t.Fatalf("%q passes the check and does not compile: %v", expression, err)
		}
		if literal := LiteralPrefix(expression); compiled.MatchString(path) && !strings.HasPrefix(path, literal) {
			t.Fatalf("%q fits %q, which does not start with %q", expression, path, literal)
		}
	})
}
