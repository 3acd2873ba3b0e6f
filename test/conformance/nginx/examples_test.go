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
}

// statedRequest is a request with the response that the documentation states: a status,
// and the Location of a redirect or the backend and the path that it gets. It is empty
// where the documentation leaves it open.
type statedRequest struct {
	request
	want string
}

// notExamples are the pages with examples of the documentation that are not compared, with
// the reason.
var notExamples = map[string]string{
	"examples/affinity/cookie":                       "TestStickyCookies; nginx without a licence has no sticky cookies",
	"examples/auth/client-certs":                     "handshakes are not compared here",
	"examples/auth/external-auth":                    "it needs a server for authentication; see auth-url",
	"examples/auth/oauth-external-auth":              "it needs a server for authentication; see auth-url",
	"examples/chashsubset":                           "upstream-hash-by-subset is refused by name",
	"examples/customization/configuration-snippets":  "its snippet has a variable of Lua",
	"examples/customization/custom-configuration":    "timeouts of the ConfigMap do not show in responses",
	"examples/customization/custom-headers":          "proxy-set-headers and add-headers of the ConfigMap are refused by name",
	"examples/customization/external-auth-headers":   "it needs a server for authentication; see auth-url",
	"examples/customization/jwt":                     "it needs a server for authentication; see auth-url",
	"examples/customization/ssl-dh-param":            "handshakes are not compared here",
	"examples/customization/sysctl":                  "it is about the nodes of the cluster",
	"examples/grpc":                                  "TestGRPC",
	"examples/openpolicyagent":                       "it is about an admission webhook",
	"examples/psp":                                   "it is about Pods of the controller",
	"user-guide/default-backend":                     "the default backend is an option of the controller",
	"user-guide/exposing-tcp-udp-services":           "TCP and UDP are Gateways",
	"user-guide/fcgi-services":                       "FastCGI is refused by name",
	"user-guide/third-party-addons/modsecurity":      "TestModSecurity; nginx of Debian has no ModSecurity",
	"user-guide/third-party-addons/opentelemetry":    "spans do not show in responses",
	"user-guide/nginx-configuration/custom-template": "it is about the configuration text of nginx",
	"user-guide/nginx-configuration/log-format":      "logs do not show in responses",
	"user-guide/retaining-client-ipaddress":          "it is about the load balancer",
	"user-guide/monitoring":                          "it is about Prometheus",
	"user-guide/nginx-configuration/configmap":       "its keys are compared by the annotations of the same name",
}

// TestExamples: the examples of ingress-nginx's documentation get the responses of nginx
// with the directives of the documentation, and those that the documentation states.
func TestExamples(t *testing.T) {
	g := startBackends(t)
	users := filepath.Join(t.TempDir(), "basic-auth")
	must.Do(t, os.WriteFile(users, []byte(basicAuth), 0o600))
	var all []*example
	var servers strings.Builder
	var ingresses []*networkingv1.Ingress
	for name, archive := range archives.All(t, "testdata/examples/*.txtar") {
		e := g.readExample(t, name, archive)
		all = append(all, e)
		servers.WriteString(strings.ReplaceAll(e.servers, "BASIC_AUTH", users))
		ingresses = append(ingresses, e.ingresses...)
		for page := range notExamples {
			if strings.HasPrefix(string(archive.Comment), page+":") {
				t.Errorf("%s is compared: take it out of the list", page)
			}
		}
	}
	g.startNGINX(t, "", servers.String())
	for _, refused := range g.startEdge(t, ingresses, &snapshot.SecretBody{Namespace: namespace, Name: "basic-auth", Data: map[string][]byte{"auth": []byte(basicAuth)}}) {
		// Certificates are not read here.
		if !strings.HasPrefix(refused.Field, "spec.tls") {
			t.Errorf("refused: %s", refused)
		}
	}
	count := 0
	for _, e := range all {
		count += len(e.requests)
		t.Run(e.name, func(t *testing.T) { e.compare(t, g) })
	}
	t.Logf("%d requests of %d examples", count, len(all))
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
			for _, service := range services {
				port := strconv.Itoa(g.ports[service])
				to := g.passTo(service)
				text = strings.NewReplacer("PASS_"+service, "proxy_set_header Host $http_host; "+to, "TO_"+service, to, "PORT_"+service, port).Replace(text)
			}
			e.servers = text
		case "requests":
			for line := range strings.Lines(text) {
				e.requests = append(e.requests, must.Get(parseStated(strings.TrimSpace(line)))(t))
			}
		}
	}
	return e
}

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
