package kubetest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

func TestShared(t *testing.T) {
	first, second := kubetest.Shared(t), kubetest.Shared(t)
	if first != second {
		t.Error("two calls gave two clusters")
	}
	if _, err := first.Client.Discovery().ServerVersion(); err != nil {
		t.Error(err)
	}
}

func TestNamespace(t *testing.T) {
	cluster := kubetest.Shared(t)
	var made []string
	t.Run("Some_long name/with parts", func(t *testing.T) {
		made = append(made, cluster.Namespace(t), cluster.Namespace(t))
	})
	if made[0] == made[1] {
		t.Errorf("two calls gave %q", made[0])
	}
	for _, name := range made {
		if !strings.HasPrefix(name, "testnamespace-some-long-name-with-parts-") {
			t.Errorf("namespace %q is not named after its test", name)
		}
		// The subtest has ended, so they go.
		kubetest.WaitFor(t, cluster.Client.CoreV1().Namespaces(), kube.Named(name), time.Minute,
			func(left []*corev1.Namespace) error {
				if len(left) > 0 && left[0].DeletionTimestamp == nil {
					return fmt.Errorf("%s is not deleted", name)
				}
				return nil
			})
	}
}

func TestApply(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, `
apiVersion: v1
kind: ConfigMap
metadata: {name: colours}
data: {first: blue}
---
apiVersion: v1
kind: Secret
metadata: {name: word}
`)
	colours := kubetest.WaitFor(t, cluster.Client.CoreV1().ConfigMaps(namespace), kube.Named("colours"), time.Minute,
		func(found []*corev1.ConfigMap) error {
			if len(found) == 0 {
				return fmt.Errorf("not found")
			}
			return nil
		})
	if colours[0].Data["first"] != "blue" {
		t.Errorf("data is %v", colours[0].Data)
	}
}

// What a reader needs to know is in the failure: what was missing, and the
// object as it was.
func TestWaitForShowsWhatItSaw(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	recorded := record(t, func(t testing.TB) {
		kubetest.WaitFor(t, cluster.Client.CoreV1().ServiceAccounts(namespace), kube.Named("default"), time.Second,
			func([]*corev1.ServiceAccount) error { return fmt.Errorf("it has no colour") })
	})
	for _, want := range []string{"waited 1s: it has no colour", "name: default", "namespace: " + namespace} {
		if !strings.Contains(recorded, want) {
			t.Errorf("the failure does not contain %q:\n%s", want, recorded)
		}
	}
}

func TestRestartKeepsState(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	if cluster.PodNetwork.Bits() != 24 || !kubetest.PodNetwork().Contains(cluster.PodNetwork.Addr()) {
		t.Errorf("pod network is %s", cluster.PodNetwork)
	}
	namespace := cluster.Namespace(t)
	for _, end := range []struct {
		name string
		how  func(testing.TB)
	}{{"stop", cluster.Stop}, {"kill", cluster.Kill}} {
		before := cluster.PID()
		end.how(t)
		select {
		case <-cluster.Exited():
		default:
			t.Fatalf("%s: process %d still runs", end.name, before)
		}
		cluster.Restart(t)
		if cluster.PID() == before {
			t.Errorf("%s: still process %d", end.name, before)
		}
		if _, err := cluster.Client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); err != nil {
			t.Errorf("%s: %v", end.name, err)
		}
	}
}

func TestSharedMayNotBeStopped(t *testing.T) {
	cluster := kubetest.Shared(t)
	if recorded := record(t, cluster.Kill); !strings.Contains(recorded, "use kubetest.Start") {
		t.Errorf("killing the shared cluster gave %q", recorded)
	}
	if _, err := cluster.Client.Discovery().ServerVersion(); err != nil {
		t.Error(err)
	}
}

func TestMissingBinary(t *testing.T) {
	t.Setenv("SLIPWAY_DEVCLUSTER", filepath.Join(t.TempDir(), "none"))
	recorded := record(t, func(t testing.TB) { kubetest.Start(t) })
	if !strings.Contains(recorded, "run make build") {
		t.Errorf("got %q, want it to say what to run", recorded)
	}
}

// A cluster that does not come up is shown with its reason and its log.
func TestStartFails(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "devcluster.log"), []byte("line of the log\n"), 0o600))
	broken := filepath.Join(dir, "broken")
	must.Do(t, os.WriteFile(broken, []byte("#!/bin/sh\necho out of luck >&2\nexit 3\n"), 0o700))
	t.Setenv("SLIPWAY_DEVCLUSTER", broken)
	recorded := record(t, func(t testing.TB) { kubetest.Start(t, kubetest.InDir(dir)) })
	for _, want := range []string{"ended before it was ready: exit status 3: out of luck", "line of the log"} {
		if !strings.Contains(recorded, want) {
			t.Errorf("the failure does not contain %q:\n%s", want, recorded)
		}
	}
}

// A test process that is killed takes its cluster along.
func TestKilledParentTakesClusterAlong(t *testing.T) {
	cmd, lines := startHelper(t, helper{name: "cluster", argument: t.TempDir()})
	var clusterPID int
	must.Get(fmt.Sscanf(lines.Text(), "running %d", &clusterPID))(t)
	cluster := openProcess(t, clusterPID)
	if cluster.ended(t, 0) {
		t.Fatal("the cluster has ended by itself")
	}
	must.Do(t, cmd.Process.Kill())
	if !cluster.ended(t, time.Minute) {
		t.Errorf("process %d outlives the tests", clusterPID)
	}
	_ = cmd.Wait()
}
