package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// maxTemplateDepth bounds templates in templates.
const maxTemplateDepth = 10

// analysis lists the AnalysisRuns of a Rollout with analyses, the newest first, and reads
// their templates.
func (r reader) analysis(ctx context.Context, seen *Observed) error {
	analyses := analysesOf(&seen.Rollout.Spec)
	if len(analyses) == 0 {
		return nil
	}
	list, err := r.cluster.Dynamic.Resource(v1alpha1.AnalysisRunResource()).Namespace(seen.Rollout.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labelHash})
	if err != nil {
		return fmt.Errorf("list the AnalysisRuns: %w", err)
	}
	for i := range list.Items {
		object := &list.Items[i]
		if !metav1.IsControlledBy(object, seen.Rollout) || object.GetDeletionTimestamp() != nil {
			continue
		}
		var run v1alpha1.AnalysisRun
		if err := decodeJSON(object.Object, &run); err != nil {
			return fmt.Errorf("decode the AnalysisRun %s: %w", object.GetName(), err)
		}
		seen.Runs = append(seen.Runs, Run{
			Name: run.Name, Labels: run.Labels, Phase: run.Status.Phase, Message: run.Status.Message, Terminate: run.Spec.Terminate, Created: run.CreationTimestamp.Time,
		})
	}
	slices.SortFunc(seen.Runs, func(one, other Run) int { return other.Created.Compare(one.Created) })
	seen.Templates = map[string]*v1alpha1.AnalysisTemplateSpec{}
	for _, one := range analyses {
		if err := r.templates(ctx, seen, one.Templates, 0); err != nil {
			return err
		}
	}
	return nil
}

// templates reads templates and those that they name. One that does not exist is left
// out, and makes the Rollout invalid.
func (r reader) templates(ctx context.Context, seen *Observed, refs []v1alpha1.AnalysisTemplateRef, depth int) error {
	if depth > maxTemplateDepth {
		return nil
	}
	for _, ref := range refs {
		if _, known := seen.Templates[templateKey(ref)]; known {
			continue
		}
		resource, namespace := v1alpha1.AnalysisTemplateResource(), seen.Rollout.Namespace
		if ref.IsClusterScope() {
			resource, namespace = v1alpha1.ClusterAnalysisTemplateResource(), ""
		}
		object, err := r.cluster.Dynamic.Resource(resource).Namespace(namespace).Get(ctx, ref.TemplateName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the template %s: %w", ref.TemplateName, err)
		}
		var template v1alpha1.AnalysisTemplate
		if err := decodeJSON(object.Object, &template); err != nil {
			return fmt.Errorf("decode the template %s: %w", ref.TemplateName, err)
		}
		seen.Templates[templateKey(ref)] = &template.Spec
		if err := r.templates(ctx, seen, template.Spec.Templates, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// decodeJSON decodes an object by its JSON.
func decodeJSON(object map[string]any, into any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
