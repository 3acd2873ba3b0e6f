package release_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/gatewayapi"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

// shown is a plan in lines.
func shown(plan *release.Plan) string {
	var text strings.Builder
	for _, change := range plan.Changes {
		line := string(change.Action) + " " + change.ID.String()
		if change.Passing {
			line += " passing"
		}
		text.WriteString(line + "\n")
	}
	return text.String()
}

// TestLife: R49, R53, R111, R113: a plan changes nothing; an installation makes what
// the plan has, in a release that Helm knows; an upgrade shows what changes; an
// uninstall leaves nothing but what its report names.
func TestLife(t *testing.T) {
	w := newWorld(t, "slipway")
	ctx := t.Context()
	before := w.everything(t)
	spec := release.Spec{Chart: ownChart(t), Values: alone(), Secrets: []release.Secret{{Name: "slipway-user-token", Data: map[string]secret.Text{"token": secret.New("canary")}}}}
	plan, err := w.client.Plan(ctx, spec)
	must.Do(t, err)
	for _, line := range []string{
		"create Namespace slipway\n", "create CustomResourceDefinition applications.argoproj.io\n", "create Secret slipway/slipway-user-token\n",
		"create Deployment slipway/slipway-agent\n", "create ClusterRole slipway:slipway:agent", "create IngressClass slipway\n",
	} {
		if !strings.Contains(shown(plan), line) {
			t.Errorf("%q is missing in the plan:\n%s", line, shown(plan))
		}
	}
	if after := w.everything(t); len(after) != len(before) {
		t.Errorf("planning has changed the cluster: %d objects, %d before", len(after), len(before))
	}
	w.cluster.MakePodsReady(t, w.place.Namespace, nil)
	asked := 0
	must.Do(t, w.client.Apply(ctx, plan, release.WaitOptions{Timeout: wait, Healthy: func(context.Context) error {
		if asked++; asked == 1 {
			return errors.New("the runtime is not online yet")
		}
		return nil
	}}))
	if told := w.told(); !strings.Contains(told, "Deployment slipway-agent: 1 of 1 available") || !strings.Contains(told, "the runtime is not online yet") {
		t.Errorf("told:\n%s", told)
	}
	w.requireRelease(t, 1, "deployed")
	t.Run("again", w.testAgain)
	t.Run("definitions", w.testDefinitions)
	t.Run("upgrade", w.testUpgrade)
	t.Run("uninstall", func(t *testing.T) { w.testUninstall(t, before) })
}

// requireRelease looks at the Secret that helm list reads.
func (w *world) requireRelease(t *testing.T, revision int, status string) {
	t.Helper()
	state, err := w.client.Current(t.Context())
	must.Do(t, err)
	if state == nil || state.Revision != revision || state.Status != status {
		t.Fatalf("the release is %+v, not revision %d and %s", state, revision, status)
	}
	found, err := w.cluster.Client.CoreV1().Secrets(w.place.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm,name=" + w.place.Release})
	must.Do(t, err)
	if len(found.Items) == 0 || found.Items[0].Type != "helm.sh/release.v1" {
		t.Errorf("helm list would not show it: %v", found.Items)
	}
}

// Nothing changes when nothing is new, and another release does not take its objects.
func (w *world) testAgain(t *testing.T) {
	plan, err := w.client.Plan(t.Context(), release.Spec{Chart: ownChart(t), Values: alone()})
	must.Do(t, err)
	if !plan.Empty() || plan.Install() {
		t.Errorf("the plan is not empty:\n%s", shown(plan))
	}
	other := openWorld(t, w.cluster, w.place.Namespace)
	other.place.Release = "other"
	client, err := release.Open(w.cluster.Cluster, other.place, nil)
	must.Do(t, err)
	if _, err := client.Plan(t.Context(), release.Spec{Chart: ownChart(t), Values: alone()}); err == nil || !strings.Contains(err.Error(), "slipway-runtime") {
		t.Errorf("another release takes the objects: %v", err)
	}
}

// R22, R23: definitions with the marks of the release are changed with an upgrade, and
// those of others stay as they are.
func (w *world) testDefinitions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gitops-runtime")
	must.Do(t, os.CopyFS(dir, os.DirFS("../../../charts/gitops-runtime")))
	file := filepath.Join(dir, "crds", "slipway.dev_middlewares.yaml")
	text, err := os.ReadFile(file)
	must.Do(t, err)
	changed := strings.Replace(string(text), "singular: middleware\n", "singular: middleware\n    shortNames: [mw]\n", 1)
	must.Do(t, os.WriteFile(file, []byte(changed), 0o600))
	chart, err := release.FindChart(t.Context(), release.Source{Place: dir})
	must.Do(t, err)
	plan, err := w.client.Plan(t.Context(), release.Spec{Chart: chart, Values: alone()})
	must.Do(t, err)
	if got := shown(plan); got != "change CustomResourceDefinition middlewares.slipway.dev\n" {
		t.Errorf("the plan is\n%s", got)
	}
	resource := kube.DefinitionResource()
	_, err = w.cluster.Dynamic.Resource(resource).Patch(t.Context(), "middlewares.slipway.dev", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"meta.helm.sh/release-name":"other"}}}`), metav1.PatchOptions{})
	must.Do(t, err)
	plan, err = w.client.Plan(t.Context(), release.Spec{Chart: chart, Values: alone()})
	must.Do(t, err)
	if !plan.Empty() || !strings.Contains(strings.Join(plan.Remarks, "\n"), "middlewares.slipway.dev") {
		t.Errorf("a definition of another release: %v\n%s", plan.Remarks, shown(plan))
	}
}

// R110, R111: what an upgrade changes, and that it is rolled back to the revision
// before when it is not healthy in time, with the reason.
func (w *world) testUpgrade(t *testing.T) {
	values := alone()
	values["agent"] = map[string]any{"podLabels": map[string]any{"tier": "first"}}
	plan, err := w.client.Plan(t.Context(), release.Spec{Chart: ownChart(t), Values: values})
	must.Do(t, err)
	if got := shown(plan); got != "change Deployment slipway/slipway-agent\n" {
		t.Errorf("the plan is\n%s", got)
	}
	must.Do(t, w.client.Apply(t.Context(), plan, release.WaitOptions{Timeout: wait}))
	w.requireRelease(t, 2, "deployed")

	values["agent"] = map[string]any{"podLabels": map[string]any{"tier": "second"}}
	values["edge"] = map[string]any{"enabled": false}
	plan, err = w.client.Plan(t.Context(), release.Spec{Chart: ownChart(t), Values: values})
	must.Do(t, err)
	if got := shown(plan); !strings.Contains(got, "delete Deployment slipway/slipway-edge\n") {
		t.Errorf("the plan is\n%s", got)
	}
	err = w.client.Apply(t.Context(), plan, release.WaitOptions{Timeout: soon, Healthy: func(context.Context) error { return errors.New("the runtime is offline") }})
	failed := (*release.FailedError)(nil)
	if !errors.As(err, &failed) || failed.Problem != nil || !strings.Contains(err.Error(), "the runtime is offline") || !strings.Contains(err.Error(), "rolled back to revision 2") {
		t.Fatalf("the upgrade ended with %v", err)
	}
	w.requireRelease(t, 4, "deployed")
	found, err := w.cluster.Client.AppsV1().Deployments("slipway").Get(t.Context(), "slipway-agent", metav1.GetOptions{})
	must.Do(t, err)
	if tier := found.Spec.Template.Labels["tier"]; tier != "first" {
		t.Errorf("after the rollback the agent has the label %q", tier)
	}
	if _, err := w.cluster.Client.AppsV1().Deployments("slipway").Get(t.Context(), "slipway-edge", metav1.GetOptions{}); err != nil {
		t.Errorf("after the rollback the edge is away: %v", err)
	}
	state, err := w.client.Current(t.Context())
	must.Do(t, err)
	if _, has := state.Values["agent"]; !has {
		t.Errorf("after the rollback the values are %v", state.Values)
	}
}

// Everything that is left is in the report, with a command, and nothing else is left.
func (w *world) testUninstall(t *testing.T, before map[string]bool) {
	ctx := t.Context()
	w.cluster.Apply(t, "slipway", leftBehind)
	removed, err := w.client.Remove(ctx, wait)
	must.Do(t, err)
	if !removed.Found || len(removed.Definitions) != 14 {
		t.Errorf("removed: %+v", removed)
	}
	left, err := w.client.Leftovers(ctx, removed.Definitions)
	must.Do(t, err)
	named := map[string]release.Leftover{}
	for _, one := range left {
		named[one.Kind+" "+one.Namespace+"/"+one.Name] = one
		if one.Command == "" || one.Why == "" {
			t.Errorf("%+v has no command or no reason", one)
		}
	}
	for name := range w.everything(t) {
		// The one of another release is not ours to report.
		if name == "CustomResourceDefinition /middlewares.slipway.dev" {
			continue
		}
		if _, told := named[name]; !told && !before[name] && !ofNamespace(name) {
			t.Errorf("%s is left, and the report does not name it", name)
		}
	}
	for _, name := range []string{"Application slipway/shop", "PersistentVolumeClaim slipway/data", "CustomResourceDefinition /applications.argoproj.io", "Namespace /slipway", "ValidatingWebhookConfiguration /to-the-runtime"} {
		if _, told := named[name]; !told {
			t.Errorf("the report does not name %s: %v", name, named)
		}
	}
	if shop := named["Application slipway/shop"]; !strings.Contains(shop.Command, `"finalizers":null`) {
		t.Errorf("the Application with a finalizer: %+v", shop)
	}
	if _, told := named["Secret slipway/slipway-user-token"]; told {
		t.Error("the Secret that was made with the release is left")
	}
}

// ofNamespace are objects that every namespace has.
func ofNamespace(name string) bool {
	return slices.Contains([]string{"ConfigMap slipway/kube-root-ca.crt", "ServiceAccount slipway/default"}, name)
}

const leftBehind = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop, finalizers: [resources-finalizer.argocd.argoproj.io]}
spec:
  project: default
  source: {repoURL: "https://git.example/shop.git", path: .}
  destination: {server: "https://kubernetes.default.svc", namespace: shop}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: to-the-runtime}
webhooks:
  - name: check.slipway.dev
    sideEffects: None
    admissionReviewVersions: [v1]
    failurePolicy: Ignore
    clientConfig: {service: {name: internal-router, namespace: slipway}}
    rules: [{apiGroups: [never.example], apiVersions: [v1], operations: [CREATE], resources: [nothing]}]
`

// TestTakenBack: an installation that is not healthy in time is taken back, with the
// reason from the Pods; nothing is left but the definitions.
func TestTakenBack(t *testing.T) {
	w := newWorld(t, "fresh")
	before := w.everything(t)
	plan, err := w.client.Plan(t.Context(), release.Spec{Chart: ownChart(t), Values: alone(), Secrets: []release.Secret{{Name: "slipway-user-token", Data: map[string]secret.Text{"token": secret.New("canary")}}}})
	must.Do(t, err)
	err = w.client.Apply(t.Context(), plan, release.WaitOptions{Timeout: soon})
	failed := (*release.FailedError)(nil)
	if !errors.As(err, &failed) || failed.Problem != nil {
		t.Fatalf("the installation ended with %v", err)
	}
	for _, part := range []string{"not healthy within 30s", "Deployment slipway-agent: 0 of 1 available", "cannot be scheduled: no nodes available", "was rolled back"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in %v", part, err)
		}
	}
	w.awaitGone(t, "fresh")
	t.Run("interrupted", func(t *testing.T) { testInterrupted(t, openWorld(t, w.cluster, "second")) })
	for name := range w.everything(t) {
		if !before[name] && !strings.HasPrefix(name, "CustomResourceDefinition ") {
			t.Errorf("%s is left", name)
		}
	}
}

// Who is interrupted leaves nothing half done; who wants to look keeps it.
func testInterrupted(t *testing.T, w *world) {
	spec := release.Spec{Chart: ownChart(t), Values: alone()}
	plan, err := w.client.Plan(t.Context(), spec)
	must.Do(t, err)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	go func() {
		defer interrupt()
		w.eventually(t, func(context.Context) bool { return strings.Contains(w.told(), "Deployment slipway-agent: 0 of 1") })
	}()
	err = w.client.Apply(ctx, plan, release.WaitOptions{Timeout: wait})
	if err == nil || !strings.Contains(err.Error(), "interrupted while it waited") || !strings.Contains(err.Error(), "was rolled back") {
		t.Fatalf("the installation ended with %v", err)
	}
	w.awaitGone(t, "second")
	plan, err = w.client.Plan(t.Context(), spec)
	must.Do(t, err)
	err = w.client.Apply(t.Context(), plan, release.WaitOptions{Timeout: soon, Keep: true})
	if err == nil || !strings.Contains(err.Error(), "it is left as it is") {
		t.Fatalf("the installation ended with %v", err)
	}
	w.requireRelease(t, 1, "failed")
	if _, err := w.client.Plan(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "no revision of it was ever in order") {
		t.Errorf("a failed release is planned over: %v", err)
	}
	_, err = w.client.Remove(t.Context(), wait)
	must.Do(t, err)
	namespaces := w.cluster.Client.CoreV1().Namespaces()
	_, err = namespaces.Patch(t.Context(), "second", types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/held"]}}`), metav1.PatchOptions{})
	must.Do(t, err)
	must.Do(t, namespaces.Delete(t.Context(), "second", metav1.DeleteOptions{}))
	if _, err := w.client.Plan(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "the namespace second is being deleted") {
		t.Errorf("a namespace that goes is planned for: %v", err)
	}
	_, err = namespaces.Patch(t.Context(), "second", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	must.Do(t, err)
	w.awaitGone(t, "second")
}

func (w *world) awaitGone(t *testing.T, namespace string) {
	t.Helper()
	w.eventually(t, func(ctx context.Context) bool {
		_, err := w.cluster.Client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// TestHook: R42: the Job that checks the values is waited for with the reason, and a
// failure takes everything back, the Secret with the values too.
func TestHook(t *testing.T) {
	w := newWorld(t, "hooked")
	_, err := w.cluster.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hooked"}}, metav1.CreateOptions{})
	must.Do(t, err)
	values := alone()
	delete(values, "installer")
	plan, err := w.client.Plan(t.Context(), release.Spec{Chart: ownChart(t), Values: values})
	must.Do(t, err)
	if !strings.Contains(shown(plan), "create Job hooked/validate-values passing\n") {
		t.Errorf("the plan is\n%s", shown(plan))
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	go func() {
		defer interrupt()
		w.eventually(t, func(context.Context) bool { return strings.Contains(w.told(), "cannot be scheduled") })
	}()
	err = w.client.Apply(ctx, plan, release.WaitOptions{Timeout: wait})
	if err == nil || !strings.Contains(err.Error(), "Job validate-values: waits: Pod validate-values-") || !strings.Contains(err.Error(), "cannot be scheduled") {
		t.Fatalf("the installation ended with %v", err)
	}
	if told := w.told(); !strings.Contains(told, "Job validate-values: waits: Pod validate-values-") {
		t.Errorf("told:\n%s", told)
	}
	left, err := w.cluster.Client.CoreV1().Secrets("hooked").List(t.Context(), metav1.ListOptions{})
	must.Do(t, err)
	for _, one := range left.Items {
		t.Errorf("the Secret %s is left", one.Name)
	}
	if state, err := w.client.Current(t.Context()); err != nil || state != nil {
		t.Errorf("the release is %+v, %v", state, err)
	}
}

// TestGatewayDefinitions: a runtime that serves Gateway API brings the definitions that
// are missing, also before the API server knows a GatewayClass; upgrades older ones of
// its own, and leaves newer ones and those of others as they are.
func TestGatewayDefinitions(t *testing.T) {
	w := newWorld(t, "slipway")
	spec := release.Spec{Chart: ownChart(t), Values: alone()}
	spec.Values["edge"] = map[string]any{"replicas": float64(1), "gatewayAPI": map[string]any{"enabled": true}}
	definitions := w.cluster.Dynamic.Resource(kube.DefinitionResource())
	annotate := func(name, annotations string) {
		t.Helper()
		patch := `{"metadata": {"annotations": {` + annotations + `}}, "spec": {"names": {"categories": ["other"]}}}`
		must.Get(definitions.Patch(t.Context(), name+".gateway.networking.k8s.io", types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
	}
	// The definition of UDPRoutes is that of another owner.
	for _, d := range must.Get(gatewayapi.Definitions())(t) {
		if strings.HasPrefix(d.Name, "udproutes.") {
			w.cluster.Apply(t, "", string(d.Text))
		}
	}
	annotate("udproutes", `"gateway.networking.k8s.io/bundle-version": "v1.5.0"`)
	plan := must.Get(w.client.Plan(t.Context(), spec))(t)
	made := shown(plan)
	if !strings.Contains(made, "create CustomResourceDefinition gateways.gateway.networking.k8s.io\n") || strings.Contains(made, "udproutes") ||
		!strings.Contains(made, "create GatewayClass slipway\n") || !strings.Contains(strings.Join(plan.Remarks, " "), "udproutes.gateway.networking.k8s.io") {
		t.Errorf("the plan is\n%s\n%s", made, plan.Remarks)
	}
	w.cluster.MakePodsReady(t, w.place.Namespace, nil)
	must.Do(t, w.client.Apply(t.Context(), plan, release.WaitOptions{Timeout: wait}))
	plan = must.Get(w.client.Plan(t.Context(), spec))(t)
	if !plan.Empty() {
		t.Errorf("the plan after the installation is\n%s", shown(plan))
	}
	annotate("tcproutes", `"gateway.networking.k8s.io/bundle-version": "v1.6.2"`)
	annotate("tlsroutes", `"gateway.networking.k8s.io/bundle-version": "v1.7.0"`)
	annotate("gateways", `"gateway.networking.k8s.io/bundle-version": "v1.6.2", "gateway.networking.k8s.io/channel": "experimental"`)
	plan = must.Get(w.client.Plan(t.Context(), spec))(t)
	if got := shown(plan); got != "change CustomResourceDefinition tcproutes.gateway.networking.k8s.io\n" {
		t.Errorf("the plan of an upgrade is\n%s", got)
	}
	spec.Values["edge"] = map[string]any{"replicas": float64(1)}
	if got := shown(must.Get(w.client.Plan(t.Context(), spec))(t)); strings.Contains(got, "CustomResourceDefinition") {
		t.Errorf("without Gateway API the plan is\n%s", got)
	}
	removed := must.Get(w.client.Remove(t.Context(), wait))(t)
	if !removed.Found {
		t.Error("the release is not removed")
	}
	must.Get(definitions.Get(t.Context(), "httproutes.gateway.networking.k8s.io", metav1.GetOptions{}))(t)
}
