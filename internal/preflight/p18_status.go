package preflight

import (
	"context"
	"fmt"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/kube"
)

// statusGrace is the age below which an empty status of an Ingress means
// nothing.
const statusGrace = 2 * time.Minute

// checkStatusReport is P18: the controller writes the address of Ingresses to
// their status. Without it the runtime stays Progressing until the
// installation times out (R98). Before the installation it checks the
// controller's configuration, afterwards the status itself.
func checkStatusReport(ctx context.Context, in *CheckContext, out *Report) {
	if in.requestedMode() == mode.Mesh {
		out.skip("a mesh has no Ingress, and so no status of one")
		return
	}
	if in.Stage == After && in.requestedMode() == mode.Ingress {
		in.awaitStatus(ctx, out)
		return
	}
	view := in.needsController(out)
	if view == nil {
		return
	}
	in.configuredStatus(ctx, view, out)
	// What the controller does for other Ingresses is stronger evidence than
	// its configuration.
	out.inspect("other Ingresses of the class %s", in.Settings.Ingress.ClassName)
	in.othersStatus(ctx, view, out)
}

// configuredStatus checks whether the controller is configured to report
// addresses.
func (in *CheckContext) configuredStatus(ctx context.Context, view *controllerView, out *Report) {
	switch view.controller.ID {
	case NGINXEnterprise:
		in.enterpriseStatus(ctx, view, out)
	case NGINXCommunity:
		in.communityStatus(view, out)
	case Traefik, SlipwayEdge:
		in.endpointStatus(ctx, view, out)
	case Ambassador, ALB, Istio:
	}
}

// awaitStatus waits until the Ingress of the runtime has an address.
func (in *CheckContext) awaitStatus(ctx context.Context, out *Report) {
	subject := named("Ingress", in.Settings.Namespace, mode.RouterService)
	out.inspect("the status of %s, for %s", subject, in.StatusWait)
	bounded, cancel := context.WithTimeout(ctx, in.StatusWait)
	defer cancel()
	ingresses := in.Cluster.Client.NetworkingV1().Ingresses(in.Settings.Namespace)
	// A watch ends as soon as the controller has written the status.
	found, err := kube.WaitFor(bounded, ingresses, kube.Named(mode.RouterService), func(all []*networkingv1.Ingress) error {
		if len(all) == 0 {
			return errNoIngress
		}
		if len(addressesIn(all[0])) == 0 {
			return errNoStatus
		}
		return nil
	})
	switch {
	case err == nil:
		out.inspect("its address is %s", addressesIn(found[0])[0])
	case len(found) == 0:
		out.fail(subject, "it does not exist, or cannot be read: "+err.Error(), "install the runtime with --mode ingress")
	default:
		// An unknown controller is named by its class.
		who, page := "the controller of the class "+in.Settings.Ingress.ClassName, "its documentation"
		view, err := in.controller()
		known := err == nil && view.known
		if known {
			who, page = view.controller.Name, view.controller.Page
		}
		out.fail(subject, who+" writes no address into its status: its health stays Progressing", "have the controller report it, see "+page)
		// The reason is most often an option of the controller.
		if known {
			in.configuredStatus(ctx, view, out)
		}
	}
}

// statusProblem is a constant error.
type statusProblem string

func (s statusProblem) Error() string { return string(s) }

const (
	errNoIngress = statusProblem("there is no Ingress of the runtime")
	errNoStatus  = statusProblem("its status has no address")
)

// othersStatus checks the status of other Ingresses of the class: the
// runtime's will behave the same.
func (in *CheckContext) othersStatus(ctx context.Context, view *controllerView, out *Report) {
	list, err := in.Cluster.Client.NetworkingV1().Ingresses("").List(ctx, metav1.ListOptions{Limit: maxListed})
	if err != nil {
		out.inspect("no other Ingresses: %s", kube.FailureKind(err))
		return
	}
	// Only Ingresses of the same class are comparable.
	class := in.Settings.Ingress.ClassName
	// One Ingress with an address is sufficient evidence.
	seen, empty := 0, ""
	for i := range list.Items {
		one := &list.Items[i]
		// Young Ingresses may still be waiting for their load balancer.
		if one.Spec.IngressClassName == nil || *one.Spec.IngressClassName != class || in.Now().Sub(one.CreationTimestamp.Time) < statusGrace {
			continue
		}
		seen++
		if len(addressesIn(one)) > 0 {
			out.inspect("%s has an address", named("Ingress", one.Namespace, one.Name))
			return
		}
		empty = named("Ingress", one.Namespace, one.Name)
	}
	if seen > 0 {
		out.warn(empty, fmt.Sprintf("no Ingress of the class %s (of %d) has an address in its status: %s does not report it", class, seen, view.controller.Name),
			"have the controller report it, see "+view.controller.Page)
	}
}
