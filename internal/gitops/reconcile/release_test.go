package reconcile_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/reconcile"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/release"
)

// releaseWorld is a world with a Deployment that is released. Its Pods run; the
// counts of the edges and the judge are the test's.
type releaseWorld struct {
	*world
	repository *gittest.Repository
	// requests of the canary grow with each look while traffic is set.
	served  atomic.Int64
	traffic atomic.Bool
	bad     atomic.Bool
}

// Judge fails while the canary is bad.
func (w *releaseWorld) Judge(time.Time, reconcile.ReleaseTraffic) release.Judgement {
	if w.bad.Load() {
		return release.Judgement{Outcome: slipway.DecisionFail, Reason: "ErrorRate", Message: "4.1 % errors against 0.1 %"}
	}
	return release.Judgement{Outcome: slipway.DecisionPass, Reason: "NotWorse", Message: "no more errors"}
}

// State is nothing.
func (w *releaseWorld) State() []byte { return nil }

// releasedDeployment is the manifest of a version. Two of three fields of its strategy
// are those that a release overlays.
func releasedDeployment(version, annotation string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations: {slipway.dev/release: %q}
spec:
  replicas: 2
  minReadySeconds: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: web, image: "slipway.dev/demo:%s"}]
`, annotation, version)
}

const quickPolicy = `apiVersion: slipway.dev/v1alpha1
kind: ReleasePolicy
metadata: {name: quick}
spec:
  steps: [{weight: 20, requests: 3}, {weight: 60, requests: 3}]
`

// newReleaseWorld has version v1 deployed.
func newReleaseWorld(t *testing.T, policy string) *releaseWorld {
	t.Helper()
	w := &releaseWorld{world: newWorld(t)}
	w.cluster.Define(t, string(must.Get(slipway.CRDs())(t)))
	w.traffic.Store(true)
	w.options.Releases = &reconcile.Releases{
		Traffic: func(_, _, _, _ string) (reconcile.ReleaseTraffic, bool) {
			traffic := reconcile.ReleaseTraffic{Canary: reconcile.RevisionTraffic{Requests: w.served.Add(2)}}
			return traffic, w.traffic.Load()
		},
		NewJudge: func(slipway.ReleaseGuards, []byte) reconcile.ReleaseJudge { return w },
	}
	w.repository = w.repositoryOf(policy)
	w.start()
	w.application("web", w.repository, "web", `{automated: {selfHeal: true}}`)
	w.synced("web", w.repository.Head(t))
	w.serves("v1")
	return w
}

func (w *releaseWorld) repositoryOf(policy string) *gittest.Repository {
	return w.world.repository("shop", map[string]string{"web/policy.yaml": quickPolicy, "web/web.yaml": releasedDeployment("v1", policy), "web/settings.yaml": configMap("settings", "v1")})
}

// push commits a version, with a ConfigMap that belongs to it.
func (w *releaseWorld) push(version, policy string) string {
	w.t.Helper()
	commit := w.repository.Commit(w.t, map[string]string{"web/web.yaml": releasedDeployment(version, policy), "web/settings.yaml": configMap("settings", version)}, version)
	w.refresh("web")
	return commit
}

func (w *releaseWorld) deployments() dynamic.ResourceInterface {
	return w.cluster.Dynamic.Resource(appsv1.SchemeGroupVersion.WithResource("deployments")).Namespace(w.target)
}

// serves waits until the Deployment has Pods of one version only, and is as in
// Git.
func (w *releaseWorld) serves(version string) {
	w.t.Helper()
	kubetest.WaitFor(w.t, w.deployments(), kube.Named("web"), patience, func(found []*unstructured.Unstructured) error {
		if len(found) == 0 {
			return errors.New("there is no Deployment")
		}
		text := fmt.Sprint(found[0].Object["spec"])
		updated, _, _ := unstructured.NestedInt64(found[0].Object, "status", "updatedReplicas")
		available, _, _ := unstructured.NestedInt64(found[0].Object, "status", "availableReplicas")
		all, _, _ := unstructured.NestedInt64(found[0].Object, "status", "replicas")
		observed, _, _ := unstructured.NestedInt64(found[0].Object, "status", "observedGeneration")
		switch {
		case !strings.Contains(text, "demo:"+version) || strings.Contains(text, "2592000") || found[0].GetAnnotations()["slipway.dev/release-stable"] != "":
			return fmt.Errorf("its spec is %s with %v", text, found[0].GetAnnotations())
		case observed < found[0].GetGeneration() || updated != 2 || available != 2 || all != 2:
			return fmt.Errorf("%d of %d Pods are updated, %d are available", updated, all, available)
		}
		return nil
	})
}

// release waits for a Release.
func (w *releaseWorld) release(holds func(*unstructured.Unstructured) error) {
	w.t.Helper()
	client := w.cluster.Dynamic.Resource(schema.GroupVersionResource{Group: slipway.Group, Version: slipway.Version, Resource: slipway.ResourceRelease}).Namespace(w.target)
	kubetest.WaitFor(w.t, client, kube.Named("web"), patience, func(found []*unstructured.Unstructured) error {
		if len(found) == 0 {
			return errors.New("there is no Release")
		}
		return holds(found[0])
	})
}

// phase waits until the Release is in a phase.
func (w *releaseWorld) phase(want string) {
	w.t.Helper()
	w.release(func(object *unstructured.Unstructured) error {
		if phase, _, _ := unstructured.NestedString(object.Object, "status", "phase"); phase != want {
			return fmt.Errorf("its status is %v", object.Object["status"])
		}
		return nil
	})
}

// weight waits until the canary has a share.
func (w *releaseWorld) weight(want int64) {
	w.t.Helper()
	w.release(func(object *unstructured.Unstructured) error {
		revisions, _, _ := unstructured.NestedSlice(object.Object, "spec", "revisions")
		if weight, _ := revisions[1].(map[string]any)["weight"].(int64); weight != want {
			return fmt.Errorf("the shares are %v, the status %v", revisions, object.Object["status"])
		}
		return nil
	})
}

// stable are the Pods of a version that are ready now.
func (w *releaseWorld) ready(version string) int32 {
	w.t.Helper()
	sets := must.Get(w.cluster.Client.AppsV1().ReplicaSets(w.target).List(w.t.Context(), metav1.ListOptions{}))(w.t)
	var ready int32
	for i := range sets.Items {
		if sets.Items[i].Spec.Template.Spec.Containers[0].Image == "slipway.dev/demo:"+version {
			ready += sets.Items[i].Status.ReadyReplicas
		}
	}
	return ready
}

// A new version runs beside the old one, gets its share, and is promoted. The
// Application is Synced meanwhile, and its health names what is waited for.
func TestReleaseIsPromoted(t *testing.T) {
	w := newReleaseWorld(t, "off")
	w.traffic.Store(false)
	// The policy comes with the version that it is for.
	w.repository.Commit(t, map[string]string{"web/later.yaml": strings.Replace(quickPolicy, "quick", "later", 1)}, "a policy")
	second := w.push("v2", "later")
	w.weight(20)
	w.wait("web", func(app *v1alpha1.Application) error {
		if app.Status.Sync.Status != v1alpha1.SyncSynced || app.Status.Sync.Revision != second || app.Status.Health.Status != v1alpha1.Progressing {
			return fmt.Errorf("it is %s at %s", summaryOf(app), app.Status.Sync.Revision)
		}
		for _, one := range app.Status.Resources {
			if one.Kind == "Deployment" && !strings.Contains(one.Health.Message, "canary 20 %, waiting for counts") {
				return fmt.Errorf("the health of the Deployment is %+v", one.Health)
			}
		}
		return nil
	})
	if old, young := w.ready("v1"), w.ready("v2"); old != 2 || young != 1 {
		t.Errorf("%d old and %d new Pods run at 20 %%", old, young)
	}
	w.traffic.Store(true)
	w.serves("v2")
	w.phase(slipway.ReleaseSucceeded)
	w.synced("web", second)

	// A change beside the template, and a change in the cluster, are plain.
	third := w.repository.Commit(t, map[string]string{"web/web.yaml": strings.Replace(releasedDeployment("v2", "quick"), "  name: web\n", "  name: web\n  labels: {tier: front}\n", 1)}, "label")
	w.refresh("web")
	w.synced("web", third)
	w.serves("v2")
}

// A version that the judge fails goes back: no share at once, then the whole
// Application is held at the revision before. The next commit goes on.
func TestReleaseIsRolledBack(t *testing.T) {
	for _, policy := range []string{`{automated: {selfHeal: true}}`, `{}`} {
		w := newReleaseWorld(t, "quick")
		if policy == `{}` {
			w.patch("web", `{"spec": {"syncPolicy": null}}`)
		}
		first := w.repository.Head(t)
		w.traffic.Store(false)
		second := w.push("v2", "quick")
		if policy == `{}` {
			w.outOfSync("web")
			w.patch("web", `{"operation": {"sync": {}}}`)
		}
		w.weight(20)
		w.bad.Store(true)
		w.traffic.Store(true)
		w.weight(0)
		w.serves("v1")
		w.value("settings", "v1")
		app := w.condition("web", v1alpha1.ConditionHeldRevisionWarning, fmt.Sprintf("main is at %s; %s serves; the release of web failed: 4.1 %% errors against 0.1 %%", second[:7], first[:7]))
		if app.Status.Held.Reason != v1alpha1.HeldByRelease {
			t.Errorf("it is held by %s", app.Status.Held.Reason)
		}
		w.phase(slipway.ReleaseRolledBack)
		w.synced("web", first)
		w.bad.Store(false)
		third := w.push("v3", "quick")
		if policy == `{}` {
			w.outOfSync("web")
			w.patch("web", `{"operation": {"sync": {}}}`)
		}
		w.serves("v3")
		w.free("web", third)
	}
}

// A second commit becomes the canary; the stable revision stays.
func TestReleaseOfASecondCommit(t *testing.T) {
	w := newReleaseWorld(t, "quick")
	w.traffic.Store(false)
	w.push("v2", "quick")
	w.weight(20)
	third := w.push("v3", "quick")
	w.eventually("v3 is the canary", func() error {
		if old, middle, young := w.ready("v1"), w.ready("v2"), w.ready("v3"); old != 2 || middle != 0 || young != 1 {
			return fmt.Errorf("there are %d, %d and %d Pods", old, middle, young)
		}
		return nil
	})
	w.weight(20)
	w.traffic.Store(true)
	w.serves("v3")
	w.synced("web", third)
}

// Blue-green: all Pods run before the first request, and a user decides.
func TestReleaseBlueGreen(t *testing.T) {
	w := newReleaseWorld(t, "blue-green")
	w.push("v2", "blue-green")
	w.phase(slipway.ReleasePaused)
	w.weight(0)
	if old, young := w.ready("v1"), w.ready("v2"); old != 2 || young != 2 {
		t.Errorf("%d old and %d new Pods run at the pause", old, young)
	}
	client := w.cluster.Dynamic.Resource(schema.GroupVersionResource{Group: slipway.Group, Version: slipway.Version, Resource: slipway.ResourceRelease}).Namespace(w.target)
	kubetest.Patch(t, client, "web", `{"metadata": {"annotations": {"release.slipway.dev/requested": "promote/1"}}}`)
	w.serves("v2")
}

// The agent ends at a write of a release, in the middle of both ways: the next one
// brings it to the same end, and the stable revision is never without its Pods. The
// long form has every write, the short one two that differ from run to run.
func TestReleaseSurvivesTheEndOfTheAgent(t *testing.T) {
	w := newReleaseWorld(t, "quick")
	stride := 10
	if os.Getenv("RESILIENCE") == "long" {
		stride = 1
	}
	serving, number := "v1", 1
	for write := 1 + int(programs.Setting(t, "RESILIENCE_SEED", time.Now().UnixNano())%int64(stride)); ; write += stride {
		number++
		version, isBad := fmt.Sprintf("v%d", number), number%2 == 0
		w.bad.Store(isBad)
		var writes atomic.Int64
		reached := make(chan struct{})
		w.meet(func(request *http.Request) error {
			isWrite := request.Method != http.MethodGet && !strings.Contains(request.URL.Path, "/events") && request.URL.Query().Get("dryRun") == ""
			if !isWrite {
				return nil
			}
			switch n := int(writes.Add(1)); {
			case n < write:
				return nil
			case n == write:
				close(reached)
			}
			return errors.New("the agent has ended")
		})
		commit := w.push(version, "quick")
		expected := version
		if isBad {
			expected = serving
		}
		isDone := make(chan struct{})
		go func() {
			defer close(isDone)
			w.ends(commit, isBad)
		}()
		isKilled := false
		select {
		case <-reached:
			isKilled = true
			w.engine.Stop()
			w.requests.Handle(nil)
			if old := w.ready(serving); old < 2 && w.ready(version) < 2 {
				t.Errorf("write %d: %d old and %d new Pods", write, old, w.ready(version))
			}
			w.start()
			<-isDone
		case <-isDone:
			w.requests.Handle(nil)
		}
		w.serves(expected)
		serving = expected
		t.Logf("ended at write %d of %s: %t", write, version, isKilled)
		if t.Failed() || !isKilled {
			return
		}
	}
}

// ends waits for the end of a release: Synced at the commit, or held.
func (w *releaseWorld) ends(commit string, isBad bool) {
	w.wait("web", func(app *v1alpha1.Application) error {
		held := app.Status.Held != nil && len(app.Status.Held.Target) == 1 && app.Status.Held.Target[0] == commit
		switch {
		case app.Status.Sync.Status != v1alpha1.SyncSynced || app.Status.Health.Status != v1alpha1.Healthy:
			return fmt.Errorf("it is %s", summaryOf(app))
		case isBad && !held, !isBad && app.Status.Sync.Revision != commit:
			return fmt.Errorf("it is at %s with %+v", app.Status.Sync.Revision, app.Status.Held)
		}
		return nil
	})
}
