package promotion

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/codefresh/v1beta1"
	"slipway.dev/slipway/api/refusal"
	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/glob"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source"
)

// parsed is an object with why it is not used; nothing is refused of one that is.
type parsed[T any] struct {
	object  T
	refused []refusal.Refusal
}

// catalog is what promotions are made of. Its objects are not changed: a new version of
// an object takes the place of the one before, so that a run can use a copy of the maps
// without a lock. All names but those of Applications are of one namespace.
type catalog struct {
	apps         map[types.NamespacedName]*v1alpha1.Application
	products     map[string]parsed[*v1beta1.Product]
	flows        map[string]parsed[*v1beta1.PromotionFlow]
	policies     map[string]parsed[*v1beta1.PromotionPolicy]
	templates    map[string]parsed[*v1beta1.PromotionTemplate]
	environments map[string]*slipway.Environment
	// unread is why the Applications of other runtimes are not known.
	unread map[string]error
}

// newCatalog makes it empty.
func newCatalog() catalog {
	return catalog{
		apps: map[types.NamespacedName]*v1alpha1.Application{}, products: map[string]parsed[*v1beta1.Product]{}, flows: map[string]parsed[*v1beta1.PromotionFlow]{},
		policies: map[string]parsed[*v1beta1.PromotionPolicy]{}, templates: map[string]parsed[*v1beta1.PromotionTemplate]{}, environments: map[string]*slipway.Environment{},
		unread: map[string]error{},
	}
}

// clone copies the maps, for one run.
func (c *catalog) clone() catalog {
	return catalog{
		apps: maps.Clone(c.apps), products: maps.Clone(c.products), flows: maps.Clone(c.flows),
		policies: maps.Clone(c.policies), templates: maps.Clone(c.templates), environments: maps.Clone(c.environments),
		unread: map[string]error{},
	}
}

// lookUp returns an object that nothing is refused of. The error is a *refusal.Refusal
// with the kind and the name of the object, because the Promotion that reports it is
// another object.
func lookUp[T any](from map[string]parsed[T], kind, name string) (T, error) {
	found, exists := from[name]
	object := refusal.Object{Group: v1beta1.Group, Kind: kind, Name: name}
	if !exists {
		return found.object, &refusal.Refusal{Object: object, Reason: refusal.NotFound, Message: "there is no such object in the namespace of the Promotion"}
	}
	if len(found.refused) > 0 {
		return found.object, &refusal.Refusal{Object: object, Reason: found.refused[0].Reason, Message: refusal.Summary(found.refused)}
	}
	return found.object, nil
}

// environment returns an Environment.
func (c *catalog) environment(name string) (*slipway.Environment, error) {
	if found := c.environments[name]; found != nil {
		return found, nil
	}
	return nil, &refusal.Refusal{
		Object: refusal.Object{Group: slipway.Group, Kind: slipway.KindEnvironment, Name: name}, Reason: refusal.NotFound,
		Message: "there is no such object in the namespace of the Promotion",
	}
}

// productOf is the Product that an Application names; empty if it names none.
func productOf(app metav1.Object) string {
	return cmp.Or(app.GetLabels()[v1beta1.LabelProduct], app.GetAnnotations()[v1beta1.LabelProduct])
}

// applications are those of a Product in an environment, sorted by name.
func (c *catalog) applications(product string, in *slipway.Environment) []*v1alpha1.Application {
	var found []*v1alpha1.Application
	for _, app := range c.apps {
		if productOf(app) == product && isIn(app, in) {
			found = append(found, app)
		}
	}
	slices.SortFunc(found, func(x, y *v1alpha1.Application) int { return strings.Compare(keyText(x), keyText(y)) })
	return found
}

// keyText is the name of an Application in a status.
func keyText(app *v1alpha1.Application) string { return app.Namespace + "/" + app.Name }

// isIn reports whether an Application deploys to an environment.
func isIn(app *v1alpha1.Application, environment *slipway.Environment) bool {
	if runtimeOf(app) != environment.Spec.Runtime {
		return false
	}
	// Completed destinations have both names of our own cluster, so that either matches.
	to := project.Complete(app.Spec.Destination)
	for _, one := range environment.Spec.Destinations {
		cluster := project.Complete(v1alpha1.ApplicationDestination{Server: one.Server, Name: one.Name})
		same := cluster.Server != "" && cluster.Server == to.Server || cluster.Name != "" && cluster.Name == to.Name
		if same && (len(one.Namespaces) == 0 || matches(one.Namespaces, to.Namespace)) {
			return true
		}
	}
	return false
}

// matches reports whether a pattern matches. One that cannot be read matches nothing.
func matches(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(one string) bool {
		pattern, err := glob.Compile(one)
		return err == nil && pattern.Match(text)
	})
}

// fieldFlow is the field of the refusal when no flow is for a commit.
const fieldFlow = "spec.flow"

// flowFor chooses the flow of a Product: the named one, or the first one that is for a
// commit.
func (c *catalog) flowFor(product *v1beta1.Product, named string, of func(trigger string) (*source.Commit, error)) (*v1beta1.PromotionFlow, error) {
	if named != "" {
		return lookUp(c.flows, v1beta1.KindPromotionFlow, named)
	}
	for _, one := range product.Spec.PromotionFlows {
		flow, err := lookUp(c.flows, v1beta1.KindPromotionFlow, one.Name)
		if err != nil {
			return nil, err
		}
		// The commit is read only if a selector needs it.
		if len(one.GitTriggerSelectors) == 0 {
			return flow, nil
		}
		commit, err := of(flow.Spec.TriggerEnvironment)
		if err != nil {
			return nil, err
		}
		if selects(one.GitTriggerSelectors, commit) {
			return flow, nil
		}
	}
	return nil, refusal.New(fieldFlow, refusal.Required, "no flow of the Product %s is for this commit: name a PromotionFlow", product.Name)
}

// selects reports whether all selectors match a commit.
func selects(selectors []v1beta1.GitTriggerSelector, commit *source.Commit) bool {
	for _, one := range selectors {
		text := commit.Message
		if one.Key == v1beta1.KeyGitRevision {
			text = commit.ID
		}
		isIn := slices.ContainsFunc(one.Values, func(value string) bool { return wildcardMatch(value, text) })
		if isIn != (one.Operator == v1beta1.OperatorIn) {
			return false
		}
	}
	return true
}

// wildcardMatch reports whether a text has the form of a value, in which * stands for
// any text and nothing else is special.
func wildcardMatch(value, text string) bool {
	// Brackets mean themselves: *[demo] is a documented value.
	parts := strings.Split(value, "*")
	if len(parts) == 1 {
		return value == text
	}
	rest, found := strings.CutPrefix(text, parts[0])
	if !found {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		if _, rest, found = strings.Cut(rest, part); !found {
			return false
		}
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

// action is how an environment is promoted: by the step of the flow, or by the policy
// with the highest priority that has an action. commit is the default.
func (c *catalog) action(product string, step *v1beta1.FlowStep, in *slipway.Environment) (string, error) {
	// Inline settings override policies, as Codefresh documents it.
	if step.Policy != nil && step.Policy.Action != "" {
		return step.Policy.Action, nil
	}
	best, priority := v1beta1.ActionCommit, int64(0)
	found := false
	for _, name := range slices.Sorted(maps.Keys(c.policies)) {
		// A policy that cannot be read may have been meant for this environment.
		policy, err := lookUp(c.policies, v1beta1.KindPromotionPolicy, name)
		if err != nil {
			return "", err
		}
		given := policy.Spec.Policy.Action
		if given != "" && policySelects(policy.Spec.Selector, product, in) && (!found || policy.Spec.Priority > priority) {
			best, priority, found = given, policy.Spec.Priority, true
		}
	}
	return best, nil
}

// policySelects reports whether a policy is for a product in an environment.
func policySelects(selector *v1beta1.PolicySelector, product string, in *slipway.Environment) bool {
	if selector == nil {
		return true
	}
	if products := selector.Product; products != nil && len(products.Names) > 0 && !slices.Contains(products.Names, product) {
		return false
	}
	to := selector.TargetEnvironment
	return to == nil || (len(to.Names) == 0 || slices.Contains(to.Names, in.Name)) && (len(to.Types) == 0 || slices.Contains(to.Types, cmp.Or(in.Spec.Type, "NON_PROD")))
}

// contents are the files and fields of a Product that an Application gets: those of the
// template that the Product names, its own ones, or those of all templates that select
// the Application.
func (c *catalog) contents(product *v1beta1.Product, app *v1alpha1.Application) (v1beta1.TemplateContents, error) {
	// The documented example has both a reference and a template of its own; the text says
	// that the reference counts.
	if name := product.Spec.PromotionTemplateRef; name != "" {
		template, err := lookUp(c.templates, v1beta1.KindPromotionTemplate, name)
		if err != nil {
			return v1beta1.TemplateContents{}, err
		}
		return v1beta1.TemplateContents{VersionSource: template.Spec.VersionSource, Promotion: template.Spec.Promotion}, nil
	}
	if product.Spec.PromotionTemplate != nil {
		return *product.Spec.PromotionTemplate, nil
	}
	var selected []*v1beta1.PromotionTemplate
	for _, name := range slices.Sorted(maps.Keys(c.templates)) {
		template, err := lookUp(c.templates, v1beta1.KindPromotionTemplate, name)
		if err != nil {
			return v1beta1.TemplateContents{}, err
		}
		selector, err := metav1.LabelSelectorAsSelector(template.Spec.ApplicationSourceSelector.Selector())
		if err == nil && selector.Matches(labels.Set(app.Labels)) {
			selected = append(selected, template)
		}
	}
	// The highest priority comes first, and by name among equals: a file is taken from the
	// first template that has it.
	slices.SortStableFunc(selected, func(x, y *v1beta1.PromotionTemplate) int { return cmp.Compare(y.Spec.Priority, x.Spec.Priority) })
	merged := v1beta1.TemplateContents{Promotion: map[string]v1beta1.PromotionFile{}}
	for _, template := range selected {
		merged.VersionSource = cmp.Or(merged.VersionSource, template.Spec.VersionSource)
		for file, fields := range template.Spec.Promotion {
			if _, taken := merged.Promotion[file]; !taken {
				merged.Promotion[file] = fields
			}
		}
	}
	return merged, nil
}

// application returns an Application by its name in a status.
func (c *catalog) application(key string) (*v1alpha1.Application, error) {
	namespace, name, _ := strings.Cut(key, "/")
	if app := c.apps[types.NamespacedName{Namespace: namespace, Name: name}]; app != nil {
		return app, nil
	}
	// The text alone: what is refused after the beginning is waited for, because the
	// environments before have the version already.
	if runtime, _, isRemote := strings.Cut(namespace, ":"); isRemote && c.unread[runtime] != nil {
		return nil, errors.New(c.unread[runtime].Error())
	}
	return nil, fmt.Errorf("there is no Application %s", key)
}
