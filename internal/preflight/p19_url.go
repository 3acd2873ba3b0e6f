package preflight

import (
	"context"
	"fmt"

	"slipway.dev/slipway/internal/wire"
)

// checkURLAnswer is P19: a GET at the address of the runtime is answered by its
// router, which puts its marker on every answer, also on a refusal (R35).
func checkURLAnswer(ctx context.Context, in *Inquiry, out *Report) {
	address := in.outside(out)
	if address == nil {
		return
	}
	if in.Stage == Before {
		out.skip("the runtime answers after the install")
		return
	}
	target := address.JoinPath(wire.AppProxyPath).String()
	out.look("GET %s", target)
	client := in.visitor()
	defer client.CloseIdleConnections()
	answer, err := visit(ctx, client, target, nil)
	if err != nil {
		out.fail(address.Host, "it does not answer: "+why(err), "see P15, P17 and P21")
		return
	}
	marker := answer.Header.Get(wire.RouterHeader)
	switch {
	case marker == in.Settings.Runtime:
		out.look("the router of %s answers %d", marker, answer.StatusCode)
	case marker != "":
		out.fail(address.Host, fmt.Sprintf("another runtime answers there: %q", marker), "give each runtime a host of its own")
	case answer.StatusCode >= 500:
		out.fail(address.Host, fmt.Sprintf("the controller answers %s, and not the runtime", answer.Status),
			fmt.Sprintf("see whether the runtime is up: kubectl -n %s get pods,endpointslices", in.Settings.Namespace))
	default:
		out.fail(address.Host, fmt.Sprintf("something else answers there: %s without the header %s", answer.Status, wire.RouterHeader), "see P20 for the routes, and P21 for where the name leads")
	}
}
