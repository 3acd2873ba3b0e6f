package migrate

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/gitops/tracking"
)

// BackSet returns an ApplicationSet and its Applications to Argo CD, from every
// point of a move. Ours stops generating; the Applications are returned; Argo
// CD's set is created and adopts them; ours is deleted.
func BackSet(ctx context.Context, options SetOptions) ([]Report, error) {
	m, err := newSetMove(ctx, options)
	if err != nil {
		return nil, err
	}
	switch {
	case m.record == nil || m.record.app() != m.Set:
		return nil, fmt.Errorf("the ApplicationSet %s was not moved: there is nothing to take back", m.Set)
	case m.argo != nil && m.argo.GetDeletionTimestamp() != nil:
		return nil, fmt.Errorf("the ApplicationSet %s is being deleted: try again when it is gone", m.Set)
	case m.argo != nil:
		// Either Argo CD's was not deleted yet, or it is there again.
		return nil, m.deleteSet(ctx, m.ours, "Argo CD has it again")
	}
	if err := m.checkGenerated(ctx); err != nil {
		return nil, err
	}
	m.report("patch", m.ours, "the runtime lets go: it generates nothing")
	if !m.DryRun {
		if err := m.patch(ctx, m.ours, map[string]any{"annotations": map[string]any{annotationPending: "true"}}); err != nil {
			return nil, err
		}
	}
	returned, err := m.returnApplications(ctx)
	if err != nil {
		return returned, err
	}
	theirs := metav1.ObjectMeta{Namespace: m.Set.Namespace, Labels: m.record.Labels, Annotations: m.record.Annotations, Finalizers: m.record.Finalizers}
	if _, err := m.create(ctx, theirs, "Argo CD's ApplicationSet, which adopts its Applications"); err != nil {
		return returned, err
	}
	return returned, m.deleteSet(ctx, m.ours, "Argo CD has it again")
}

// checkGenerated refuses a set that has generated Applications since it was moved.
// Argo CD would generate them too, so that both had them.
func (m *setMove) checkGenerated(ctx context.Context) error {
	names, err := m.generated(ctx, m.ours)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Contains(m.record.Applications, name) {
			return fmt.Errorf("the runtime has generated the Application %s/%s, which Argo CD did not have: take it out of the generators, and delete it with slipway app delete %s/%s --cascade=false",
				m.ControlNamespace, name, m.ControlNamespace, name)
		}
	}
	return nil
}

// returnApplications returns the Applications that were moved, the last one first.
func (m *setMove) returnApplications(ctx context.Context) ([]Report, error) {
	var returned []Report
	for _, name := range slices.Backward(m.record.Applications) {
		options := m.options(name)
		moved, err := newMove(ctx, options)
		if err != nil {
			return returned, err
		}
		// It was not moved yet, or it is gone.
		if moved.origin == nil && moved.held == nil {
			continue
		}
		report, err := Back(ctx, options)
		if err != nil {
			return returned, err
		}
		returned = append(returned, report)
	}
	return returned, m.checkReturned(ctx)
}

// checkReturned fails if ours has created an Application again that was returned,
// before it knew that it has to stop.
func (m *setMove) checkReturned(ctx context.Context) error {
	names, err := m.generated(ctx, m.ours)
	if err != nil || len(names) == 0 || m.DryRun {
		return err
	}
	return fmt.Errorf("the runtime has generated %s again: delete it with slipway app delete %s --cascade=false, and start the way back again",
		names[0], tracking.App{Namespace: m.ControlNamespace, Name: names[0]})
}
