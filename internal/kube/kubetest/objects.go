package kubetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/must"
)

const (
	// requestTimeout bounds one API request and the wait for a new namespace.
	requestTimeout = 30 * time.Second
	// defineTimeout bounds the wait until CRDs are served. A busy API server
	// takes seconds for large schemas.
	defineTimeout = 2 * time.Minute

	// namespaceStart leaves room for the hyphen and the random suffix of a
	// generated name within the 63 characters of a DNS label.
	namespaceStart = 50
)

// Namespace creates a namespace for this test, with the test's name as a
// prefix. It is deleted at the end, without waiting for its finalization.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	namespaces := c.Client.CoreV1().Namespaces()
	created, err := namespaces.Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: labelFrom(t.Name()) + "-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	t.Cleanup(func() { c.deleteNamespace(t, created.Name) })
	// Admission rejects Pods until the controller has created the default
	// ServiceAccount.
	WaitFor(t, c.Client.CoreV1().ServiceAccounts(created.Name), kube.Named("default"), requestTimeout,
		func(accounts []*corev1.ServiceAccount) error {
			if len(accounts) == 0 {
				return fmt.Errorf("namespace %s has no service account", created.Name)
			}
			return nil
		})
	return created.Name
}

// deleteNamespace deletes a namespace, unless the cluster has already ended.
func (c *Cluster) deleteNamespace(t testing.TB, name string) {
	select {
	case <-c.Exited():
		return
	default:
	}
	// The test's own context is canceled before cleanups run.
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	if err := c.Client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete namespace %s: %v", name, err)
	}
}

// labelFrom converts the name of a test to the start of a DNS label: lower
// case, with a single hyphen for each run of other characters.
func labelFrom(name string) string {
	var label strings.Builder
	for _, r := range strings.ToLower(name) {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			r = '-'
		}
		if label.Len() < namespaceStart && (r != '-' || !strings.HasSuffix(label.String(), "-")) {
			label.WriteRune(r)
		}
	}
	if trimmed := strings.Trim(label.String(), "-"); trimmed != "" {
		return trimmed
	}
	return "test"
}

// Apply applies the documents of a YAML text server-side. Namespaced objects
// without a namespace go to the given one. A status is applied as well, also where
// it is a subresource. An error fails the test.
func (c *Cluster) Apply(t testing.TB, namespace, manifests string) []*unstructured.Unstructured {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	objects := must.Get(c.Cluster.Apply(ctx, kube.Target{Namespace: namespace, Manager: "kubetest"}, manifests))(t)
	next := 0
	for text := range strings.SplitSeq(manifests, "\n---") {
		var given map[string]any
		if yaml.Unmarshal([]byte(text), &given) != nil || len(given) == 0 {
			continue // Apply leaves it out, too
		}
		made := objects[next]
		next++
		if given["status"] == nil || made.Object["status"] != nil {
			continue
		}
		status := must.Get(json.Marshal(map[string]any{"status": given["status"]}))(t)
		resource, _ := meta.UnsafeGuessKindToResource(made.GroupVersionKind())
		Patch(t, c.Dynamic.Resource(resource).Namespace(made.GetNamespace()), made.GetName(), string(status))
	}
	return objects
}

// Patch merges a JSON text into an object as a user. Where the text has a status, a
// second request changes the subresource.
func Patch(t testing.TB, in dynamic.ResourceInterface, name, text string) {
	t.Helper()
	options := metav1.PatchOptions{FieldManager: "user"}
	must.Get(in.Patch(t.Context(), name, types.MergePatchType, []byte(text), options))(t)
	if !strings.Contains(text, `"status"`) {
		return
	}
	must.Get(in.Patch(t.Context(), name, types.MergePatchType, []byte(text), options, "status"))(t)
}

// Define applies CRDs and waits until the API server serves their kinds, so
// that objects of them can be created at once.
func (c *Cluster) Define(t testing.TB, definitions string) []*unstructured.Unstructured {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), defineTimeout)
	defer cancel()
	return must.Get(c.Cluster.Define(ctx, kube.Target{Manager: "kubetest"}, definitions))(t)
}

// Definition returns the CustomResourceDefinition of a kind in namespaces whose
// objects may have any fields.
func Definition(group, version, kind string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[4]ss.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: %[3]s, plural: %[4]ss, singular: %[4]s}
  versions: [{name: %[2]s, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
`, group, version, kind, strings.ToLower(kind))
}

// DefineFiles calls Define for every file that matches a pattern. A pattern
// without a match fails the test: a moved folder must not pass unnoticed.
func (c *Cluster) DefineFiles(t testing.TB, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no definitions %s: %v", pattern, err)
	}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		c.Define(t, string(text))
	}
}

// WaitFor watches the selected objects until the condition returns nil, and
// returns them. On timeout the test fails with the condition's last error and
// the last state of the objects.
func WaitFor[T runtime.Object, L runtime.Object](
	t testing.TB, source kube.Source[L], selected metav1.ListOptions, timeout time.Duration, condition func([]T) error,
) []T {
	t.Helper()
	tooLate := fmt.Errorf("waited %s", timeout)
	ctx, cancel := context.WithTimeoutCause(t.Context(), timeout, tooLate)
	defer cancel()
	objects, err := kube.WaitFor(ctx, source, selected, condition)
	if err != nil {
		t.Fatalf("%v\nlast seen:\n%s", err, show(objects))
	}
	return objects
}

// WaitForRollout waits until a Deployment runs only its newest version, with
// all replicas available and no old ones left.
func (c *Cluster) WaitForRollout(t testing.TB, namespace, name string, timeout time.Duration) *appsv1.Deployment {
	t.Helper()
	return WaitFor(t, c.Client.AppsV1().Deployments(namespace), kube.Named(name), timeout, rolledOut)[0]
}

// rolledOut returns nil for a complete rollout. The generation comes first:
// until the controller has observed the change, the status describes the old
// version.
func rolledOut(deployments []*appsv1.Deployment) error {
	if len(deployments) == 0 {
		return errors.New("there is no such Deployment")
	}
	deployment, status := deployments[0], deployments[0].Status
	want := *deployment.Spec.Replicas
	switch {
	case status.ObservedGeneration < deployment.Generation:
		return errors.New("the Deployment's last change has not been seen by its controller")
	case status.UpdatedReplicas != want || status.AvailableReplicas != want || status.Replicas != want:
		return fmt.Errorf("of %d replicas %d are updated and %d available, %d exist",
			want, status.UpdatedReplicas, status.AvailableReplicas, status.Replicas)
	}
	return nil
}

// show formats objects as YAML without managed fields, up to keptOutput bytes.
func show[T runtime.Object](objects []T) string {
	if len(objects) == 0 {
		return "nothing"
	}
	var text strings.Builder
	for _, object := range objects {
		shown := object.DeepCopyObject()
		if accessor, err := meta.Accessor(shown); err == nil {
			accessor.SetManagedFields(nil)
		}
		encoded, err := yaml.Marshal(shown)
		if err != nil {
			encoded = []byte(err.Error())
		}
		text.WriteString("---\n")
		text.Write(encoded)
	}
	if text.Len() > keptOutput {
		return text.String()[:keptOutput] + "\n(cut)"
	}
	return text.String()
}
