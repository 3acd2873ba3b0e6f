package devcluster_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// What a start costs is logged for the reader. Only the memory has a limit,
// and a loose one, with the garbage that kubetest leaves: time depends on what
// else the machine does.
func TestCostOfAStart(t *testing.T) {
	t.Parallel()
	began := time.Now()
	cluster := kubetest.Start(t)
	fresh := time.Since(began)
	memory := residentMemory(t, cluster.PID())
	began = time.Now()
	cluster.Restart(t)
	t.Logf("ready after %s on an empty directory with %d MB resident; stopped and ready again after %s",
		fresh.Round(time.Millisecond), memory>>20, time.Since(began).Round(time.Millisecond))
	if limit := 600 << 20; memory > limit {
		t.Errorf("%d MB are resident, want at most %d", memory>>20, limit>>20)
	}
}

func TestSideBySide(t *testing.T) {
	t.Parallel()
	clusters := []*kubetest.Cluster{
		kubetest.Start(t, kubetest.WithoutNode()),
		kubetest.Start(t, kubetest.WithoutNode()),
		kubetest.Start(t, kubetest.WithoutNode()),
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var servers, own []string
	for i, cluster := range clusters {
		servers = append(servers, cluster.Config.Host)
		own = append(own, fmt.Sprintf("only-in-%d", i))
		must.Get(cluster.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: own[i]},
		}, metav1.CreateOptions{}))(t)
	}
	if slices.Sort(servers); len(slices.Compact(servers)) != len(clusters) {
		t.Errorf("the API servers are at %v, want an address each", servers)
	}
	for i, cluster := range clusters {
		list := must.Get(cluster.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}))(t)
		for _, namespace := range list.Items {
			if slices.Contains(own, namespace.Name) && namespace.Name != own[i] {
				t.Errorf("cluster %d has namespace %s", i, namespace.Name)
			}
		}
	}
	// Nor does a client of one trust another.
	crossed := *clusters[0].Config
	crossed.Host = clusters[1].Config.Host
	_, err := clientFor(t, &crossed).CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if unknown := (x509.UnknownAuthorityError{}); !errors.As(err, &unknown) {
		t.Errorf("a client of one cluster asks another: got error %v, want an unknown authority", err)
	}
}

// residentMemory reads the bytes that a process has in memory.
func residentMemory(t *testing.T, pid int) int {
	t.Helper()
	status := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t)
	for line := range strings.Lines(string(status)) {
		var kilobytes int
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kilobytes); err == nil {
			return kilobytes << 10
		}
	}
	t.Fatalf("no VmRSS of process %d in:\n%s", pid, status)
	return 0
}
