package mode_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

const patience = 60 * time.Second

var update = flag.Bool("update", false, "write what was made into testdata/*.yaml")

func TestMain(m *testing.M) { kubetest.Main(m) }

// ingressSettings use everything that an Ingress can have.
func ingressSettings() mode.Settings {
	settings := base()
	settings.Ingress = mode.IngressSettings{
		Enabled: true, Hosts: []string{"runtime.example.com", "203.0.113.7"}, ClassName: "slipway",
		TLS:         []mode.IngressTLS{{Hosts: []string{"runtime.example.com"}, SecretName: "runtime-tls"}},
		Annotations: map[string]string{"alb.ingress.kubernetes.io/scheme": "internet-facing"}, Labels: map[string]string{"team": "platform"},
	}
	return settings
}

func routeSettings() mode.Settings {
	settings := base()
	settings.HTTPRoute = mode.HTTPRouteSettings{
		Enabled: true, Hostnames: []string{"runtime.example.com"},
		ParentRefs: []mode.ParentRef{{Name: "public", Namespace: "gateways", SectionName: "https", Port: 443}, {Name: "other"}},
	}
	return settings
}

// meshSettings are the examples of the documents, for each shape.
func meshSettings(version string) mode.MeshSettings {
	settings := mode.MeshSettings{
		Runtime: "prod", Namespace: "slipway", Gateway: "istio-system/internal-router", Hosts: []string{"runtime.example.com"}, Version: version,
	}
	if version != "" {
		settings.EventSources = []string{"push-github", "cypress-docker-images-push"}
	}
	return settings
}

// goldens are the objects of each mode and the file that shows them.
func goldens() map[string][]mode.Object {
	return map[string][]mode.Object{
		"ingress.yaml":                mode.Objects(ingressSettings(), mode.Ingress),
		"httproute.yaml":              mode.Objects(routeSettings(), mode.HTTPRoute),
		"virtualservice.yaml":         mode.VirtualServices(meshSettings("")),
		"virtualservice-0.0.542.yaml": mode.VirtualServices(meshSettings("0.0.542")),
	}
}

// TestObjects: R51, R90, R91, R92, R123: the objects are those of testdata.
func TestObjects(t *testing.T) {
	for name, objects := range goldens() {
		t.Run(name, func(t *testing.T) {
			got := must.Get(mode.YAML(objects...))(t)
			file := filepath.Join("testdata", name)
			if *update {
				must.Do(t, os.WriteFile(file, []byte(got), 0o644))
			}
			want, err := os.ReadFile(file)
			if err != nil || string(want) != got {
				t.Errorf("made:\n%s\nwant:\n%s\n%v", got, want, err)
			}
		})
	}
	if len(mode.Objects(base(), mode.Tunnel)) != 0 {
		t.Error("a tunnel needs no objects")
	}
}

// TestAPIServerTakesThem: R51, R91, R92, R123: a real API server takes the objects,
// and decodes all their fields.
func TestAPIServerTakesThem(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	cluster.DefineFiles(t, "testdata/crds.yaml")
	must.Get(cluster.Client.CoreV1().Namespaces().Create(t.Context(), namespace("slipway"), metav1.CreateOptions{}))(t)
	resources := map[string]schema.GroupVersionResource{
		"Ingress":        {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
		"HTTPRoute":      {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"},
		"VirtualService": {Group: mode.IstioGroup, Version: mode.IstioVersion, Resource: "virtualservices"},
	}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	for name, objects := range goldens() {
		for _, object := range objects {
			made := decoded(t, object)
			create := func() error {
				return tryCreate(t.Context(), cluster, resources[object.Kind()], made, dryRun)
			}
			// Kinds that were just made known may need a moment.
			if err := retry(t.Context(), create, apierrors.IsNotFound); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			// The check is one: a field that does not exist is refused.
			made.Object["spec"].(map[string]any)["hots"] = []any{}
			if err := create(); err == nil {
				t.Errorf("%s: a field that does not exist is taken", name)
			}
		}
	}
}

func tryCreate(ctx context.Context, cluster *kubetest.Cluster, resource schema.GroupVersionResource, object *unstructured.Unstructured, options metav1.CreateOptions) error {
	_, err := cluster.Dynamic.Resource(resource).Namespace(object.GetNamespace()).Create(ctx, object, options)
	return err
}

// retry repeats while the error is of a kind.
func retry(ctx context.Context, try func() error, again func(error) bool) (last error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = programs.Await(ctx, func(context.Context) error {
		if last = try(); again(last) {
			return last
		}
		return nil
	})
	return last
}

// decoded is an object decoded from its YAML.
func decoded(t *testing.T, object mode.Object) *unstructured.Unstructured {
	t.Helper()
	text := must.Get(mode.YAML(object))(t)
	made := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = made.UnmarshalJSON(content)
	}
	must.Do(t, err)
	return made
}

// TestVerify: R90, R91, R92: each misconfiguration of a VirtualService is reported
// for the path that it breaks.
func TestVerify(t *testing.T) {
	for _, tt := range []struct {
		name string
		// replace changes the YAML of the generated objects.
		replace []string
		change  func(*mode.MeshSettings)
		// want is path and part of the message; those that are not named are fine.
		want map[string]string
	}{
		{name: "as generated"},
		{name: "nothing there", replace: []string{"runtime.example.com", "other.example.com"}, want: map[string]string{
			"/webhooks": "no VirtualService of the namespace slipway has the host", "/app-proxy": "has the host", "/workflows": "has the host"}},
		{name: "a wildcard host", replace: []string{"runtime.example.com", "'*.example.com'"}},
		{name: "another gateway", replace: []string{"istio-system/internal-router", "mesh"}, want: map[string]string{
			"/webhooks": "not istio-system/internal-router", "/app-proxy": "gateways mesh", "/workflows": "gateways mesh"}},
		{name: "any gateway", replace: []string{"istio-system/internal-router", "mine"}, change: func(m *mode.MeshSettings) { m.Gateway = "" }},
		{name: "the gateway of the namespace", replace: []string{"istio-system/internal-router", "mine"}, change: func(m *mode.MeshSettings) { m.Gateway = "slipway/mine" }},
		{name: "a path is missing", replace: []string{"prefix: /workflows", "prefix: /workflow-s"}, want: map[string]string{"/workflows": "no route matches"}},
		{name: "an exact path", replace: []string{"prefix: /app-proxy", "exact: /app-proxy"}, want: map[string]string{"/app-proxy": "no route matches"}},
		{name: "a pattern", replace: []string{"prefix: /app-proxy", "regex: /app-proxy(/.*)?"}},
		{name: "everything", replace: []string{"prefix: /webhooks", "prefix: /"}},
		{name: "with conditions", replace: []string{"- uri:\n        prefix: /app-proxy", "- uri:\n        prefix: /app-proxy\n      headers: {a: {exact: b}}"},
			want: map[string]string{"/app-proxy": "conditions only"}},
		{name: "hidden by an earlier one", replace: []string{"http:\n", "http:\n  - route: [{destination: {host: shop}}]\n"}, want: map[string]string{
			"/webhooks": "http[0] leads to shop", "/app-proxy": "leads to shop and not to internal-router:80", "/workflows": "leads to shop"}},
		{name: "another port", replace: []string{"number: 80", "number: 8080"}, want: map[string]string{
			"/webhooks": "internal-router:8080 and not", "/app-proxy": ":8080", "/workflows": ":8080"}},
		{name: "the full name", replace: []string{"host: internal-router\n", "host: internal-router.slipway.svc.cluster.local\n"}},
		{name: "another namespace", replace: []string{"host: internal-router\n", "host: internal-router.default.svc.cluster.local\n"}, want: map[string]string{
			"/webhooks": "leads to internal-router.default", "/app-proxy": "internal-router.default", "/workflows": "internal-router.default"}},
		{name: "a rewritten path", replace: []string{"- match:\n    - uri:\n        prefix: /app-proxy", "- rewrite: {uri: /}\n    match:\n    - uri:\n        prefix: /app-proxy"},
			want: map[string]string{"/app-proxy": "rewrites the path"}},
		{name: "a redirect", replace: []string{"- match:\n    - uri:\n        prefix: /workflows", "- redirect: {uri: /}\n    match:\n    - uri:\n        prefix: /workflows"},
			want: map[string]string{"/workflows": "responds with redirect"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			settings := meshSettings("")
			found := changed(t, mode.VirtualServices(settings), tt.replace...)
			if tt.change != nil {
				tt.change(&settings)
			}
			states := mode.VerifyMesh(settings, found)
			if len(states) != 3 {
				t.Fatalf("there are %d states", len(states))
			}
			for _, state := range states {
				want, wrong := tt.want[state.Path]
				if state.OK == wrong || !strings.Contains(state.Message, want) {
					t.Errorf("%s is %v: %s", state.Path, state.OK, state.Message)
				}
			}
		})
	}
}

// TestVerifyWithoutRouter: R92: the two VirtualServices of old runtimes.
func TestVerifyWithoutRouter(t *testing.T) {
	settings := meshSettings("0.0.542")
	found := changed(t, mode.VirtualServices(settings))
	states := mode.VerifyMesh(settings, found)
	for _, state := range states {
		if !state.OK {
			t.Errorf("%s: %s", state.Path, state.Message)
		}
	}
	if len(states) != 3 {
		t.Errorf("there are %d states", len(states))
	}
	states = mode.VerifyMesh(settings, found[:1])
	if !states[0].OK || states[1].OK || states[2].OK {
		t.Errorf("without the second: %+v", states)
	}
	if states = mode.VerifyMesh(meshSettings(""), found); states[0].OK || states[1].OK {
		t.Errorf("the shape of an old runtime is taken for a new one: %+v", states)
	}
}

// TestMeshSettings: all problems of the settings are reported.
func TestMeshSettings(t *testing.T) {
	findings := mode.MeshSettings{Runtime: "Prod", Namespace: "a b", Hosts: []string{"https://x"}, Version: "0.0.1", EventSources: []string{"A"}}.Check(true)
	var keys []string
	for _, finding := range findings {
		keys = append(keys, finding.Subject)
	}
	if got := strings.Join(keys, " "); got != "runtime namespace gateway host event-source" {
		t.Errorf("found %s", got)
	}
	if findings := meshSettings("").Check(true); len(findings) > 0 {
		t.Errorf("found %v", findings)
	}
	old := meshSettings("0.0.542")
	old.EventSources = nil
	if findings := old.Check(true); len(findings) != 1 || findings[0].Subject != "event-source, runtime-version" {
		t.Errorf("found %v", findings)
	}
}

// changed are objects whose YAML was changed by pairs of old and new text.
func changed(t *testing.T, objects []mode.Object, pairs ...string) []mode.Object {
	t.Helper()
	var made []mode.Object
	for _, object := range objects {
		text := must.Get(mode.YAML(object))(t)
		for i := 0; i < len(pairs); i += 2 {
			replaced := strings.ReplaceAll(text, pairs[i], pairs[i+1])
			if replaced == text {
				t.Fatalf("%q is not in\n%s", pairs[i], text)
			}
			text = replaced
		}
		content := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &content); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		made = append(made, content)
	}
	return made
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
