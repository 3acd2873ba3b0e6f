package analysis

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// maxTemplates bounds the templates of one run, nested ones included.
const maxTemplates = 100

// TemplateSource returns the content of a template: an AnalysisTemplate in the
// namespace of the run, or a ClusterAnalysisTemplate.
type TemplateSource func(v1alpha1.AnalysisTemplateRef) (*v1alpha1.AnalysisTemplateSpec, error)

// RunRequest is what a new run is made of.
type RunRequest struct {
	Namespace, Name     string
	Labels, Annotations map[string]string
	Templates           []v1alpha1.AnalysisTemplateRef
	// Args replace the arguments of the templates. Those that no template has are
	// left out.
	Args []v1alpha1.Argument
	// DryRun and MeasurementRetention are added to those of the templates.
	DryRun               []v1alpha1.DryRun
	MeasurementRetention []v1alpha1.MeasurementRetention
}

// NewRun returns the run of templates, which have to differ in the names of their
// metrics. The caller sets owner and creates it. The content is shared with the
// templates and must not be changed.
func NewRun(request RunRequest, source TemplateSource) (*v1alpha1.AnalysisRun, error) {
	specs, err := collectTemplates(request.Templates, source)
	if err != nil {
		return nil, err
	}
	run := &v1alpha1.AnalysisRun{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindAnalysisRun},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: request.Namespace, Name: request.Name, Labels: request.Labels, Annotations: request.Annotations,
		},
	}
	spec := &run.Spec
	spec.DryRun, spec.MeasurementRetention = slices.Clone(request.DryRun), slices.Clone(request.MeasurementRetention)
	var declared []v1alpha1.Argument
	for _, template := range specs {
		spec.Metrics = append(spec.Metrics, template.Metrics...)
		spec.DryRun = append(spec.DryRun, template.DryRun...)
		spec.MeasurementRetention = append(spec.MeasurementRetention, template.MeasurementRetention...)
		if declared, err = addArguments(declared, template.Args); err != nil {
			return nil, err
		}
	}
	if err := checkUnique(spec); err != nil {
		return nil, err
	}
	spec.Args, err = replaceArguments(declared, request.Args)
	return run, err
}

// collectTemplates returns the templates and those that they name, each once, in the
// order of Argo Rollouts: those of the namespace before those of the cluster.
func collectTemplates(refs []v1alpha1.AnalysisTemplateRef, source TemplateSource) ([]*v1alpha1.AnalysisTemplateSpec, error) {
	type identity struct {
		cluster bool
		name    string
	}
	var local, cluster []*v1alpha1.AnalysisTemplateSpec
	seen := map[identity]bool{}
	var visit func([]v1alpha1.AnalysisTemplateRef) error
	visit = func(refs []v1alpha1.AnalysisTemplateRef) error {
		for _, ref := range refs {
			// Templates that name each other end here too.
			id := identity{ref.IsClusterScope(), ref.TemplateName}
			if seen[id] {
				continue
			}
			seen[id] = true
			if len(seen) > maxTemplates {
				return fmt.Errorf("more than %d templates: combine some of them", maxTemplates)
			}
			spec, err := source(ref)
			if err != nil {
				return err
			}
			if id.cluster {
				cluster = append(cluster, spec)
			} else {
				local = append(local, spec)
			}
			if err := visit(spec.Templates); err != nil {
				return err
			}
		}
		return nil
	}
	err := visit(refs)
	return append(local, cluster...), err
}

// addArguments adds the arguments of one template. The same name in two templates is
// one argument, whose values must not differ.
func addArguments(all, more []v1alpha1.Argument) ([]v1alpha1.Argument, error) {
	for _, argument := range more {
		i := indexOf(all, argument.Name)
		if i < 0 {
			all = append(all, argument)
			continue
		}
		before := all[i]
		if before.Value != nil && argument.Value != nil && *before.Value != *argument.Value {
			return nil, fmt.Errorf("Argument `%s` specified multiple times with different values: '%s', '%s'", argument.Name, *before.Value, *argument.Value)
		}
		if before.Value == nil {
			all[i] = argument
		}
	}
	return all, nil
}

// replaceArguments sets values of declared arguments. All need one.
func replaceArguments(declared, given []v1alpha1.Argument) ([]v1alpha1.Argument, error) {
	merged := slices.Clone(declared)
	for _, argument := range given {
		i := indexOf(merged, argument.Name)
		switch {
		case i < 0:
		case argument.Value != nil:
			merged[i].Value = argument.Value
		case argument.ValueFrom != nil:
			merged[i].ValueFrom = argument.ValueFrom
		}
	}
	for _, argument := range merged {
		if argument.Value == nil && argument.ValueFrom == nil {
			return nil, fmt.Errorf("args.%s was not resolved", argument.Name)
		}
	}
	return merged, nil
}

func indexOf(arguments []v1alpha1.Argument, name string) int {
	return slices.IndexFunc(arguments, func(one v1alpha1.Argument) bool { return one.Name == name })
}

// checkUnique refuses names that two templates have.
func checkUnique(spec *v1alpha1.AnalysisRunSpec) error {
	metrics, dry, retained := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range spec.Metrics {
		if name := spec.Metrics[i].Name; metrics[name] {
			return fmt.Errorf("two metrics have the same name '%s'", name)
		}
		metrics[spec.Metrics[i].Name] = true
	}
	for _, rule := range spec.DryRun {
		if dry[rule.MetricName] {
			return fmt.Errorf("two Dry-Run metric rules have the same name '%s'", rule.MetricName)
		}
		dry[rule.MetricName] = true
	}
	for _, rule := range spec.MeasurementRetention {
		if retained[rule.MetricName] {
			return fmt.Errorf("two Measurement Retention metric rules have the same name '%s'", rule.MetricName)
		}
		retained[rule.MetricName] = true
	}
	return nil
}
