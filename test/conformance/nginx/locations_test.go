package nginx

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/api/refusal"
)

// hostCount and requestsPerHost give more than 5,000 requests.
const (
	hostCount       = 800
	requestsPerHost = 8
)

// site is a generated host: its Ingresses, and the locations of nginx for it.
type site struct {
	host      string
	ingresses []*networkingv1.Ingress
	server    string
	// unsupported are the numbers of locations whose expression RE2 does not have.
	unsupported map[string]bool
	requests    []request
}

// location is a location of ingress-nginx. The code below follows its controller, not
// the package that is tested.
type location struct {
	path, target, service string
	exact, useRegex       bool
	fallback              bool
}

func (l *location) needsRewrite() bool { return l.target != "" && l.target != l.path }

// The parts of generated paths.
var (
	elements    = []string{"a", "ab", "b", "A", "a.b", "c-d"}
	expressions = []string{
		"/a(/|$)(.*)", "/(a|b)/.*", "/[a-c]+", "/a.b", "/ab?", "/(.*)", "/a/?(.*)", "/b$", "/(a|ab)(.*)", "/a/[^/]+/b", "/a|/b", "/ab/\\w+", "/a{2}",
	}
	// perl are expressions that RE2 does not have.
	perl    = []string{"/a(?!b)", "/(a)\\1", "/(?<=/)b", "/a++b"}
	targets = []string{"/", "/$1", "/x/$2", "/fixed", "/x$1"}
)

// TestLocations: for generated hosts, paths and requests, the same location serves a
// request as in nginx, with the same rewritten path, or the path is refused by name.
func TestLocations(t *testing.T) {
	g := startBackends(t)
	random := rand.New(rand.NewPCG(21, 53))
	var sites []*site
	var servers strings.Builder
	var ingresses []*networkingv1.Ingress
	for len(sites) < hostCount {
		s := g.generate(random, len(sites))
		if s == nil {
			continue // nginx would not start with it
		}
		sites = append(sites, s)
		servers.WriteString(s.server)
		ingresses = append(ingresses, s.ingresses...)
	}
	g.startNGINX(t, "", servers.String())
	refused := g.startEdge(t, ingresses)
	compared, named := 0, 0
	for _, s := range sites {
		if len(s.unsupported) > 0 && !refusedByName(refused, s) {
			t.Errorf("%s has an expression that RE2 does not have, and no refusal names it", s.host)
		}
		for _, r := range s.requests {
			want, err := g.send(g.nginx, r)
			if err != nil {
				t.Fatalf("%s: nginx: %v", r, err)
			}
			if s.unsupported[want.location] {
				named++
				continue
			}
			got, err := g.send(g.edge, r)
			if err != nil {
				t.Fatalf("%s: edge: %v", r, err)
			}
			if compared++; !got.agrees(want) {
				t.Errorf("%s\n\tedge  %+v\n\tnginx %+v\n%s", r, got, want, s.server)
			}
		}
	}
	t.Logf("%d hosts, %d requests compared, %d for expressions that are refused", len(sites), compared, named)
	if compared < 5000 {
		t.Errorf("only %d requests were compared", compared)
	}
}

// refusedByName reports whether a refusal of an Ingress of the site names the part of
// the expression.
func refusedByName(refused []refusal.Refusal, s *site) bool {
	return slices.ContainsFunc(refused, func(r refusal.Refusal) bool {
		return strings.HasPrefix(r.Object.Name, s.ingresses[0].Name[:strings.IndexByte(s.ingresses[0].Name, '-')+1]) && r.Reason == refusal.Unsupported &&
			strings.Contains(r.Message, "RE2 does not have")
	})
}

// generate makes a host, or nil if its configuration would be invalid in nginx.
func (g *ground) generate(random *rand.Rand, number int) *site {
	s := &site{host: fmt.Sprintf("h%d.test", number), unsupported: map[string]bool{}}
	var locations []*location
	var texts []string
	for i := range 1 + random.IntN(3) {
		annotations := map[string]string{}
		useRegex, target := false, ""
		switch random.IntN(6) {
		case 0:
			useRegex = true
			annotations["nginx.ingress.kubernetes.io/use-regex"] = "true"
		case 1:
			target = targets[random.IntN(len(targets))]
			annotations["nginx.ingress.kubernetes.io/rewrite-target"] = target
		}
		ingress := ingressOf(i, fmt.Sprintf("h%d-%d", number, i), annotations)
		for range 1 + random.IntN(3) {
			kind := []networkingv1.PathType{networkingv1.PathTypeExact, networkingv1.PathTypePrefix, networkingv1.PathTypeImplementationSpecific}[random.IntN(3)]
			path := plainPath(random)
			if (useRegex || target != "") && random.IntN(3) > 0 {
				kind, path = networkingv1.PathTypeImplementationSpecific, expressions[random.IntN(len(expressions))]
				if random.IntN(12) == 0 {
					path = perl[random.IntN(len(perl))]
				}
			}
			// The location of the default backend has the annotations of the first Ingress
			// there, and a target that is a path would make it differ from all others.
			if path == target {
				continue
			}
			service := services[random.IntN(len(services))]
			texts = append(texts, path)
			at := &location{path: path, target: target, service: service, exact: kind == networkingv1.PathTypeExact, useRegex: useRegex}
			if slices.ContainsFunc(locations, func(l *location) bool { return l.path == path && l.exact == at.exact }) {
				continue // the older one stays
			}
			locations = append(locations, at)
			addPath(ingress, s.host, path, kind, service)
		}
		if len(ingress.Spec.Rules) > 0 {
			s.ingresses = append(s.ingresses, ingress)
		}
	}
	if len(s.ingresses) == 0 || !g.serverOf(s, locations) {
		return nil
	}
	for range requestsPerHost {
		s.requests = append(s.requests, request{method: "GET", host: s.host, target: target(random, texts)})
	}
	return s
}

// plainPath returns a path without characters of expressions, but for dots.
func plainPath(random *rand.Rand) string {
	path := ""
	for range random.IntN(3) {
		path += "/" + elements[random.IntN(len(elements))]
	}
	if path == "" || random.IntN(4) == 0 {
		path += "/"
	}
	return path
}

// target returns the target of a request: one near a path, or any.
func target(random *rand.Rand, texts []string) string {
	path := plainPath(random)
	if random.IntN(3) > 0 {
		path = texts[random.IntN(len(texts))]
		if strings.ContainsAny(path, `()[]{}|$^*+?\`) {
			path = "/" + elements[random.IntN(len(elements))]
		}
		switch random.IntN(6) {
		case 0:
			path += "/"
		case 1:
			path = strings.TrimSuffix(path, "/")
		case 2:
			path += "b"
		case 3:
			path = strings.ToUpper(path)
		case 4:
			path += "/" + elements[random.IntN(len(elements))]
		}
	}
	if path == "" {
		path = "/"
	}
	path = oneSlash(path)
	if random.IntN(5) == 0 {
		path += "?q=1"
	}
	return path
}

// serverOf writes the server of nginx, as the controller and the template of
// ingress-nginx do. It reports false if nginx would refuse it.
func (g *ground) serverOf(s *site, locations []*location) bool {
	if !slices.ContainsFunc(locations, func(l *location) bool { return l.path == "/" && !l.exact }) {
		locations = append(locations, &location{path: "/", fallback: true})
	}
	slices.SortStableFunc(locations, func(a, b *location) int { return strings.Compare(b.path, a.path) })
	slices.SortStableFunc(locations, func(a, b *location) int { return len(b.path) - len(a.path) })
	enforced := slices.ContainsFunc(locations, func(l *location) bool { return l.useRegex || l.needsRewrite() })
	exact := map[string]bool{}
	for _, l := range locations {
		exact[l.path] = exact[l.path] || l.exact
	}
	var text strings.Builder
	fmt.Fprintf(&text, "server { listen LISTEN; server_name %s;\n", s.host)
	seen := map[string]bool{}
	valid, count := true, 0
	write := func(l *location, path string, isExact bool) {
		count++
		number := fmt.Sprint(count)
		head := path
		switch {
		case enforced:
			head = `~* "^` + path + `"`
		case isExact:
			head = "= " + path
		}
		valid = valid && (enforced || !seen[head])
		seen[head] = true
		if slices.Contains(perl, l.path) {
			s.unsupported[number] = true
		}
		body := "return 404;"
		if !l.fallback {
			body = "proxy_set_header Host $http_host; proxy_set_header X-Location " + number + "; " + g.passTo(l.service)
		}
		if !l.fallback && l.needsRewrite() {
			body = fmt.Sprintf("rewrite \"(?i)%s\" %s break; ", path, l.target) + body
		}
		fmt.Fprintf(&text, "  location %s { %s }\n", head, body)
	}
	for _, l := range locations {
		switch {
		case l.path == "/" || l.exact || l.useRegex || l.needsRewrite():
			write(l, l.path, l.exact)
		default:
			write(l, strings.TrimSuffix(l.path, "/")+"/", false)
			if !exact[l.path] {
				write(l, l.path, true)
			}
		}
	}
	text.WriteString("}\n")
	s.server = text.String()
	return valid
}
