package kube

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// UID identifies the cluster, whichever address it is reached by: it is that of
// the namespace kube-system, which is created with a cluster and never deleted.
func (c *Cluster) UID(ctx context.Context) (types.UID, error) {
	system, err := c.Client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read which cluster this is, by the namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return system.UID, nil
}
