package controlplane

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// readinessPeriod is the polling interval of await: a start takes a second or
// two, so the delay is not noticeable.
const readinessPeriod = 50 * time.Millisecond

// await polls the condition until it holds, a part dies or ctx ends. The error
// includes the last result, which usually names the cause.
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
			return fmt.Errorf("%w; last response: %w", ctx.Err(), last)
		case <-tick.C:
		}
	}
}

// apiServerReady checks /readyz, which succeeds when all post-start hooks have
// finished.
func apiServerReady(ctx context.Context, client kubernetes.Interface) error {
	return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// defaultServiceAccount checks for the service account of the default
// namespace: the API server admits no Pod before it exists.
func defaultServiceAccount(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
	return err
}
