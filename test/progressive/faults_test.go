package progressive

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// A revision whose Pods become ready and then end, one that accepts requests and never
// responds, and one that leaks its connections go back. A second commit, a change by hand and another number of replicas in
// the middle of a release end in the state of Git, without a failed request.
func TestFaults(t *testing.T) {
	if !isLong() {
		t.Skip("it takes minutes: make progressive")
	}
	w := newWorldWith(t, "", kubetest.Programs(map[string]string{noisyImage: buildProgram(t, "noisy")}))
	w.startAgent(t)
	w.deployed(t)
	clients, _ := w.load(t, http.MethodGet, 200)
	w.neverWithout(t, 1)
	serving := "v1"
	for _, fault := range []struct {
		name string
		revision
	}{
		{"crash", revision{container: `args: ["--exit-after=7s"]`}},
		{"crash at once", revision{container: `args: ["--exit-after=1500ms"]`}},
		// Requests wait until the edge sends them to the stable revision.
		{"hang", revision{container: `env: [{name: DELAY, value: 1m}]`}},
		// Each request fails.
		{"errors", revision{container: `env: [{name: ERRORS, value: "100"}]`}},
		// After some requests, connections are accepted by the kernel alone.
		{"leak", revision{program: noisyImage, variables: `, {name: LEAK, value: "100"}`}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			before := clients.counts()
			bad := fault.revision
			bad.image = w.good()
			w.rollsBack(t, clients, bad, 0.002)
			clients.settle(t)
			served := clients.counts().since(before)
			t.Logf("%d of %d requests failed from the commit to the hold", served.failed, served.requests)
			if served.failed*500 > served.requests {
				t.Errorf("%d of %d requests failed", served.failed, served.requests)
			}
		})
	}
	t.Run("second commit", func(t *testing.T) {
		before := clients.counts()
		w.push(t, revision{image: w.good()})
		w.share(t, 10)
		serving = w.good()
		w.promoted(t, clients, w.push(t, revision{image: serving}), serving, before)
	})
	t.Run("by hand", func(t *testing.T) {
		before := clients.counts()
		serving = w.good()
		commit := w.push(t, revision{image: serving})
		w.share(t, 10)
		patch := `{"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "slipway.dev/demo:v99"}]}}}}`
		must.Get(w.deployments().Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
		w.promoted(t, clients, commit, serving, before)
	})
	t.Run("replicas", func(t *testing.T) {
		before := clients.counts()
		serving = w.good()
		commit := w.push(t, revision{image: serving})
		w.share(t, 10)
		w.scale(t, 4)
		w.share(t, 50)
		w.scale(t, 3)
		w.promoted(t, clients, commit, serving, before)
		programs.Eventually(t, func(ctx context.Context) error {
			if ready, err := w.ready(ctx, serving); ready != 3 {
				return fmt.Errorf("%d Pods are ready: %w", ready, err)
			}
			return nil
		})
	})
}

// neverWithout fails the test if the Deployment ever has fewer ready Pods.
func (w *world) neverWithout(t *testing.T, least int32) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	programs.Background(t, func() {
		for ctx.Err() == nil {
			found, err := w.deployments().Get(ctx, "web", metav1.GetOptions{})
			if err == nil && found.Status.ReadyReplicas < least {
				t.Errorf("%d Pods are ready", found.Status.ReadyReplicas)
			}
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}, stop)
}
