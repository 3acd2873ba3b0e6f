package normalize_test

import (
	"errors"
	"testing"

	"slipway.dev/slipway/internal/edge/normalize"
)

// pathTests has a path, its spelling, and its hazards; or the flaw for which
// it is refused.
var pathTests = []struct {
	name    string
	raw     string
	path    string
	hazards normalize.Hazard
	flaw    error
}{
	{name: "root", raw: "/", path: "/"},
	{name: "plain", raw: "/shop/cart/7", path: "/shop/cart/7"},
	{name: "trailing slash stays", raw: "/shop/", path: "/shop/"},
	{name: "hidden file", raw: "/.well-known/acme", path: "/.well-known/acme"},
	{name: "three dots", raw: "/.../x", path: "/.../x"},
	{name: "sub-delimiters", raw: "/a!$&'()*+,=:@b", path: "/a!$&'()*+,=:@b"},
	{name: "escaped space", raw: "/a%20b", path: "/a%20b"},

	{name: "hex upper case", raw: "/caf%c3%a9", path: "/caf%C3%A9"},
	{name: "escaped letter", raw: "/%61dmin", path: "/admin"},
	{name: "escaped tilde", raw: "/%7euser", path: "/~user"},
	{name: "escaped plus stays", raw: "/a%2bb", path: "/a%2Bb"},
	{name: "double escape stays", raw: "/%252e%252e/x", path: "/%252e%252e/x"},
	{name: "raw pipe and brackets", raw: "/a|b[c]{d}^`", path: "/a%7Cb%5Bc%5D%7Bd%7D%5E%60"},

	{name: "dot", raw: "/a/./b", path: "/a/b"},
	{name: "dot at the end", raw: "/a/.", path: "/a/"},
	{name: "dot dot", raw: "/public/../admin", path: "/admin"},
	{name: "dot dot at the end", raw: "/a/b/..", path: "/a/"},
	{name: "dot dot above the root", raw: "/../../etc/passwd", path: "/etc/passwd"},
	{name: "escaped dots", raw: "/public/%2e%2E/admin", path: "/admin"},
	{name: "half escaped dots", raw: "/public/.%2e/admin", path: "/admin"},
	{name: "slashes", raw: "//a///b//", path: "/a/b/"},
	{name: "slashes and dots", raw: "/a//../b", path: "/b"},
	{name: "only dots", raw: "/..", path: "/"},

	{name: "encoded slash", raw: "/a%2fb", path: "/a%2Fb", hazards: normalize.EncodedSlash},
	{name: "backslash", raw: `/a\b`, path: "/a%5Cb", hazards: normalize.Backslash},
	{name: "encoded backslash", raw: "/a%5cb", path: "/a%5Cb", hazards: normalize.Backslash},
	{name: "encoded null", raw: "/a%00.png", path: "/a%00.png", hazards: normalize.EncodedNull},
	{name: "encoded hash", raw: "/a%23b", path: "/a%23b", hazards: normalize.EncodedHash},
	{name: "semicolon", raw: "/a;v=1/b", path: "/a;v=1/b", hazards: normalize.Semicolon},
	{name: "encoded semicolon", raw: "/a%3bv", path: "/a%3Bv", hazards: normalize.Semicolon},
	{name: "bad escape", raw: "/100%", path: "/100%25", hazards: normalize.BadEscape},
	{name: "bad hex", raw: "/%zz", path: "/%25zz", hazards: normalize.BadEscape},
	{name: "half an escape", raw: "/%4", path: "/%254", hazards: normalize.BadEscape},
	{name: "two hazards", raw: "/a;b%2Fc", path: "/a;b%2Fc", hazards: normalize.Semicolon | normalize.EncodedSlash},

	{name: "dots behind an encoded slash", raw: "/public/..%2fadmin", flaw: normalize.ErrHiddenDots},
	{name: "dots between encoded slashes", raw: "/public%2f..%2fadmin", flaw: normalize.ErrHiddenDots},
	{name: "dots behind a backslash", raw: `/public/..\admin`, flaw: normalize.ErrHiddenDots},
	{name: "dots with a path parameter", raw: "/public/..;/admin", flaw: normalize.ErrHiddenDots},
	{name: "dots with an encoded parameter", raw: "/public/..%3bx/admin", flaw: normalize.ErrHiddenDots},
	{name: "dots before a null", raw: "/public/..%00/admin", flaw: normalize.ErrHiddenDots},

	{name: "empty", raw: "", flaw: normalize.ErrTargetForm},
	{name: "not absolute", raw: "admin", flaw: normalize.ErrTargetForm},
	{name: "fragment", raw: "/a#b", flaw: normalize.ErrFragment},
	{name: "space", raw: "/a b", flaw: normalize.ErrTargetByte},
	{name: "tab", raw: "/a\tb", flaw: normalize.ErrTargetByte},
	{name: "null", raw: "/a\x00b", flaw: normalize.ErrTargetByte},
	{name: "delete", raw: "/a\x7fb", flaw: normalize.ErrTargetByte},
	{name: "raw UTF-8", raw: "/café", flaw: normalize.ErrTargetByte},
	{name: "line break", raw: "/a\r\nHost: b", flaw: normalize.ErrTargetByte},
}

func TestPath(t *testing.T) {
	for _, test := range pathTests {
		t.Run(test.name, func(t *testing.T) {
			got, hazards, err := normalize.Path(nil, []byte(test.raw))
			if !errors.Is(err, test.flaw) {
				t.Fatalf("Path(%q): error %v, want %v", test.raw, err, test.flaw)
			}
			if string(got) != test.path || hazards != test.hazards {
				t.Errorf("Path(%q) = %q %b, want %q %b", test.raw, got, hazards, test.path, test.hazards)
			}
			checkPath(t, test.raw)
		})
	}
}

func TestHazardCheck(t *testing.T) {
	flaws := map[normalize.Hazard]error{
		normalize.EncodedSlash: normalize.ErrEncodedSlash,
		normalize.Backslash:    normalize.ErrBackslash,
		normalize.EncodedNull:  normalize.ErrEncodedNull,
		normalize.EncodedHash:  normalize.ErrEncodedHash,
		normalize.Semicolon:    normalize.ErrSemicolon,
		normalize.BadEscape:    normalize.ErrBadEscape,
	}
	all := normalize.NoHazard
	for hazard := range flaws {
		all |= hazard
	}
	for hazard, flaw := range flaws {
		if err := hazard.Check(normalize.NoHazard); !errors.Is(err, flaw) {
			t.Errorf("hazard %b: error %v, want %v", hazard, err, flaw)
		}
		if err := hazard.Check(hazard); err != nil {
			t.Errorf("hazard %b, allowed: error %v", hazard, err)
		}
		if err := all.Check(all &^ hazard); !errors.Is(err, flaw) {
			t.Errorf("all but hazard %b allowed: error %v, want %v", hazard, err, flaw)
		}
	}
}

func TestRulePath(t *testing.T) {
	tests := []struct{ name, rule, path string }{
		{"plain", "/shop", "/shop"},
		{"space", "/a b", "/a%20b"},
		{"letters outside ASCII", "/café", "/caf%C3%A9"},
		{"escaped already", "/caf%c3%a9", "/caf%C3%A9"},
		{"dots", "/a/../b//c", "/b/c"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, _, err := normalize.RulePath(test.rule)
			if err != nil || got != test.path {
				t.Errorf("RulePath(%q) = %q, %v, want %q", test.rule, got, err, test.path)
			}
		})
	}
	for _, bad := range []string{"", "shop", "/a?b", "/a#b", "/a\nb"} {
		if got, _, err := normalize.RulePath(bad); err == nil {
			t.Errorf("RulePath(%q) = %q, want an error", bad, got)
		}
	}
}
