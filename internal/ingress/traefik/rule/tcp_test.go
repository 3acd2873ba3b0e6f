package rule_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/ingress/traefik/rule"
)

// TestCompileTCP: each rule has these server names, or is refused with a part of the cause.
func TestCompileTCP(t *testing.T) {
	for _, test := range []struct {
		syntax      rule.Syntax
		rule, names string
		refused     string
	}{
		{"v3", "HostSNI(`A.example`)", "a.example", ""},
		{"v3", "HostSNI(`*`)", "", ""},
		{"v3", "HostSNI(`a.x`) || HostSNI(`*.b.x`) || HostSNI(`a.x`)", "a.x *.b.x", ""},
		{"v3", "HostSNI(`a.x`) && HostSNI(`*`)", "a.x", ""},
		{"v3", "HostSNI(`a.x`) && HostSNI(`a.x`)", "a.x", ""},
		{"v2", "HostSNI(`a.x`, `b.x`)", "a.x b.x", ""},
		{"v3", "HostSNI(`a.x`, `b.x`)", "", "one value in the syntax v3"},
		{"v3", "HostSNI(`a.x`) && HostSNI(`b.x`)", "", "both a.x and b.x"},
		{"v3", "!HostSNI(`a.x`)", "", "! is not supported for connections"},
		{"v3", "HostSNIRegexp(`.+`)", "", "write HostSNI with a name"},
		{"v3", "HostSNI(`*`) && ClientIP(`10.0.0.0/8`)", "", "use a MiddlewareTCP with ipAllowList"},
		{"v3", "ALPN(`h2`)", "", "entry points of their own"},
		{"v3", "Host(`a.x`)", "", "no matcher Host for connections"},
		{"v3", "HostSNI(", "", "a value in backticks"},
	} {
		names, err := rule.CompileTCP(test.rule, options(test.syntax))
		switch {
		case test.refused == "" && (err != nil || len(names) == 0 || strings.Join(names, " ") != test.names):
			t.Errorf("%s: %q %v", test.rule, names, err)
		case test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)):
			t.Errorf("%s: %q %v, want %q", test.rule, names, err, test.refused)
		}
	}
}
