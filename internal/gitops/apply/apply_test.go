package apply_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/must"
)

const webDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: registry.example.test/web:1
        ports: [{containerPort: 8080}]
        env: [{name: COLOR, value: blue}]
`

const settings = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: blue, size: large}
`

// One request creates, one changes, and none is needed where nothing changes.
func TestApply(t *testing.T) {
	w := enter(t)
	step := w.step(webDeployment)
	var noted [][]byte
	w.NoteTo(func(raw []byte) { noted = append(noted, raw) })
	requests := w.requests(func() {
		answer, err := w.Apply(w.context(), step, apply.Options{})
		if err != nil || answer.GetUID() == "" {
			t.Fatalf("got %v, %v", answer, err)
		}
	})
	if !slices.Equal(requests, []string{"PATCH"}) {
		t.Errorf("creating took %q", requests)
	}
	step = w.step(strings.ReplaceAll(webDeployment, "blue", "green"))
	requests = w.requests(func() {
		must.Get(w.Apply(w.context(), step, apply.Options{}))(t)
	})
	if !slices.Equal(requests, []string{"PATCH"}) {
		t.Errorf("changing took %q", requests)
	}
	again := w.step(strings.ReplaceAll(webDeployment, "blue", "green"))
	requests = w.requests(func() {
		if answer, err := w.Apply(w.context(), again, apply.Options{}); err != nil || answer.GetResourceVersion() != again.Live.GetResourceVersion() {
			t.Fatalf("got %v, %v", answer, err)
		}
	})
	if len(requests) > 0 {
		t.Errorf("changing nothing took %q", requests)
	}
	is := w.live(step.Object)
	if color := at(t, is, "spec", "template", "spec", "containers"); !strings.Contains(color, "green") {
		t.Errorf("the containers are %s", color)
	}
	if len(noted) != 2 || !bytes.Contains(noted[1], []byte("green")) {
		t.Errorf("%d answers were noted", len(noted))
	}
	for _, entry := range is.GetManagedFields() {
		if entry.Subresource == "" && (entry.Manager != apply.Manager || entry.Operation != metav1.ManagedFieldsOperationApply) {
			t.Errorf("%s owns fields by %s", entry.Manager, entry.Operation)
		}
	}
}

// What is removed in Git is removed, and what others own stays.
func TestApplyRemovesFields(t *testing.T) {
	w := enter(t)
	object := w.apply(settings)
	w.patch(object, "somebody", `{"data":{"theirs":"stays"}}`)
	answer := w.apply(strings.ReplaceAll(settings, ", size: large", ""))
	if data := at(t, answer, "data"); data != "color: blue\ntheirs: stays" {
		t.Errorf("the data is\n%s", data)
	}
}

// A manifest that was dumped from a cluster has what the API server sets.
func TestApplyDumpedManifest(t *testing.T) {
	w := enter(t)
	dumped := w.apply(settings)
	step := w.step(settings)
	step.Object = dumped
	step.Object.SetResourceVersion("1")
	step.Object.SetUID("2f5b1c1e-0000-0000-0000-000000000000")
	answer, err := w.Apply(w.context(), step, apply.Options{})
	if err != nil || at(t, answer, "data", "color") != "blue" {
		t.Errorf("got %v, %v", answer, err)
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	w := enter(t)
	for _, tt := range []struct {
		name   string
		change func(*plan.Step)
	}{
		{"apply", func(*plan.Step) {}},
		{"create", func(step *plan.Step) { step.Action = plan.CreateOnly }},
	} {
		step := w.step(settings)
		tt.change(step)
		w.NoteTo(func([]byte) { t.Error("a dry run was noted") })
		answer, err := w.Apply(w.context(), step, apply.Options{DryRun: true})
		if err != nil || at(t, answer, "data", "color") != "blue" || w.live(step.Object) != nil {
			t.Errorf("%s: got %v, %v, and live is %v", tt.name, answer, err, w.live(step.Object))
		}
	}
	w.NoteTo(func([]byte) {})
	object := w.apply(settings)
	step := &plan.Step{StepID: w.step(settings).StepID, Action: plan.Remove, Live: object}
	if err := w.Delete(w.context(), step, apply.Options{DryRun: true}); err != nil || w.live(object) == nil {
		t.Errorf("got %v, and live is %v", err, w.live(object))
	}
}

// Argo CD documents Replace=true as kubectl replace and create.
func TestReplace(t *testing.T) {
	w := enter(t)
	step := w.step(settings)
	step.Action, step.Options.Replace = plan.CreateOnly, true
	requests := w.requests(func() {
		must.Get(w.Apply(w.context(), step, apply.Options{}))(t)
	})
	if !slices.Equal(requests, []string{"POST"}) {
		t.Errorf("creating took %q", requests)
	}
	w.fails(step, apply.Conflict, "created meanwhile")
	object := w.patch(step.Object, "somebody", `{"data":{"theirs":"goes"}}`)
	step = w.step(strings.ReplaceAll(settings, "blue", "green"))
	step.Action, step.Options.Replace = plan.Replace, true
	w.patch(object, "somebody", `{"data":{"more":"goes"}}`) // the step is out of date
	requests = w.requests(func() {
		answer, err := w.Apply(w.context(), step, apply.Options{})
		if err != nil || at(t, answer, "data") != "color: green\nsize: large" {
			t.Errorf("got %s, %v", at(t, answer, "data"), err)
		}
	})
	if !slices.Equal(requests, []string{"PUT", "GET", "PUT"}) {
		t.Errorf("replacing took %q", requests)
	}
}

func TestDelete(t *testing.T) {
	w := enter(t)
	object := w.apply(settings)
	step := &plan.Step{StepID: w.step(settings).StepID, Action: plan.Remove, Live: object}
	if err := w.Delete(w.context(), step, apply.Options{}); err != nil || w.live(object) != nil {
		t.Fatalf("got %v, and live is %v", err, w.live(object))
	}
	if err := w.Delete(w.context(), step, apply.Options{}); err != nil {
		t.Errorf("what is gone: %v", err)
	}
	w.apply(settings)
	w.isFault(w.Delete(w.context(), step, apply.Options{}), apply.Conflict)
	if w.live(object) == nil {
		t.Error("another object of the same name was deleted")
	}
	if err := w.Clear(w.context(), step.Key, object.GetUID()); err != nil || w.live(object) == nil {
		t.Errorf("clearing what is gone: %v", err)
	}
}

// Argo CD puts a finalizer on the objects of hooks. No other controller removes it.
func TestClearRemovesHookFinalizer(t *testing.T) {
	w := enter(t)
	step := w.step(strings.ReplaceAll(settings, "{name: settings}", "{name: settings, finalizers: [argocd.argoproj.io/hook-finalizer]}"))
	object := must.Get(w.Apply(w.context(), step, apply.Options{}))(t)
	requests := w.requests(func() {
		must.Do(t, w.Clear(w.context(), step.Key, object.GetUID()))
	})
	if w.live(object) != nil || !slices.Equal(requests, []string{"DELETE", "PATCH"}) {
		t.Errorf("live is %v after %q", w.live(object), requests)
	}
}

// answer makes a response of the API server.
func answer(request *http.Request, code int, header, body string) *http.Response {
	response := &http.Response{StatusCode: code, Request: request, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
	if name, value, ok := strings.Cut(header, ": "); ok {
		response.Header.Set(name, value)
	}
	return response
}

// Temporary errors are retried a few times, and then returned. What happened to a create
// is not known when no response comes, so it is not sent again.
func TestRetries(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for _, tt := range []struct {
		name   string
		action plan.Action
		code   int
		header string
		err    error
		want   int
		kind   apply.ErrorKind
	}{
		{"too many requests", plan.Apply, 429, "Retry-After: 1", nil, 4, apply.Transient},
		{"unavailable", plan.Apply, 503, "", nil, 4, apply.Transient},
		{"a webhook that does not answer", plan.Apply, 500, "", nil, 4, apply.Transient},
		{"conflict", plan.Apply, 409, "", nil, 4, apply.Conflict},
		{"refused connection", plan.Apply, 0, "", refused, 4, apply.Transient},
		{"lost connection", plan.Apply, 0, "", io.ErrUnexpectedEOF, 4, apply.Transient},
		{"create, too many requests", plan.CreateOnly, 429, "", nil, 4, apply.Transient},
		{"create, lost connection", plan.CreateOnly, 0, "", io.ErrUnexpectedEOF, 1, apply.Transient},
		{"create, unavailable", plan.CreateOnly, 503, "", nil, 1, apply.Transient},
		{"invalid", plan.Apply, 422, "", nil, 1, apply.Invalid},
		{"forbidden", plan.Apply, 403, "", nil, 1, apply.Forbidden},
		{"too large", plan.Apply, 413, "", nil, 1, apply.TooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := enter(t)
			step := w.step(settings)
			step.Action = tt.action
			w.respond(func(request *http.Request) (*http.Response, error) {
				if tt.err != nil {
					return nil, tt.err
				}
				return answer(request, tt.code, tt.header, ""), nil
			})
			requests := w.requests(func() { w.fails(step, tt.kind) })
			if len(requests) != tt.want {
				t.Errorf("sent %d requests, want %d", len(requests), tt.want)
			}
		})
	}
}

// A request that goes well in the end is no error, and the end of the context
// ends the tries.
func TestRetriesEnd(t *testing.T) {
	w := enter(t)
	step := w.step(settings)
	failures := 2
	w.respond(func(request *http.Request) (*http.Response, error) {
		if failures--; failures >= 0 {
			return answer(request, 503, "", ""), nil
		}
		return nil, nil
	})
	if _, err := w.Apply(w.context(), step, apply.Options{}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.respond(func(request *http.Request) (*http.Response, error) {
		cancel()
		return nil, io.ErrUnexpectedEOF
	})
	_, err := w.Apply(ctx, step, apply.Options{})
	if w.isFault(err, apply.Transient); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// The API server decides what an account may do, and sees who asks.
func TestImpersonation(t *testing.T) {
	w := enter(t)
	w.cluster.Apply(t, w.namespace, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: tenant}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, create, patch, update, delete]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tenant}
subjects: [{kind: ServiceAccount, name: tenant, namespace: `+w.namespace+`}]
`)
	tenant, err := w.As(apply.Impersonation{Namespace: w.namespace, ServiceAccount: "tenant"})
	must.Do(t, err)
	step := w.step(settings)
	w.eventually(func() error { _, err := tenant.Apply(w.context(), step, apply.Options{}); return err })
	_, err = tenant.Apply(w.context(), w.step(webDeployment), apply.Options{})
	w.isFault(err, apply.Forbidden, "system:serviceaccount:"+w.namespace+":tenant", "deployments")
	if err := tenant.Delete(w.context(), &plan.Step{StepID: step.StepID, Action: plan.Remove, Live: w.live(step.Object)}, apply.Options{}); err != nil {
		t.Error(err)
	}
	for _, who := range []apply.Impersonation{{Namespace: w.namespace}, {Namespace: "a", ServiceAccount: "b\r\nImpersonate-Group: system:masters"}, {ServiceAccount: "x"}} {
		if _, err := w.As(who); err == nil {
			t.Errorf("%+v was accepted", who)
		}
	}
}

// eventually repeats what fails because rights are not known yet.
func (w *world) eventually(do func() error) {
	w.t.Helper()
	ctx := w.context()
	for {
		err := do()
		fault, ok := errors.AsType[*apply.Error](err)
		if err == nil {
			return
		}
		if !ok || fault.Kind != apply.Forbidden || ctx.Err() != nil {
			w.t.Fatal(err)
		}
	}
}
