package nginx_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/ingress/nginx"
)

// TestWAF: the directives of ConfigMap and Ingress are put together as in ingress-nginx.
func TestWAF(t *testing.T) {
	const (
		enable, core, snippet = nginx.Prefix + "enable-modsecurity", nginx.Prefix + "enable-owasp-core-rules", nginx.Prefix + "modsecurity-snippet"

		recommended, crs = "Include @recommended", "Include @owasp_crs"
		on, marker       = "SecRuleEngine On", "SecMarker here"
	)
	everywhere := map[string]string{"enable-modsecurity": "true"}
	for _, c := range []struct {
		name         string
		config, have map[string]string
		want         string
	}{
		{"nothing", nil, nil, ""},
		{"not enabled", nil, map[string]string{core: "true", snippet: on}, ""},
		{"enabled", nil, map[string]string{enable: "true"}, recommended},
		{"core rules", nil, map[string]string{enable: "true", core: "true"}, recommended + "\n" + crs},
		{"snippet in place of the settings", nil, map[string]string{enable: "true", core: "true", snippet: on}, on + "\n" + crs},
		{"everywhere", everywhere, nil, recommended},
		{"everywhere but here", everywhere, map[string]string{enable: "false", snippet: on}, ""},
		{"everywhere, with a snippet here", everywhere, map[string]string{snippet: on}, recommended + "\n" + on},
		{
			"snippets there and here", map[string]string{"enable-modsecurity": "true", "enable-owasp-modsecurity-crs": "true", "modsecurity-snippet": marker},
			map[string]string{snippet: on}, marker + "\n" + on + "\n" + crs,
		},
		{"core rules there without the firewall", map[string]string{"enable-owasp-modsecurity-crs": "true"}, map[string]string{enable: "true"}, recommended},
	} {
		base, faults := nginx.ParseConfig(c.config)
		settings, more, closed := nginx.Parse(c.have, base)
		if len(faults)+len(more) > 0 || closed {
			t.Fatalf("%s: %v %v", c.name, faults, more)
		}
		got := ""
		for _, step := range settings.After(policyID) {
			if step.Policy.WAF != nil {
				got = step.Policy.WAF.Directives
			}
		}
		if got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
	for value, fragment := range map[string]string{
		"SecAuditLog /var/log/x":         `line 1: "SecAuditLog"`,
		"SecRuleEngine On\nSecLua x":     `line 2: "SecLua"`,
		`SecRule ARGS "@pmFromFile /x"`:  "@pmFromFile",
		"Include /etc/nginx/secret.conf": "reads no files",
	} {
		_, faults, closed := nginx.Parse(map[string]string{enable: "true", snippet: value}, nil)
		if len(faults) != 1 || !closed || !strings.Contains(faults[0].Message, fragment) {
			t.Errorf("%s: %v, closed %v", value, faults, closed)
		}
	}
	settings, _, _ := nginx.Parse(map[string]string{enable: "true", nginx.Prefix + "modsecurity-transaction-id": "$request_id"}, nil)
	if settings.WAF.IDHeader != "X-Request-ID" {
		t.Errorf("the name comes from %q", settings.WAF.IDHeader)
	}
	if _, faults, closed := nginx.Parse(map[string]string{enable: "true", nginx.Prefix + "modsecurity-transaction-id": "shop"}, nil); len(faults) != 1 || closed {
		t.Errorf("a fixed name: %v, closed %v", faults, closed)
	}
}
