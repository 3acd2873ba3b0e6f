package up

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/must"
)

// TestRouteHost: the host that is shown is one that a user can request.
func TestRouteHost(t *testing.T) {
	for _, test := range []struct{ names, want string }{
		{"[demo.localhost, other.localhost]", "demo.localhost"},
		{"['*.localhost', shop.localhost]", "shop.localhost"},
		{"['*.localhost']", ""},
		{"[]", ""},
	} {
		route := &unstructured.Unstructured{}
		must.Do(t, yaml.Unmarshal([]byte("spec: {hostnames: "+test.names+"}"), &route.Object))
		if got := routeHost(route); got != test.want {
			t.Errorf("of %s the host is %q, want %q", test.names, got, test.want)
		}
	}
	if got := routeHost(&unstructured.Unstructured{}); got != "" {
		t.Errorf("without host names it is %q", got)
	}
}
