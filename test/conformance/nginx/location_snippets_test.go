package nginx

import (
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/nginx"
)

// everywhere are snippets of the ConfigMap. Each is compared with all texts of within.
var (
	everywhere = []string{
		"add_header X-One everywhere always;",
		`set $a "$a|all"; add_header X-Two "$a" always; proxy_set_header X-Set-One $a;`,
		"if ($arg_x) { return 410; } add_header X-One late;",
		"deny all;",
		"allow 127.0.0.1; deny all; more_set_headers \"X-One: changed\";",
		"rewrite ^/app/(.*)$ /app/all/$1 break;",
	}
	within = []string{
		"", "add_header X-One own;", "set $a own;", "deny 127.0.0.1;", "allow 127.0.0.1;", "break;", "if ($arg_x) { return 403; } if ($arg_y) { add_header X-Three inner; }",
		`rewrite ^/app/old /app/new; proxy_set_header X-Set-Two "$uri";`, "return 200 own;",
	}
)

// TestLocationSnippets: the location-snippet of the ConfigMap gives the responses of
// nginx with it behind the snippets of the Ingresses, also for paths that no Ingress has.
func TestLocationSnippets(t *testing.T) {
	compared := 0
	for number, text := range everywhere {
		g := startBackends(t)
		defaults, faults := nginx.ParseConfig(map[string]string{"location-snippet": text})
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		g.defaults = defaults
		servers := ""
		var ingresses []*networkingv1.Ingress
		for i, own := range within {
			name := fmt.Sprintf("everywhere-%d-%d", number, i)
			made := ingressOf(i, name, map[string]string{nginx.Prefix + "configuration-snippet": own})
			addPath(made, name+".test", "/app", networkingv1.PathTypePrefix, "one")
			ingresses = append(ingresses, made)
			inside := "client_max_body_size 1m; proxy_set_header Host $http_host;\n" + own + "\n" + text + "\n" + g.passTo("one")
			servers += fmt.Sprintf("server { listen LISTEN; server_name %s.test; default_type text/html; set $a \"\";\nlocation /app/ { %s }\nlocation = /app { %s }\n", name, inside, inside)
			servers += fmt.Sprintf("location / { %s proxy_pass http://127.0.0.1:%d/status/404; }\n}\n", text, g.ports["three"])
		}
		g.startNGINX(t, "", servers)
		for _, refused := range g.startEdge(t, ingresses) {
			t.Errorf("refused: %s", refused)
		}
		for i, own := range within {
			for _, r := range []request{
				{method: "GET", target: "/app"}, {method: "GET", target: "/app/old/a?x=1"}, {method: "POST", target: "/app/b?y=1", size: 2},
				{method: "GET", target: "/app/c?x=1&y=1"}, {method: "GET", target: "/other"}, {method: "GET", target: "/other?x=1"},
			} {
				r.host, r.compare = fmt.Sprintf("everywhere-%d-%d.test", number, i), []string{"X-One", "X-Two", "X-Three", "X-Got-X-Set-One", "X-Got-X-Set-Two"}
				missing := r.target[:4] != "/app"
				if missing {
					r.compare = r.compare[:3] // nginx has the headers and the page of a backend there
				}
				want, err := g.sendText(g.nginx, r)
				if err != nil {
					t.Fatalf("%s: nginx: %v", r, err)
				}
				got, err := g.sendText(g.edge, r)
				if err != nil {
					t.Fatalf("%s: edge: %v", r, err)
				}
				if missing {
					got.Page, want.Page = "", ""
				}
				if compared++; got != want {
					t.Errorf("%s\n\town %s\n\teverywhere %s\n\tedge  %+v\n\tnginx %+v", r, own, text, got, want)
				}
			}
		}
	}
	t.Logf("%d requests compared", compared)
}
