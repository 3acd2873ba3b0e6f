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

const (
	awsBackendProtocol = "service.beta.kubernetes.io/aws-load-balancer-backend-protocol"
	awsBalancerType    = "service.beta.kubernetes.io/aws-load-balancer-type"
)

// checkTCP is P17: the host takes connections (R85), the load balancer of AWS passes
// them on as they are (R96), and after the install a WebSocket reaches the runtime.
func checkTCP(ctx context.Context, in *Inquiry, out *Report) {
	address := in.outside(out)
	if address == nil {
		return
	}
	in.judgeBalancer(out)
	out.look("a TCP connection to %s:%s", address.Hostname(), portOf(address))
	conn, err := in.connect(ctx, address.Hostname(), portOf(address))
	if err != nil {
		out.later(address.Host, "it takes no connection: "+why(err), "see P15 and P21, and whether a firewall lets TCP port "+portOf(address)+" through")
		return
	}
	_ = conn.Close() // it was good
	if in.Stage == After {
		in.judgeUpgrade(ctx, address, out)
	}
}

// judgeBalancer looks at the annotations that NGINX Community needs on AWS.
func (in *Inquiry) judgeBalancer(out *Report) {
	if in.asked() != mode.Ingress {
		return
	}
	view, err := in.controller()
	if err != nil || !view.known || view.controller.ID != NGINXCommunity || in.provider().ID != AWS {
		return
	}
	for _, service := range view.services {
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		subject := named("Service", service.Namespace, service.Name)
		out.look("annotations of %s", subject)
		kind := service.Annotations[awsBalancerType]
		if service.Annotations[awsBackendProtocol] == "tcp" || kind == "nlb" || kind == "nlb-ip" || kind == "external" {
			continue
		}
		finding := out.fail(subject, "the load balancer of AWS speaks HTTP itself: it breaks WebSockets and other streams",
			fmt.Sprintf("kubectl -n %s annotate service %s %s=tcp; a new Service may have %s=nlb instead", service.Namespace, service.Name, awsBackendProtocol, awsBalancerType))
		in.offerAnnotation(finding, service)
	}
}

func (in *Inquiry) offerAnnotation(finding *Finding, service corev1.Service) {
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

// judgeUpgrade asks for a WebSocket. The router refuses it without a token, with
// its marker: what counts is that the question reached it.
func (in *Inquiry) judgeUpgrade(ctx context.Context, address *url.URL, out *Report) {
	client := in.visitor()
	defer client.CloseIdleConnections()
	target := address.JoinPath(wire.AppProxyPath).String()
	out.look("a WebSocket at %s", target)
	plain, err := visit(ctx, client, target, nil)
	if err != nil || plain.Header.Get(wire.RouterHeader) == "" {
		out.look("the runtime does not answer there at all: see P19")
		return
	}
	answer, err := visit(ctx, client, target, upgradeHeader())
	switch {
	case err != nil:
		out.fail(address.Host, "a WebSocket does not reach the runtime: "+why(err), "allow WebSockets (Upgrade) at the controller and the load balancer before it")
	case answer.StatusCode != http.StatusSwitchingProtocols && answer.Header.Get(wire.RouterHeader) == "":
		out.fail(address.Host, fmt.Sprintf("a WebSocket does not reach the runtime: something before it answers %s", answer.Status), "allow WebSockets (Upgrade) at the controller and the load balancer before it")
	}
}
