package appproxy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// shopFiles is an application: a Deployment that the node runs, a ConfigMap, and a
// Secret with the canary, in a manifest with a copy of itself.
func shopFiles(value, secretValue string) map[string]string {
	return map[string]string{
		"web.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "slipway.dev/demo:v1", ports: [{containerPort: 8080}]}
`,
		"settings.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {value: %q}\n", value),
		"key.yaml": fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata:
  name: key
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"stringData":{"password":%q}}'}
stringData: {password: %q, user: admin-canary-value-4711}
`, secretValue, secretValue),
	}
}

// synced asks for a sync through the API, and waits for its end.
func (w *world) synced(t *testing.T, apps runtimev1connect.ApplicationServiceClient, request *runtimev1.SyncRequest) *inspect.Application {
	t.Helper()
	answer := must.Get(apps.Sync(t.Context(), connect.NewRequest(request)))(t)
	mark := v1alpha1.Info{Name: inspect.RequestInfo, Value: answer.Msg.GetRequestId()}
	return w.await(t, request.GetRef().GetName(), func(app *inspect.Application) error {
		state := app.Status.OperationState
		if found := inspect.ProgressOf(app, mark, inspect.LastBegan(app)); found.State == nil || !found.State.Phase.Completed() {
			return fmt.Errorf("the operation is %+v", state)
		}
		if state.Phase != v1alpha1.OperationSucceeded {
			return fmt.Errorf("the sync is %s: %s", state.Phase, state.Message)
		}
		return nil
	})
}

func shopRef() *runtimev1.ApplicationRef { return &runtimev1.ApplicationRef{Name: "shop"} }

// TestLifeOfAnApplication: through the API an application is synced, looked at,
// compared, and rolled back, and the requester is recorded. No response has the value of
// a Secret.
func TestLifeOfAnApplication(t *testing.T) {
	w := newWorld(t)
	repository := gittest.Serve(t).Repository(t, "shop", shopFiles("1", canary))
	first := repository.Head(t)
	w.startAgent(t)
	w.application(t, "shop", repository.URL())
	apps := w.apps(t)
	app := w.synced(t, apps, &runtimev1.SyncRequest{Ref: shopRef()})
	if by := app.Status.OperationState.Operation.InitiatedBy; by.Username != "ada@example.com" || by.Automated {
		t.Errorf("the sync was asked for by %+v", by)
	}
	w.WaitForRollout(t, w.control, "web", patience)
	w.requireTree(t, apps)
	w.requireResource(t, apps)

	repository.Commit(t, shopFiles("2", canary+"-next"), "a new password")
	w.requireDiff(t, apps, repository.Head(t))
	w.synced(t, apps, &runtimev1.SyncRequest{Ref: shopRef()})
	w.requireHistory(t, apps, repository.Head(t))

	answer, err := apps.Rollback(t.Context(), connect.NewRequest(&runtimev1.RollbackRequest{Ref: shopRef()}))
	if err != nil || answer.Msg.GetRevision() != first {
		t.Fatalf("the rollback goes to %v, %v; the first commit is %s", answer, err, first)
	}
	w.await(t, "shop", func(app *inspect.Application) error {
		if history := app.Status.History; len(history) < 3 || history[len(history)-1].Revision != first {
			return fmt.Errorf("the history is %+v", history)
		}
		if app.Operation != nil {
			return errors.New("the request of the rollback is still there")
		}
		return nil
	})
	if _, err := apps.Terminate(t.Context(), connect.NewRequest(&runtimev1.TerminateRequest{Ref: shopRef()})); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("terminate without an operation: %v", err)
	}
	w.answers.requireNoCanary(t)
}

// requireTree: the tree goes down to the Pods, by UID.
func (w *world) requireTree(t *testing.T, apps runtimev1connect.ApplicationServiceClient) {
	t.Helper()
	answer := must.Get(apps.GetTree(t.Context(), connect.NewRequest(&runtimev1.GetTreeRequest{Ref: shopRef()})))(t)
	byUID := map[string]*runtimev1.Node{}
	for _, node := range answer.Msg.GetNodes() {
		if node.GetRef().GetUid() == "" {
			t.Errorf("%s has no UID", node.GetRef())
		}
		byUID[node.GetRef().GetUid()] = node
	}
	pods := 0
	for _, node := range answer.Msg.GetNodes() {
		if node.GetRef().GetKind() != "Pod" {
			continue
		}
		pods++
		set := byUID[node.GetParents()[0]]
		if set.GetRef().GetKind() != "ReplicaSet" || byUID[set.GetParents()[0]].GetRef().GetName() != "web" {
			t.Errorf("a Pod belongs to %v", set)
		}
		if node.GetInfo()["images"] != "slipway.dev/demo:v1" || node.GetInfo()["ready"] != "1/1" {
			t.Errorf("of a Pod is told %v", node.GetInfo())
		}
	}
	if pods != 2 || len(answer.Msg.GetNodes()) != 6 {
		t.Errorf("the tree is %s", protojson.Format(answer.Msg))
	}
}

// requireResource: the response has an object as live and as desired, a Secret without
// its values, and equal values look alike.
func (w *world) requireResource(t *testing.T, apps runtimev1connect.ApplicationServiceClient) {
	t.Helper()
	get := func(kind, name string) *runtimev1.GetResourceResponse {
		answer := must.Get(apps.GetResource(t.Context(), connect.NewRequest(&runtimev1.GetResourceRequest{
			Ref: shopRef(), Object: &runtimev1.ObjectRef{Kind: kind, Namespace: w.control, Name: name},
		})))(t)
		return answer.Msg
	}
	settings := get("ConfigMap", "settings")
	if !strings.Contains(string(settings.GetLive()), `"value":"1"`) || !strings.Contains(string(settings.GetDesired()), `"value":"1"`) {
		t.Errorf("the ConfigMap is %s", protojson.Format(settings))
	}
	key := get("Secret", "key")
	var live, desired struct {
		Data     map[string]string
		Metadata struct{ Annotations map[string]string }
	}
	for text, into := range map[string]any{string(key.GetLive()): &live, string(key.GetDesired()): &desired} {
		must.Do(t, json.Unmarshal([]byte(text), into))
	}
	for _, state := range []map[string]string{live.Data, desired.Data} {
		if len(state) != 2 || state["password"] != "[redacted]" || state["user"] != "[redacted]" {
			t.Errorf("a Secret has %v", state)
		}
	}
}

// requireDiff: a diff has the keys of a Secret that change, without their values.
func (w *world) requireDiff(t *testing.T, apps runtimev1connect.ApplicationServiceClient, revision string) {
	t.Helper()
	answer := must.Get(apps.Diff(t.Context(), connect.NewRequest(&runtimev1.DiffRequest{Ref: shopRef(), Revision: revision})))(t)
	actions := map[string]string{}
	for _, object := range answer.Msg.GetObjects() {
		actions[object.GetRef().GetKind()] = object.GetAction()
		if object.GetRef().GetKind() == "Secret" &&
			(!strings.Contains(object.GetText(), "+  password: '[redacted] (another value)'") || strings.Contains(object.GetText(), "+  user")) {
			t.Errorf("the difference of the Secret is\n%s", object.GetText())
		}
		if object.GetRef().GetKind() == "ConfigMap" && !strings.Contains(object.GetText(), "+  value: \"2\"") {
			t.Errorf("the difference of the ConfigMap is\n%s", object.GetText())
		}
	}
	if answer.Msg.GetRevision() != revision || len(actions) != 3 ||
		actions["Secret"] != "change" || actions["ConfigMap"] != "change" || actions["Deployment"] != "same" {
		t.Errorf("at %s there is %v", answer.Msg.GetRevision(), actions)
	}
}

// requireHistory: the history has the syncs with their commits, and ListEvents has the events of
// an object.
func (w *world) requireHistory(t *testing.T, apps runtimev1connect.ApplicationServiceClient, revision string) {
	t.Helper()
	answer, err := apps.GetHistory(t.Context(), connect.NewRequest(&runtimev1.GetHistoryRequest{Ref: shopRef()}))
	if err != nil || len(answer.Msg.GetEntries()) != 2 {
		t.Fatalf("the history is %v, %v", answer, err)
	}
	last := answer.Msg.GetEntries()[1]
	if last.GetRevision() != revision || last.GetInitiatedBy() != "ada@example.com" || last.GetCommitMessage() != "a new password" || last.GetCommitAuthor() == "" {
		t.Errorf("the last sync is %v", last)
	}
	events, err := apps.ListEvents(t.Context(), connect.NewRequest(&runtimev1.ListEventsRequest{
		Ref: shopRef(), Object: &runtimev1.ObjectRef{Group: "apps", Kind: "Deployment", Namespace: w.control, Name: "web"},
	}))
	if err != nil || len(events.Msg.GetEvents()) == 0 || events.Msg.GetEvents()[0].GetReason() != "ScalingReplicaSet" {
		t.Errorf("the events of the Deployment are %v, %v", events, err)
	}
}

// TestListAndDelete: those of the agent's namespaces, by label and project; and
// deleting with and without the resources.
func TestListAndDelete(t *testing.T) {
	w := newWorld(t)
	w.application(t, "shop", "https://git.example/shop.git")
	w.apply(t, strings.ReplaceAll(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: other, finalizers: [resources-finalizer.argocd.argoproj.io]}
spec:
  project: team
  source: {repoURL: "https://user:secret@git.example/shop.git", path: "."}
  destination: {namespace: NAMESPACE}
`, "secret", canary))
	apps := w.apps(t)
	for _, c := range []struct {
		request *runtimev1.ListApplicationsRequest
		want    string
	}{
		{&runtimev1.ListApplicationsRequest{}, "other shop"},
		{&runtimev1.ListApplicationsRequest{Selector: "team=shop"}, "shop"},
		{&runtimev1.ListApplicationsRequest{Project: "team"}, "other"},
		{&runtimev1.ListApplicationsRequest{Selector: "team=none"}, ""},
	} {
		answer, err := apps.ListApplications(t.Context(), connect.NewRequest(c.request))
		var names []string
		for _, app := range answer.Msg.GetApplications() {
			names = append(names, app.GetRef().GetName())
		}
		if err != nil || strings.Join(names, " ") != c.want {
			t.Errorf("%v: got %v, %v", c.request, names, err)
		}
	}
	_, err := apps.ListApplications(t.Context(), connect.NewRequest(&runtimev1.ListApplicationsRequest{Selector: "=="}))
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("a bad selector: %v", err)
	}
	remove := func(name string, cascade bool) {
		ref := &runtimev1.ApplicationRef{Name: name}
		must.Get(w.appsAs(t, "admin").DeleteApplication(t.Context(), connect.NewRequest(&runtimev1.DeleteApplicationRequest{Ref: ref, Cascade: cascade})))(t)
	}
	remove("other", false) // the finalizer goes, so nothing waits for an agent
	if _, err := apps.GetApplication(t.Context(), connect.NewRequest(&runtimev1.GetApplicationRequest{Ref: &runtimev1.ApplicationRef{Name: "other"}})); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("after the end: %v", err)
	}
	remove("shop", true)
	w.await(t, "shop", func(app *inspect.Application) error {
		if app.DeletionTimestamp == nil || len(app.Finalizers) != 1 {
			return fmt.Errorf("it waits for %v", app.Finalizers)
		}
		return nil
	})
	w.answers.requireNoCanary(t)
}
