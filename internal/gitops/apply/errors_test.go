package apply_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/plan"
)

// The error for what the API server does not accept has the field and what to do.
func TestRefusals(t *testing.T) {
	w := enter(t)
	for _, tt := range []struct {
		name, manifest string
		kind           apply.ErrorKind
		parts          []string
	}{
		{"a field that a kind does not have", strings.ReplaceAll(webDeployment, "replicas:", "replicaz:"), apply.Invalid, []string{"replicaz"}},
		{"a field of the wrong type", strings.ReplaceAll(webDeployment, "replicas: 0", "replicas: many"), apply.Invalid, []string{"replicas"}},
		{"a value that is not permitted", strings.ReplaceAll(webDeployment, "containerPort: 8080", "containerPort: 99999"), apply.Invalid, []string{"containerPort"}},
		{"a kind that is not there", "apiVersion: example.test/v1\nkind: Nothing\nmetadata: {name: a}", apply.NotFound, []string{"install its CustomResourceDefinition"}},
		{"a version that is not there", "apiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: a}", apply.NotFound, []string{"use v1"}},
		{"a name that is a path", strings.ReplaceAll(settings, "name: settings", "name: ../../kube-system/configmaps/x"), apply.Invalid, []string{"is no name"}},
		{"an object that is too large", strings.ReplaceAll(settings, "blue", strings.Repeat("x", 4<<20)), apply.TooLarge, []string{"1.5 MB"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.t = t
			step := &plan.Step{Action: plan.Apply, Object: w.object(tt.manifest)}
			if strings.Contains(tt.manifest, "../") {
				step.Object.SetNamespace(w.namespace)
			}
			w.fails(step, tt.kind, tt.parts...)
		})
	}
	w.t = t
	escaped := &plan.Step{Action: plan.Apply, Object: w.object("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: escaped}")}
	escaped.Object.SetNamespace(w.namespace)
	w.fails(escaped, apply.Invalid, "its kind has no namespaces")
	elsewhere := &plan.Step{Action: plan.Apply, Object: w.object(settings)}
	elsewhere.Object.SetNamespace("does-not-exist")
	w.fails(elsewhere, apply.NotFound, "the namespace does-not-exist does not exist", "CreateNamespace=true")
}

// Argo CD documents Validate=false as kubectl apply --validate=false: fields that
// a kind does not have are dropped, and the rest is applied. Without the option
// they are an error, when the object is applied and when it is compared.
func TestSkipValidation(t *testing.T) {
	w := enter(t)
	w.defineWidgets()
	unvalidated := func(*unstructured.Unstructured) bool { return true }
	const widget = "apiVersion: predict.example.test/v1\nkind: Widget\nmetadata: {name: typo}\nspec: {sice: 1, size: 3, ports: [{port: 80, nam: x}]}\n"
	typo := strings.NewReplacer("replicas: 0", "replicaz: 1\n  replicas: 0", "image:", "imagePolicy: {a: [1]}\n        image:").Replace(webDeployment)
	for _, tt := range []struct{ name, manifest, field, kept string }{
		{"deployment", typo, "replicaz", "replicas"},
		{"custom", widget, "sice", "size"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.t = t
			step := w.step(tt.manifest)
			w.fails(step, apply.Invalid, tt.field)
			step.Options.SkipValidation = true
			is, err := w.Apply(w.context(), step, apply.Options{})
			if err != nil {
				t.Fatalf("without validation: %v", err)
			}
			spec, _, _ := unstructured.NestedMap(is.Object, "spec")
			if _, has := spec[tt.field]; has || spec[tt.kept] == nil {
				t.Errorf("the object is %v, want it without %s and with %s", spec, tt.field, tt.kept)
			}
			live := w.live(step.Object)
			if state, err := plan.Compare(step.Object, live, nil, w.Predict(w.context(), unvalidated)); state != plan.Synced || err != nil {
				t.Errorf("without validation it is %s, %v", state, err)
			}
			state, err := plan.Compare(step.Object, live, nil, w.Predict(w.context(), nil))
			if state != plan.OutOfSync || err == nil || !strings.Contains(err.Error(), tt.field) {
				t.Errorf("with validation it is %s, %v, want an error that names %s", state, err, tt.field)
			}
		})
	}
	w.t = t
	created := w.step(strings.ReplaceAll(typo, "{name: web}", "{name: created}"))
	created.Action, created.Options.SkipValidation = plan.CreateOnly, true
	if _, err := w.Apply(w.context(), created, apply.Options{}); err != nil {
		t.Errorf("create: %v", err)
	}
	wrong := w.step(strings.ReplaceAll(webDeployment, "replicas: 0", "replicas: many"))
	wrong.Options.SkipValidation = true
	w.fails(wrong, apply.Invalid, "replicas")
}

// immutable are changes that the API server does not permit, in the words of
// each kind.
var immutable = []struct {
	name, before string
	change       [2]string
	field        string
}{
	{"selector of a Deployment", webDeployment, [2]string{"{app: web}", "{app: other}"}, "spec.selector"},
	{"template of a Job", `
apiVersion: batch/v1
kind: Job
metadata: {name: task}
spec:
  suspend: true
  template: {spec: {restartPolicy: Never, containers: [{name: task, image: "registry.example.test/task:1"}]}}
`, [2]string{"task:1", "task:2"}, "spec.template"},
	{"spec of a StatefulSet", `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  replicas: 0
  serviceName: store
  selector: {matchLabels: {app: store}}
  template: {metadata: {labels: {app: store}}, spec: {containers: [{name: store, image: "registry.example.test/store:1"}]}}
`, [2]string{"serviceName: store", "serviceName: other"}, "spec"},
	{"clusterIP of a Service", `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.77.76, ports: [{port: 80}]}
`, [2]string{"10.96.77.76", "10.96.77.77"}, "spec.clusterIP"},
	{"spec of a PersistentVolumeClaim", `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec: {accessModes: [ReadWriteOnce], storageClassName: a, resources: {requests: {storage: 1Gi}}}
`, [2]string{"storageClassName: a", "storageClassName: b"}, "spec"},
	{"data of a ConfigMap that is immutable", `
apiVersion: v1
kind: ConfigMap
metadata: {name: fixed}
immutable: true
data: {a: b}
`, [2]string{"a: b", "a: c"}, "data"},
	{"role of a RoleBinding", `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: []
`, [2]string{"name: view", "name: edit"}, "roleRef"},
	{"type of a Secret", "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\ntype: Opaque\n", [2]string{"Opaque", "example.test/other"}, "type"},
}

// An immutable field is named, with what can be done. With Force the object is
// deleted and created, as Argo CD documents it.
func TestImmutable(t *testing.T) {
	w := enter(t)
	for _, tt := range immutable {
		t.Run(tt.name, func(t *testing.T) {
			w.t = t
			before := w.apply(tt.before)
			step := w.step(strings.ReplaceAll(tt.before, tt.change[0], tt.change[1]))
			w.fails(step, apply.Immutable, tt.field, "Force=true", "Replace=true")
			if _, err := w.Predict(w.context(), nil)(step.Object, step.Live); err == nil {
				t.Error("the change was predicted, though it cannot be made")
			}
			step.Options.Force = true
			answer, err := w.Apply(w.context(), step, apply.Options{})
			if err != nil || answer.GetUID() == before.GetUID() {
				t.Errorf("got %v, %v", answer, err)
			}
			if live := w.live(step.Object); live == nil || live.GetUID() != answer.GetUID() {
				t.Errorf("live is %v", live)
			}
		})
	}
}

// Replace with Force always deletes, as kubectl replace --force does.
func TestReplaceWithForce(t *testing.T) {
	w := enter(t)
	before := w.apply(settings)
	step := w.step(settings)
	step.Action, step.Options.Replace, step.Options.Force = plan.Replace, true, true
	answer, err := w.Apply(w.context(), step, apply.Options{})
	if err != nil || answer.GetUID() == before.GetUID() {
		t.Errorf("got %v, %v", answer, err)
	}
	dry, err := w.Apply(w.context(), w.forced(settings), apply.Options{DryRun: true})
	if err != nil || dry == nil || w.live(step.Object).GetUID() != answer.GetUID() {
		t.Errorf("a dry run gave %v, %v", dry, err)
	}
}

func (w *world) forced(manifest string) *plan.Step {
	step := w.step(manifest)
	step.Action, step.Options.Replace, step.Options.Force = plan.Replace, true, true
	return step
}

// If the new object is refused after the old one was deleted, the old one comes
// back.
func TestForceRestores(t *testing.T) {
	w := enter(t)
	w.apply(settings)
	step := w.forced(strings.ReplaceAll(settings, "color: blue", "'not a key!': blue"))
	w.fails(step, apply.Invalid, "created again")
	if color := at(t, w.live(step.Object), "data", "color"); color != "blue" {
		t.Errorf("live is %s, want the old one", color)
	}
}

// The API server quotes what it cannot read. Nothing of a Secret is shown, in
// none of the texts of an error.
func TestSecretsAreNotTold(t *testing.T) {
	w := enter(t)
	const password = "correct-horse-battery"
	for _, tt := range []struct{ name, fields string }{
		{"data that is not base64", "data: {password: '" + password + "'}"},
		{"data that is a number", "data: {password: 4815162342}"},
		{"stringData that is a list", "stringData: {password: [" + password + "]}"},
		{"data that is text", "data: " + password},
		{"stringData that is text", "stringData: " + password},
		{"a wrong type with a value", "type: kubernetes.io/tls\nstringData: {tls.crt: " + password + "}"},
		{"a docker configuration", "type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: '{" + password + "'}"},
	} {
		for _, action := range []plan.Action{plan.Apply, plan.CreateOnly} {
			t.Run(tt.name+", "+string(action), func(t *testing.T) {
				w.t = t
				step := &plan.Step{Action: action, Object: w.object("apiVersion: v1\nkind: Secret\nmetadata: {name: login}\n" + tt.fields)}
				_, err := w.Apply(w.context(), step, apply.Options{})
				fault := w.isFault(err, apply.Invalid)
				for _, text := range []string{fault.Message, fault.Error(), fmt.Sprintf("%+v", fault.Err), fmt.Sprintf("%#v", fault.Err)} {
					for _, word := range []string{password, "correct", "battery", "4815162342", "481516"} {
						if strings.Contains(text, word) {
							t.Errorf("%q is in %s", word, text)
						}
					}
				}
				if len(fault.Message) < 10 {
					t.Errorf("the message is %q", fault.Message)
				}
			})
		}
	}
}

// stringData becomes data, so that a key that is removed in Git is removed, and
// the object is the same each time.
func TestStringData(t *testing.T) {
	w := enter(t)
	const manifest = "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\ndata: {a: b25l, b: dHdv}\nstringData: {b: three, c: four}\n"
	first := w.apply(manifest)
	if data := at(t, first, "data"); data != "a: b25l\nb: dGhyZWU=\nc: Zm91cg==" {
		t.Errorf("the data is\n%s", data)
	}
	step := w.step(manifest)
	requests := w.requests(func() {
		state, err := plan.Compare(step.Object, step.Live, nil, w.Predict(w.context(), nil))
		if err != nil || state != plan.Synced {
			t.Errorf("it is %s, %v", state, err)
		}
	})
	if len(requests) > 0 {
		t.Errorf("comparing took %q", requests)
	}
	answer := w.apply(strings.ReplaceAll(manifest, ", c: four", ""))
	if data := at(t, answer, "data"); data != "a: b25l\nb: dGhyZWU=" {
		t.Errorf("the data is\n%s", data)
	}
	if slices.ContainsFunc(answer.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return strings.Contains(entry.FieldsV1.GetRawString(), "stringData")
	}) {
		t.Error("somebody owns stringData")
	}
}
