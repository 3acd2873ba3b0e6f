package up

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/internal/kube"
)

const (
	demoName = "demo"
	// demoOwner owns the fields of the demo in the API server.
	demoOwner = "slipway-up"
	// demoPatience is how long a later start waits for a demo that the user may
	// have changed, or broken on purpose. The first start insists.
	demoPatience = 30 * time.Second
)

//go:embed demo.yaml
var demoManifests string

// demoStatus is what a run knows of the demo.
type demoStatus struct {
	// fresh is a demo that this run has applied.
	fresh bool
	// gone is a demo that the user has deleted.
	gone           bool
	image          string
	ready, desired int
	// address is host:port of one Pod that answered.
	address string
}

func (d demoStatus) replicas() string {
	return fmt.Sprintf("%d of %d replicas ready", d.ready, d.desired)
}

// startDemo applies the demo in a new cluster, and leaves it alone in one that
// has had it before.
func startDemo(ctx context.Context, s *scene) (*child, error) {
	if s.state.marker.DemoApplied {
		return nil, nil
	}
	target := kube.Target{Namespace: demoName, Manager: demoOwner}
	if _, err := s.cluster.Apply(ctx, target, demoManifests); err != nil {
		return nil, err
	}
	s.demo.fresh = true
	return nil, s.state.demoIsApplied()
}

// demoReady waits until all replicas are ready and answer.
func demoReady(ctx context.Context, s *scene, say func(string)) (string, error) {
	if s.demo.fresh {
		return s.demo.await(ctx, s.cluster, say)
	}
	patient, cancel := context.WithTimeout(ctx, min(demoPatience, s.options.Timeout/2))
	defer cancel()
	note, err := s.demo.await(patient, s.cluster, say)
	if err != nil && ctx.Err() == nil && patient.Err() != nil {
		s.demo.findAnswer(ctx, s.cluster)
		return s.demo.replicas() + ", left as it is", nil
	}
	return note, err
}

func (d *demoStatus) await(ctx context.Context, cluster *kube.Cluster, say func(string)) (string, error) {
	deployments := cluster.Client.AppsV1().Deployments(demoName)
	_, err := kube.WaitFor(ctx, deployments, kube.Named(demoName), func(found []*appsv1.Deployment) error {
		err := d.observe(found)
		if err != nil {
			say(err.Error())
		}
		return err
	})
	if err != nil {
		if trouble := podTrouble(ctx, cluster); trouble != "" {
			say(d.replicas() + ", " + trouble)
		}
		return "", err
	}
	if d.gone {
		return "deleted by you, left so", nil
	}
	if err := d.awaitAnswers(ctx, cluster, say); err != nil {
		return "", err
	}
	return d.replicas(), nil
}

// observe returns what is missing of a complete roll-out.
func (d *demoStatus) observe(found []*appsv1.Deployment) error {
	d.gone = len(found) == 0
	if d.gone {
		return nil
	}
	deployment := found[0]
	d.desired = 1
	if deployment.Spec.Replicas != nil {
		d.desired = int(*deployment.Spec.Replicas)
	}
	d.ready = int(deployment.Status.ReadyReplicas)
	if containers := deployment.Spec.Template.Spec.Containers; len(containers) > 0 {
		d.image = containers[0].Image
	}
	status := deployment.Status
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

// podTrouble says why a container does not run, for a wait that has ended.
func podTrouble(ctx context.Context, cluster *kube.Cluster) string {
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
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				return fmt.Sprintf("Pod %s: %s", pod.Name, condition.Message)
			}
		}
	}
	return ""
}

func showDemo(s *scene) (Row, []Hint) {
	row := Row{Part: demoName}
	if s.demo.gone {
		row.Detail = "deleted by you; --reset brings it back, with everything else fresh"
		return row, nil
	}
	row.Detail = fmt.Sprintf("Deployment %s/%s, %s, %s", demoName, demoName, s.demo.image, s.demo.replicas())
	var hints []Hint
	if s.demo.address != "" {
		row.Address = "http://" + s.demo.address
		hints = append(hints, Hint{"ask one Pod", "curl " + row.Address + "/api"})
	}
	return row, append(hints,
		Hint{"roll to v2", s.kubectl("-n demo set image deployment/demo demo=slipway.dev/demo:v2")},
		Hint{"watch it roll", s.kubectl("-n demo rollout status deployment/demo")},
	)
}
