package chart_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/programs"
)

const patience = 60 * time.Second

func TestMain(m *testing.M) { kubetest.Main(m) }

// definitions gives the cluster every kind that the charts can have.
func definitions(t *testing.T, cluster *kubetest.Cluster) {
	t.Helper()
	for _, pattern := range []string{runtimeChart + "/crds/*.yaml", "../../access/mode/testdata/crds.yaml", "testdata/*.yaml"} {
		cluster.DefineFiles(t, pattern)
	}
	cluster.DefineFiles(t, filepath.Join(programs.ModuleFolder(t, "sigs.k8s.io/gateway-api"), "config/crd/standard/gateway.networking.k8s.io_gatewayclasses.yaml"))
}

// dryRunner sends objects for a look.
type dryRunner struct {
	cluster *kubetest.Cluster
	mapper  meta.RESTMapper
}

func (d dryRunner) try(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := d.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = d.cluster.Dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if object.GetNamespace() == "" {
			return errors.New("it names no namespace")
		}
		resource = d.cluster.Dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace())
	} else if object.GetNamespace() != "" {
		return errors.New("it names a namespace, and is outside of them")
	}
	_, err = resource.Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	return err
}

// TestAPIServerTakesThem: every object of every documented set of flags is taken
// by a real API server, which knows every field of it and holds the namespace to
// the strictest standard for Pods.
func TestAPIServerTakesThem(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	definitions(t, cluster)
	for _, name := range []string{"slipway", "shop"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
		if _, err := cluster.Client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	runner := dryRunner{cluster, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(cluster.Client.Discovery()))}
	count := 0
	for folder, sets := range map[string][]flagSet{runtimeChart: runtimeSets(), platformChart: platformSets()} {
		for _, set := range sets {
			made := render(t, folder, set)
			for _, object := range append(made.Objects, made.Hooks...) {
				count++
				if err := runner.try(t.Context(), object); err != nil {
					t.Errorf("%s: %s %s: %v", set.name, object.GetKind(), object.GetName(), err)
				}
				if err := restrictedPod(t.Context(), runner, object); err != nil {
					t.Errorf("%s: a Pod of %s %s: %v", set.name, object.GetKind(), object.GetName(), err)
				}
			}
		}
	}
	if count < 300 {
		t.Errorf("only %d objects were tried", count)
	}
	wrong := render(t, runtimeChart, runtimeSets()[0]).Objects[0]
	wrong.Object["nonsense"] = "x"
	if err := runner.try(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a field that does not exist gives %v", err)
	}
}

// restrictedPod tries a Pod of a workload: the standard is enforced on Pods only.
func restrictedPod(ctx context.Context, runner dryRunner, object *unstructured.Unstructured) error {
	template, found, err := unstructured.NestedMap(object.Object, "spec", "template")
	if err != nil || !found {
		return err
	}
	spec, _ := template["spec"].(map[string]any)
	// The account is made by the same chart, and not there in a dry run.
	delete(spec, "serviceAccountName")
	spec["automountServiceAccountToken"] = false
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "spec": spec,
		"metadata": map[string]any{"name": fmt.Sprintf("try-%s", object.GetName()), "namespace": object.GetNamespace()},
	}}
	return runner.try(ctx, pod)
}
