package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/wire"
)

// Annotations of the AWS cloud provider.
const (
	awsBackendProtocol = "service.beta.kubernetes.io/aws-load-balancer-backend-protocol"
	awsBalancerType    = "service.beta.kubernetes.io/aws-load-balancer-type"
)

// checkTCP is P17: the host accepts connections (R85), the load balancer of
// AWS passes TCP through (R96), and after the installation a WebSocket
// reaches the runtime.
func checkTCP(ctx context.Context, in *CheckContext, out *Report) {
	address := in.externalURL(out)
	if address == nil {
		return
	}
	in.evaluateBalancer(out)
	out.inspect("a TCP connection to %s:%s", address.Hostname(), portOf(address))
	conn, err := in.connect(ctx, address.Hostname(), portOf(address))
	if err != nil {
		out.pending(address.Host, "it takes no connection: "+describeError(err), "see P15 and P21, and whether a firewall lets TCP port "+portOf(address)+" through")
		return
	}
	_ = conn.Close() // only the connection matters
	if in.Stage == After {
		in.evaluateUpgrade(ctx, address, out)
	}
}

// evaluateBalancer checks the annotations that NGINX Community needs on AWS.
func (in *CheckContext) evaluateBalancer(out *Report) {
	if in.requestedMode() != mode.Ingress {
		return
	}
	// Only NGINX Community on AWS needs the annotation; an error is reported
	// by P14.
	view, err := in.controller()
	if err != nil || !view.known || view.controller.ID != NGINXCommunity || in.provider().ID != AWS {
		return
	}
	for _, service := range view.services {
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		subject := named("Service", service.Namespace, service.Name)
		out.inspect("annotations of %s", subject)
		kind := service.Annotations[awsBalancerType]
		// Network load balancers pass TCP through by default.
		if service.Annotations[awsBackendProtocol] == "tcp" || kind == "nlb" || kind == "nlb-ip" || kind == "external" {
			continue
		}
		finding := out.fail(subject, "the load balancer of AWS speaks HTTP itself: it breaks WebSockets and other streams",
			fmt.Sprintf("kubectl -n %s annotate service %s %s=tcp; a new Service may have %s=nlb instead", service.Namespace, service.Name, awsBackendProtocol, awsBalancerType))
		in.offerAnnotation(finding, service)
	}
}

// offerAnnotation offers to annotate the Service.
func (in *CheckContext) offerAnnotation(finding *Finding, service corev1.Service) {
	// A merge patch leaves other annotations unchanged.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{awsBackendProtocol: "tcp"}}})
	if err != nil {
		return
	}
	finding.Plan = fmt.Sprintf("merge into the %s: %s", finding.Subject, patch)
	finding.Apply = func(ctx context.Context) error {
		_, err := in.Cluster.Client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		return err
	}
}

// evaluateUpgrade requests a WebSocket. The router rejects it without a
// token, with its header: that the request reached it is sufficient.
func (in *CheckContext) evaluateUpgrade(ctx context.Context, address *url.URL, out *Report) {
	client := in.probeClient()
	defer client.CloseIdleConnections()
	target := address.JoinPath(wire.AppProxyPath).String()
	out.inspect("a WebSocket at %s", target)
	// Without a response of the router the WebSocket check would only repeat
	// P19.
	plain, err := get(ctx, client, target, nil)
	if err != nil || plain.Header.Get(wire.RouterHeader) == "" {
		out.inspect("the runtime does not respond there: see P19")
		return
	}
	response, err := get(ctx, client, target, upgradeHeader())
	switch {
	case err != nil:
		out.fail(address.Host, "a WebSocket does not reach the runtime: "+describeError(err), "allow WebSockets (Upgrade) at the controller and the load balancer before it")
	case response.StatusCode != http.StatusSwitchingProtocols && response.Header.Get(wire.RouterHeader) == "":
		out.fail(address.Host, fmt.Sprintf("a WebSocket does not reach the runtime: a proxy in front of it responds with %s", response.Status), "allow WebSockets (Upgrade) at the controller and the load balancer before it")
	}
}
