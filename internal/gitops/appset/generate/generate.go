package generate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/appset/expand"
)

// The limits of one ApplicationSet.
const (
	maxApplications = 5000
	maxSets         = 20000 // of parameters, those that are merged or left out too
)

// Finalizer deletes the objects of an Application with it.
const Finalizer = "resources-finalizer.argocd.argoproj.io"

// Applications returns the Applications of a set, in the order of its generators.
// After any error it returns none. A partial result would delete the
// Applications that are missing in it, so that an error of one generator fails
// all. A name that occurs twice is an error too, because the Applications would
// overwrite each other in turn.
func Applications(ctx context.Context, set *v1alpha1.ApplicationSet, facts Facts) ([]*v1alpha1.Application, error) {
	r, err := newRunner(ctx, set, facts)
	if err != nil {
		return nil, err
	}
	// The template is encoded once for all generators and never changed.
	base, err := encodeTemplate(&set.Spec.Template)
	if err != nil {
		return nil, err
	}
	var applications []*v1alpha1.Application
	names := map[string]bool{}
	var twice []string
	for i := range set.Spec.Generators {
		generator := set.Spec.Generators[i].At(fmt.Sprintf("spec.generators[%d]", i))
		made, err := r.applications(generator, base)
		if err != nil {
			return nil, err
		}
		for _, application := range made {
			if names[application.Name] && !slices.Contains(twice, application.Name) {
				twice = append(twice, application.Name)
			}
			names[application.Name] = true
		}
		applications = append(applications, made...)
	}
	if len(twice) > 0 {
		return nil, fmt.Errorf("several Applications would be called %.500s: put more parameters into metadata.name of the template", strings.Join(twice, ", "))
	}
	return applications, nil
}

// runner is one generation. It is used by one goroutine and discarded after the
// generation.
type runner struct {
	ctx      context.Context
	set      *v1alpha1.ApplicationSet
	facts    Facts
	expander *expand.Expander
	// strict expands Go templates for which a missing parameter is an error.
	strict *expand.Expander
	// goForm means that parameters are nested, and not names with dots.
	goForm bool
	trees  map[[2]string]*repositoryTree
	sets   int // of parameters
	made   int // Applications
}

// newRunner prepares a generation.
func newRunner(ctx context.Context, set *v1alpha1.ApplicationSet, facts Facts) (*runner, error) {
	expander, err := expand.New(expand.Form{Go: set.Spec.GoTemplate, Options: set.Spec.GoTemplateOptions})
	if err != nil {
		return nil, err
	}
	strict, err := expand.New(expand.Form{Go: true, Options: []string{"missingkey=error"}})
	if err != nil {
		return nil, err
	}
	return &runner{
		ctx: ctx, set: set, facts: facts, expander: expander, strict: strict, goForm: set.Spec.GoTemplate, trees: map[[2]string]*repositoryTree{},
	}, nil
}

// applications returns the Applications of one generator. The number is checked
// before the templates are expanded, which is the expensive part.
func (r *runner) applications(generator *v1alpha1.Generator, base map[string]any) ([]*v1alpha1.Application, error) {
	template := base
	if generator.Template != nil {
		own, err := encodeTemplate(generator.Template)
		if err != nil {
			return nil, err
		}
		template = fill(own, base)
	}
	sets, err := r.run(generator, nil)
	if err != nil {
		return nil, err
	}
	if r.made += len(sets); r.made > maxApplications {
		return nil, fmt.Errorf("there would be more than %d Applications: use several ApplicationSets", maxApplications)
	}
	applications := make([]*v1alpha1.Application, 0, len(sets))
	for _, params := range sets {
		if r.ctx.Err() != nil {
			return nil, context.Cause(r.ctx)
		}
		application, err := r.application(template, params)
		if err != nil {
			return nil, err
		}
		applications = append(applications, application)
	}
	return applications, nil
}

// application expands the template with one set of parameters and decodes the
// result, so that an Application that would be refused is never written.
func (r *runner) application(template, params map[string]any) (*v1alpha1.Application, error) {
	object, err := r.expanded(template, params)
	if err != nil {
		return nil, err
	}
	// Names and namespaces are checked after the expansion, as parameters are
	// part of them.
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return nil, fmt.Errorf("spec.template.metadata.name: an Application cannot be called %.100q: %s", name, strings.Join(problems, "; "))
	}
	// sourceNamespaces of the project limits the namespace of the set, so that
	// its Applications must be there too.
	if namespace, _ := metadata["namespace"].(string); namespace != "" && namespace != r.set.Namespace {
		return nil, fmt.Errorf("spec.template.metadata.namespace: Application %s would be in namespace %.100s: it is made in that of the ApplicationSet, %s", name, namespace, r.set.Namespace)
	}
	metadata["namespace"] = r.set.Namespace
	object["apiVersion"], object["kind"] = v1alpha1.APIVersion, v1alpha1.KindApplication
	// Decode applies the same rules as for an Application that a user writes.
	application, refused, err := v1alpha1.Decode(object)
	if err != nil {
		return nil, fmt.Errorf("application %s: %w", name, err)
	}
	if len(refused) > 0 {
		return nil, fmt.Errorf("application %s: %s", name, refusal.Summary(refused))
	}
	return application, nil
}

// expanded returns the template with one set of parameters, and the patch of
// the set on it.
func (r *runner) expanded(template, params map[string]any) (map[string]any, error) {
	// As in Argo CD, a set without parameters leaves the template as it is
	// written, and without the finalizer.
	if len(params) == 0 {
		return r.withPatch(expand.Clone(template), params)
	}
	expanded, err := r.expander.Value(r.ctx, template, params)
	if err != nil {
		return nil, fmt.Errorf("spec.template: %w", err)
	}
	object := expanded.(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	// As in Argo CD, the finalizer deletes the objects with the Application
	// unless the set preserves them. The patch can add others.
	preserve := r.set.Spec.SyncPolicy != nil && r.set.Spec.SyncPolicy.PreserveResourcesOnDeletion
	if list, _ := metadata["finalizers"].([]any); len(list) == 0 && !preserve {
		metadata["finalizers"] = []any{Finalizer}
	}
	return r.withPatch(object, params)
}

// withPatch applies the patch of the set, if it has one.
func (r *runner) withPatch(object, params map[string]any) (map[string]any, error) {
	if r.set.Spec.TemplatePatch == "" {
		return object, nil
	}
	patched, err := r.patched(object, params)
	if err != nil {
		return nil, fmt.Errorf("spec.templatePatch: %w", err)
	}
	return patched, nil
}

// encodeTemplate converts a template to decoded JSON, in which texts are
// expanded. Both parts exist afterwards, so that callers can set fields of
// metadata without a check.
func encodeTemplate(template *v1alpha1.ApplicationSetTemplate) (map[string]any, error) {
	encoded, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template)
	if err != nil {
		return nil, fmt.Errorf("the template cannot be read: %w", err)
	}
	for _, part := range []string{"metadata", "spec"} {
		if encoded[part] == nil {
			encoded[part] = map[string]any{}
		}
	}
	return encoded, nil
}

// fill completes the template of a generator with the outer one.
func fill(own, outer map[string]any) map[string]any {
	filled := make(map[string]any, len(outer))
	maps.Copy(filled, own)
	for name, value := range outer {
		present, _ := filled[name].(map[string]any)
		below, nested := value.(map[string]any)
		switch {
		// Objects are filled field by field. Values of the generator's template
		// win.
		case nested && len(present) > 0:
			filled[name] = fill(present, below)
		case IsEmpty(filled[name]):
			filled[name] = value
		}
	}
	return filled
}

// IsEmpty reports whether a value counts as missing in a template. false counts
// as missing, because an omitted field of a typed template decodes to it.
func IsEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// errManySets is the error beyond maxSets.
var errManySets = errors.New("there are more than 20000 sets of parameters: use several ApplicationSets")

// count bounds the sets of parameters, including those that are merged or
// filtered later.
func (r *runner) count(more int) error {
	if r.sets += more; r.sets > maxSets {
		return errManySets
	}
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	return nil
}
