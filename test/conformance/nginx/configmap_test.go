package nginx

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/must"
)

// keyScene is how a key of the ConfigMap is compared: on a host with a certificate, with
// plain and encrypted requests.
type keyScene struct {
	// annotations are those of the Ingress, for a key that needs them.
	annotations map[string]string
	// http, server and location are directives of nginx; those of the location are for
	// encrypted requests.
	http, server, location string
	// plain replaces the redirect of plain requests, and hsts the header of encrypted
	// ones; - is none.
	plain, hsts string
	// early is set if the edge responds before it adds that header, as the note of hsts
	// has it; it is not compared then.
	early    bool
	requests []request
}

const defaultHSTS = "max-age=31536000; includeSubDomains"

// keyScenes are those of the keys that are done. The directives are for the first example
// of the table.
var keyScenes = map[string]keyScene{
	"proxy-body-size": {server: "client_max_body_size 8m;", early: true, requests: []request{
		{method: "POST", target: "/app", size: 2 << 20}, {method: "POST", target: "/app", size: 8<<20 + 1},
	}},
	"proxy-connect-timeout":     {location: "proxy_connect_timeout 10s;"},
	"proxy-read-timeout":        {location: "proxy_read_timeout 10s;"},
	"proxy-send-timeout":        {location: "proxy_send_timeout 10s;"},
	"proxy-next-upstream":       {location: "proxy_next_upstream error;"},
	"proxy-next-upstream-tries": {location: "proxy_next_upstream_tries 2;"},
	// Without the redirect, the edge leaves the header out, as the note of hsts has it.
	"ssl-redirect":            {plain: "-", hsts: "-"},
	"force-ssl-redirect":      {},
	"preserve-trailing-slash": {plain: toTLS(true), requests: []request{{method: "GET", target: "/app/"}}},
	"http-redirect-code":      {plain: strings.Replace(toTLS(false), "308", "301", 1)},
	"hsts":                    {hsts: "-"},
	"hsts-max-age":            {hsts: "max-age=600; includeSubDomains"},
	"hsts-include-subdomains": {hsts: "max-age=31536000"},
	"hsts-preload":            {hsts: defaultHSTS + "; preload"},
	"app-root":                {server: "if ($uri = /) { return 302 $scheme://$http_host/app; }", early: true},
	"whitelist-source-range":  {location: "allow 10.0.0.0/8; deny all;"},
	"denylist-source-range":   {location: "deny 10.0.0.0/8;"},
	"limit-req-status-code": {
		annotations: map[string]string{"limit-rpm": "1"}, http: "limit_req_zone $binary_remote_addr zone=rpm:1m rate=1r/m;",
		location: "limit_req zone=rpm burst=5 nodelay; limit_req_status 429;", requests: many(8),
	},
	"load-balance":              {},
	"upstream-hash-by":          {},
	"retry-non-idempotent":      {location: "proxy_next_upstream error timeout non_idempotent;"},
	"allow-snippet-annotations": {annotations: map[string]string{"configuration-snippet": "more_set_headers 'X-Snippet: yes';"}, location: "more_set_headers 'X-Snippet: yes';"},
	"disable-access-log":        {},
}

// keysNotCompared are the keys that are done and that have no scene, with the reason.
var keysNotCompared = map[string]string{
	"limit-conn-status-code":       "it needs requests at the same time; internal/edge/filter has them",
	"service-upstream":             "addresses of Services are those of a cluster",
	"location-snippet":             "TestLocationSnippets",
	"enable-modsecurity":           "TestModSecurity",
	"enable-owasp-modsecurity-crs": "TestModSecurity",
	"modsecurity-snippet":          "TestModSecurity",
}

// TestConfigMapKeys: each key of the ConfigMap that is done gives the responses of nginx
// with the directives of ingress-nginx.
func TestConfigMapKeys(t *testing.T) {
	cases := 0
	for _, declared := range nginx.ConfigKeys() {
		scene, compared := keyScenes[declared.Name]
		_, excused := keysNotCompared[declared.Name]
		global := strings.HasPrefix(declared.Name, "global-auth-") // see TestGlobalAuth
		if declared.Support != nginx.Done || global {
			continue
		}
		if compared == excused {
			t.Errorf("%s is done: compare it, or list it with the reason that it cannot be", declared.Name)
		}
		if compared {
			t.Run(declared.Name, func(t *testing.T) { cases += scene.compare(t, declared.Name, declared.Examples[0]) })
		}
	}
	t.Logf("%d cases of %d keys", cases, len(keyScenes))
}

// compare sends the requests and returns how many.
func (s *keyScene) compare(t *testing.T, key, value string) int {
	g := startBackends(t)
	defaults, faults := nginx.ParseConfig(map[string]string{key: value})
	must.Do(t, nginx.ConfigError(faults))
	g.defaults = defaults
	host := key + ".test"
	annotations := map[string]string{}
	for name, text := range s.annotations {
		annotations[nginx.Prefix+name] = text
	}
	ingress := ingressOf(0, key, annotations)
	ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{host}, SecretName: "pair"}}
	addPath(ingress, host, "/", networkingv1.PathTypePrefix, "one")
	all := []*networkingv1.Ingress{ingress}
	secrets := g.encrypt(t, all)
	g.startNGINX(t, s.http, s.servers(g, host))
	for _, refused := range g.startEdge(t, all, secrets...) {
		t.Errorf("refused: %s", refused)
	}
	requests := append(append([]request{}, usual...), s.requests...)
	for _, r := range requests {
		for _, encrypted := range []bool{false, true} {
			if r.host, r.tls = host, encrypted; !s.early {
				r.compare = []string{"Strict-Transport-Security"}
			}
			want, err := g.send(g.nginx, r)
			if err != nil {
				t.Fatalf("%s: nginx: %v", r, err)
			}
			got, err := g.send(g.edge, r)
			if err != nil {
				t.Fatalf("%s: edge: %v", r, err)
			}
			if !got.agrees(want) {
				t.Errorf("%s, encrypted %t\n\tedge  %+v\n\tnginx %+v", r, encrypted, got, want)
			}
		}
	}
	return 2 * len(requests)
}

// servers returns the servers of nginx: for plain and for encrypted requests.
func (s *keyScene) servers(g *ground, host string) string {
	body, server := "proxy_set_header Host $http_host; "+g.passTo("one"), s.server
	if !strings.Contains(server, "client_max_body_size") {
		server += " client_max_body_size 1m;"
	}
	plain, header := toTLS(false), `add_header Strict-Transport-Security "`+defaultHSTS+`" always;`
	switch s.plain {
	case "-":
		plain = s.location + body
	case "":
	default:
		plain = s.plain
	}
	switch s.hsts {
	case "-":
		header = ""
	case "":
	default:
		header = `add_header Strict-Transport-Security "` + s.hsts + `" always;`
	}
	return fmt.Sprintf(`server { listen LISTEN; server_name %[1]s; %[2]s location / { %[3]s } }
		server { listen LISTEN_TLS; server_name %[1]s; ssl_certificate TLS_DIR/pair.crt; ssl_certificate_key TLS_DIR/pair.key; %[2]s %[4]s
			location / { %[5]s %[6]s } }`, host, server, plain, header, s.location, body)
}

// TestCustomConfiguration is examples/customization/custom-configuration and ssl-dh-param:
// the ConfigMaps of both are accepted, and a read timeout of the ConfigMap ends a request
// whose backend does not respond.
func TestCustomConfiguration(t *testing.T) {
	documented := map[string]string{"proxy-connect-timeout": "10", "proxy-read-timeout": "120", "proxy-send-timeout": "120", "ssl-dh-param": "default/lb-dhparam"}
	_, faults := nginx.ParseConfig(documented)
	must.Do(t, nginx.ConfigError(faults))

	const host = "slow.foo.org"
	g := startBackends(t)
	g.ports["slow"] = startServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	shortened := maps.Clone(documented)
	shortened["proxy-read-timeout"], shortened["proxy-next-upstream"] = "1", "off"
	g.defaults, faults = nginx.ParseConfig(shortened)
	must.Do(t, nginx.ConfigError(faults))
	ingress := ingressOf(0, "slow", nil)
	addPath(ingress, host, "/", networkingv1.PathTypePrefix, "slow")
	addPath(ingress, host, "/quick", networkingv1.PathTypePrefix, "one")
	g.startNGINX(t, "", fmt.Sprintf(`server { listen LISTEN; server_name %s; proxy_connect_timeout 10s; proxy_read_timeout 1s; proxy_send_timeout 120s;
		proxy_next_upstream off; proxy_set_header Host $http_host; proxy_set_header Connection "";
		location / { proxy_pass http://127.0.0.1:%d; } location /quick { proxy_pass http://127.0.0.1:%d; } }`, host, g.ports["slow"], g.ports["one"]))
	for _, refused := range g.startEdge(t, []*networkingv1.Ingress{ingress}) {
		t.Errorf("refused: %s", refused)
	}
	for target, status := range map[string]int{"/": http.StatusGatewayTimeout, "/quick": http.StatusOK} {
		r := request{method: http.MethodGet, host: host, target: target}
		want, got := must.Get(g.send(g.nginx, r))(t), must.Get(g.send(g.edge, r))(t)
		if !got.agrees(want) || got.Status != status {
			t.Errorf("%s\n\tedge  %+v\n\tnginx %+v", r, got, want)
		}
	}
}

// TestLargeHeaders is examples/customization/jwt: nginx needs proxy-buffer-size for large
// headers of responses, and responds with 502 without it. The edge needs nothing.
func TestLargeHeaders(t *testing.T) {
	const host = "jwt.foo.org"
	g := startBackends(t)
	defaults, faults := nginx.ParseConfig(map[string]string{"proxy-buffer-size": "16k"})
	must.Do(t, nginx.ConfigError(faults))
	g.defaults = defaults
	ingress := ingressOf(0, "jwt", nil)
	addPath(ingress, host, "/", networkingv1.PathTypePrefix, "one")
	const server = "server { listen LISTEN; server_name %s; %s location / { proxy_set_header Host $http_host; %s } }\n"
	g.startNGINX(t, "large_client_header_buffers 4 32k;", fmt.Sprintf(server, host, "proxy_buffer_size 16k; proxy_buffers 4 16k; proxy_busy_buffers_size 32k;", g.passTo("one"))+
		fmt.Sprintf(server, "small."+host, "proxy_buffer_size 4k;", g.passTo("one")))
	for _, refused := range g.startEdge(t, []*networkingv1.Ingress{ingress}) {
		t.Errorf("refused: %s", refused)
	}
	r := request{method: http.MethodGet, host: host, target: "/", headers: []string{"X-Set-Token: " + strings.Repeat("token", 2400)}, compare: []string{"X-Got-X-Set-Token"}}
	want, got := must.Get(g.send(g.nginx, r))(t), must.Get(g.send(g.edge, r))(t)
	if !got.agrees(want) || got.Status != http.StatusOK {
		got.Headers, want.Headers = strconv.Itoa(len(got.Headers)), strconv.Itoa(len(want.Headers))
		t.Errorf("edge %+v, nginx %+v", got, want)
	}
	r.host = "small." + host
	if small := must.Get(g.send(g.nginx, r))(t); small.Status != http.StatusBadGateway {
		t.Errorf("nginx with small buffers responds with %d", small.Status)
	}
}

// TestRefusedExamples: the examples that the edge does not carry out are refused by name.
// The Ingresses that must not be served without them are closed.
func TestRefusedExamples(t *testing.T) {
	for page, keys := range map[string]map[string]string{
		"examples/customization/custom-headers":                  {"proxy-set-headers": "ingress-nginx/custom-headers"},
		"examples/customization/custom-headers, of the response": {"add-headers": "ingress-nginx/custom-headers"},
	} {
		_, faults := nginx.ParseConfig(keys)
		for key := range keys {
			if len(faults) != 1 || faults[0].Field != "data["+key+"]" || !strings.Contains(faults[0].Message, "slipway.dev/re") {
				t.Errorf("%s: %v", page, faults)
			}
		}
	}
	for page, c := range map[string]struct{ annotation, value, message string }{
		"examples/chashsubset":                          {"upstream-hash-by-subset", "true", "one endpoint"},
		"examples/customization/configuration-snippets": {"configuration-snippet", "more_set_headers \"Request-Id: $req_id\";\n", "req_id"},
		"user-guide/fcgi-services":                      {"backend-protocol", "FCGI", "FCGI"},
		"user-guide/fcgi-services, fastcgi-index":       {"fastcgi-index", "index.php", "FastCGI"},
	} {
		t.Run(page, func(t *testing.T) {
			g := startBackends(t)
			ingress := ingressOf(0, "refused", map[string]string{nginx.Prefix + c.annotation: c.value})
			addPath(ingress, "refused.foo.org", "/", networkingv1.PathTypePrefix, "one")
			refused := g.startEdge(t, []*networkingv1.Ingress{ingress})
			if len(refused) != 1 || refused[0].Field != nginx.FieldOf(c.annotation) || !strings.Contains(refused[0].Message, c.message) {
				t.Errorf("refused: %v", refused)
			}
			allowed := nginx.Defaults()
			allowed.Snippets.Allowed = true
			_, _, closed := nginx.Parse(ingress.Annotations, allowed)
			got := must.Get(g.send(g.edge, request{method: http.MethodGet, host: "refused.foo.org", target: "/"}))(t)
			if served := got.Backend == "one"; served == closed {
				t.Errorf("closed %t, and the response is %+v", closed, got)
			}
		})
	}
}
