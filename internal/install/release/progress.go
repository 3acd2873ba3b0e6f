package release

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/backoff"
)

// watch observes the workloads of a release, and reports changes.
type watch struct {
	client *Client
	// workloads have to become available; jobs are those of hooks.
	workloads, jobs []ID
	// told has the last line that was reported for each, so that none is
	// repeated.
	reported map[ID]string
}

// workloads returns a watch of the plan's workloads. Those that do not change
// are included: the release is not healthy without them.
func (c *Client) workloads(plan *Plan) (*watch, error) {
	w := &watch{client: c, reported: map[ID]string{}}
	objects, err := c.index(plan.after.Manifest)
	if err != nil {
		return nil, err
	}
	for id := range objects {
		if id.Group == "apps" && slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet"}, id.Kind) {
			w.workloads = append(w.workloads, id)
		}
	}
	for _, change := range plan.Changes {
		if change.Passing && change.Kind == "Job" {
			w.jobs = append(w.jobs, change.ID)
		}
	}
	// Sorted, so that lines come in a stable order.
	slices.SortFunc(w.workloads, func(a, b ID) int { return strings.Compare(a.String(), b.String()) })
	return w, nil
}

// standing is the progress of one object.
type standing struct {
	ready bool
	// failed is set when it will not become ready.
	failed bool
	text   string
}

// follow reports the Jobs of hooks until ctx is done. Workloads do not exist
// yet while these run.
func (w *watch) follow(ctx context.Context) {
	for {
		for _, id := range w.jobs {
			// A read that the end of ctx interrupted is no progress.
			if seen := w.client.job(ctx, id); ctx.Err() == nil {
				w.report(id, seen)
			}
		}
		if backoff.Sleep(ctx, lookEvery) != nil {
			return
		}
	}
}

// report reports a line unless it repeats the last one.
func (w *watch) report(id ID, seen standing) {
	if seen.text == "" || w.reported[id] == seen.text {
		return
	}
	w.reported[id] = seen.text
	w.client.report(id.Kind + " " + id.Name + ": " + seen.text)
}

// failures returns why hooks have failed, empty if unknown.
func (w *watch) failures(ctx context.Context) string {
	var all []string
	for _, id := range w.jobs {
		if seen := w.client.job(ctx, id); seen.failed || !seen.ready && seen.text != "" {
			all = append(all, id.Kind+" "+id.Name+": "+seen.text)
		}
	}
	return strings.Join(all, "; ")
}

// await waits until all workloads are available and healthy returns nil. After
// the timeout its error is the last reason that it waited for.
func (c *Client) await(ctx context.Context, w *watch, healthy func(context.Context) error) error {
	waiting := "nothing was looked at"
	health := ID{Kind: "Waiting", Name: "for health"}
	for {
		missing := w.missing(ctx)
		switch {
		case ctx.Err() != nil:
			// The reads were interrupted, so the last reason stays.
		case len(missing) > 0:
			waiting = strings.Join(missing, "; ")
		case healthy == nil:
			return nil
		default:
			// Health is polled only when all workloads are available: before,
			// their state is the better explanation.
			err := healthy(ctx)
			if err == nil {
				return nil
			}
			if ctx.Err() == nil {
				waiting = err.Error()
				w.report(health, standing{text: waiting})
			}
		}
		if backoff.Sleep(ctx, lookEvery) != nil {
			if errors.Is(context.Cause(ctx), errLate) {
				return errors.New(waiting)
			}
			return fmt.Errorf("interrupted while it waited: %s", waiting)
		}
	}
}

// missing returns the workloads that are not available, with reasons.
func (w *watch) missing(ctx context.Context) []string {
	var all []string
	for _, id := range w.workloads {
		seen := w.client.workload(ctx, id)
		if ctx.Err() != nil {
			return nil
		}
		w.report(id, seen)
		if !seen.ready {
			all = append(all, id.Kind+" "+id.Name+": "+seen.text)
		}
	}
	return all
}

// workload returns the progress of a Deployment, StatefulSet or DaemonSet.
func (c *Client) workload(ctx context.Context, id ID) standing {
	bounded, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	found, err := c.rollout(bounded, id)
	switch {
	case apierrors.IsNotFound(err):
		return standing{text: "it is not there yet"}
	case err != nil:
		return standing{text: "it cannot be read: " + cutLine(err.Error())}
	}
	seen := standing{text: fmt.Sprintf("%d of %d available", found.available, found.wanted)}
	// As in kubectl rollout status: the controller has observed the spec, all
	// replicas are updated and available, and no old one is left.
	seen.ready = found.current && found.updated >= found.wanted && found.available >= found.wanted && found.total <= found.updated
	if seen.ready {
		return seen
	}
	// Old replicas can be available while the new ones are not there.
	if found.current && found.available >= found.wanted {
		seen.text += fmt.Sprintf(", %d of %d new", found.updated, found.wanted)
	}
	if why := c.reason(bounded, id, found.selector); why != "" {
		seen.text += ": " + why
	}
	return seen
}

// rollout is what the three kinds have in common.
type rollout struct {
	wanted, updated, available, total int32
	// current is set if the controller has observed the newest generation.
	current  bool
	selector *metav1.LabelSelector
}

// rollout reads the state of a workload.
func (c *Client) rollout(ctx context.Context, id ID) (rollout, error) {
	apps := c.cluster.Client.AppsV1()
	switch id.Kind {
	case "StatefulSet":
		found, err := apps.StatefulSets(id.Namespace).Get(ctx, id.Name, metav1.GetOptions{})
		if err != nil {
			return rollout{}, err
		}
		return ofStatefulSet(found), nil
	case "DaemonSet":
		found, err := apps.DaemonSets(id.Namespace).Get(ctx, id.Name, metav1.GetOptions{})
		if err != nil {
			return rollout{}, err
		}
		// The status of a DaemonSet does not count old Pods apart.
		s := found.Status
		return rollout{
			wanted: s.DesiredNumberScheduled, updated: s.UpdatedNumberScheduled, available: s.NumberAvailable, total: s.UpdatedNumberScheduled,
			current: s.ObservedGeneration >= found.Generation, selector: found.Spec.Selector,
		}, nil
	}
	found, err := apps.Deployments(id.Namespace).Get(ctx, id.Name, metav1.GetOptions{})
	if err != nil {
		return rollout{}, err
	}
	return ofDeployment(found), nil
}

// ofDeployment reads a Deployment. Its total includes the replicas of old
// ReplicaSets.
func ofDeployment(found *appsv1.Deployment) rollout {
	s := found.Status
	return rollout{
		wanted: replicas(found.Spec.Replicas), updated: s.UpdatedReplicas, available: s.AvailableReplicas, total: s.Replicas,
		current: s.ObservedGeneration >= found.Generation, selector: found.Spec.Selector,
	}
}

// ofStatefulSet reads a StatefulSet. It replaces Pods in place, so there are no
// surplus ones.
func ofStatefulSet(found *appsv1.StatefulSet) rollout {
	s := found.Status
	return rollout{
		wanted: replicas(found.Spec.Replicas), updated: s.UpdatedReplicas, available: s.AvailableReplicas, total: s.UpdatedReplicas,
		current: s.ObservedGeneration >= found.Generation, selector: found.Spec.Selector,
	}
}

// replicas returns the wanted replicas. The default of the API is 1.
func replicas(given *int32) int32 {
	if given == nil {
		return 1
	}
	return *given
}

// job returns the progress of a Job. A Job that cannot be read has none.
func (c *Client) job(ctx context.Context, id ID) standing {
	bounded, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	found, err := c.cluster.Client.BatchV1().Jobs(id.Namespace).Get(bounded, id.Name, metav1.GetOptions{})
	if err != nil {
		return standing{} // it may not be there yet, or be gone because it is done
	}
	for _, condition := range found.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case batchv1.JobComplete:
			return standing{ready: true, text: "done"}
		case batchv1.JobFailed:
			// The Pods have the reason. The condition often has only that the
			// backoff limit was reached.
			why := c.reason(bounded, id, found.Spec.Selector)
			if why == "" {
				why = cutLine(condition.Message)
			}
			return standing{failed: true, text: "failed: " + why}
		case batchv1.JobSuspended, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet:
		}
	}
	seen := standing{text: "runs"}
	if why := c.reason(bounded, id, found.Spec.Selector); why != "" {
		seen.text = "waits: " + why
	}
	return seen
}
