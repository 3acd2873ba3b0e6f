package nginx

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/difference"
	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/must"
)

// differing is how a declared difference is shown: an Ingress with it, the directives of
// nginx for it, and what both respond to the request of the declaration.
type differing struct {
	path        string
	annotations map[string]string
	// location replaces that of the path, and directives are in it.
	location, directives string
	// target replaces the path of the request, for one that depends on the application.
	target        string
	before, after func(*http.Response) bool
}

func hasStatus(status int) func(*http.Response) bool {
	return func(r *http.Response) bool { return r.StatusCode == status }
}

func hasHeader(name, value string) func(*http.Response) bool {
	return func(r *http.Response) bool { return r.Header.Get(name) == value }
}

// differences are the declared differences that nginx shows.
var differences = map[string]differing{
	"expression-spelling": {
		path: "/a b/(.*)", annotations: map[string]string{"use-regex": "true"}, location: `~* "^/a b/(.*)"`,
		before: hasHeader("X-Backend", "one"), after: hasStatus(404),
	},
	"empty-elements": {
		path: "/app(.*)", annotations: map[string]string{"rewrite-target": "/$1"}, location: `~* "^/app(.*)"`, directives: `rewrite "(?i)/app(.*)" /$1 break;`,
		before: hasHeader("X-Got-Target", "//probe"), after: hasHeader("X-Got-Target", "/probe"),
	},
	"cors-credentials": {
		annotations: map[string]string{"enable-cors": "true"},
		directives:  corsDirectives("*", corsMethods, corsHeaders, "", "1728000") + ` add_header Access-Control-Allow-Credentials true always;`,
		before:      hasHeader("Access-Control-Allow-Credentials", "true"), after: hasHeader("Access-Control-Allow-Credentials", ""),
	},
	"cors-options": {
		annotations: map[string]string{"enable-cors": "true"}, directives: corsDirectives("*", corsMethods, corsHeaders, "", "1728000"),
		before: hasStatus(204), after: hasHeader("X-Got-Method", "OPTIONS"),
	},
	"password-charset": {
		annotations: map[string]string{"auth-type": "basic", "auth-secret": "users"}, directives: `auth_basic ""; auth_basic_user_file USERS;`,
		before: func(r *http.Response) bool {
			return r.StatusCode == 401 && !strings.Contains(r.Header.Get("WWW-Authenticate"), "charset")
		},
		after: func(r *http.Response) bool {
			return r.StatusCode == 401 && strings.Contains(r.Header.Get("WWW-Authenticate"), `charset="UTF-8"`)
		},
	},
	"error-page-headers": {
		annotations: map[string]string{"custom-http-errors": "404", "default-backend": "three"}, directives: errorPages("404"), target: "/status/404",
		before: hasHeader("X-Backend", "three"), after: hasHeader("X-Backend", "one"),
	},
}

// notShown are the declared differences that this nginx cannot show.
var notShown = map[string]string{
	"sticky-path":         "nginx without a licence has no sticky cookies; TestStickyCookies shows what the edge does",
	"client-certificates": "TestClientCertificates shows it, with handshakes",
	"auth-cookies":        "versions of nginx differ; internal/edge/proxy shows what the edge does",
}

// TestDeclaredDifferences: the request of each declared difference gets the two responses
// that slipway migrate report states.
func TestDeclaredDifferences(t *testing.T) {
	g := startBackends(t)
	file := filepath.Join(t.TempDir(), "users")
	must.Do(t, os.WriteFile(file, []byte(users), 0o600))
	var servers strings.Builder
	var ingresses []*networkingv1.Ingress
	for _, declared := range difference.Of(difference.NGINX) {
		d, shown := differences[declared.ID]
		if _, excused := notShown[declared.ID]; !declared.General && shown == excused {
			t.Errorf("%s: show it, or list it with the reason that it cannot be", declared.ID)
		}
		if shown {
			ingresses = append(ingresses, d.ingress(declared.ID))
			servers.WriteString(strings.ReplaceAll(d.server(g, declared.ID), "USERS", file))
		}
	}
	g.startNGINX(t, "", servers.String())
	secret := &snapshot.SecretBody{Namespace: namespace, Name: "users", Data: map[string][]byte{"auth": []byte(users)}}
	for _, refused := range g.startEdge(t, ingresses, secret) {
		t.Errorf("refused: %s", refused)
	}
	for _, ingress := range ingresses {
		t.Run(ingress.Name, func(t *testing.T) {
			d := differences[ingress.Name]
			example := exampleOf(t, ingress, secret)
			if d.target != "" {
				example.URL = "http://" + ingress.Name + ".test" + d.target
			}
			if response := g.raw(t, g.nginx, example); !d.before(response) {
				t.Errorf("nginx to %s: %d %v, and the report has %q", example.Command(), response.StatusCode, response.Header, example.Before)
			}
			if response := g.raw(t, g.edge, example); !d.after(response) {
				t.Errorf("the edge to %s: %d %v, and the report has %q", example.Command(), response.StatusCode, response.Header, example.After)
			}
		})
	}
	// Pages of errors of the proxy itself differ for all objects.
	missing := &difference.Example{URL: "http://nowhere.test/"}
	if kind := g.raw(t, g.nginx, missing).Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/html") {
		t.Errorf("the page of nginx is %s", kind)
	}
	if kind := g.raw(t, g.edge, missing).Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain") {
		t.Errorf("the page of the edge is %s", kind)
	}
}

// ingress returns the Ingress with the difference, named after it.
func (d *differing) ingress(id string) *networkingv1.Ingress {
	annotations := map[string]string{}
	for name, value := range d.annotations {
		annotations[nginx.Prefix+name] = value
	}
	made := ingressOf(0, id, annotations)
	addPath(made, id+".test", d.pathText(), networkingv1.PathTypeImplementationSpecific, "one")
	return made
}

func (d *differing) pathText() string {
	if d.path == "" {
		return "/"
	}
	return d.path
}

// server returns the server of nginx.
func (d *differing) server(g *ground, id string) string {
	location := d.location
	if location == "" {
		location = d.pathText()
	}
	text := fmt.Sprintf("server { listen LISTEN; server_name %s.test;\n location %s { proxy_set_header Host $http_host; %s %s }\n", id, location, d.directives, g.passTo("one"))
	if strings.Contains(text, "@custom_404") {
		text += fmt.Sprintf("location @custom_404 { internal; proxy_intercept_errors off; proxy_set_header X-Code 404; rewrite (.*) / break; %s }\n", g.passTo("three"))
	}
	if location != "/" {
		text += " location / { return 404; }\n"
	}
	return text + "}\n"
}

// exampleOf returns the request that the declaration has for an Ingress, from the rules
// that the engine makes of it.
func exampleOf(t *testing.T, ingress *networkingv1.Ingress, secrets ...*snapshot.SecretBody) *difference.Example {
	t.Helper()
	built := engine.New(factsOf(ingress, secrets...), optionsOf(map[string]bool{"web": false, "websecure": true}))
	subject := &difference.Subject{Source: difference.NGINX, Annotations: ingress.Annotations, Plain: true, Rules: built.All().Change.Rules.Added}
	subject.NGINX, _, _ = nginx.Parse(ingress.Annotations, nil)
	for _, found := range difference.Find(subject) {
		if found.ID == ingress.Name {
			return &found.Example
		}
	}
	t.Fatalf("the Ingress does not have the difference %s", ingress.Name)
	return nil
}

// factsOf returns a cluster with an Ingress.
func factsOf(ingress *networkingv1.Ingress, secrets ...*snapshot.SecretBody) *snapshot.Snapshot {
	facts := snapshot.New()
	class := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "nginx"}}
	class.Spec.Controller = "k8s.io/ingress-nginx"
	facts.Put(class)
	for _, name := range services {
		putService(facts, name)
	}
	for _, secret := range secrets {
		facts.Put(secret)
	}
	facts.Put(ingress)
	return facts
}

// optionsOf returns the options of an edge with entry points.
func optionsOf(points map[string]bool) resolve.Options {
	return resolve.Options{
		StrictPrefix: true, HostSharing: resolve.HostSharingDeny, EntryPoints: points,
		NGINX: &resolve.NGINXOptions{Class: "nginx", Controller: "k8s.io/ingress-nginx"},
	}
}

// raw sends the request of an example as it is.
func (g *ground) raw(t *testing.T, address string, example *difference.Example) *http.Response {
	t.Helper()
	parsed := must.Get(url.Parse(example.URL))(t)
	method := example.Method
	if method == "" {
		method = http.MethodGet
	}
	sent := must.Get(http.NewRequest(method, "http://"+address+parsed.RequestURI(), nil))(t)
	sent.Host = parsed.Host
	for _, header := range example.Headers {
		name, value, _ := strings.Cut(header, ": ")
		sent.Header.Set(name, value)
	}
	response := must.Get(g.client.Do(sent))(t)
	_, _ = io.Copy(io.Discard, response.Body)
	must.Do(t, response.Body.Close())
	return response
}
