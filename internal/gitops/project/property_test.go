package project_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// naiveMatch is * and ? without any cleverness. Where a slash ends a *, two of
// them go on.
func naiveMatch(pattern, text string, slash bool) bool {
	if pattern == "" {
		return text == ""
	}
	if rest, double := strings.CutPrefix(pattern, "**"); double {
		return naiveMatch(rest, text, slash) || text != "" && naiveMatch(pattern, text[1:], slash)
	}
	if pattern[0] == '*' {
		return naiveMatch(pattern[1:], text, slash) || text != "" && !(slash && text[0] == '/') && naiveMatch(pattern, text[1:], slash)
	}
	return text != "" && (pattern[0] == text[0] || pattern[0] == '?' && !(slash && text[0] == '/')) && naiveMatch(pattern[1:], text[1:], slash)
}

// admits reports whether a project allows a repository.
func admits(p *project.Project, address string) bool {
	_, err := p.Admit(v1alpha1.ApplicationSource{RepoURL: address})
	return err == nil
}

// naive is the rules of the package's comment, written once more.
type naive struct{ spec *v1alpha1.AppProjectSpec }

func (n naive) source(address string) bool {
	allowed := false
	for _, text := range n.spec.SourceRepos {
		pattern, deny := strings.CutPrefix(text, "!")
		if pattern == "*" || naiveMatch(pattern, address, true) {
			if deny {
				return false
			}
			allowed = true
		}
	}
	return allowed
}

func (n naive) destination(server, name, namespace string) bool {
	allowed := false
	for _, d := range n.spec.Destinations {
		denies := strings.HasPrefix(d.Server+"|", "!") || strings.HasPrefix(d.Name+"|", "!") || strings.HasPrefix(d.Namespace+"|", "!")
		for _, field := range [][2]string{{d.Server, server}, {d.Name, name}, {d.Namespace, namespace}} {
			if pattern, deny := strings.CutPrefix(field[0], "!"); deny && naiveMatch(pattern, field[1], false) {
				return false
			}
		}
		if !denies && (naiveMatch(d.Server, server, false) || naiveMatch(d.Name, name, false)) && naiveMatch(d.Namespace, namespace, false) {
			allowed = true
		}
	}
	return allowed
}

func (n naive) kind(key tracking.Key) bool {
	listed := func(rules []v1alpha1.ClusterResourceRule) bool {
		for _, rule := range rules {
			if naiveMatch(rule.Group, key.Group, false) && naiveMatch(rule.Kind, key.Kind, false) && (rule.Name == "" || naiveMatch(rule.Name, key.Name, false)) {
				return true
			}
		}
		return false
	}
	if key.Namespace == "" {
		return listed(n.spec.ClusterResourceWhitelist) && !listed(n.spec.ClusterResourceBlacklist)
	}
	unnamed := func(rules []v1alpha1.ResourceRule) bool {
		for _, rule := range rules {
			if naiveMatch(rule.Group, key.Group, false) && naiveMatch(rule.Kind, key.Kind, false) {
				return true
			}
		}
		return false
	}
	return (n.spec.NamespaceResourceWhitelist == nil || unnamed(n.spec.NamespaceResourceWhitelist)) && !unnamed(n.spec.NamespaceResourceBlacklist)
}

func (n naive) object(key tracking.Key, server, name string) bool {
	if !n.kind(key) {
		return false
	}
	if key.Namespace != "" {
		return n.destination(server, name, key.Namespace)
	}
	return key.Kind != "Namespace" || n.destination(server, name, key.Name)
}

var (
	somePatterns   = []string{"", "*", "a", "b", "a*", "*b", "?", "ab", "a?b", "!a", "!b*", "!ab"}
	someNames      = []string{"a", "b", "ab", "aab", "axb", "ba"}
	someKinds      = []string{"*", "A", "A*", "Namespace", "?"}
	someSources    = []string{"*", "https://a/*", "https://a/**", "https://?/x", "!https://a/b", "!https://a/**", "https://a/b/*"}
	someAddresses  = []string{"https://a/b", "https://a/b/c", "https://b/x", "https://b/x/y"}
	someKindsNamed = []string{"", "a", "a*"}
)

func randomSpec(random *rand.Rand) *v1alpha1.AppProjectSpec {
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	spec := &v1alpha1.AppProjectSpec{}
	for range random.IntN(3) {
		spec.SourceRepos = append(spec.SourceRepos, pick(someSources))
	}
	for range random.IntN(4) {
		spec.Destinations = append(spec.Destinations, v1alpha1.ApplicationDestination{
			Server: pick(append(somePatterns, project.LocalServer, "*")), Name: pick(append(somePatterns, project.LocalName)), Namespace: pick(somePatterns),
		})
	}
	for range random.IntN(3) {
		spec.ClusterResourceWhitelist = append(spec.ClusterResourceWhitelist, v1alpha1.ClusterResourceRule{Group: pick(someKinds[:2]), Kind: pick(someKinds), Name: pick(someKindsNamed)})
	}
	if random.IntN(3) == 0 {
		spec.ClusterResourceBlacklist = append(spec.ClusterResourceBlacklist, v1alpha1.ClusterResourceRule{Group: "*", Kind: pick(someKinds), Name: pick(someKindsNamed)})
	}
	if random.IntN(2) == 0 {
		spec.NamespaceResourceWhitelist = []v1alpha1.ResourceRule{}
	}
	for range random.IntN(2) {
		spec.NamespaceResourceWhitelist = append(spec.NamespaceResourceWhitelist, v1alpha1.ResourceRule{Group: "*", Kind: pick(someKinds)})
	}
	if random.IntN(3) == 0 {
		spec.NamespaceResourceBlacklist = append(spec.NamespaceResourceBlacklist, v1alpha1.ResourceRule{Group: pick(someKinds[:2]), Kind: pick(someKinds)})
	}
	return spec
}

// TestNeverMoreThanTheRules compares with the rules written once more: what they
// forbid is forbidden, and what they allow is allowed.
func TestNeverMoreThanTheRules(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	allowed := 0
	for range 1500 {
		spec := randomSpec(random)
		compiled, refused := project.Compile(&v1alpha1.AppProject{Spec: *spec})
		if len(refused) > 0 {
			t.Fatalf("%+v: %v", spec, refused)
		}
		rules := naive{spec}
		for _, address := range someAddresses {
			if got, want := admits(compiled, address), rules.source(address); got != want {
				t.Fatalf("%q: %s is allowed: %t, want %t", spec.SourceRepos, address, got, want)
			}
		}
		gate := compiled.Gate(v1alpha1.ApplicationDestination{Namespace: "x"}, true)
		for range 20 {
			key := tracking.Key{Group: []string{"", "A"}[random.IntN(2)], Kind: []string{"A", "Ab", "Namespace", "B"}[random.IntN(4)], Name: someNames[random.IntN(len(someNames))]}
			if key.Kind == "Namespace" {
				key.Group = ""
			} else if random.IntN(2) == 0 {
				key.Namespace = someNames[random.IntN(len(someNames))]
			}
			refusal, want := gate.Allows(key, nil, control), rules.object(key, project.LocalServer, project.LocalName)
			if (refusal == nil) != want {
				t.Fatalf("%+v: %s: %v, want it allowed: %t", spec, key, refusal, want)
			}
			if want {
				allowed++
			}
		}
	}
	if allowed < 500 {
		t.Errorf("only %d objects were allowed: the test shows little", allowed)
	}
}

// FuzzCompile: nothing panics, what cannot be read fails closed, and a pattern
// never allows a repository that it does not match.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{"*", "!*", "https://a/*", "!a", "git@a:b/c", "ssh://git@a:22/b", "/x/", "[", "!["} {
		f.Add(seed, "https://a/b", "x")
	}
	f.Fuzz(func(t *testing.T, pattern, address, namespace string) {
		spec := v1alpha1.AppProjectSpec{
			SourceRepos: []string{pattern}, SourceNamespaces: []string{pattern},
			Destinations:               []v1alpha1.ApplicationDestination{{Server: "*", Namespace: pattern}},
			NamespaceResourceBlacklist: []v1alpha1.ResourceRule{{Group: "*", Kind: pattern}},
		}
		compiled, refused := project.Compile(&v1alpha1.AppProject{Spec: spec})
		source := admits(compiled, address)
		object := compiled.Gate(v1alpha1.ApplicationDestination{}, true).Allows(tracking.Key{Kind: "A", Namespace: namespace, Name: "a"}, nil, "") == nil
		if len(refused) > 0 && object && namespace != "" {
			t.Errorf("%q cannot be read, and allows an object of %q", pattern, namespace)
		}
		if strings.HasPrefix(strings.TrimSpace(pattern), "!") && source {
			t.Errorf("%q allows %q", pattern, address)
		}
		if strings.Contains(address, "/../") && source {
			t.Errorf("%q allows %q", pattern, address)
		}
	})
}
