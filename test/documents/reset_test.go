package documents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/agent/join"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// takeAway removes the runtime from the cluster and from the platform. It does not
// wait for the runtime's next heartbeat, as slipway runtime uninstall does.
func (w *world) takeAway(t *testing.T) {
	t.Helper()
	w.balancer.toEdge.Store(false)
	w.node.untrusting.Store(false)
	w.node.Impatient.Store(true)
	defer w.node.Impatient.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), programs.Timeout) // also after the test
	defer cancel()
	if err := w.unregister(ctx); err != nil {
		t.Error(err)
	}
	releases := must.Get(w.cluster.Client.CoreV1().Secrets(ownNamespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + ownRelease}))(t)
	text := "slipway runtime delete prod --yes"
	if len(releases.Items) > 0 {
		text = "slipway runtime uninstall prod --force --yes"
	}
	if code, shown := w.shell(t, shellCall{text: text}); code != 0 && !strings.Contains(shown, "not_found") && !strings.Contains(shown, "no runtime") {
		t.Errorf("%s: %d: %s", text, code, shown)
	}
	// No controller acts on the finalizers of Applications any more.
	w.must(t, `for app in $(kubectl -n slipway get applications.argoproj.io -o name 2>/dev/null); do kubectl -n slipway patch "$app" --type=merge -p '{"metadata": {"finalizers": null}}'; done`)
	if err := w.cluster.Client.CoreV1().Namespaces().Delete(ctx, ownNamespace, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	must.Do(t, programs.Await(ctx, func(ctx context.Context) error {
		_, err := w.cluster.Client.CoreV1().Namespaces().Get(ctx, ownNamespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the namespace %s is there: %w", ownNamespace, err)
	}))
}

// unregister ends the agent and takes leave of the platform in its place.
func (w *world) unregister(ctx context.Context) error {
	err := w.cluster.Client.AppsV1().Deployments(ownNamespace).Delete(ctx, "slipway-agent", metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = programs.Await(ctx, func(ctx context.Context) error {
			left, err := w.cluster.Client.CoreV1().Pods(ownNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=agent"})
			if err == nil && len(left.Items) > 0 {
				err = errors.New("the agent is there")
			}
			return err
		})
	}
	if err != nil {
		return err
	}
	found, err := w.cluster.Client.CoreV1().Secrets(ownNamespace).Get(ctx, join.SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // it had not joined
	}
	if err != nil {
		return err
	}
	client := w.toPlatform()
	defer client.CloseIdleConnections()
	request := connect.NewRequest(&platformv1.UnregisterRequest{})
	request.Header().Set("Authorization", "Bearer "+string(found.Data["access-token"]))
	_, err = platformv1connect.NewAgentServiceClient(client, platformURL).Unregister(ctx, request)
	if connect.CodeOf(err) == connect.CodeUnauthenticated {
		return nil // it has left
	}
	return err
}
