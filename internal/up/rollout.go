package up

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/internal/kube"
)

// awaitRollout waits until all replicas of the demo's Deployment are ready and
// respond. A repository without that Deployment has nothing to wait for.
func (d *demoStatus) awaitRollout(ctx context.Context, cluster *kube.Cluster, report func(string)) error {
	deployments := cluster.Client.AppsV1().Deployments(demoName)
	_, err := kube.WaitFor(ctx, deployments, kube.Named(demoName), func(found []*appsv1.Deployment) error {
		err := d.observe(found)
		if err != nil {
			report(err.Error())
		}
		return err
	})
	if err != nil {
		// The last note explains the timeout, and the Pods have the better
		// reason.
		if problem := podProblem(ctx, cluster); problem != "" {
			report(d.replicas() + ", " + problem)
		}
		return err
	}
	return d.awaitResponses(ctx, cluster, report)
}

// lookAtRollout reads the Deployment once.
func (d *demoStatus) lookAtRollout(ctx context.Context, cluster *kube.Cluster) error {
	list, err := cluster.Client.AppsV1().Deployments(demoName).List(ctx, kube.Named(demoName))
	if err != nil {
		return fmt.Errorf("read the Deployment of the demo: %w", err)
	}
	var found []*appsv1.Deployment
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	// What is missing does not matter here.
	_ = d.observe(found)
	return nil
}

// observe records the state of the Deployment, and returns what is missing of a
// complete rollout. Without a Deployment nothing is missing.
func (d *demoStatus) observe(found []*appsv1.Deployment) error {
	// Everything is reset, because the Deployment may be deleted during a wait.
	d.image, d.ready, d.desired, d.legacy = "", 0, 0, false
	if len(found) == 0 {
		return nil
	}
	deployment := found[0]
	d.legacy = ownedByUp(deployment)
	// The default of the API.
	d.desired = 1
	if deployment.Spec.Replicas != nil {
		d.desired = int(*deployment.Spec.Replicas)
	}
	d.ready = int(deployment.Status.ReadyReplicas)
	if containers := deployment.Spec.Template.Spec.Containers; len(containers) > 0 {
		d.image = containers[0].Image
	}
	status := deployment.Status
	// The conditions come in the order of a rollout. The status is out of date
	// until the controller has observed the newest generation.
	switch {
	case status.ObservedGeneration < deployment.Generation:
		return errors.New("waiting for the Deployment's controller")
	case d.ready < d.desired:
		return errors.New(d.replicas())
	case int(status.UpdatedReplicas) < d.desired:
		return fmt.Errorf("%d of %d replicas updated", status.UpdatedReplicas, d.desired)
	case int(status.Replicas) > d.desired:
		return fmt.Errorf("%d old replicas are ending", int(status.Replicas)-d.desired)
	}
	return nil
}

// podProblem returns why a container does not run, for a wait that has failed.
func podProblem(ctx context.Context, cluster *kube.Cluster) string {
	// The context of the wait is over, so the request gets one of its own.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	pods, err := cluster.Client.CoreV1().Pods(demoName).List(ctx, kube.Labelled("app="+demoName))
	if err != nil {
		return ""
	}
	for _, pod := range pods.Items {
		for _, status := range pod.Status.ContainerStatuses {
			if waiting := status.State.Waiting; waiting != nil {
				return fmt.Sprintf("Pod %s: %s %s", pod.Name, waiting.Reason, waiting.Message)
			}
		}
		// A Pod that is not scheduled has no container status.
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				return fmt.Sprintf("Pod %s: %s", pod.Name, condition.Message)
			}
		}
	}
	return ""
}
