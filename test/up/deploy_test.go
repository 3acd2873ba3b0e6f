package up

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// deploy applies the shipped manifests to a real API server: all of them are
// valid there, and it has no warnings for them.
func deploy(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	warned := &warnings{}
	connected := must.Get(kube.Connect(cluster.Kubeconfig, warned.listen))(t)
	t.Cleanup(connected.Close)
	apply := func(namespace, text string) []*unstructured.Unstructured {
		t.Helper()
		return must.Get(connected.Apply(t.Context(), kube.Target{Namespace: namespace, Manager: "kubectl"}, text))(t)
	}
	definitions := manifests(t, "../../charts/gitops-runtime/crds")
	if len(definitions) == 0 {
		t.Fatal("there are no CustomResourceDefinitions")
	}
	for _, path := range definitions {
		apply("", read(t, path))
	}
	installed := apply("", kustomized(t, "../../deploy"))
	if len(installed) < 10 {
		t.Errorf("only %d objects are installed", len(installed))
	}
	if agent := apply("", kustomized(t, "../../deploy/agent")); len(agent) < 14 {
		t.Errorf("only %d objects of the agent are installed", len(agent))
	}
	if platform := apply("", kustomized(t, "../../deploy/platform")); len(platform) < 3 {
		t.Errorf("only %d objects of the platform are installed", len(platform))
	}
	apply("", read(t, "../../deploy/agent/rbac/runtime.yaml"))
	apply("", read(t, "../../deploy/agent/rbac/rollouts.yaml"))
	apply(cluster.Namespace(t), read(t, "../../deploy/rbac/role-namespaced.yaml"))
	apply("", read(t, "../../deploy/rbac/acme-role.yaml"))
	apply("", read(t, "../../deploy/rbac/gateway-role.yaml"))
	apply("", read(t, "../../deploy/rbac/gateway-deployments-role.yaml"))
	apply("", read(t, "../../deploy/rbac/traefik-role.yaml"))
	apply("", read(t, "../../deploy/rbac/nginx-role.yaml"))
	if heard := warned.all(); len(heard) > 0 {
		t.Errorf("the API server warns:\n%s", strings.Join(heard, "\n"))
	}
	requireAllListed(t, "../../deploy")
	requireAllListed(t, "../../deploy/agent")
	requireAllListed(t, "../../deploy/platform")
	requireOptions(t, installed)
}

// requireAllListed fails when a manifest is forgotten in the kustomization.
func requireAllListed(t *testing.T, dir string) {
	t.Helper()
	listed := read(t, filepath.Join(dir, "kustomization.yaml"))
	for _, path := range manifests(t, dir) {
		name := must.Get(filepath.Rel(dir, path))(t)
		// The first is in the place of another, the next six are optional,
		// and the last is the list itself.
		apart := []string{"rbac/role-namespaced.yaml", "rbac/acme-role.yaml", "rbac/gateway-role.yaml", "rbac/gateway-deployments-role.yaml", "rbac/traefik-role.yaml", "rbac/nginx-role.yaml", "rbac/runtime.yaml", "rbac/rollouts.yaml", "kustomization.yaml"}
		// The agent and the platform have lists of their own, and files of Prometheus and systemd are no objects.
		if strings.HasPrefix(name, "agent/") || strings.HasPrefix(name, "platform/") || strings.HasPrefix(name, "monitoring/") || strings.HasPrefix(name, "systemd/") {
			continue
		}
		if !strings.Contains(listed, "- "+name+"\n") && !slices.Contains(apart, name) {
			t.Errorf("kustomization.yaml does not list %s", name)
		}
	}
}

// requireOptions starts nothing, but has the edge read the options that it gets
// in its Pod.
func requireOptions(t *testing.T, installed []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range installed {
		if object.GetKind() != "ConfigMap" {
			continue
		}
		var options corev1.ConfigMap
		must.Do(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &options))
		file := filepath.Join(t.TempDir(), "edge.yaml")
		must.Do(t, os.WriteFile(file, []byte(options.Data["edge.yaml"]), 0o600))
		command := program(t, "edge", "--configFile="+file, "--print-config")
		command.Env = append(command.Env, "SLIPWAY_PROVIDERS_KUBERNETESINGRESS_NODENAME=node-1")
		printed, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(printed), "nodeName: node-1") || !strings.Contains(string(printed), "slipway-system/slipway-edge") {
			t.Errorf("the edge reads the options of the ConfigMap as (%v):\n%s", err, printed)
		}
		return
	}
	t.Error("there is no ConfigMap")
}

// kustomized is what kubectl apply -k would apply.
func kustomized(t *testing.T, dir string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), kubetest.Binary(t), "kubectl", "kustomize", dir)
	output, err := command.Output()
	if err != nil {
		t.Fatalf("kubectl kustomize: %v", err)
	}
	return string(output)
}

// manifests are the YAML files below a directory.
func manifests(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"*.yaml", "*/*.yaml"} {
		paths := must.Get(filepath.Glob(filepath.Join(dir, pattern)))(t)
		found = append(found, paths...)
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	content := must.Get(os.ReadFile(path))(t)
	return string(content)
}

// warnings keeps what the API server warns of.
type warnings struct {
	mu    sync.Mutex
	heard []string
}

func (w *warnings) listen(config *rest.Config) { config.WarningHandlerWithContext = w }

// HandleWarningHeaderWithContext is called for each warning.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = append(w.heard, text)
}

func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.heard)
}
