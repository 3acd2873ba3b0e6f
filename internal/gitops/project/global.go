package project

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
)

// The ConfigMap and its key with the global projects.
const (
	globalsConfigMap = "argocd-cm"
	GlobalsKey       = "globalProjects"
)

// Globals are the global projects: each is merged into the projects that its selector
// matches. It is safe for concurrent use, and nil is without any.
type Globals struct {
	text  string
	rules []globalRule
	// problem is why the setting cannot be read. Then every project could have limits that
	// are not known, and none allows anything.
	problem error
}

// globalRule is one entry of the setting.
type globalRule struct {
	name     string
	selector labels.Selector
}

// ReadGlobals reads the value of GlobalsKey.
func ReadGlobals(text string) *Globals {
	read := &Globals{text: text}
	read.rules, read.problem = parseGlobals(text)
	return read
}

// parseGlobals is strict: a selector with a misspelt field would match every project.
func parseGlobals(text string) ([]globalRule, error) {
	var given []struct {
		ProjectName   string               `json:"projectName"`
		LabelSelector metav1.LabelSelector `json:"labelSelector"`
	}
	if err := yaml.UnmarshalStrict([]byte(text), &given); err != nil {
		return nil, fmt.Errorf("it is no list of projectName and labelSelector: %w", err)
	}
	var rules []globalRule
	for i := range given {
		if given[i].ProjectName == "" {
			return nil, fmt.Errorf("[%d].projectName is empty: name an AppProject", i)
		}
		selector, err := metav1.LabelSelectorAsSelector(&given[i].LabelSelector)
		if err != nil {
			return nil, fmt.Errorf("[%d].labelSelector: %w", i, err)
		}
		rules = append(rules, globalRule{name: given[i].ProjectName, selector: selector})
	}
	return rules, nil
}

// Problem is why the setting cannot be read, or nil.
func (g *Globals) Problem() error {
	if g == nil {
		return nil
	}
	return g.problem
}

// Equal reports whether two settings have the same text.
func (g *Globals) Equal(other *Globals) bool {
	return (g == nil) == (other == nil) && (g == nil || g.text == other.text)
}

// Of returns the names of the global projects of a project, in their order. A project is
// not its own.
func (g *Globals) Of(project *v1alpha1.AppProject) []string {
	if g == nil {
		return nil
	}
	var names []string
	for _, one := range g.rules {
		if one.name != project.Name && one.selector.Matches(labels.Set(project.Labels)) {
			names = append(names, one.name)
		}
	}
	return names
}

// Decoded is an AppProject with what was refused when it was decoded.
type Decoded struct {
	*v1alpha1.AppProject
	Refused []refusal.Refusal
}

// Compile compiles a project with its global projects, which find returns; nil is one that
// does not exist. Where Argo CD leaves out a global project, the project allows nothing and
// is refused: the limits that are missing could be those that matter.
func (g *Globals) Compile(given Decoded, find func(name string) *Decoded) (*Project, []refusal.Refusal) {
	compiled, refused := Compile(given.AppProject)
	refused = slices.Concat(given.Refused, refused)
	if err := g.Problem(); err != nil {
		return nothing(given.AppProject), append(refused, *refusal.New(GlobalsKey, refusal.Invalid,
			"the setting %s of the ConfigMap %s cannot be read: %v", GlobalsKey, globalsConfigMap, err))
	}
	names := g.Of(given.AppProject)
	if len(names) == 0 {
		return compiled, refused
	}
	merged, missing := *given.AppProject, false
	for _, name := range names {
		global := find(name)
		if global == nil {
			missing = true
			refused = append(refused, *refusal.New(GlobalsKey, refusal.Invalid,
				"its global project %s does not exist: create it in the namespace of the AppProjects, or remove it from %s of the ConfigMap %s", name, GlobalsKey, globalsConfigMap))
			continue
		}
		// They are compiled alone too, so that a refusal has the index of its own project.
		_, more := Compile(global.AppProject)
		if more = slices.Concat(global.Refused, more); len(more) > 0 {
			refused = append(refused, *refusal.New(GlobalsKey, refusal.Invalid, "its global project %s is refused: %s", name, refusal.Summary(more)))
		}
		merge(&merged.Spec, &global.Spec)
	}
	if missing {
		return nothing(given.AppProject), refused
	}
	compiled, more := Compile(&merged)
	if len(refused) == 0 {
		refused = more
	}
	compiled.globals = names
	return compiled, refused
}

// merge adds the lists of a global project that Argo CD merges. Neither spec shares a list with
// the result. A list that is empty stays so: without one every kind of namespaces is allowed.
func merge(into, from *v1alpha1.AppProjectSpec) {
	into.SourceRepos = joined(into.SourceRepos, from.SourceRepos)
	into.Destinations = joined(into.Destinations, from.Destinations)
	into.ClusterResourceWhitelist = joined(into.ClusterResourceWhitelist, from.ClusterResourceWhitelist)
	into.ClusterResourceBlacklist = joined(into.ClusterResourceBlacklist, from.ClusterResourceBlacklist)
	into.NamespaceResourceWhitelist = joined(into.NamespaceResourceWhitelist, from.NamespaceResourceWhitelist)
	into.NamespaceResourceBlacklist = joined(into.NamespaceResourceBlacklist, from.NamespaceResourceBlacklist)
	into.SyncWindows = joined(into.SyncWindows, from.SyncWindows)
	into.DestinationServiceAccounts = joined(into.DestinationServiceAccounts, from.DestinationServiceAccounts)
}

// joined is append to a copy. slices.Concat would make no list of two empty ones.
func joined[T any](first, second []T) []T { return append(slices.Clone(first), second...) }

// nothing returns a project that allows nothing.
func nothing(of *v1alpha1.AppProject) *Project {
	empty := v1alpha1.AppProject{ObjectMeta: metav1.ObjectMeta{Name: of.Name, Namespace: of.Namespace}}
	compiled, _ := Compile(&empty)
	return compiled
}

// title is the name of a project in messages, with those of its global projects: a rule may be
// one of theirs.
func (p *Project) title() string {
	if len(p.globals) == 0 {
		return p.name
	}
	return p.name + " with its global projects " + strings.Join(p.globals, ", ")
}
