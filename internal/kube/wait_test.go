package kube_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// The condition sees what is there at first, each later state, and the end.
func TestWaitForFollowsChanges(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	configMaps := cluster.Client.CoreV1().ConfigMaps(namespace)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	create := func(name, group string) {
		t.Helper()
		must.Get(configMaps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"group": group}},
		}, metav1.CreateOptions{}))(t)
	}
	create("other", "b")
	calls := 0
	found, err := kube.WaitFor(ctx, configMaps, kube.Labelled("group=a"), func(seen []*corev1.ConfigMap) error {
		calls++
		// Each state leads to the next, so none can be missed.
		if calls == 1 {
			create("one", "a")
		}
		if len(seen) == 1 && calls > 1 && seen[0].Name == "one" {
			create("two", "a")
		}
		if len(seen) != 2 {
			return fmt.Errorf("%d of 2", len(seen))
		}
		return nil
	})
	if err != nil || len(found) != 2 {
		t.Fatalf("got %v, %v", found, err)
	}
	for _, configMap := range found {
		must.Do(t, configMaps.Delete(ctx, configMap.Name, metav1.DeleteOptions{}))
	}
	_, err = kube.WaitFor(ctx, configMaps, kube.Labelled("group=a"), func(seen []*corev1.ConfigMap) error {
		if len(seen) > 0 {
			return fmt.Errorf("%d left", len(seen))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestWaitForDeadline(t *testing.T) {
	cluster := kubetest.Shared(t)
	configMaps := cluster.Client.CoreV1().ConfigMaps(cluster.Namespace(t))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	tooLate := errors.New("too late")
	missing := errors.New("it is blue")
	objects, err := kube.WaitFor(ctx, configMaps, kube.Named("kube-root-ca.crt"), func(seen []*corev1.ConfigMap) error {
		if len(seen) > 0 {
			cancel(tooLate)
		}
		return missing
	})
	if !errors.Is(err, tooLate) || !errors.Is(err, missing) {
		t.Errorf("got error %v, want why it ended and what was missing", err)
	}
	if len(objects) != 1 || objects[0].Name != "kube-root-ca.crt" {
		t.Errorf("got %v, want what was seen last", objects)
	}
}

// A caller without the right to watch gets that error when its time is over.
func TestWaitForForbidden(t *testing.T) {
	cluster := kubetest.Shared(t)
	config := *cluster.Config
	config.Impersonate.UserName = "nobody"
	client := clientFor(t, &config)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := kube.WaitFor(ctx, client.CoreV1().ConfigMaps("default"), kube.Named("any"), exists)
	if !apierrors.IsForbidden(err) && (err == nil || !strings.Contains(err.Error(), "forbidden")) {
		t.Errorf("got error %v, want it to say that the watch is forbidden", err)
	}
}

func exists(objects []*corev1.ConfigMap) error {
	if len(objects) == 0 {
		return errors.New("it does not exist")
	}
	return nil
}
