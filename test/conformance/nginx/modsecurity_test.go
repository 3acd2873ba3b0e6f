package nginx

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/must"
)

// attacks are requests that the Core Rule Set denies, and honest ones are not.
var (
	attacks = []request{
		{method: "GET", target: "/?q=%3Cscript%3Ealert(1)%3C%2Fscript%3E"},
		{method: "GET", target: "/app?id=1%27%20OR%20%271%27%3D%271"},
		{method: "GET", target: "/app?file=..%2F..%2F..%2Fetc%2Fpasswd"},
		{method: "GET", target: "/app", headers: []string{"User-Agent: () { :; }; /bin/cat /etc/passwd"}},
	}
	honest = []request{
		{method: "GET", target: "/"}, {method: "GET", target: "/app?q=one+two&page=3"}, {method: "GET", target: "/app", headers: []string{"User-Agent: Mozilla/5.0 (X11; Linux x86_64)"}},
	}
)

// modSecurityCases are the annotations and keys of the documentation: of the annotations
// page and of user-guide/third-party-addons/modsecurity. denied is what it states: without
// SecRuleEngine On the rules only report. Debian's nginx has no ModSecurity.
var modSecurityCases = []struct {
	name        string
	keys        map[string]string
	annotations map[string]string
	denied      bool
}{
	{"off", nil, nil, false},
	{"reports", nil, map[string]string{"enable-modsecurity": "true", "enable-owasp-core-rules": "true"}, false},
	{
		"denies", nil, map[string]string{
			"enable-modsecurity": "true", "enable-owasp-core-rules": "true", "modsecurity-transaction-id": "$request_id", "modsecurity-snippet": "SecRuleEngine On\n",
		}, true,
	},
	{"included", nil, map[string]string{"enable-modsecurity": "true", "modsecurity-snippet": "SecRuleEngine On\nInclude /etc/nginx/owasp-modsecurity-crs/nginx-modsecurity.conf\n"}, true},
	{"reports-everywhere", map[string]string{"enable-modsecurity": "true", "enable-owasp-modsecurity-crs": "true"}, nil, false},
	{"denies-everywhere", map[string]string{"enable-modsecurity": "true", "enable-owasp-modsecurity-crs": "true", "modsecurity-snippet": "SecRuleEngine On"}, nil, true},
	{
		"off-here", map[string]string{"enable-modsecurity": "true", "enable-owasp-modsecurity-crs": "true", "modsecurity-snippet": "SecRuleEngine On"},
		map[string]string{"enable-modsecurity": "false"}, false,
	},
}

// TestModSecurity: attacks get 403 where the documentation states that rules deny, and
// honest requests are served.
func TestModSecurity(t *testing.T) {
	for _, c := range modSecurityCases {
		t.Run(c.name, func(t *testing.T) {
			g := startBackends(t)
			defaults, faults := nginx.ParseConfig(c.keys)
			must.Do(t, nginx.ConfigError(faults))
			g.defaults = defaults
			ingress := modSecurityIngress(c.annotations)
			for _, refused := range g.startEdge(t, []*networkingv1.Ingress{ingress}) {
				t.Errorf("refused: %s", refused)
			}
			status := http.StatusOK
			if c.denied {
				status = http.StatusForbidden
			}
			for _, r := range attacks {
				r.host = "waf.foo.org"
				if got := must.Get(g.send(g.edge, r))(t); got.Status != status {
					t.Errorf("%s: got %d, want %d", r, got.Status, status)
				}
			}
			for _, r := range honest {
				r.host = "waf.foo.org"
				if got := must.Get(g.send(g.edge, r))(t); got.Status != http.StatusOK || got.Backend != "one" {
					t.Errorf("%s: got %+v", r, got)
				}
			}
		})
	}
}

// TestModSecurityFiles: the example of the annotations page with a log file is refused by
// its line, and the Ingress is not served without its rules.
func TestModSecurityFiles(t *testing.T) {
	g := startBackends(t)
	refused := g.startEdge(t, []*networkingv1.Ingress{modSecurityIngress(map[string]string{
		"enable-modsecurity": "true", "enable-owasp-core-rules": "true", "modsecurity-snippet": "SecRuleEngine On\nSecDebugLog /tmp/modsec_debug.log\n",
	})})
	if len(refused) != 1 || refused[0].Field != nginx.FieldOf("modsecurity-snippet") || !strings.Contains(refused[0].Message, "SecDebugLog") {
		t.Errorf("refused: %s", fmt.Sprint(refused))
	}
	if got := must.Get(g.send(g.edge, request{method: "GET", host: "waf.foo.org", target: "/"}))(t); got.Backend != "" {
		t.Errorf("served: %+v", got)
	}
}

func modSecurityIngress(annotations map[string]string) *networkingv1.Ingress {
	prefixed := map[string]string{}
	for name, value := range annotations {
		prefixed[nginx.Prefix+name] = value
	}
	ingress := ingressOf(0, "waf", prefixed)
	addPath(ingress, "waf.foo.org", "/", networkingv1.PathTypePrefix, "one")
	return ingress
}
