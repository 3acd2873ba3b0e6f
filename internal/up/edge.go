package up

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/kube"
)

const (
	edgeName = "edge"
	// The ports of the edge: what users type, and the edge's own defaults.
	webPort         = 8080
	secureWebPort   = 8443
	edgeHealthPort  = 8082
	edgeAdminPort   = 8090
	edgeTrafficPort = 8093
	// ingressClass is the class of the Ingresses that the edge serves.
	ingressClass      = "slipway"
	ingressController = "slipway.dev/ingress-controller"
)

// edgeOptions is a complete configuration, so that no options of the user's own
// apply.
const edgeOptions = `# The options of the edge. slipway up rewrites them at each start.
log:
  format: text
admin:
  address: %q
health:
  address: %q
traffic:
  address: %q
  secretFile: %q
entryPoints:
  web:
    address: %q
    transport:
      lifeCycle: {requestAcceptGraceTimeout: 0s, graceTimeOut: 5s}
  websecure:
    address: %q
    http:
      tls: true
    transport:
      lifeCycle: {requestAcceptGraceTimeout: 0s, graceTimeOut: 5s}
providers:
  kubernetesIngress:
    ingressEndpoint:
      ip: 127.0.0.1
  kubernetesGateway:
    addresses: %s
  kubernetesIngressNGINX: true
  kubernetesCRD: true
lastGood:
  dir: %q
`

// edgeStatus is the edge's part of a scene.
type edgeStatus struct {
	child *child
	// host is that of the demo's Ingress, empty if there is none.
	host string
	// serves is set when the demo has responded through the edge.
	serves bool
	// routeHost and routeServes are the same of the demo's HTTPRoute.
	routeHost   string
	routeServes bool
}

// edgePorts lists the fixed ports of the edge.
func edgePorts() []fixedPort {
	return []fixedPort{
		{webPort, "the edge (HTTP)"}, {secureWebPort, "the edge (HTTPS)"}, {gatewayPort, "the edge (Gateway)"},
		{edgeHealthPort, "the edge's health and metrics"}, {edgeAdminPort, "the edge's admin API"},
		{edgeTrafficPort, "the edge's traffic reports"},
	}
}

// startEdge starts this program again as an edge for the cluster. It listens on
// loopback only.
func startEdge(ctx context.Context, s *scene) (*child, error) {
	if err := provideClass(ctx, s.cluster); err != nil {
		return nil, err
	}
	if err := s.provideGateway(ctx); err != nil {
		return nil, err
	}
	// The directory keeps the edge's options, its log and its last-good table.
	dir := s.state.path(edgeName)
	if err := s.state.root.MkdirAll(edgeName, 0o700); err != nil {
		return nil, err
	}
	if err := s.provideTrafficSecret(); err != nil {
		return nil, err
	}
	options := fmt.Sprintf(edgeOptions,
		s.local(edgeAdminPort), s.local(edgeHealthPort), s.local(edgeTrafficPort), s.trafficSecret(), s.local(webPort), s.local(secureWebPort), gatewayPool,
		filepath.Join(dir, "last-good"))
	var err error
	s.edge.child, err = s.startRole(edgeName, options, s.kubeconfig)
	return s.edge.child, err
}

// provideClass creates the IngressClass if it is missing. It belongs to the
// edge and not to the demo, so a user who empties the repository keeps it.
func provideClass(ctx context.Context, cluster *kube.Cluster) error {
	class := &networkingv1.IngressClass{
		ObjectMeta: metav1.ObjectMeta{Name: ingressClass},
		Spec:       networkingv1.IngressClassSpec{Controller: ingressController},
	}
	_, err := cluster.Client.NetworkingV1().IngressClasses().Create(ctx, class, metav1.CreateOptions{FieldManager: upOwner})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the IngressClass %s: %w", ingressClass, err)
	}
	return nil
}

// roleEnvironment returns our environment without variables that could point
// the edge or the agent to another cluster, or change its options.
func roleEnvironment(own []string, kubeconfig string) []string {
	// The variables of the Service kubernetes would select the configuration of
	// a Pod.
	kept := slices.DeleteFunc(slices.Clone(own), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(strings.ToUpper(name), "SLIPWAY_") || strings.HasPrefix(name, "KUBERNETES_SERVICE_") ||
			name == "KUBECONFIG" || name == "POD_NAMESPACE"
	})
	return append(kept, "KUBECONFIG="+kubeconfig)
}

// edgeReady waits until the routes are live.
func edgeReady(ctx context.Context, s *scene, report func(string)) (string, error) {
	report("waiting for the edge to start")
	return "ready", s.awaitHealth(ctx, edgeHealthPort, report)
}

// checkEdge finds the hosts of the demo and requests them once through the
// edge. A demo that does not respond is no error.
func (s *scene) checkEdge(ctx context.Context) error {
	var err error
	if s.edge.host, err = demoHost(ctx, s.cluster); err != nil {
		return err
	}
	if s.edge.routeHost, err = demoRouteHost(ctx, s.cluster); err != nil {
		return err
	}
	s.edgeResponds(ctx)
	return nil
}

// edgeResponds reports whether the demo responds through the edge, by its Ingress and
// by its HTTPRoute if there are any, and records it.
func (s *scene) edgeResponds(ctx context.Context) bool {
	responds := func(port int, host string) bool {
		status, _ := get(ctx, s.local(port), host)
		return host != "" && status == 200
	}
	s.edge.serves, s.edge.routeServes = responds(webPort, s.edge.host), responds(gatewayPort, s.edge.routeHost)
	return s.edge.serves == (s.edge.host != "") && s.edge.routeServes == (s.edge.routeHost != "")
}

// poll calls done at an interval until it returns true.
func poll(ctx context.Context, done func() bool) error {
	// The first call is immediate, so that a part which is ready costs no
	// interval.
	for !done() {
		if backoff.Sleep(ctx, pollInterval) != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// notReady returns the reasons of a health response: what follows the first
// line.
func notReady(text string) string {
	_, missing, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.ReplaceAll(missing, "\n", "; ")
}

// demoHost returns the host of the demo's Ingress, empty if the user has
// deleted it.
func demoHost(ctx context.Context, cluster *kube.Cluster) (string, error) {
	ingress, err := cluster.Client.NetworkingV1().Ingresses(demoName).Get(ctx, demoName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the Ingress of the demo: %w", err)
	}
	for _, rule := range ingress.Spec.Rules {
		// A wildcard is no host that a user could request.
		if rule.Host != "" && !strings.HasPrefix(rule.Host, "*") {
			return rule.Host, nil
		}
	}
	return "", nil
}

// local returns the loopback address of a fixed port.
func (s *scene) local(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port+s.options.PortOffset))
}

// showEdge returns the edge's row and hints.
func showEdge(s *scene) (Row, []Hint) {
	row := Row{
		Part:    edgeName,
		Address: "http://" + s.local(webPort),
		Detail: fmt.Sprintf("Ingresses of class %s, https://%s for TLS, Gateway infra/public at http://%s, pid %d",
			ingressClass, s.local(secureWebPort), s.local(gatewayPort), s.edge.child.pid()),
		PID: s.edge.child.pid(),
		Log: s.edge.child.log,
	}
	var hints []Hint
	if s.edge.serves {
		hints = append(hints, Hint{"send a request through the edge", s.curl(webPort, s.edge.host)})
	}
	if s.edge.routeServes {
		hints = append(hints, Hint{"send one through the Gateway", s.curl(gatewayPort, s.edge.routeHost)})
	}
	hints = append(hints, Hint{"see the Ingresses", s.kubectl("get ingress --all-namespaces")},
		Hint{"see Gateways and routes", s.kubectl("get gateways,httproutes --all-namespaces")})
	if s.edge.host == "" {
		return row, hints
	}
	return row, append(hints, Hint{"why it goes there", s.slipway("explain " + shellQuote(s.demoURL(webPort, s.edge.host)))})
}

// demoURL returns the URL of the demo at a port of the edge.
func (s *scene) demoURL(port int, host string) string {
	return fmt.Sprintf("http://%s:%d/api", host, port+s.options.PortOffset)
}

// curl returns the command that requests the demo at a port of the edge.
func (s *scene) curl(port int, host string) string {
	return "curl " + s.resolved(port, host) + shellQuote(s.demoURL(port, host))
}

// resolved returns the option that makes curl connect to this machine for a
// host of the demo.
func (s *scene) resolved(port int, host string) string {
	// Names below localhost resolve to loopback by themselves (RFC 6761).
	if strings.HasSuffix(host, ".localhost") {
		return ""
	}
	return "--resolve " + shellQuote(fmt.Sprintf("%s:%d:127.0.0.1", host, port+s.options.PortOffset)) + " "
}
