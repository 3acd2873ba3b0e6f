package preflight_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/preflight"
)

// TestCodes: the catalogue has P1 to P28, each with a name that is read
// back.
func TestCodes(t *testing.T) {
	for i := range 28 {
		code := preflight.Code(fmt.Sprintf("P%d", i+1))
		if code.Name() == "" {
			t.Errorf("the catalogue has no %s", code)
		}
		for _, spelling := range []string{string(code), strings.ToLower(string(code)), code.Name()} {
			if got, err := preflight.ParseCode(spelling); err != nil || got != code {
				t.Errorf("%q is read as %s, %v", spelling, got, err)
			}
		}
	}
	if _, err := preflight.ParseCode("P29"); err == nil {
		t.Error("P29 is read")
	}
}

// TestVersions: R10: 1.23 is the oldest.
func TestVersions(t *testing.T) {
	for version, want := range map[string]preflight.State{
		"v1.22.17": preflight.Failed, "v1.23.0": preflight.Passed, "v1.36.1+k3s1": preflight.Passed, "v1.23.4-gke.100": preflight.Passed, "master": preflight.Warned,
	} {
		if got := preflight.JudgeKubernetes(version); got != want {
			t.Errorf("%s is %s, want %s", version, got, want)
		}
	}
}

// TestPlurals: R14: the resources of the permissions are those of the API server.
func TestPlurals(t *testing.T) {
	cluster := kubetest.Shared(t)
	crds, err := os.ReadFile("../access/mode/testdata/crds.yaml")
	must.Do(t, err)
	cluster.Apply(t, "", string(crds))
	s := &scene{t: t, cluster: cluster}
	s.established("virtualservices.networking.istio.io")
	_, lists, err := cluster.Client.Discovery().ServerGroupsAndResources()
	must.Do(t, err)
	known := map[[2]string]bool{}
	for _, list := range lists {
		group, _, found := strings.Cut(list.GroupVersion, "/")
		if !found {
			group = ""
		}
		for _, resource := range list.APIResources {
			known[[2]string{group, resource.Name}] = true
		}
	}
	for resource := range preflight.RightsByResource(chartObjects("slipway")) {
		// The chart brings its own kinds.
		if !known[resource] && resource[0] != "argoproj.io" && resource[1] != "pods/log" {
			t.Errorf("the API server knows no %v", resource)
		}
	}
}

// TestEndpointFiles: R97: the setting is found in YAML and TOML.
func TestEndpointFiles(t *testing.T) {
	for _, tt := range []struct {
		name, text, want string
		given            bool
	}{
		{"yaml", "providers:\n  kubernetesIngress:\n    ingressEndpoint:\n      publishedService: a/b\n", "a/b", true},
		{"yaml in another case", "providers: {kubernetesingress: {ingressendpoint: {publishedservice: a/b}}}", "a/b", true},
		{"yaml with an address", "providers: {kubernetesIngress: {ingressEndpoint: {ip: 192.0.2.1}}}", "", true},
		{"yaml without", "providers: {kubernetesIngress: {}}", "", false},
		{"yaml of another shape", "providers: [kubernetesIngress]", "", false},
		{"toml", "[providers.kubernetesIngress.ingressEndpoint]\n  publishedService = \"a/b\"\n[log]\n", "a/b", true},
		{"toml of another table", "[providers.kubernetesIngress.ingressEndpoint]\n[other]\npublishedService = \"a/b\"\n", "", false},
		{"toml with a name", "[providers.kubernetesIngress.ingressEndpoint]\nhostname = \"a\"\n", "", true},
		{"nothing", "", "", false},
	} {
		if got, given := preflight.EndpointIn(tt.text); got != tt.want || given != tt.given {
			t.Errorf("%s: %q %t, want %q %t", tt.name, got, given, tt.want, tt.given)
		}
	}
}

// TestImages: controllers are recognized in any registry.
func TestImages(t *testing.T) {
	names := []string{"ingress-nginx/controller"}
	for image, want := range map[string]bool{
		"registry.k8s.io/ingress-nginx/controller:v1.1.1":    true,
		"localhost:5000/ingress-nginx/controller":            true,
		"localhost:5000/m/ingress-nginx/controller@sha256:0": true,
		"ingress-nginx/controller":                           true,
		"example.test/my-ingress-nginx/controller:v1":        false,
		"example.test/ingress-nginx/controller-chroot:v1":    false,
		"": false,
	} {
		if got := preflight.ImageIs(image, names); got != want {
			t.Errorf("%q is %t", image, got)
		}
	}
}

// FuzzEndpoint: no file of a controller ends the check.
func FuzzEndpoint(f *testing.F) {
	f.Add("providers: {kubernetesIngress: {ingressEndpoint: {publishedService: a/b}}}")
	f.Add("[providers.kubernetesIngress.ingressEndpoint]\npublishedService = \"a/b\"")
	f.Fuzz(func(t *testing.T, text string) {
		if published, given := preflight.EndpointIn(text); published != "" && !given {
			t.Errorf("%q is a Service of nothing", published)
		}
	})
}
