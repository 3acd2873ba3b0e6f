package appset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/appset/generate"
	"slipway.dev/slipway/internal/gitops/project"
)

// factsOf returns what a set may read, without cached refs if its annotation
// requests that: what its project allows. That is so in the control namespace
// too, where a tenant has sets by an app of apps. A set there whose project
// depends on parameters reads everything, with the credentials that serve all
// projects: no project with limits may write such a set.
func (c *Controller) factsOf(ctx context.Context, set *v1alpha1.ApplicationSet) (Facts, error) {
	facts := c.options.Facts
	if set.Annotations[refreshAnnotation] != "" {
		facts = facts.Fresh()
	}
	isControl := set.Namespace == c.options.ControlNamespace
	name, err := projectOf(set)
	if err != nil && isControl {
		return facts.For(project.Unlimited(""), set.Namespace), nil
	}
	if err != nil {
		return nil, err
	}
	limits, err := c.limitsOf(ctx, name)
	if err != nil {
		return nil, err
	}
	if !isControl && !limits.AllowsNamespace(set.Namespace) {
		return nil, fmt.Errorf("project %s does not allow Applications in namespace %s: add it to spec.sourceNamespaces of the AppProject", name, set.Namespace)
	}
	return &tenantFacts{Facts: facts.For(limits, set.Namespace), limits: limits}, nil
}

// limitsOf returns a project. It is read from the API server each time and not
// cached: a right that was withdrawn must not be used once more.
func (c *Controller) limitsOf(ctx context.Context, name string) (*project.Project, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	limits, refused, err := project.Load(ctx, c.options.Cluster.Dynamic, c.options.ControlNamespace, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no project %s: create it in namespace %s, or name another", name, c.options.ControlNamespace)
	case err != nil:
		return nil, fmt.Errorf("project %s cannot be read: %w", name, err)
	case len(refused) > 0:
		return nil, fmt.Errorf("project %s: %s", name, refusal.Summary(refused))
	}
	return limits, nil
}

// projectOf returns the one project of a set outside of the control namespace.
// It must be fixed: parameters come from what the project limits.
func projectOf(set *v1alpha1.ApplicationSet) (string, error) {
	templates := []*v1alpha1.ApplicationSetTemplate{&set.Spec.Template}
	for i := range set.Spec.Generators {
		if own := set.Spec.Generators[i].At("").Template; own != nil {
			templates = append(templates, own)
		}
	}
	name := ""
	for _, template := range templates {
		given := template.Spec.Project
		switch {
		case strings.Contains(given, "{{"):
			return "", fmt.Errorf("spec.template.spec.project: an ApplicationSet outside of the control namespace names its project without parameters")
		case given == "" && name != "":
		case name != "" && given != name:
			return "", fmt.Errorf("spec.template.spec.project: an ApplicationSet outside of the control namespace has one project, and not %s and %s", name, given)
		default:
			name = given
		}
	}
	name = cmp.Or(name, v1alpha1.DefaultProject)
	return name, nil
}

// tenantFacts limits the clusters to those that a project allows.
type tenantFacts struct {
	Facts
	limits *project.Project
}

// Clusters leaves out clusters that are no destination of the project, and
// those of another project. They are left out without an error, so that a
// tenant cannot probe for the names of other clusters.
func (f *tenantFacts) Clusters(ctx context.Context, selector labels.Selector) ([]generate.Cluster, error) {
	all, err := f.Facts.Clusters(ctx, selector)
	if err != nil {
		return nil, err
	}
	var seen []generate.Cluster
	for _, cluster := range all {
		if f.sees(cluster.Server, cluster.Name, cluster.Project) {
			seen = append(seen, cluster)
		}
	}
	return seen, nil
}

// Decisions leaves out the same clusters.
func (f *tenantFacts) Decisions(ctx context.Context, generator *v1alpha1.DuckTypeGenerator) ([]generate.Decision, error) {
	all, err := f.Facts.Decisions(ctx, generator)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(one generate.Decision) bool { return !f.sees(one.Server, one.Name, one.Project) }), nil
}

// sees reports whether a cluster is a destination of the project.
func (f *tenantFacts) sees(server, name, owner string) bool {
	at := f.limits.At(server, project.ClusterScope{Project: owner})
	return at.AllowsCluster(server, name) && (owner == "" || owner == f.limits.Name())
}
