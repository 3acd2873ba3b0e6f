package translate_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// TestCases: a cluster, and what serves requests to it. The files of a case:
//
//	options.txt       options of the provider that are not the default
//	objects.yaml      Ingresses and what they name
//	services.txt      a Service a line: name, port, and ready or empty
//	certificates.txt  a Secret a line: its name, the names it is for
//	requests.txt      a request a line, and the Service that serves it, or the
//	                  status and its reason
//	claims.txt        a claim a line: host, certificate
//	handshakes.txt    a claim of TLS options a line: host, some of the options
//	policies.txt      the policies of a rule a line
//	refusals.txt      a refusal a line: object, field, reason; all of them
func TestCases(t *testing.T) {
	authority := pkitest.NewAuthority(t)
	archives.Each(t, "testdata/*.txtar", func(t *testing.T, archive *txtar.Archive) { runCase(t, archive, authority) })
}

func runCase(t *testing.T, archive *txtar.Archive, authority *pkitest.Authority) {
	w := newWorld()
	files := map[string][]string{}
	for _, file := range archive.Files {
		if file.Name == "objects.yaml" {
			w.addYAML(t, file.Data)
			continue
		}
		files[file.Name] = linesOf(string(file.Data))
	}
	for _, line := range files["options.txt"] {
		setOption(t, &w.options, line)
	}
	for _, line := range files["services.txt"] {
		addServiceLine(t, w, line)
	}
	for _, line := range files["certificates.txt"] {
		words := strings.Fields(line)
		pair := authority.Issue(t, words[1:]...)
		namespace, name := split(words[0])
		w.snapshot.Put(&snapshot.SecretBody{Namespace: namespace, Name: name, Data: map[string][]byte{
			"tls.crt": []byte(pair.Chain), "tls.key": []byte(pair.Key),
		}})
	}
	w.translate()
	compiled := w.compile(t)
	for _, line := range files["requests.txt"] {
		request, want, found := strings.Cut(line, " -> ")
		if !found {
			t.Fatalf("%s: no arrow", line)
		}
		if got := answer(t, compiled, request); got != strings.TrimSpace(want) {
			t.Errorf("%s: got %s", line, got)
		}
	}
	same(t, "claims.txt", files, claimLines(w))
	same(t, "handshakes.txt", files, handshakeLines(w))
	if _, given := files["policies.txt"]; given {
		same(t, "policies.txt", files, policyLines(w))
	}
	var refusals []string
	for _, refusal := range w.refusals() {
		refusals = append(refusals, fmt.Sprintf("%s %s %s", refusal.Object, refusal.Field, refusal.Reason))
		t.Logf("refused: %s %s: %s", refusal.Object, refusal.Reason, refusal.Text())
	}
	same(t, "refusals.txt", files, refusals)
}

func linesOf(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

func same(t *testing.T, name string, files map[string][]string, got []string) {
	t.Helper()
	if want := files[name]; !slices.Equal(got, want) {
		t.Errorf("%s: got\n\t%s\nwant\n\t%s", name, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func setOption(t *testing.T, options *resolve.Options, line string) {
	t.Helper()
	name, value, _ := strings.Cut(line, "=")
	switch name {
	case "ingressClass":
		options.IngressClass = value
	case "noClassLookup":
		options.NoClassLookup = true
	case "noClusterScope":
		options.NoClusterScope = true
	case "allowEmptyServices":
		options.AllowEmptyServices = true
	case "crossNamespace":
		options.CrossNamespace = true
	case "characterPrefix":
		options.StrictPrefix = false
	default:
		t.Fatalf("no option %s", line)
	}
}

// addServiceLine reads a line such as: shop/cart 80 http ready.
func addServiceLine(t *testing.T, w *world, line string) {
	t.Helper()
	words := strings.Fields(line)
	namespace, name := split(words[0])
	port := must.Get(strconv.Atoi(words[1]))(t)
	w.addService(namespace, name, int32(port), strings.Join(words[2:len(words)-1], ""), words[len(words)-1] == "ready")
}

// split gives the namespace and the name of an object.
func split(text string) (namespace, name string) {
	namespace, name, qualified := strings.Cut(text, "/")
	if !qualified {
		return "default", text
	}
	return namespace, name
}

// answer returns what serves a request such as: GET https://host/path.
func answer(t *testing.T, compiled *program.Program, request string) string {
	t.Helper()
	method, target, found := strings.Cut(request, " ")
	if !found {
		t.Fatalf("%s: no method", request)
	}
	target, encrypted := strings.CutPrefix(target, "https://")
	host, path, _ := strings.Cut(strings.TrimSpace(target), "/")
	canonical, _, err := normalize.Path(nil, []byte("/"+path))
	must.Do(t, err)
	name, _, err := normalize.Host(nil, []byte(host))
	must.Do(t, err)
	rule := compiled.Lookup(&program.Request{EntryPoint: "web", TLS: encrypted, Method: method, Host: string(name), Path: string(canonical)}).Rule
	switch {
	case rule == nil:
		return "404"
	case rule.Response != nil:
		return fmt.Sprintf("%d %s", rule.Response.Status, rule.Response.Reason)
	default:
		return strings.TrimPrefix(rule.Backends[0].Backend.String(), "default/")
	}
}

func claimLines(w *world) []string {
	var lines []string
	for _, outcome := range w.outcomes {
		for _, claim := range outcome.Certificates {
			for _, host := range claim.Hosts {
				lines = append(lines, host+" "+claim.Certificate.ID.String())
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func handshakeLines(w *world) []string {
	var lines []string
	for _, outcome := range w.outcomes {
		for _, claim := range outcome.Options {
			for _, host := range claim.Hosts {
				options := claim.Conditions.Options
				lines = append(lines, fmt.Sprintf("%s refused=%v minVersion=%s sniStrict=%v", host, options.Refused, options.MinVersion, options.SNIStrict))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func policyLines(w *world) []string {
	var lines []string
	for _, outcome := range w.outcomes {
		for _, rule := range outcome.Rules {
			names := []string{rule.ID.String() + ":"}
			for _, policy := range rule.Policies {
				names = append(names, policyName(&policy))
			}
			lines = append(lines, strings.Join(names, " "))
		}
	}
	slices.Sort(lines)
	return lines
}

func policyName(policy *route.Policy) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", policy.Action()), "*route.") + "(" + policy.ID.String() + ")"
}
