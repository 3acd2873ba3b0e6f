package tlsstore_test

import (
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/tlsstore"
)

func TestCanonicalName(t *testing.T) {
	label63 := strings.Repeat("a", 63)
	long := strings.Repeat(label63+".", 3) + strings.Repeat("a", 61)
	for _, tt := range []struct {
		name, in, want string // an empty want means refused
	}{
		{"plain", "a.example.com", "a.example.com"},
		{"upper", "A.ExAmple.COM", "a.example.com"},
		{"dot", "a.example.com.", "a.example.com"},
		{"upper dot", "A.EXAMPLE.", "a.example"},
		{"one label", "localhost", "localhost"},
		{"underscore", "_acme.example", "_acme.example"},
		{"hyphens", "-a-.example", "-a-.example"},
		{"punycode", "xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"digits inside", "1.2.3.4.example", "1.2.3.4.example"},
		{"label 63", label63 + ".example", label63 + ".example"},
		{"name 253", long, long},
		{"name 253 dot", long + ".", long},
		{"empty", "", ""},
		{"only dot", ".", ""},
		{"two dots", "a.example..", ""},
		{"first dot", ".example", ""},
		{"inner dots", "a..example", ""},
		{"label 64", label63 + "a.example", ""},
		{"last label 64", "a." + label63 + "a", ""},
		{"name 254", "a" + long, ""},
		{"ipv4", "127.0.0.1", ""},
		{"ipv4 dot", "127.0.0.1.", ""},
		{"short ipv4", "127.1", ""},
		{"hex ipv4", "0x7f000001", ""},
		{"hex part", "127.0x1", ""},
		{"bare hex", "a.0X", ""},
		{"hex with letters", "a.0xgood", "a.0xgood"},
		{"ipv6", "::1", ""},
		{"ipv6 brackets", "[::1]", ""},
		{"port", "a.example:443", ""},
		{"wildcard", "*.example", ""},
		{"space", "a .example", ""},
		{"nul", "a\x00.example", ""},
		{"slash", "a/example", ""},
		{"percent", "a%2eexample", ""},
		{"unicode", "bücher.example", ""},
		{"kelvin sign", "\u212a.example", ""},
		{"fullwidth dot", "a\uff0eexample", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := tlsstore.CanonicalName(tt.in)
			if got != tt.want || ok != (tt.want != "") {
				t.Errorf("CanonicalName(%q) = %q, %t; want %q", tt.in, got, ok, tt.want)
			}
		})
	}
}

func TestCanonicalPattern(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"A.example", "a.example"},
		{"*.Example.COM.", "*.example.com"},
		{"*.com", "*.com"},
		{"*", ""},
		{"*.", ""},
		{"*.*.example", ""},
		{"a*.example", ""},
		{"a.*.example", ""},
		{"**.example", ""},
		{"*.127.0.0.1", ""},
	} {
		got, ok := tlsstore.CanonicalPattern(tt.in)
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("CanonicalPattern(%q) = %q, %t; want %q", tt.in, got, ok, tt.want)
		}
	}
}

// wholeName and number are the naive reading of a name.
var (
	wholeName = regexp.MustCompile(`^[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$`)
	number    = regexp.MustCompile(`(^|\.)([0-9]+|0x[0-9a-f]*)$`)
)

// naiveName is CanonicalName as one would write it without care for speed.
// strings.ToLower would not do: it makes a k of the Kelvin sign.
func naiveName(in string) (string, bool) {
	name := strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, strings.TrimSuffix(in, "."))
	return name, len(name) <= 253 && wholeName.MatchString(name) && !number.MatchString(name)
}

func FuzzCanonicalName(f *testing.F) {
	for _, seed := range []string{"a.example", "A.Example.", "a..b", "127.0.0.1", "0x7f.1", "*.a", "[::1]", "xn--a.b", "a.b:1", ".", "\u212a.b", strings.Repeat("a.", 126) + "a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		want, wantOK := naiveName(in)

		got, ok := tlsstore.CanonicalName(in)
		if ok != wantOK || (ok && got != want) {
			t.Fatalf("CanonicalName(%q) = %q, %t; the naive reading is %q, %t", in, got, ok, want, wantOK)
		}
		if !ok {
			return
		}
		if again, ok := tlsstore.CanonicalName(got); !ok || again != got {
			t.Fatalf("%q is not canonical: it becomes %q, %t", got, again, ok)
		}
		if _, err := netip.ParseAddr(got); err == nil {
			t.Fatalf("%q is an address", got)
		}
	})
}
