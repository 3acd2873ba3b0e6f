package crds_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	argo "slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/install/crds"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// world is a cluster with definitions of Argo CD and Rollouts. Definitions have no
// namespace, so that the tests take turns.
type world struct {
	t testing.TB
	*kubetest.Cluster
	options crds.Options
}

const minimal = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.argoproj.io}
spec:
  group: argoproj.io
  scope: Namespaced
  names: {kind: %[2]s, listKind: %[2]sList, plural: %[1]s, singular: %[3]s}
  versions:
    - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
`

func newWorld(t testing.TB) *world { return worldOf(t, kubetest.Shared(t)) }

func worldOf(t testing.TB, cluster *kubetest.Cluster) *world {
	t.Helper()
	text, err := argo.CRDs()
	must.Do(t, err)
	manifests := string(text) + "\n---\n" + fmt.Sprintf(minimal, "rollouts", "Rollout", "rollout") + fmt.Sprintf(minimal, "experiments", "Experiment", "experiment")
	w := &world{t: t, Cluster: cluster, options: crds.Options{
		Cluster: cluster.Cluster, Release: crds.Place{Name: "slipway-runtime", Namespace: cluster.Namespace(t)},
	}}
	for _, made := range cluster.Apply(t, "default", manifests) {
		name := made.GetName()
		t.Cleanup(func() {
			_, err := w.definitions().Patch(context.Background(), name, types.MergePatchType, []byte(`{"metadata":{"labels":null,"annotations":null}}`), metav1.PatchOptions{})
			if err != nil {
				t.Error(err)
			}
		})
	}
	return w
}

// mark merges labels and annotations into a definition.
func (w *world) mark(name string, labels, annotations map[string]string) {
	w.t.Helper()
	metadata := map[string]any{}
	if labels != nil { // a null would take all of them away
		metadata["labels"] = labels
	}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	body, _ := json.Marshal(map[string]any{"metadata": metadata})
	if _, err := w.definitions().Patch(w.t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// helm marks a definition as that of a release, which is there or not.
func (w *world) helm(name string, release crds.Place, live bool) {
	w.t.Helper()
	w.mark(name, map[string]string{"app.kubernetes.io/managed-by": "Helm"},
		map[string]string{"meta.helm.sh/release-name": release.Name, "meta.helm.sh/release-namespace": release.Namespace})
	if !live {
		return
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: "sh.helm.release.v1." + release.Name + ".v1", Labels: map[string]string{"owner": "helm", "name": release.Name, "status": "deployed"},
	}, Type: "helm.sh/release.v1"}
	if _, err := w.Client.CoreV1().Secrets(release.Namespace).Create(w.t.Context(), secret, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// marks are the labels and annotations of all definitions of the test.
func (w *world) marks() map[string]string {
	w.t.Helper()
	list, err := w.definitions().List(w.t.Context(), metav1.ListOptions{})
	must.Do(w.t, err)
	made := map[string]string{}
	for _, one := range list.Items {
		text, _ := json.Marshal([]any{one.Labels, one.Annotations})
		made[one.Name] = string(text)
	}
	return made
}

func (w *world) generations() map[string]int64 {
	w.t.Helper()
	list, err := w.definitions().List(w.t.Context(), metav1.ListOptions{})
	must.Do(w.t, err)
	made := map[string]int64{}
	for _, one := range list.Items {
		made[one.Name] = one.Generation
	}
	return made
}

func (w *world) plan() map[string]crds.Entry {
	w.t.Helper()
	entries, err := crds.Plan(w.t.Context(), w.options)
	must.Do(w.t, err)
	made := map[string]crds.Entry{}
	for _, entry := range entries {
		made[entry.Name] = entry
	}
	return made
}

func (w *world) adopt() error {
	entries, err := crds.Plan(w.t.Context(), w.options)
	if err != nil {
		return err
	}
	return crds.Apply(w.t.Context(), w.options, entries, nil)
}

func (w *world) release() error {
	entries, err := crds.PlanRelease(w.t.Context(), w.options)
	if err != nil {
		return err
	}
	return crds.Apply(w.t.Context(), w.options, entries, nil)
}

// TestOwners: whose a definition is, and what adopting would do, for every owner.
func TestOwners(t *testing.T) {
	w := newWorld(t)
	other := w.Namespace(t)
	w.options.Only = []crds.Family{crds.ArgoCD, crds.Rollouts}
	w.helm("applications.argoproj.io", crds.Place{Name: "argo-cd", Namespace: other}, true)
	w.helm("appprojects.argoproj.io", crds.Place{Name: "former", Namespace: other}, false)
	w.mark("applicationsets.argoproj.io", nil, map[string]string{"argocd.argoproj.io/tracking-id": "platform:apiextensions.k8s.io/CustomResourceDefinition:argocd/applicationsets.argoproj.io"})
	w.helm("experiments.argoproj.io", w.options.Release, false)
	plan := w.plan()
	for name, want := range map[string]string{
		"applications.argoproj.io":    "refuse it is managed by Helm release " + other + "/argo-cd: ",
		"appprojects.argoproj.io":     "adopt taken from Helm release " + other + "/former, which is gone",
		"applicationsets.argoproj.io": "refuse it is managed by Argo CD (platform): ",
		"experiments.argoproj.io":     "keep it belongs to the release already",
		"rollouts.argoproj.io":        "adopt it has no owner",
		"analysisruns.argoproj.io":    "absent it is not in the cluster",
	} {
		if got := string(plan[name].Action) + " " + plan[name].Why; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if plan["applications.argoproj.io"].Differs || !plan["applications.argoproj.io"].Brought {
		t.Errorf("it is the very definition of the chart: %+v", plan["applications.argoproj.io"])
	}
	before := w.marks()
	if err := w.adopt(); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("adopted what others manage: %v", err)
	}
	if !maps.Equal(before, w.marks()) {
		t.Error("something was changed")
	}
}

// TestAdopt: R22, R23: adopting sets the label and both annotations of R23 and
// nothing else, releasing makes everything as it was, also from a live release that
// was forced, and both can be repeated.
func TestAdopt(t *testing.T) {
	w := newWorld(t)
	other := crds.Place{Name: "argo-cd", Namespace: w.Namespace(t)}
	w.helm("applications.argoproj.io", other, true)
	w.mark("appprojects.argoproj.io", map[string]string{"app.kubernetes.io/managed-by": "somebody", "team": "a"}, map[string]string{"note": "keep"})
	before, generations := w.marks(), w.generations()
	w.options.Force = true
	for range 2 {
		must.Do(t, w.adopt())
	}
	for _, name := range []string{"applications", "appprojects", "applicationsets"} {
		one, err := w.definitions().Get(t.Context(), name+".argoproj.io", metav1.GetOptions{})
		must.Do(t, err)
		if one.Labels["app.kubernetes.io/managed-by"] != "Helm" || one.Annotations["meta.helm.sh/release-name"] != "slipway-runtime" ||
			one.Annotations["meta.helm.sh/release-namespace"] != w.options.Release.Namespace || one.Generation != generations[one.Name] {
			t.Errorf("%s: %v %v, generation %d", name, one.Labels, one.Annotations, one.Generation)
		}
	}
	w.options.Force = false
	for range 2 {
		must.Do(t, w.release())
	}
	for name, want := range before {
		if got := w.marks()[name]; got != want {
			t.Errorf("%s: %s, and before it was %s", name, got, want)
		}
	}
}

// TestOnly: R26: --only rollouts touches the definitions of Rollouts and no others,
// although all are in one group.
func TestOnly(t *testing.T) {
	w := newWorld(t)
	before := w.marks()
	w.options.Only = []crds.Family{crds.Rollouts}
	must.Do(t, w.adopt())
	for name, marks := range w.marks() {
		rollouts := name == "rollouts.argoproj.io" || name == "experiments.argoproj.io"
		if changed := marks != before[name]; changed != rollouts {
			t.Errorf("%s: changed %t", name, changed)
		}
	}
}

// TestReleaseRefuses: what another release marked after it was adopted, or what was adopted
// for another release, stays as it is.
func TestReleaseRefuses(t *testing.T) {
	w := newWorld(t)
	must.Do(t, w.adopt())
	adopted := w.marks()
	w.options.Release.Name = "another"
	if err := w.release(); err != nil || !maps.Equal(adopted, w.marks()) {
		t.Errorf("released for another release: %v", err)
	}
	w.options.Release.Name = "slipway-runtime"
	w.mark("applications.argoproj.io", nil, map[string]string{"meta.helm.sh/release-name": "newer"})
	if err := w.release(); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("released what somebody else has by now: %v", err)
	}
	w.options.Force = true
	if err := w.release(); err != nil {
		t.Error(err)
	}
}

// TestChangedMeanwhile: a definition that changed after it was looked at is not
// written.
func TestChangedMeanwhile(t *testing.T) {
	w := newWorld(t)
	entries, err := crds.Plan(t.Context(), w.options)
	must.Do(t, err)
	w.mark("applications.argoproj.io", map[string]string{"team": "b"}, nil)
	if err := crds.Apply(t.Context(), w.options, entries, nil); err == nil || !strings.Contains(err.Error(), "run the command again") {
		t.Errorf("%v", err)
	}
}

// TestUpgrade: R24: definitions of the release become those of the chart, missing
// ones are made, and those of others stay.
func TestUpgrade(t *testing.T) {
	w := worldOf(t, kubetest.Start(t, kubetest.WithoutNode()))
	if missing := w.plan()["middlewares.slipway.dev"]; missing.Action != crds.Absent || missing.Why != "it is not in the cluster: the chart makes it" {
		t.Errorf("%+v", missing)
	}
	cut := `{"spec":{"names":{"shortNames":["old"]}}}`
	for _, name := range []string{"applications.argoproj.io", "appprojects.argoproj.io"} {
		if _, err := w.Dynamic.Resource(kube.DefinitionResource()).Patch(t.Context(), name, types.MergePatchType, []byte(cut), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// Argo CD's definition of Applications has no status subresource.
	definitions := w.Dynamic.Resource(kube.DefinitionResource())
	_, err := definitions.Patch(t.Context(), "applications.argoproj.io", types.JSONPatchType, []byte(`[{"op": "remove", "path": "/spec/versions/0/subresources"}]`), metav1.PatchOptions{})
	must.Do(t, err)
	w.helm("applications.argoproj.io", w.options.Release, false)
	var changed []string
	must.Do(t, crds.Upgrade(t.Context(), w.options, func(name string) { changed = append(changed, name) }))
	if got, want := strings.Join(changed, " "), "applications.argoproj.io backendtransports.slipway.dev environments.slipway.dev middlewares.slipway.dev products.codefresh.io promotionflows.codefresh.io promotionpolicies.codefresh.io promotions.slipway.dev promotiontemplates.codefresh.io releasepolicies.slipway.dev releases.slipway.dev tlsoptions.slipway.dev"; got != want {
		t.Errorf("upgraded %s, want %s", got, want)
	}
	upgraded, err := definitions.Get(t.Context(), "applications.argoproj.io", metav1.GetOptions{})
	must.Do(t, err)
	if versions, _, _ := unstructured.NestedSlice(upgraded.Object, "spec", "versions"); versions[0].(map[string]any)["subresources"] != nil {
		t.Error("Argo CD can no longer write the status of its Applications")
	}
	plan := w.plan()
	if plan["applications.argoproj.io"].Differs || !plan["appprojects.argoproj.io"].Differs || plan["middlewares.slipway.dev"].Action != crds.Keep {
		t.Errorf("%+v", plan)
	}
}

// TestUpgradeGatewayAPI: its definitions are created where they are missing, and replaced
// where they belong to the release and are older; never downgraded.
func TestUpgradeGatewayAPI(t *testing.T) {
	w := worldOf(t, kubetest.Start(t, kubetest.WithoutNode()))
	w.options.Only = []crds.Family{crds.GatewayAPI}
	if missing := w.plan()["gateways.gateway.networking.k8s.io"]; missing.Action != crds.Absent || !strings.Contains(missing.Why, "slipway crds upgrade --only gateway") {
		t.Errorf("%+v", missing)
	}
	upgrade := func() string {
		t.Helper()
		var changed []string
		must.Do(t, crds.Upgrade(t.Context(), w.options, func(name string) {
			changed = append(changed, strings.TrimSuffix(name, ".gateway.networking.k8s.io"))
		}))
		return strings.Join(changed, " ")
	}
	const all = "backendtlspolicies gatewayclasses gateways grpcroutes httproutes listenersets referencegrants tcproutes tlsroutes udproutes"
	if got := upgrade(); got != all {
		t.Errorf("created %s", got)
	}
	if got := upgrade(); got != "" {
		t.Errorf("upgraded %s", got)
	}
	change := func(name, version, channel, release string) {
		t.Helper()
		patch := fmt.Sprintf(`{"spec": {"names": {"categories": ["x%s"]}}, "metadata": {"annotations": {"gateway.networking.k8s.io/bundle-version": %q,
			"gateway.networking.k8s.io/channel": %q, "meta.helm.sh/release-name": %q}}}`, name, version, channel, release)
		must.Get(w.Dynamic.Resource(kube.DefinitionResource()).Patch(t.Context(), name+".gateway.networking.k8s.io", types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
	}
	change("gateways", "v1.5.1", "standard", "slipway-runtime")
	change("httproutes", "v1.7.0", "standard", "slipway-runtime")
	change("tcproutes", "v1.5.1", "experimental", "slipway-runtime")
	change("udproutes", "v1.5.1", "standard", "other")
	if got := upgrade(); got != "gateways" {
		t.Errorf("upgraded %s", got)
	}
	plan := w.plan()
	if plan["gateways.gateway.networking.k8s.io"].Differs || !plan["httproutes.gateway.networking.k8s.io"].Differs {
		t.Errorf("%+v", plan)
	}
}

// TestUpgradeRollouts: definitions of Rollouts and of analysis that are missing are created,
// and one that Argo Rollouts has left stays as it is.
func TestUpgradeRollouts(t *testing.T) {
	w := worldOf(t, kubetest.Start(t, kubetest.WithoutNode()))
	w.options.Only = []crds.Family{crds.Rollouts}
	plan := w.plan()
	if missing := plan["analysisruns.argoproj.io"]; missing.Action != crds.Absent || !strings.Contains(missing.Why, "slipway crds upgrade --only rollouts") {
		t.Errorf("%+v", missing)
	}
	before := plan["rollouts.argoproj.io"]
	for _, want := range []string{"analysisruns analysistemplates clusteranalysistemplates", ""} {
		var changed []string
		must.Do(t, crds.Upgrade(t.Context(), w.options, func(name string) { changed = append(changed, strings.TrimSuffix(name, ".argoproj.io")) }))
		if got := strings.Join(changed, " "); got != want {
			t.Errorf("created %q, want %q", got, want)
		}
	}
	if after := w.plan()["rollouts.argoproj.io"]; !before.Found || after.Differs != before.Differs || !after.Differs {
		t.Errorf("%+v became %+v", before, after)
	}
}

// FuzzRecord: no annotation makes the reader panic.
func FuzzRecord(f *testing.F) {
	f.Add(`{"managedBy":null,"releaseName":"a","releaseNamespace":"b","for":{"name":"c","namespace":"d"}}`)
	f.Add("{")
	f.Fuzz(func(t *testing.T, text string) {
		if err := crds.ReadsRecord(text); err == nil && !json.Valid([]byte(text)) {
			t.Errorf("%q was read", text)
		}
	})
}

func (w *world) definitions() metadata.ResourceInterface {
	return w.Metadata.Resource(kube.DefinitionResource())
}
