package project

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/source/signature"
	"slipway.dev/slipway/internal/gitops/window"
)

// Project is a compiled AppProject. It is safe for concurrent use.
type Project struct {
	name string
	// globals are the names of the global projects that are merged into it.
	globals []string
	// control is the namespace of AppProjects.
	control string

	sources    sources
	targets    targets
	namespaces []rule
	cluster    kindLists
	namespaced kindLists
	accounts   []account
	// onlyOwn: it may use only clusters that belong to it.
	onlyOwn bool
	// owns and onlyNamespaces are of the cluster that the project is at: whether it
	// belongs to the project, and its namespaces if nothing else may be used there.
	owns           bool
	onlyNamespaces []string
	windows        []window.Window
	// unlimited: everything is allowed, and with our own rights.
	unlimited bool
	// disk is the disk space of its sources; 0 for that of most projects.
	disk int64
	// lookup: charts may read objects of the cluster.
	lookup bool
	// keys are the ids of the keys that commits are signed with; without any,
	// signatures are not checked.
	keys []string
	// plugins are the config management plugins that it may use.
	plugins []rule
}

// LookupAnnotation is the annotation of an AppProject that lets its charts read
// objects of the destination with the function lookup. As with DiskAnnotation,
// Argo CD's definition of projects has no field for it.
const LookupAnnotation = "slipway.dev/helm-lookup"

// DiskAnnotation is the annotation of an AppProject with the disk space of its
// sources, in place of the option of the agent. It is an annotation because
// Argo CD's definition of projects has no field for it.
const DiskAnnotation = "slipway.dev/sources-disk"

// account is the ServiceAccount whose rights count for some destinations.
type account struct {
	server, namespace rule
	// home is the namespace of the ServiceAccount; empty is that of the
	// destination.
	home, name string
}

// Name is the name of the AppProject.
func (p *Project) Name() string { return p.name }

// Windows are the times at which syncs may or must not run.
func (p *Project) Windows() []window.Window { return p.windows }

// DefaultObject is the project default when there is no such object. It allows
// everything, as the one that Argo CD makes.
func DefaultObject(control string) *v1alpha1.AppProject {
	everything := v1alpha1.AppProject{Spec: v1alpha1.AppProjectSpec{
		SourceRepos:              []string{"*"},
		Destinations:             []v1alpha1.ApplicationDestination{{Server: "*", Namespace: "*"}},
		ClusterResourceWhitelist: []v1alpha1.ClusterResourceRule{{Group: "*", Kind: "*"}},
	}}
	everything.Name, everything.Namespace = v1alpha1.DefaultProject, control
	return &everything
}

// Default is DefaultObject compiled.
func Default() *Project {
	project, _ := Compile(DefaultObject(""))
	return project
}

// Compile reads an AppProject. What is refused belongs into the status of its
// Applications; the Project can be used all the same, and fails closed.
func Compile(project *v1alpha1.AppProject) (*Project, []refusal.Refusal) {
	spec := &project.Spec
	c := &compiler{}
	compiled := &Project{
		name: project.Name, control: project.Namespace, onlyOwn: spec.PermitOnlyProjectScopedClusters,
		cluster: kindLists{
			allow: c.kinds(spec.ClusterResourceWhitelist, "spec.clusterResourceWhitelist", plainRule),
			deny:  c.kinds(spec.ClusterResourceBlacklist, "spec.clusterResourceBlacklist", denied),
		},
		namespaced: kindLists{
			all:   spec.NamespaceResourceWhitelist == nil,
			allow: c.kinds(withoutNames(spec.NamespaceResourceWhitelist), "spec.namespaceResourceWhitelist", plainRule),
			deny:  c.kinds(withoutNames(spec.NamespaceResourceBlacklist), "spec.namespaceResourceBlacklist", denied),
		},
	}
	for i, text := range spec.SourceRepos {
		rule, err := parseSourceRule(text)
		if err != nil {
			c.invalid(fmt.Sprintf("spec.sourceRepos[%d]", i), err)
		}
		compiled.sources = append(compiled.sources, rule)
	}
	for i, destination := range spec.Destinations {
		compiled.targets = append(compiled.targets, c.compileTarget(destination, fmt.Sprintf("spec.destinations[%d]", i)))
	}
	for i, text := range spec.SourceNamespaces {
		compiled.namespaces = append(compiled.namespaces, c.rule(namespaceRule, text, fmt.Sprintf("spec.sourceNamespaces[%d]", i)))
	}
	for i, given := range spec.DestinationServiceAccounts {
		compiled.accounts = append(compiled.accounts, c.account(given, fmt.Sprintf("spec.destinationServiceAccounts[%d]", i)))
	}
	for i, given := range spec.SignatureKeys {
		compiled.keys = append(compiled.keys, c.key(given.KeyID, fmt.Sprintf("spec.signatureKeys[%d].keyID", i)))
	}
	compiled.windows = c.windows(spec.SyncWindows)
	compiled.unlimited = len(c.refused) == 0 && isUnlimited(spec)
	compiled.disk = c.disk(project.Annotations)
	compiled.lookup = c.lookup(project.Annotations)
	compiled.plugins = c.plugins(project.Annotations, compiled.unlimited)
	return compiled, c.refused
}

// compiler notes what cannot be read.
type compiler struct{ refused []refusal.Refusal }

func (c *compiler) invalid(place string, err error) {
	c.refused = append(c.refused, refusal.Refusal{Field: place, Reason: refusal.Invalid, Message: err.Error()})
}

// disk reads DiskAnnotation.
func (c *compiler) disk(annotations map[string]string) int64 {
	text, found := annotations[DiskAnnotation]
	if !found {
		return 0
	}
	size, err := resource.ParseQuantity(text)
	if err == nil && size.Value() <= 0 {
		err = errors.New("it is a size above 0, such as 8Gi")
	}
	if err != nil {
		c.invalid("metadata.annotations["+DiskAnnotation+"]", err)
	}
	return size.Value()
}

// lookup reads LookupAnnotation.
func (c *compiler) lookup(annotations map[string]string) bool {
	text, found := annotations[LookupAnnotation]
	if !found {
		return false
	}
	allowed, err := strconv.ParseBool(text)
	if err != nil {
		c.invalid("metadata.annotations["+LookupAnnotation+"]", errors.New("it is neither true nor false: write one of them"))
	}
	return allowed
}

// key reads the id of a key. One that cannot be read stays in the list, where it
// fits no key, so that signatures are needed all the same.
func (c *compiler) key(text, place string) string {
	id := signature.KeyID(text)
	if id == "" {
		c.invalid(place, errors.New("it is no id of a key: write its 16 digits, or its fingerprint"))
	}
	return id
}

func (c *compiler) rule(parse func(string) (rule, error), text, place string) rule {
	parsed, err := parse(text)
	if err != nil {
		c.invalid(place, err)
	}
	return parsed
}

func (c *compiler) account(given v1alpha1.ApplicationDestinationServiceAccount, place string) account {
	compiled := account{
		server:    c.rule(plainRule, given.Server, place+".server"),
		namespace: c.rule(plainRule, given.Namespace, place+".namespace"),
		name:      given.DefaultServiceAccount,
	}
	if home, name, found := strings.Cut(given.DefaultServiceAccount, ":"); found {
		compiled.home, compiled.name = home, name
		if home == "" {
			c.invalid(place+".defaultServiceAccount", errAccount)
		}
	}
	if compiled.name == "" || strings.ContainsAny(compiled.home+compiled.name, "!*[]{}\\/: ") {
		c.invalid(place+".defaultServiceAccount", errAccount)
		// It is found all the same, and has no rights: an Application must not
		// get our own rights because a name is misspelt.
		compiled.home, compiled.name = "", "invalid"
	}
	return compiled
}

var errAccount = errors.New("it has to name one ServiceAccount, as name or namespace:name")

func (c *compiler) windows(given []v1alpha1.SyncWindow) []window.Window {
	specs := make([]window.Spec, len(given))
	for i, w := range given {
		specs[i] = window.Spec{
			Kind: window.Kind(w.Kind), Schedule: w.Schedule, Duration: w.Duration, TimeZone: w.TimeZone,
			Applications: w.Applications, Namespaces: w.Namespaces, Clusters: w.Clusters,
			AndOperator: w.UseAndOperator, ManualSync: w.ManualSync, SyncOverrun: w.SyncOverrun,
		}
	}
	windows, err := window.Compile(specs)
	if err != nil {
		c.invalid("spec.syncWindows", err)
	}
	return windows
}

// isUnlimited reports whether an AppProject allows everything. Each list has to
// do so in the plainest form: what is more complicated may be a limit.
func isUnlimited(spec *v1alpha1.AppProjectSpec) bool {
	anySource, anyTarget, anyKind := false, false, false
	for _, text := range spec.SourceRepos {
		anySource = anySource || text == "*" || text == "**"
		if strings.HasPrefix(strings.TrimSpace(text), "!") {
			return false
		}
	}
	for _, d := range spec.Destinations {
		anyTarget = anyTarget || (d.Server == "*" || d.Name == "*") && d.Namespace == "*"
		if strings.HasPrefix(d.Server, "!") || strings.HasPrefix(d.Name, "!") || strings.HasPrefix(d.Namespace, "!") {
			return false
		}
	}
	for _, kind := range spec.ClusterResourceWhitelist {
		anyKind = anyKind || kind.Group == "*" && kind.Kind == "*" && (kind.Name == "" || kind.Name == "*")
	}
	anyNamespaced := spec.NamespaceResourceWhitelist == nil
	for _, kind := range spec.NamespaceResourceWhitelist {
		anyNamespaced = anyNamespaced || kind.Group == "*" && kind.Kind == "*"
	}
	return anySource && anyTarget && anyKind && anyNamespaced && len(spec.ClusterResourceBlacklist) == 0 &&
		len(spec.NamespaceResourceBlacklist) == 0 && len(spec.DestinationServiceAccounts) == 0 && len(spec.SignatureKeys) == 0 && !spec.PermitOnlyProjectScopedClusters
}
