package analysis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// The labels, annotations and metadata of Jobs, with the names of Argo Rollouts.
const (
	jobNameKey           = "job-name"
	jobNamespaceKey      = "job-namespace"
	runNameAnnotation    = "analysisrun.argoproj.io/name"
	runSpaceAnnotation   = "analysisrun.argoproj.io/namespace"
	metricNameAnnotation = "analysisrun.argoproj.io/metric-name"
	runUIDLabel          = "analysisrun.argoproj.io/uid"
	// maxJobName is that of a label, which Pods have of their Job.
	maxJobName = 63
)

// jobProvider runs a Job, whose end is the result. Its Jobs are in the namespace of the
// run, and owned by it.
type jobProvider struct{ *providers }

func (p *jobProvider) measure(ctx context.Context, run *v1alpha1.AnalysisRun, metric *v1alpha1.Metric) v1alpha1.Measurement {
	measurement := p.begun()
	job := newJob(run, metric)
	jobs := p.cluster.Client.BatchV1().Jobs(job.Namespace)
	created, err := jobs.Create(ctx, job, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		// A former attempt, after which the status was not written.
		existing, readErr := jobs.Get(ctx, job.Name, metav1.GetOptions{})
		if owner := metav1.GetControllerOf(cmp.Or(existing, &batchv1.Job{})); readErr == nil && owner != nil && owner.UID == run.UID {
			created, err = existing, nil
		}
	}
	if err != nil {
		return p.failed(measurement, err)
	}
	measurement.Phase = v1alpha1.AnalysisPhaseRunning
	measurement.Metadata = map[string]string{jobNameKey: created.Name, jobNamespaceKey: created.Namespace}
	measurement.ResumeAt = measurement.StartedAt // a short Job may be over
	return measurement
}

// newJob returns the Job of the next measurement.
func newJob(run *v1alpha1.AnalysisRun, metric *v1alpha1.Metric) *batchv1.Job {
	given := metric.Provider.Job
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: run.Namespace, Name: jobName(run, metric.Name), Labels: given.Metadata.Labels, Annotations: given.Metadata.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(run, schema.GroupVersionKind{
				Group: v1alpha1.Group, Version: v1alpha1.Version, Kind: v1alpha1.KindAnalysisRun,
			})},
		},
		Spec: given.Spec,
	}
	metav1.SetMetaDataLabel(&job.ObjectMeta, runUIDLabel, string(run.UID))
	metav1.SetMetaDataLabel(&job.Spec.Template.ObjectMeta, runUIDLabel, string(run.UID))
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, runNameAnnotation, run.Name)
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, runSpaceAnnotation, run.Namespace)
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, metricNameAnnotation, metric.Name)
	return job
}

// jobName is the same for a measurement that is repeated, so that there is one Job.
func jobName(run *v1alpha1.AnalysisRun, metric string) string {
	number := int32(1)
	if result := resultOf(&run.Status, metric); result != nil {
		number = result.Count + result.Error + 1
	}
	name := func(metric string) string { return fmt.Sprintf("%s.%s.%d", run.UID, metric, number) }
	if over := len(name(metric)) - maxJobName; over > 0 {
		metric = metric[:max(0, len(metric)-over)]
	}
	return name(metric)
}

// jobOf returns the Job of a measurement. It is always in the namespace of the run:
// the status is no reason to read elsewhere.
func jobOf(measurement *v1alpha1.Measurement) (string, error) {
	if name := measurement.Metadata[jobNameKey]; name != "" {
		return name, nil
	}
	return "", errors.New("job metadata reference missing")
}

func (p *jobProvider) resume(ctx context.Context, run *v1alpha1.AnalysisRun, _ *v1alpha1.Metric, begun v1alpha1.Measurement) v1alpha1.Measurement {
	name, err := jobOf(&begun)
	if err != nil {
		return p.failed(begun, err)
	}
	job, err := p.cluster.Client.BatchV1().Jobs(run.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return p.failed(begun, err)
	}
	now := p.now()
	for _, condition := range job.Status.Conditions {
		switch {
		case condition.Status == corev1.ConditionFalse:
		case condition.Type == batchv1.JobComplete:
			begun.FinishedAt, begun.Phase = stamp(now), v1alpha1.AnalysisPhaseSuccessful
		case condition.Type == batchv1.JobFailed:
			begun.FinishedAt, begun.Phase = stamp(now), v1alpha1.AnalysisPhaseFailed
		}
	}
	if begun.Phase.Completed() {
		return begun
	}
	if reason, err := p.cannotStart(ctx, job); err != nil {
		return p.failed(begun, err)
	} else if reason != "" {
		begun.FinishedAt, begun.Phase, begun.Message = stamp(now), v1alpha1.AnalysisPhaseInconclusive, reason
		return begun
	}
	// The watch of Jobs reports the end. This is for Pods that cannot start, so
	// that the interval may grow.
	elapsed := now.Sub(begun.StartedAt.Time)
	begun.ResumeAt = stamp(now.Add(max(time.Second, time.Duration(math.Sqrt(2*elapsed.Seconds())*float64(time.Second)))))
	return begun
}

// cannotStart returns why a container of a Job never starts; empty if it may.
func (p *jobProvider) cannotStart(ctx context.Context, job *batchv1.Job) (string, error) {
	pods, err := p.cluster.Client.CoreV1().Pods(job.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: metav1.FormatLabelSelector(job.Spec.Selector), Limit: 50,
	})
	if err != nil {
		return "", err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if waiting := container.State.Waiting; waiting != nil {
				switch waiting.Reason {
				case "ErrImagePull", "ImagePullBackOff", "InvalidImageName":
					return fmt.Sprintf("Pod %s, container %s has terminal error (%s): %s", pod.Name, container.Name, waiting.Reason, waiting.Message), nil
				}
			}
		}
	}
	return "", nil
}

func (p *jobProvider) terminate(ctx context.Context, run *v1alpha1.AnalysisRun, _ *v1alpha1.Metric, begun v1alpha1.Measurement) v1alpha1.Measurement {
	name, err := jobOf(&begun)
	if err == nil {
		err = p.delete(ctx, run.Namespace, name)
	}
	if err != nil {
		return p.failed(begun, err)
	}
	begun.FinishedAt, begun.Phase = stamp(p.now()), v1alpha1.AnalysisPhaseInconclusive
	return begun
}

// delete deletes a Job with its Pods.
func (p *jobProvider) delete(ctx context.Context, namespace, name string) error {
	foreground := metav1.DeletePropagationForeground
	err := p.cluster.Client.BatchV1().Jobs(namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &foreground})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// prune deletes the oldest Jobs of a metric.
func (p *jobProvider) prune(ctx context.Context, run *v1alpha1.AnalysisRun, metric string, keep int) error {
	jobs, err := p.cluster.Client.BatchV1().Jobs(run.Namespace).List(ctx, metav1.ListOptions{LabelSelector: runUIDLabel + "=" + string(run.UID)})
	if err != nil {
		return err
	}
	jobs.Items = slices.DeleteFunc(jobs.Items, func(job batchv1.Job) bool { return job.Annotations[metricNameAnnotation] != metric })
	slices.SortStableFunc(jobs.Items, func(a, b batchv1.Job) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for i := range max(0, len(jobs.Items)-keep) {
		if err := p.delete(ctx, run.Namespace, jobs.Items[i].Name); err != nil {
			return err
		}
	}
	return nil
}
