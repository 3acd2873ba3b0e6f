package appproxy_test

import (
	"strings"
	"testing"

	"connectrpc.com/connect"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/agent/appproxy"
	"slipway.dev/slipway/internal/gitops/customization"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/jq"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// idle is a Deployment without Pods and a CronJob that never runs by itself.
const idle = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "slipway.dev/demo:v1"}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  suspend: true
  schedule: "0 0 * * *"
  jobTemplate: {spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: a, image: "slipway.dev/demo:v1"}]}}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: green}
`

// runAction runs an action of an object of the Application shop.
func runAction(t *testing.T, apps runtimev1connect.ApplicationServiceClient, object *runtimev1.ObjectRef, name string, parameters map[string]string) ([]*runtimev1.ObjectRef, error) {
	t.Helper()
	response, err := apps.RunAction(t.Context(), connect.NewRequest(&runtimev1.RunActionRequest{Ref: shopRef(), Object: object, Action: name, Parameters: parameters}))
	if err != nil {
		return nil, err
	}
	return response.Msg.GetObjects(), nil
}

// paintActions are actions of settings for ConfigMaps. The last ones do what an
// action may not do.
const paintActions = `
discovery.lua: 'return {paint = {params = {{name = "colour"}}}, escape = {}}'
definitions:
- name: paint
  action.lua: 'obj.data.colour = actionParams.colour return obj'
- name: escape
  action.lua: |
    local copy = {apiVersion = "v1", kind = "ConfigMap", metadata = {name = "escaped", namespace = obj.data.target}}
    return {{operation = "patch", resource = obj}, {operation = "create", resource = copy}}
- name: swap
  action.lua: 'obj.metadata.name = "other" return obj'
`

// newActionWorld is a world with the Application shop, which its project limits to
// a namespace of its own. It is synced.
func newActionWorld(t *testing.T) (w *world, home string) {
	t.Helper()
	w = newWorld(t, func(o *appproxy.Options) {
		o.Settings = func() *customization.Settings {
			return customization.Read(map[string]string{"resource.customizations.actions.ConfigMap": paintActions}, jq.New())
		}
	})
	home = w.Namespace(t)
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{"all.yaml": idle})
	w.apply(t, strings.NewReplacer("HOME", home, "ADDRESS", repository.URL()).Replace(`apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: team}
spec:
  sourceRepos: ["*"]
  destinations: [{server: https://kubernetes.default.svc, namespace: HOME}]
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: team
  source: {repoURL: ADDRESS, path: ".", targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: HOME}
`))
	w.startAgent(t)
	w.synced(t, w.apps(t), &runtimev1.SyncRequest{Ref: shopRef()})
	return w, home
}

// TestActionRights: an action needs its own right, and the list shows which the
// user has.
func TestActionRights(t *testing.T) {
	w, home := newActionWorld(t)
	deployment := &runtimev1.ObjectRef{Group: "apps", Kind: "Deployment", Namespace: home, Name: "web"}
	limited := w.appsWith(t, wire.RuntimeClaims{Role: permission.RoleRestricted, Policy: wire.PolicyExcerpt{
		Text: "p,ada@example.com,applications,get,team/*,allow\np,ada@example.com,applications,action/apps/Deployment/restart,team/*,allow\n",
	}})
	listed := must.Get(limited.ListActions(t.Context(), connect.NewRequest(&runtimev1.ListActionsRequest{Ref: shopRef(), Object: deployment})))(t)
	text := ""
	for _, one := range listed.Msg.GetActions() {
		text += one.GetName() + flag(one.GetDisabled(), " disabled") + flag(one.GetAllowed(), " allowed") + " " + strings.Join(one.GetParameters(), ",") + ";"
	}
	if want := "pause ;restart allowed ;resume disabled ;scale replicas;"; text != want {
		t.Errorf("the actions are %s, want %s", text, want)
	}
	if _, err := runAction(t, limited, deployment, "restart", nil); err != nil {
		t.Errorf("the action that is allowed: %v", err)
	}
	_, err := runAction(t, limited, deployment, "scale", map[string]string{"replicas": "1"})
	if connect.CodeOf(err) != connect.CodePermissionDenied || !strings.Contains(err.Error(), "action/apps/Deployment/scale") {
		t.Errorf("another action: %v", err)
	}
	if _, err := runAction(t, w.appsAs(t, permission.RoleViewer), deployment, "restart", nil); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("as a viewer: %v", err)
	}
}

// TestActions: Argo CD's actions change objects and create others.
func TestActions(t *testing.T) {
	w, home := newActionWorld(t)
	apps, deployment := w.apps(t), &runtimev1.ObjectRef{Group: "apps", Kind: "Deployment", Namespace: home, Name: "web"}
	must.Get(runAction(t, apps, deployment, "restart", nil))(t)
	must.Get(runAction(t, apps, deployment, "scale", map[string]string{"replicas": "1"}))(t)
	live := must.Get(w.Client.AppsV1().Deployments(home).Get(t.Context(), "web", metav1.GetOptions{}))(t)
	if *live.Spec.Replicas != 1 || live.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" {
		t.Errorf("the Deployment has %d replicas and the annotations %v", *live.Spec.Replicas, live.Spec.Template.Annotations)
	}
	_, err := runAction(t, apps, deployment, "scale", map[string]string{"replicas": "many"})
	if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "invalid number: many") {
		t.Errorf("a parameter that is no number: %v", err)
	}
	created := must.Get(runAction(t, apps, &runtimev1.ObjectRef{Group: "batch", Kind: "CronJob", Namespace: home, Name: "nightly"}, "create-job", nil))(t)
	if len(created) != 1 || created[0].GetKind() != "Job" {
		t.Fatalf("it created %v", created)
	}
	must.Get(w.Client.BatchV1().Jobs(home).Get(t.Context(), created[0].GetName(), metav1.GetOptions{}))(t)
	for _, name := range []string{"explode", "../restart", ""} {
		if _, err := runAction(t, apps, deployment, name, nil); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("the action %q: %v", name, err)
		}
	}
}

// TestActionsOfSettings: actions of settings run within the limits of the project,
// which decides about each object; nothing is half done.
func TestActionsOfSettings(t *testing.T) {
	w, home := newActionWorld(t)
	apps, settings := w.apps(t), &runtimev1.ObjectRef{Kind: "ConfigMap", Namespace: home, Name: "settings"}
	configMaps := w.Client.CoreV1().ConfigMaps(home)
	must.Get(runAction(t, apps, settings, "paint", map[string]string{"colour": "blue"}))(t)
	if live := must.Get(configMaps.Get(t.Context(), "settings", metav1.GetOptions{}))(t); live.Data["colour"] != "blue" {
		t.Errorf("it is %v", live.Data)
	}
	if _, err := runAction(t, apps, settings, "swap", nil); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("a change of another object: %v", err)
	}
	w.Apply(t, home, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {target: "+w.control+"}\n")
	if _, err := runAction(t, apps, settings, "escape", nil); connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "team") {
		t.Errorf("an object outside of the project: %v", err)
	}
	if _, err := w.Client.CoreV1().ConfigMaps(w.control).Get(t.Context(), "escaped", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it was created outside of the project: %v", err)
	}
	w.Apply(t, home, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {target: "+home+"}\n")
	must.Get(runAction(t, apps, settings, "escape", nil))(t)
	must.Get(configMaps.Get(t.Context(), "escaped", metav1.GetOptions{}))(t)
}

// flag is a word if a condition is true.
func flag(is bool, word string) string {
	if is {
		return word
	}
	return ""
}
