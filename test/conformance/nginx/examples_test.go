package nginx

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/must"
)

// basicAuth is the htpasswd file of the example of basic authentication.
const basicAuth = "foo:$apr1$OFG3Xybp$ckL0FHDAkoXYIlH9.cysT0\n"

// example is one of the documentation of ingress-nginx: its Ingresses, the servers of
// nginx that it describes, and requests with the responses that it states.
type example struct {
	name      string
	ingresses []*networkingv1.Ingress
	servers   string
	requests  []statedRequest
	// refused are its annotations that are refused by name, as FIELD of an Ingress; the
	// rest of the Ingress is served.
	refused []string
}

// statedRequest is a request with the response that the documentation states: a status,
// and the Location of a redirect or the backend and the path that it gets. It is empty
// where the documentation leaves it open. With the word handshake, nginx does not pass the
// request on, and the edge refuses the certificate of the client: the declared difference
// client-certificates.
type statedRequest struct {
	request
	want string
}

// elsewhere are the pages with examples that are compared by other tests of this package,
// because they need more than Ingresses and requests.
var elsewhere = map[string]string{
	"examples/affinity/cookie":                      "TestStickyCookies",
	"examples/canary":                               "TestCanaryShare",
	"examples/chashsubset":                          "TestRefusedExamples",
	"examples/customization/configuration-snippets": "TestRefusedExamples",
	"examples/customization/custom-configuration":   "TestCustomConfiguration",
	"examples/customization/custom-headers":         "TestRefusedExamples",
	"examples/customization/jwt":                    "TestLargeHeaders",
	"examples/customization/ssl-dh-param":           "TestCustomConfiguration",
	"examples/grpc":                                 "TestGRPC",
	"user-guide/fcgi-services":                      "TestRefusedExamples",
	"user-guide/miscellaneous":                      "TestWebSockets",
	"user-guide/nginx-configuration/configmap":      "TestConfigMapKeys",
	"user-guide/third-party-addons/modsecurity":     "TestModSecurity",
}

// notExamples are the pages with examples of the documentation that no test compares, with
// the reason.
var notExamples = map[string]string{
	"examples/customization/sysctl":                  "it sets parameters of the kernel in the Pods of ingress-nginx; no request shows them",
	"examples/openpolicyagent":                       "it is a policy of Gatekeeper, which decides about objects before any controller reads them",
	"examples/psp":                                   "it restricts the Pods of ingress-nginx, with an API that Kubernetes has removed",
	"user-guide/default-backend":                     "the default backend of all hosts is an option of the command line of ingress-nginx, and no object",
	"user-guide/exposing-tcp-udp-services":           "its ConfigMaps are options of the command line; the edge serves TCP and UDP by Gateways",
	"user-guide/monitoring":                          "it installs Prometheus and Grafana; names of metrics differ, see docs/migration-nginx.md",
	"user-guide/nginx-configuration/custom-template": "it replaces the template of nginx's configuration text, which the edge does not have",
	"user-guide/nginx-configuration/log-format":      "it changes the lines of the access log; responses do not depend on them",
	"user-guide/retaining-client-ipaddress":          "it is about Services of type LoadBalancer before the controller",
	"user-guide/third-party-addons/opentelemetry":    "it needs a module that Debian's nginx does not have, and spans do not show in responses",
}

// TestExamples: the examples of ingress-nginx's documentation get the responses of nginx
// with the directives of the documentation, and those that the documentation states.
func TestExamples(t *testing.T) {
	g := startBackends(t)
	g.startDocumentedServers(t)
	users := filepath.Join(t.TempDir(), "basic-auth")
	must.Do(t, os.WriteFile(users, []byte(basicAuth), 0o600))
	var all []*example
	var servers strings.Builder
	var ingresses []*networkingv1.Ingress
	var requests []request
	refused := map[string]bool{}
	for name, archive := range archives.All(t, "testdata/examples/*.txtar") {
		e := g.readExample(t, name, archive)
		all = append(all, e)
		servers.WriteString(strings.ReplaceAll(e.servers, "BASIC_AUTH", users))
		ingresses = append(ingresses, e.ingresses...)
		for _, r := range e.requests {
			requests = append(requests, r.request)
		}
		for _, field := range e.refused {
			refused[field] = true
		}
		for page := range notExamples {
			if strings.HasPrefix(string(archive.Comment), page+":") {
				t.Errorf("%s is compared: take it out of the list", page)
			}
		}
	}
	secrets := append(g.encrypt(t, ingresses), &snapshot.SecretBody{Namespace: namespace, Name: "basic-auth", Data: map[string][]byte{"auth": []byte(basicAuth)}})
	g.startNGINX(t, escapedTargets(requests), servers.String())
	for _, found := range g.startEdge(t, ingresses, secrets...) {
		if field := found.Object.Name + " " + found.Field; refused[field] {
			delete(refused, field)
		} else {
			t.Errorf("refused: %s", found)
		}
	}
	for field := range refused {
		t.Errorf("%s is not refused", field)
	}
	for _, e := range all {
		t.Run(e.name, func(t *testing.T) { e.compare(t, g) })
	}
	t.Logf("%d requests of %d examples", len(requests), len(all))
}

// TestElsewhere: the tests that the list of examples names exist.
func TestElsewhere(t *testing.T) {
	var source strings.Builder
	for _, file := range must.Get(filepath.Glob("*_test.go"))(t) {
		source.Write(must.Get(os.ReadFile(file))(t))
	}
	for page, test := range elsewhere {
		if !strings.Contains(source.String(), "\nfunc "+test+"(t *testing.T)") {
			t.Errorf("%s: there is no %s", page, test)
		}
		if _, excused := notExamples[page]; excused {
			t.Errorf("%s is compared by %s: take it out of the list", page, test)
		}
	}
}

// readExample reads an archive.
func (g *ground) readExample(t *testing.T, name string, archive *txtar.Archive) *example {
	t.Helper()
	e := &example{name: name}
	for _, file := range archive.Files {
		text := string(file.Data)
		switch file.Name {
		case "ingress.yaml":
			for document := range strings.SplitSeq(text, "---\n") {
				ingress := &networkingv1.Ingress{}
				must.Do(t, yaml.UnmarshalStrict([]byte(document), ingress))
				e.ingresses = append(e.ingresses, ingress)
			}
		case "nginx.conf":
			text = certificateFiles.ReplaceAllString(text, "ssl_certificate TLS_DIR/$1.crt; ssl_certificate_key TLS_DIR/$1.key;")
			for service, number := range g.ports {
				port := strconv.Itoa(number)
				to := g.passTo(service)
				text = strings.NewReplacer("PASS_"+service, "proxy_set_header Host $http_host; "+to, "TO_"+service, to, "PORT_"+service, port).Replace(text)
			}
			e.servers = text
		case "refused":
			for line := range strings.Lines(text) {
				ingress, annotation, _ := strings.Cut(strings.TrimSpace(line), " ")
				e.refused = append(e.refused, ingress+" "+nginx.FieldOf(annotation))
			}
		case "requests":
			for line := range strings.Lines(text) {
				e.requests = append(e.requests, must.Get(parseStated(strings.TrimSpace(line)))(t))
			}
		}
	}
	return e
}

// certificateFiles stands for the directives with the certificate of a Secret.
var certificateFiles = regexp.MustCompile(`CERTIFICATE_([a-z-]+)`)

// statedTarget is a host with a path.
var statedTarget = regexp.MustCompile(`^([^/]+)(/.*)$`)

// parseStated reads a line: a method, a host with a path, headers and other parts after
// semicolons, and the stated response after an arrow.
func parseStated(line string) (statedRequest, error) {
	sent, want, _ := strings.Cut(line, " => ")
	parts := strings.Split(sent, "; ")
	method, at, _ := strings.Cut(parts[0], " ")
	target := statedTarget.FindStringSubmatch(at)
	if target == nil {
		return statedRequest{}, fmt.Errorf("%q has no host with a path", line)
	}
	made := statedRequest{request: request{method: method, host: target[1], target: target[2]}, want: want}
	for _, part := range parts[1:] {
		switch word, value, _ := strings.Cut(part, " "); {
		case strings.HasSuffix(word, ":"):
			made.headers = append(made.headers, part)
		case word == "tls":
			made.tls = true
		case word == "certificate":
			made.certificate = value
		case word == "compare":
			made.compare = append(made.compare, value)
		case word == "size":
			size, err := strconv.Atoi(value)
			if err != nil {
				return statedRequest{}, fmt.Errorf("%q: %w", line, err)
			}
			made.size = size
		default:
			return statedRequest{}, fmt.Errorf("%q: %s is not known", line, word)
		}
	}
	return made, nil
}

// compare sends the requests to both.
func (e *example) compare(t *testing.T, g *ground) {
	for _, r := range e.requests {
		want, err := g.send(g.nginx, r.request)
		if err != nil {
			t.Fatalf("%s: nginx: %v", r.request, err)
		}
		got, err := g.send(g.edge, r.request)
		if r.want == "handshake" {
			if !failedHandshake(err) || want.Backend != "" || want.Status < 300 {
				t.Errorf("%s\n\tedge  %+v %v\n\tnginx %+v", r.request, got, err, want)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: edge: %v", r.request, err)
		}
		if !got.agrees(want) {
			t.Errorf("%s\n\tedge  %+v\n\tnginx %+v", r.request, got, want)
		}
		if stated := got.stated(); r.want != "" && stated != r.want {
			t.Errorf("%s: got %q, and the documentation states %q", r.request, stated, r.want)
		}
	}
}

// stated is the outcome in the words of an example.
func (o outcome) stated() string {
	words := []string{strconv.Itoa(o.Status), o.Location, o.Backend}
	if o.Status < 300 {
		words = append(words, o.Target)
	}
	return strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), " ")
}

// TestCanaryShare is examples/canary: with a weight of 50, half of the requests reach the
// canary. Both choose at random, so their shares are compared.
func TestCanaryShare(t *testing.T) {
	const host, sample = "echo.prod.mydomain.com", 1000
	g := startBackends(t)
	main := ingressOf(0, "production", nil)
	addPath(main, host, "/", networkingv1.PathTypePrefix, "one")
	canary := ingressOf(1, "canary", map[string]string{nginx.Prefix + "canary": "true", nginx.Prefix + "canary-weight": "50"})
	addPath(canary, host, "/", networkingv1.PathTypePrefix, "two")
	g.startNGINX(t, fmt.Sprintf("split_clients $request_id $to { 50%% %d; * %d; }", g.ports["two"], g.ports["one"]),
		fmt.Sprintf(`server { listen LISTEN; server_name %s; location / { proxy_pass http://127.0.0.1:$to; } }`, host))
	if refused := g.startEdge(t, []*networkingv1.Ingress{main, canary}); len(refused) > 0 {
		t.Errorf("refused: %s", refused)
	}
	tolerance := 5 * math.Sqrt(sample) / 2
	for name, address := range map[string]string{"nginx": g.nginx, "the edge": g.edge} {
		count := 0
		for range sample {
			if got := must.Get(g.send(address, request{method: "GET", host: host, target: "/"}))(t); got.Backend == "two" {
				count++
			}
		}
		t.Logf("%s: %d of %d requests reach the canary", name, count, sample)
		if math.Abs(float64(count)-sample/2) > tolerance {
			t.Errorf("%s: %d of %d requests reach the canary, want half of them", name, count, sample)
		}
	}
}
