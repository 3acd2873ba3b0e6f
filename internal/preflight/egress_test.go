package preflight_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/preflight"
	"slipway.dev/slipway/internal/wire"
)

// TestEgress: R105: the platform and the entry of its tunnels are reached; where
// they are not, on GKE, the firewall rule is printed.
func TestEgress(t *testing.T) {
	cluster := kubetest.Shared(t)
	hub := http.NewServeMux()
	hub.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	hub.HandleFunc(wire.TunnelPath, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			w.WriteHeader(http.StatusUpgradeRequired)
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
	})
	blocking := http.NewServeMux()
	blocking.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	good, proxied := httptest.NewTLSServer(hub), httptest.NewTLSServer(blocking)
	defer good.Close()
	defer proxied.Close()
	world := preflight.World{Cluster: cluster.Cluster, Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }}
	world.Roots = good.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	options := tunnel(t, cluster)
	options.Only = []preflight.Code{preflight.Egress}
	run := func(address string, registries ...string) []preflight.Result {
		world.Platform, options.Registries = &preflight.Platform{URL: address}, registries
		return preflight.Run(t.Context(), world, options)
	}
	registry, err := url.Parse(good.URL)
	must.Do(t, err)
	clean(t, run(good.URL, registry.Host))
	finds(t, run(proxied.URL), preflight.Egress, preflight.Warned, "a proxy may block WebSockets")
	finds(t, run(good.URL, "127.0.0.1:9"), preflight.Egress, preflight.Warned, "slipway images mirror")
	options.Provider = preflight.GKE
	finds(t, run("https://127.0.0.1:9"), preflight.Egress, preflight.Failed, "gcloud compute firewall-rules create")
	options.Provider = ""
	finds(t, run("https://127.0.0.1:9"), preflight.Egress, preflight.Failed, "global.httpsProxy")
	world.Roots = pkitest.NewAuthority(t).Pool
	finds(t, run(good.URL), preflight.Egress, preflight.Failed, "certificate")
}

// TestSearchEverywhere: the controller is found in all namespaces, and of two of a
// kind the one that names the class.
func TestSearchEverywhere(t *testing.T) {
	s := newScene(t)
	s.makeNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}})
	s.class("k8s.io/ingress-nginx-internal")
	s.workload("Deployment", "mirror.example.test:5000/ingress-nginx/controller@sha256:0000", "app.kubernetes.io/name: ingress-nginx",
		"        args: [/nginx-ingress-controller, --ingress-class=CLASS, --publish-service=CONTROLLER/front]\n"+balancedService)
	s.balance("front", front())
	s.started()
	other := &scene{t: t, cluster: s.cluster, controller: s.cluster.Namespace(t), node: s.node, options: s.options}
	other.workload("Deployment", "registry.k8s.io/ingress-nginx/controller:v1.1.1", "app.kubernetes.io/name: ingress-nginx",
		"        args: [/nginx-ingress-controller, --update-status=false]\n"+balancedService)
	s.options.ControllerNamespace = ""
	clean(t, s.run())
}
