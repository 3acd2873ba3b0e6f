package chart_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/install/chart"
	"slipway.dev/slipway/internal/must"
)

func setNamed(t *testing.T, sets []flagSet, name string) flagSet {
	t.Helper()
	i := slices.IndexFunc(sets, func(set flagSet) bool { return set.name == name })
	if i < 0 {
		t.Fatalf("there is no set %s", name)
	}
	return sets[i]
}

// TestAccessObjects: R51, R91, R123: the templates give the objects that the
// program itself would write.
func TestAccessObjects(t *testing.T) {
	base := mode.Settings{Runtime: "prod", Namespace: "slipway"}
	ingress, route := base, base
	ingress.Ingress = mode.IngressSettings{
		Enabled: true, Hosts: []string{"prod.example.com", "203.0.113.7", "203.0.113.8"}, ClassName: "slipway",
		TLS:         []mode.IngressTLS{{Hosts: []string{"prod.example.com"}, SecretName: "prod-tls"}},
		Annotations: map[string]string{"alb.ingress.kubernetes.io/scheme": "internet-facing"}, Labels: map[string]string{"team": "platform"},
	}
	route.HTTPRoute = mode.HTTPRouteSettings{
		Enabled: true, Hostnames: []string{"prod.example.com"}, ParentRefs: []mode.ParentRef{{Name: "public", Namespace: "gateways"}},
	}
	mesh := mode.MeshSettings{Runtime: "prod", Namespace: "slipway", Gateway: "istio-system/internal-router", Hosts: []string{"prod.example.com"}}
	for _, tt := range []struct {
		set  string
		want mode.Object
	}{
		{"ingress with everything", mode.IngressObject(ingress)},
		{"httpRoute R123", mode.HTTPRouteObject(route)},
		{"mesh with VirtualService", mode.VirtualServices(mesh)[0]},
	} {
		t.Run(tt.set, func(t *testing.T) {
			got := find(t, render(t, runtimeChart, setNamed(t, runtimeSets(), tt.set)), tt.want.Kind(), tt.want.Name())
			text, err := mode.YAML(tt.want)
			must.Do(t, err)
			want := map[string]any{}
			must.Do(t, yaml.Unmarshal([]byte(text), &want))
			// Helm deletes only what has its label, and the agent renders the chart too.
			must.Do(t, unstructured.SetNestedField(want, "Helm", "metadata", "labels", mode.ManagedLabel))
			if !reflect.DeepEqual(got.Object, want) {
				shown, _ := yaml.Marshal(got.Object)
				t.Errorf("the chart gives:\n%s\nthe program:\n%s", shown, text)
			}
		})
	}
}

// TestAccessModes: R53: the agent gets the mode that follows from the values,
// and only that mode has objects.
func TestAccessModes(t *testing.T) {
	kinds := []string{"Ingress", "HTTPRoute", "VirtualService"}
	for set, want := range map[string][3]string{
		"tunnel R50":               {"tunnel", "", ""},
		"ingress R51":              {"ingress", "https://prod.example.com", "Ingress"},
		"httpRoute R123":           {"httpRoute", "https://prod.example.com", "HTTPRoute"},
		"mesh R52":                 {"mesh", "https://prod.example.com", ""},
		"mesh with VirtualService": {"mesh", "https://prod.example.com", "VirtualService"},
	} {
		made := render(t, runtimeChart, setNamed(t, runtimeSets(), set))
		options := agentOptions(t, made)
		if options.Access.Mode != want[0] || options.Access.URL != want[1] {
			t.Errorf("%s: the agent is told %s at %s", set, options.Access.Mode, options.Access.URL)
		}
		var found []string
		for _, object := range made.Objects {
			if slices.Contains(kinds, object.GetKind()) {
				found = append(found, object.GetKind())
			}
		}
		if strings.Join(found, " ") != want[2] {
			t.Errorf("%s: there are %v", set, found)
		}
	}
}

// configFile writes what a ConfigMap has to a file.
func configFile(t *testing.T, made chart.Rendered, name, key string) string {
	t.Helper()
	data, _, _ := unstructured.NestedStringMap(find(t, made, "ConfigMap", name).Object, "data")
	file := filepath.Join(t.TempDir(), key)
	must.Do(t, os.WriteFile(file, []byte(data[key]), 0o600))
	return file
}

func agentOptions(t *testing.T, made chart.Rendered) *config.Agent {
	t.Helper()
	loaded, err := config.LoadAgent(config.Sources{Args: []string{"--configFile=" + configFile(t, made, "slipway-agent", "agent.yaml")}})
	must.Do(t, err)
	return loaded.Agent
}

// TestProgramsTakeTheOptions: what the charts write is valid for the programs.
func TestProgramsTakeTheOptions(t *testing.T) {
	for _, set := range runtimeSets() {
		made := render(t, runtimeChart, set)
		options := agentOptions(t, made)
		if err := options.Validate(); err != nil {
			t.Errorf("%s: agent: %v", set.name, err)
		}
		if options.Applications.ControlNamespace != "slipway" {
			t.Errorf("%s: the control namespace is %s", set.name, options.Applications.ControlNamespace)
		}
		if set.name == "without the edge" {
			continue
		}
		loaded, err := config.LoadEdge(config.Sources{Args: []string{"--configFile=" + configFile(t, made, "slipway-edge", "edge.yaml")}})
		if err == nil {
			err = loaded.Edge.Validate()
		}
		if err != nil {
			t.Errorf("%s: edge: %v", set.name, err)
		} else if loaded.Edge.Providers.KubernetesIngress == nil {
			t.Errorf("%s: the edge serves no Ingresses", set.name)
		} else if got := loaded.Edge.Providers.KubernetesIngress.HostSharing; (got == "behind") != (set.name == "another edge") {
			t.Errorf("%s: hosts are shared by %s", set.name, got)
		}
	}
	for _, set := range platformSets() {
		made := render(t, platformChart, set)
		loaded, err := config.LoadPlatform(config.Sources{Args: []string{"--configFile=" + configFile(t, made, "slipway-platform", "platform.yaml")}})
		if err == nil {
			err = loaded.Platform.Validate()
		}
		if err != nil {
			t.Errorf("%s: platform: %v", set.name, err)
		}
	}
}

// TestSecretsStayInSecrets: R9: no ConfigMap, argument, variable or annotation has
// a credential in it.
func TestSecretsStayInSecrets(t *testing.T) {
	seen := 0
	check := func(folder string, sets []flagSet) {
		for _, set := range sets {
			made := render(t, folder, set)
			if strings.Contains(made.Notes, canary) {
				t.Errorf("%s: the notes have it", set.name)
			}
			for _, object := range append(made.Objects, made.Hooks...) {
				text, err := yaml.Marshal(object.Object)
				must.Do(t, err)
				inSecret := object.GetKind() == "Secret"
				if inSecret && strings.Contains(decodedSecret(t, object), canary) {
					seen++
				}
				if strings.Contains(string(text), canary) || !inSecret && strings.Contains(string(text), base64.StdEncoding.EncodeToString([]byte(canary))) {
					t.Errorf("%s: %s %s has it:\n%s", set.name, object.GetKind(), object.GetName(), text)
				}
			}
		}
	}
	check(runtimeChart, runtimeSets())
	check(platformChart, platformSets())
	if seen < len(runtimeSets()) {
		t.Errorf("only %d Secrets have the canary: the test looks at nothing", seen)
	}
}

func decodedSecret(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	data, _, _ := unstructured.NestedStringMap(object.Object, "data")
	all := ""
	for _, value := range data {
		text, err := base64.StdEncoding.DecodeString(value)
		must.Do(t, err)
		all += string(text)
	}
	return all
}

// podSpecs are those of every workload.
func podSpecs(made chart.Rendered) map[string]map[string]any {
	found := map[string]map[string]any{}
	for _, object := range append(made.Objects, made.Hooks...) {
		if spec, ok, _ := unstructured.NestedMap(object.Object, "spec", "template", "spec"); ok {
			found[object.GetKind()+" "+object.GetName()] = spec
		}
	}
	return found
}

// TestWhereKeysGo: R31: the key is a file from a Secret, inline or by reference;
// R80: so are authorities; R78: the registry; R122, R127: proxies and placement.
func TestWhereKeysGo(t *testing.T) {
	of := func(set string) string {
		text, err := yaml.Marshal(podSpecs(render(t, runtimeChart, setNamed(t, runtimeSets(), set)))["Deployment slipway-agent"])
		must.Do(t, err)
		return string(text)
	}
	for set, wants := range map[string][]string{
		"tunnel R50":                   {"secretName: slipway-user-token", "image: slipway.dev/slipway:0.1.0"},
		"token by reference R31":       {"secretName: mine", "key: key"},
		"authorities R80 by reference": {"secretName: ca\n", "key: ca.pem"},
		"authorities R80 made":         {"secretName: slipway-tls-certs", "key: ca-bundle.crt"},
		"registry R78":                 {"image: registry.example.com/mirror/slipway:1.2.3"},
		"proxies R122":                 {"name: HTTPS_PROXY", "name: slipway-proxy", "value: .example.com,localhost,127.0.0.1,.svc,.cluster.local,$(KUBERNETES_SERVICE_HOST)"},
		"placement R127":               {"disk: ssd", "key: gitops", "name: pull"},
	} {
		got := of(set)
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is not in\n%s", set, want, got)
			}
		}
	}
	if got := of("without a platform"); strings.Contains(got, "router") || strings.Contains(got, "slipway-user-token") {
		t.Errorf("without a platform:\n%s", got)
	}
}

// TestRestrictedPods: every Pod keeps to the strictest standard.
func TestRestrictedPods(t *testing.T) {
	for folder, sets := range map[string][]flagSet{runtimeChart: runtimeSets(), platformChart: platformSets()} {
		for _, set := range sets {
			for name, spec := range podSpecs(render(t, folder, set)) {
				pod, _, _ := unstructured.NestedMap(spec, "securityContext")
				seccomp, _, _ := unstructured.NestedString(pod, "seccompProfile", "type")
				// Programs refuse folders that others than the owner can read, and a mount
				// would open them to the group.
				if pod["fsGroupChangePolicy"] != "OnRootMismatch" {
					t.Errorf("%s, %s: a second mount changes the rights of files", set.name, name)
				}
				if pod["runAsNonRoot"] != true || seccomp != "RuntimeDefault" {
					t.Errorf("%s, %s: %v", set.name, name, pod)
				}
				containers, _, _ := unstructured.NestedSlice(spec, "containers")
				for _, each := range containers {
					container := each.(map[string]any)
					own, _, _ := unstructured.NestedMap(container, "securityContext")
					drop, _, _ := unstructured.NestedStringSlice(own, "capabilities", "drop")
					if own["readOnlyRootFilesystem"] != true || own["allowPrivilegeEscalation"] != false || !slices.Equal(drop, []string{"ALL"}) || container["resources"] == nil {
						t.Errorf("%s, %s: %v", set.name, name, container)
					}
				}
			}
		}
	}
}

// TestPluginSidecars: containers of config management plugins are beside the
// agent, which mounts the folder of their sockets where it looks for them.
func TestPluginSidecars(t *testing.T) {
	set := flagSet{name: "plugins", set: joined(), yaml: `
agent:
  initContainers: [{name: copy, image: argocd}]
  extraContainers: [{name: envsubst, image: envsubst, volumeMounts: [{name: plugins, mountPath: /sockets}, {name: var-files, mountPath: /files}, {name: mine, mountPath: /mine}]}]
  volumes: [{name: mine, emptyDir: {}}]
`}
	made := render(t, runtimeChart, set)
	names := func(object map[string]any, field string) (names []string) {
		list, _, err := unstructured.NestedSlice(object, "spec", "template", "spec", field)
		must.Do(t, err)
		for _, one := range list {
			names = append(names, one.(map[string]any)["name"].(string))
		}
		return names
	}
	object := find(t, made, "Deployment", "slipway-agent").Object
	if got := names(object, "initContainers"); !slices.Equal(got, []string{"copy"}) {
		t.Errorf("the init containers are %q", got)
	}
	if got := names(object, "containers"); !slices.Equal(got, []string{"agent", "envsubst"}) {
		t.Errorf("the containers are %q", got)
	}
	for _, volume := range []string{"plugins", "var-files", "mine"} {
		if !slices.Contains(names(object, "volumes"), volume) {
			t.Errorf("the volumes are %q", names(object, "volumes"))
		}
	}
	var defaults config.Agent
	defaults.Defaults()
	containers, _, _ := unstructured.NestedSlice(object, "spec", "template", "spec", "containers")
	if !slices.ContainsFunc(containers[0].(map[string]any)["volumeMounts"].([]any), func(mount any) bool {
		return mount.(map[string]any)["name"] == "plugins" && mount.(map[string]any)["mountPath"] == defaults.Plugins.SocketDir
	}) {
		t.Errorf("the agent mounts %v", containers[0].(map[string]any)["volumeMounts"])
	}
	plain := find(t, render(t, runtimeChart, setNamed(t, runtimeSets(), "tunnel R50")), "Deployment", "slipway-agent").Object
	if slices.Contains(names(plain, "volumes"), "plugins") {
		t.Error("an agent without plugins has their volumes")
	}
}
