package controlplane

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// readinessPeriod is how often a condition is asked for: a start takes a second or two, so a user does not see it.
const readinessPeriod = 50 * time.Millisecond

// await asks until the condition holds, a part dies or ctx ends.
func (c *Cluster) await(ctx context.Context, cfg *rest.Config, condition func(context.Context, kubernetes.Interface) error) error {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	tick := time.NewTicker(readinessPeriod)
	defer tick.Stop()
	for {
		last := condition(ctx, client)
		if last == nil {
			return nil
		}
		select {
		case err := <-c.dead:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%w; last answer: %w", ctx.Err(), last)
		case <-tick.C:
		}
	}
}

func apiServerReady(ctx context.Context, client kubernetes.Interface) error {
	return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

func defaultServiceAccount(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
	return err
}
