package translate_test

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
)

// The oracle resolves a request straight from the Ingress objects, as the
// Kubernetes specification and our decisions have it: of the Ingresses that are
// ours, the higher priority, the exact host before the wildcard before none, a
// path before the default backend of its host, the exact path before the
// longest prefix, the older Ingress, namespace and name. It shares no code with
// what it checks.

// oracleOptions are what the oracle knows of the options.
type oracleOptions struct {
	class  string
	strict bool
	ours   map[string]bool // the classes of our controller
	others map[string]bool // those of other controllers
}

// oracleChoice is a path or default backend that could serve a request.
type oracleChoice struct {
	service  string
	priority int
	host     int
	fallback bool
	exact    bool
	length   int
	kind     int
	created  time.Time
	object   []string
	position []int
}

// oracle returns the name of the Service that serves, empty for none.
func oracle(ingresses []*networkingv1.Ingress, options oracleOptions, host, path string) string {
	var choices []oracleChoice
	for _, ingress := range ingresses {
		if oracleOurs(ingress, options) {
			choices = append(choices, oracleIngress(ingress, options, host, path)...)
		}
	}
	if len(choices) == 0 {
		return ""
	}
	return slices.MinFunc(choices, oracleOrder).service
}

func oracleOrder(a, b oracleChoice) int {
	return cmp.Or(
		cmp.Compare(b.priority, a.priority),
		cmp.Compare(a.host, b.host),
		oracleFirst(!a.fallback, !b.fallback),
		oracleFirst(a.exact, b.exact),
		cmp.Compare(b.length, a.length),
		cmp.Compare(a.kind, b.kind),
		a.created.Compare(b.created),
		slices.Compare(a.object, b.object),
		slices.Compare(a.position, b.position),
	)
}

func oracleFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

func oracleOurs(ingress *networkingv1.Ingress, options oracleOptions) bool {
	if name := ingress.Spec.IngressClassName; name != nil {
		if options.class == "" {
			return options.ours[*name]
		}
		return *name == options.class && (options.ours[*name] || options.others[*name])
	}
	value, there := ingress.Annotations["kubernetes.io/ingress.class"]
	if options.class != "" {
		return there && value == options.class
	}
	return slices.Contains([]string{"", "slipway", "traefik"}, value)
}

func oracleIngress(ingress *networkingv1.Ingress, options oracleOptions, host, path string) []oracleChoice {
	var choices []oracleChoice
	priority := oraclePriorities[ingress.Annotations["slipway.dev/priority"]]
	object := []string{ingress.Namespace, ingress.Name}
	created := ingress.CreationTimestamp.Time
	fallback := func(rule, rank int) {
		if backend := ingress.Spec.DefaultBackend; backend != nil {
			choices = append(choices, oracleChoice{
				service: backend.Service.Name, priority: min(priority, 0), host: rank, fallback: true,
				created: created, object: object, position: []int{rule},
			})
		}
	}
	if len(ingress.Spec.Rules) == 0 {
		fallback(0, 2)
	}
	for i, rule := range ingress.Spec.Rules {
		rank, fits := oracleHost(rule.Host, host)
		if !fits {
			continue
		}
		fallback(i, rank)
		if rule.HTTP == nil {
			continue
		}
		for j := range rule.HTTP.Paths {
			choice, fits := oraclePath(&rule.HTTP.Paths[j], ingress.Annotations["slipway.dev/path-matcher"], options.strict, path)
			if !fits {
				continue
			}
			choice.service = rule.HTTP.Paths[j].Backend.Service.Name
			choice.priority, choice.host, choice.created = priority, rank, created
			choice.object, choice.position = object, []int{i, j}
			choices = append(choices, choice)
		}
	}
	return choices
}

// oraclePriorities are the values that the annotation has in the cases.
var oraclePriorities = map[string]int{"": 0, "10": 10, "-3": -3, "0": 0}

func oracleHost(pattern, host string) (rank int, fits bool) {
	pattern = strings.ToLower(pattern)
	suffix, wildcard := strings.CutPrefix(pattern, "*")
	switch {
	case pattern == "":
		return 2, true
	case wildcard:
		label, found := strings.CutSuffix(host, suffix)
		return 1, found && label != "" && !strings.Contains(label, ".")
	default:
		return 0, pattern == host
	}
}

// oracleExpressions are the expressions of the cases, with the length of the
// text that they start with.
var oracleExpressions = map[string]int{"/foo[0-9]+": 4, "/(foo|bar)/x": 1, "/foo/.*r$": 5}

func oraclePath(written *networkingv1.HTTPIngressPath, matcher string, strict bool, path string) (oracleChoice, bool) {
	kind := networkingv1.PathTypeImplementationSpecific
	if written.PathType != nil {
		kind = *written.PathType
	}
	free := kind == networkingv1.PathTypeImplementationSpecific
	want := strings.ReplaceAll(written.Path, "%66", "f") // the one escape in the cases
	switch {
	case free && want == "":
		return oracleChoice{kind: 9}, true
	case free && matcher == "PathRegexp":
		found := regexp.MustCompile(want).FindStringIndex(path)
		literal, known := oracleExpressions[want]
		if !known {
			literal = len(want)
		}
		return oracleChoice{length: literal, kind: 0}, found != nil && found[0] == 0
	case kind == networkingv1.PathTypeExact || free && matcher == "Path":
		return oracleChoice{exact: true, length: len(want)}, path == want
	case !strict:
		return oracleChoice{length: len(want), kind: 2}, strings.HasPrefix(path, want)
	case want == "/":
		return oracleChoice{length: 1, kind: 1}, true
	default:
		elements := strings.Split(strings.Trim(want, "/"), "/")
		given := strings.Split(strings.TrimPrefix(path, "/"), "/")
		fits := len(given) >= len(elements) && slices.Equal(given[:len(elements)], elements)
		return oracleChoice{length: len(strings.TrimSuffix(want, "/")), kind: 1}, fits
	}
}
