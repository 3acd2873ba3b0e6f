package devcluster_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// A write that was acknowledged survives a kill -9 in the middle of writing,
// and a client with the kubeconfig goes on with it.
func TestKilledWhileWriting(t *testing.T) {
	t.Parallel()
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	copied := filepath.Join(t.TempDir(), "kubeconfig")
	copyFile(t, cluster.Kubeconfig, copied)
	// Writers as fast as the server takes it.
	unlimited := *cluster.Config
	unlimited.QPS = -1
	configMaps := clientFor(t, &unlimited).CoreV1().ConfigMaps("default")

	var acknowledged []string
	for round := range 2 {
		acknowledged = append(acknowledged, writeUntilKilled(t, cluster, configMaps, round)...)
		cluster.Restart(t)
		earlier := must.Get(kube.Connect(copied))(t)
		defer earlier.Close()
		list := must.Get(earlier.Client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}))(t)
		written := map[string]string{}
		for _, configMap := range list.Items {
			written[configMap.Name] = configMap.Data["name"]
		}
		for _, name := range acknowledged {
			if written[name] != name {
				t.Errorf("round %d: %s was acknowledged and is lost", round, name)
			}
		}
	}
	t.Logf("%d acknowledged writes are all there", len(acknowledged))
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content := must.Get(os.ReadFile(from))(t)
	must.Do(t, os.WriteFile(to, content, 0o600))
}

// writeUntilKilled lets several writers create ConfigMaps, kills the cluster
// among them, and returns the names that were acknowledged.
func writeUntilKilled(t *testing.T, cluster *kubetest.Cluster, configMaps typedcorev1.ConfigMapInterface, round int) []string {
	t.Helper()
	const writers, enough = 4, 200
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var (
		mu     sync.Mutex
		names  []string
		group  sync.WaitGroup
		plenty = make(chan struct{})
	)
	for writer := range writers {
		group.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("round-%d-writer-%d-%d", round, writer, i)
				_, err := configMaps.Create(ctx, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"name": name},
				}, metav1.CreateOptions{})
				if err != nil {
					return
				}
				mu.Lock()
				names = append(names, name)
				if len(names) == enough {
					close(plenty)
				}
				mu.Unlock()
			}
		})
	}
	select {
	case <-plenty:
		cluster.Kill(t)
	case <-ctx.Done():
	}
	stop()
	group.Wait()
	if len(names) < enough {
		t.Fatalf("only %d writes were acknowledged in a minute", len(names))
	}
	return names
}
