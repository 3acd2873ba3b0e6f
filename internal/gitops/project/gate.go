package project

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// gate is what the Applications of a project that have one destination may touch.
type gate struct {
	project     *Project
	destination v1alpha1.ApplicationDestination
	isLocal     bool
}

// Gate decides what objects an Application with a destination may touch. isLocal
// is whether the cluster is the one that we run in, whatever its address: its
// control namespace is protected.
func (p *Project) Gate(destination v1alpha1.ApplicationDestination, isLocal bool) plan.Gate {
	return &gate{project: p, destination: Complete(destination), isLocal: isLocal}
}

// Allows is nil, or why the object must not be touched. An object without a
// namespace in its key is one of the cluster.
func (g *gate) Allows(key tracking.Key, object *unstructured.Unstructured, namespaceOfApp string) *refusal.Refusal {
	if key.Kind == "" {
		return refuse("it has no kind")
	}
	if object != nil && !sameObject(key, object) {
		return refuse("it is not the object that it is taken for")
	}
	if key.Namespace == "" || isClusterKind(key) {
		return g.allowsClusterObject(key)
	}
	switch g.project.namespaced.decide(key) {
	case forbidden:
		return refuse("project %s forbids %s: spec.namespaceResourceBlacklist has it", g.project.title(), nameOf(key))
	case notListed:
		return refuse("project %s does not allow %s: add it to spec.namespaceResourceWhitelist", g.project.title(), nameOf(key))
	}
	if !g.project.reachesCluster() || !g.project.targets.allow(g.in(key.Namespace)) {
		return g.refuseNamespace(key.Namespace)
	}
	return g.allowsControl(key, object, namespaceOfApp)
}

func (g *gate) allowsClusterObject(key tracking.Key) *refusal.Refusal {
	switch g.project.cluster.decide(key) {
	case forbidden:
		return refuse("project %s forbids %s, which has no namespace: spec.clusterResourceBlacklist has it", g.project.title(), nameOf(key))
	case notListed:
		return refuse("project %s does not allow %s, which has no namespace: add it to spec.clusterResourceWhitelist", g.project.title(), nameOf(key))
	}
	if !g.project.allowsWithoutNamespace(key) {
		return refuse("the Secret of the cluster has namespaces, so that %s, which has no namespace, may not be deployed: write clusterResources: \"true\" into that Secret", nameOf(key))
	}
	isNamespace := key.Group == "" && key.Kind == "Namespace"
	if !g.project.reachesCluster() || isNamespace && !g.project.targets.allow(g.in(key.Name)) {
		return g.refuseNamespace(key.Name)
	}
	return nil
}

// allowsControl keeps projects that have limits from giving themselves more in
// the control namespace. There every object counts: Secrets are credentials, a
// Deployment can run as the agent, a RoleBinding gives its rights away. So only
// Applications and ApplicationSets of the project itself are allowed, and what
// an administrator has listed by its kind.
func (g *gate) allowsControl(key tracking.Key, object *unstructured.Unstructured, namespaceOfApp string) *refusal.Refusal {
	p := g.project
	if !g.limitedControl(key) {
		return nil
	}
	if namespaceOfApp != p.control {
		return refuse("it is in the control namespace %s, where only Applications of that namespace may write: move the Application there, or choose another namespace", p.control)
	}
	if !p.targets.names(g.in(p.control)) {
		return refuse("it is in the control namespace %s, which a pattern does not reach: name it in spec.destinations of project %s if the project is for administrators",
			p.control, p.title())
	}
	// Before the list of kinds: the runtime is changed by its release, or by a
	// project without limits.
	if object != nil && object.GetLabels()[partOfLabel] == partOfRuntime {
		return refuse("it is a part of the runtime, which a project with limits must not touch: use a project without limits")
	}
	if p.namespaced.names(key) {
		return nil
	}
	if key.Group == v1alpha1.Group && (key.Kind == v1alpha1.KindApplication || key.Kind == v1alpha1.KindApplicationSet) {
		if projectOf(object) == p.name {
			return nil
		}
		return refuse("it is in another project than %s, and in namespace %s it could be in any: give it the same project, or name the kind %s in spec.namespaceResourceWhitelist if the project is for administrators",
			p.name, p.control, key.Kind)
	}
	return refuse("in the control namespace %s project %s may write its Applications and ApplicationSets only: choose another namespace, or name %s in spec.namespaceResourceWhitelist if the project is for administrators",
		p.control, p.title(), nameOf(key))
}

// The label of everything that the charts of the runtime install.
const (
	partOfLabel   = "app.kubernetes.io/part-of"
	partOfRuntime = "slipway"
)

// limitedControl reports whether an object is in the control namespace and the
// project has limits there.
func (g *gate) limitedControl(key tracking.Key) bool {
	p := g.project
	return p.control != "" && key.Namespace == p.control && !p.unlimited && g.isLocal
}

// TakesOver is nil, or why an object that another Application owns stays with
// it. Elsewhere the namespace is the border between tenants, and the last one to
// sync gets the object, as in Argo CD; all Applications share this namespace.
func (g *gate) TakesOver(key tracking.Key) *refusal.Refusal {
	if !g.limitedControl(key) || g.project.namespaced.names(key) {
		return nil
	}
	return refuse("another Application owns it, and project %s has limits in the control namespace: remove it there, or choose another name", g.project.name)
}

// projectOf is the project of an Application, or of those that an ApplicationSet
// makes. A project with parameters is none. What is deleted without being known
// is of no project either.
func projectOf(object *unstructured.Unstructured) string {
	if object == nil {
		return ""
	}
	path := []string{"spec", "project"}
	if object.GetKind() == v1alpha1.KindApplicationSet {
		if overridesProject(object) {
			return ""
		}
		path = []string{"spec", "template", "spec", "project"}
	}
	name, _, err := unstructured.NestedString(object.Object, path...)
	if err != nil {
		return ""
	}
	if name == "" {
		return v1alpha1.DefaultProject
	}
	return name
}

// overridesProject reports whether a generator of an ApplicationSet has a
// template of its own, which could name another project. spec.templatePatch
// cannot: the project of an Application is that of its template.
func overridesProject(object *unstructured.Unstructured) bool {
	spec, _ := object.Object["spec"].(map[string]any)
	generators, _ := spec["generators"].([]any)
	for _, generator := range generators {
		fields, _ := generator.(map[string]any)
		for _, value := range fields {
			if inner, ok := value.(map[string]any); ok && inner["template"] != nil {
				return true
			}
		}
	}
	return false
}

// in is another namespace of the same cluster.
func (g *gate) in(namespace string) v1alpha1.ApplicationDestination {
	other := g.destination
	other.Namespace = namespace
	return other
}

func (g *gate) refuseNamespace(namespace string) *refusal.Refusal {
	return refuse("project %s does not allow %s: add it to spec.destinations, or remove the rule with ! that forbids it",
		g.project.title(), describe(g.in(namespace)))
}

// sameObject reports whether a key is that of an object. The namespace of a kind
// that has none may be written in the object all the same.
func sameObject(key tracking.Key, object *unstructured.Unstructured) bool {
	is := tracking.KeyOf(object)
	if key.Namespace == "" {
		is.Namespace = ""
	}
	return is == key
}

func nameOf(key tracking.Key) string {
	if key.Group == "" {
		return fmt.Sprintf("%.100s of the core group", key.Kind)
	}
	return fmt.Sprintf("%.100s of the group %.100s", key.Kind, key.Group)
}

func refuse(format string, args ...any) *refusal.Refusal {
	return refusal.New("", refusal.NotAllowed, format, args...)
}
