package appproxy_test

import (
	"strings"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/agent/appproxy"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// victim is what belongs to another owner: a ConfigMap, and a Pod that names its
// owner with the right name but another UID.
const victim = `apiVersion: v1
kind: ConfigMap
metadata: {name: theirs}
data: {value: canary-value-4711}
---
apiVersion: v1
kind: Pod
metadata:
  name: theirs
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: forged, uid: 11111111-2222-3333-4444-555555555555}]
spec:
  nodeSelector: {no-such-node: "true"}
  containers: [{name: web, image: "slipway.dev/demo:v1", env: [{name: TOKEN, value: canary-value-4711}]}]
`

// forgedApp has a status that a user with write access to Applications forged: it names
// objects that are not its own.
const forgedApp = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: forged}
spec:
  project: default
  source: {repoURL: https://git.example/shop.git, path: "."}
  destination: {namespace: NAMESPACE}
status:
  sync: {status: Synced}
  health: {status: Healthy}
  resources:
  - {version: v1, kind: ConfigMap, namespace: NAMESPACE, name: theirs, status: Synced}
  - {version: v1, kind: Pod, namespace: NAMESPACE, name: theirs, status: Synced}
  - {group: apps, version: v1, kind: ReplicaSet, namespace: NAMESPACE, name: forged, status: Synced}
  - {version: v1, kind: Namespace, name: kube-system, status: Synced}
`

// TestForgedStatus: a status that names others' objects opens nothing.
func TestForgedStatus(t *testing.T) {
	w := newWorld(t)
	w.apply(t, victim)
	w.apply(t, forgedApp)
	apps := w.apps(t)
	ref := &runtimev1.ApplicationRef{Name: "forged"}
	for _, object := range []*runtimev1.ObjectRef{
		{Kind: "ConfigMap", Namespace: w.control, Name: "theirs"},
		{Kind: "Pod", Namespace: w.control, Name: "theirs"},
		{Kind: "Namespace", Name: "kube-system"},
		{Kind: "ConfigMap", Namespace: "kube-system", Name: "kube-root-ca.crt"},
	} {
		if answer, err := apps.GetResource(t.Context(), connect.NewRequest(&runtimev1.GetResourceRequest{Ref: ref, Object: object})); err == nil {
			t.Errorf("%v was told: %v", object, answer.Msg)
		}
		if _, err := apps.ListEvents(t.Context(), connect.NewRequest(&runtimev1.ListEventsRequest{Ref: ref, Object: object})); connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("events of %v: %v", object, err)
		}
	}
	tree := must.Get(apps.GetTree(t.Context(), connect.NewRequest(&runtimev1.GetTreeRequest{Ref: ref})))(t)
	for _, node := range tree.Msg.GetNodes() {
		if node.GetRef().GetUid() != "" || len(node.GetParents()) > 0 || len(node.GetInfo()) > 0 {
			t.Errorf("the tree tells of %v", node)
		}
	}
	requireNoLogs(t, apps, ref)
	w.answers.requireNoCanary(t)
}

// requireNoLogs: there are no Pods whose logs could be read.
func requireNoLogs(t *testing.T, apps runtimev1connect.ApplicationServiceClient, ref *runtimev1.ApplicationRef) {
	t.Helper()
	stream := must.Get(apps.Logs(t.Context(), connect.NewRequest(&runtimev1.LogsRequest{Ref: ref})))(t)
	defer stream.Close()
	if stream.Receive() || connect.CodeOf(stream.Err()) != connect.CodeFailedPrecondition {
		t.Errorf("a log was read: %v, %v", stream.Msg(), stream.Err())
	}
}

// TestOtherNamespaces: Applications that are not the agent's are not there, with
// the same response whether they exist or not.
func TestOtherNamespaces(t *testing.T) {
	w := newWorld(t)
	other := w.Namespace(t)
	w.Apply(t, other, strings.ReplaceAll(forgedApp, "NAMESPACE", other))
	apps := w.appsAs(t, "admin")
	messages := map[string]bool{}
	for _, name := range []string{"forged", "nothing"} {
		ref := &runtimev1.ApplicationRef{Namespace: other, Name: name}
		_, get := apps.GetApplication(t.Context(), connect.NewRequest(&runtimev1.GetApplicationRequest{Ref: ref}))
		_, sync := apps.Sync(t.Context(), connect.NewRequest(&runtimev1.SyncRequest{Ref: ref}))
		_, gone := apps.DeleteApplication(t.Context(), connect.NewRequest(&runtimev1.DeleteApplicationRequest{Ref: ref}))
		for _, err := range []error{get, sync, gone} {
			if connect.CodeOf(err) != connect.CodeNotFound {
				t.Errorf("%s: %v", name, err)
			}
			messages[strings.ReplaceAll(err.Error(), name, "NAME")] = true
		}
	}
	if len(messages) != 1 {
		t.Errorf("whether it exists can be told from %v", messages)
	}
	everywhere := newWorld(t, func(o *appproxy.Options) { o.Namespaces = []string{"*"} })
	ref := &runtimev1.ApplicationRef{Namespace: other, Name: "forged"}
	if _, err := everywhere.apps(t).GetApplication(t.Context(), connect.NewRequest(&runtimev1.GetApplicationRequest{Ref: ref})); err != nil {
		t.Errorf("an agent of all namespaces: %v", err)
	}
}

// TestDiffStaysInTheProject: a repository cannot be used to read what the project
// of the Application does not let it touch.
func TestDiffStaysInTheProject(t *testing.T) {
	w := newWorld(t)
	w.apply(t, `apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: narrow}
spec:
  sourceRepos: ["*"]
  destinations: [{server: https://kubernetes.default.svc, namespace: NAMESPACE}]
  namespaceResourceWhitelist: [{group: '', kind: ConfigMap}, {group: 'argoproj.io', kind: '*'}]
`)
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{
		"evil.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-root-ca.crt, namespace: kube-system}\ndata: {a: b}\n",
	})
	w.apply(t, strings.ReplaceAll(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: narrow
  source: {repoURL: "REPOSITORY", path: ".", targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: NAMESPACE}
`, "REPOSITORY", repository.URL()))
	apps := w.apps(t)
	answer, err := apps.Diff(t.Context(), connect.NewRequest(&runtimev1.DiffRequest{Ref: shopRef()}))
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "project narrow") {
		t.Errorf("the difference is %v, %v", answer, err)
	}
	object := &runtimev1.ObjectRef{Kind: "ConfigMap", Namespace: "kube-system", Name: "kube-root-ca.crt"}
	if answer, err := apps.GetResource(t.Context(), connect.NewRequest(&runtimev1.GetResourceRequest{Ref: shopRef(), Object: object})); err == nil {
		t.Errorf("the object is %v", answer.Msg)
	}
	repository.Commit(t, map[string]string{"evil.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine}\n"}, "good")
	if _, err := apps.Diff(t.Context(), connect.NewRequest(&runtimev1.DiffRequest{Ref: shopRef(), Revision: repository.Head(t)})); err != nil {
		t.Errorf("what the project allows: %v", err)
	}
	// Of this project in Git, and of another one in the cluster.
	w.application(t, "victim", "https://git.example/bank.git")
	repository.Commit(t, map[string]string{"evil.yaml": `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: victim}
spec: {project: narrow, source: {repoURL: "https://git.example/x.git", path: "."}, destination: {namespace: x}}
`}, "taken over")
	answer, err = apps.Diff(t.Context(), connect.NewRequest(&runtimev1.DiffRequest{Ref: shopRef(), Revision: repository.Head(t)}))
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "another project") {
		t.Errorf("the difference with another project's Application is %v, %v", answer, err)
	}
}

// TestSyncRefusals: what cannot be asked for is refused with what to do.
func TestSyncRefusals(t *testing.T) {
	w := newWorld(t)
	w.application(t, "shop", "https://git.example/shop.git")
	apps := w.apps(t)
	for _, c := range []struct {
		request *runtimev1.SyncRequest
		code    connect.Code
		want    string
	}{
		{&runtimev1.SyncRequest{}, connect.CodeInvalidArgument, "give ref.name"},
		{&runtimev1.SyncRequest{Ref: shopRef(), Strategy: "wild"}, connect.CodeInvalidArgument, "neither hook nor apply"},
		{&runtimev1.SyncRequest{Ref: shopRef(), SyncOptions: []string{"Nonsense=1"}}, connect.CodeInvalidArgument, "Nonsense"},
		{&runtimev1.SyncRequest{Ref: shopRef(), Resources: []*runtimev1.ObjectRef{{Kind: "Pod"}}}, connect.CodeInvalidArgument, "a kind and a name"},
		{&runtimev1.SyncRequest{Ref: &runtimev1.ApplicationRef{Name: "nothing"}}, connect.CodeNotFound, "there is no Application nothing"},
	} {
		_, err := apps.Sync(t.Context(), connect.NewRequest(c.request))
		if connect.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.request, err)
		}
	}
	must.Get(apps.Sync(t.Context(), connect.NewRequest(&runtimev1.SyncRequest{Ref: shopRef(), Strategy: "apply", Force: true, Replace: true})))(t)
	app := w.await(t, "shop", func(*inspect.Application) error { return nil })
	if sync := app.Operation.Sync; sync.SyncStrategy.Apply == nil || !sync.SyncStrategy.Apply.Force || len(sync.SyncOptions) != 1 || sync.SyncOptions[0] != "Replace=true" {
		t.Errorf("what was asked for is %+v", sync)
	}
	if _, err := apps.Sync(t.Context(), connect.NewRequest(&runtimev1.SyncRequest{Ref: shopRef()})); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("a second one: %v", err)
	}
	if _, err := apps.Terminate(t.Context(), connect.NewRequest(&runtimev1.TerminateRequest{Ref: shopRef()})); err != nil {
		t.Errorf("to end what has not begun: %v", err)
	}
}

// TestWithoutClaims: the service refuses requests where no router has verified who
// asks, and no role does what is for admins.
func TestWithoutClaims(t *testing.T) {
	w := newWorld(t)
	for path, handler := range w.service.Handlers() {
		request := connectRequest(t, path+"GetInfo")
		answer := serve(handler, request)
		if answer.Code != 401 && answer.Code != 404 {
			t.Errorf("%s: got %d", path, answer.Code)
		}
	}
	runtime := runtimev1connect.NewRuntimeServiceClient(w.http(t, "operator"), w.address+"/app-proxy")
	if _, err := runtime.ConfigureAsApplication(t.Context(), connect.NewRequest(&runtimev1.ConfigureAsApplicationRequest{})); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("as a user: %v", err)
	}
	if answer, err := runtime.GetInfo(t.Context(), connect.NewRequest(&runtimev1.GetInfoRequest{})); err != nil || answer.Msg.GetName() != "prod" {
		t.Errorf("what everybody may: %v, %v", answer, err)
	}
	if _, err := w.runtime(t).ConfigureAsApplication(t.Context(), connect.NewRequest(&runtimev1.ConfigureAsApplicationRequest{})); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("as an admin, without a repository: %v", err)
	}
}
