package preflight

import (
	"context"
	"fmt"

	"slipway.dev/slipway/internal/wire"
)

// checkURLResponse is P19: a GET at the URL of the runtime reaches its router,
// which marks every response with its header, also an error (R35).
func checkURLResponse(ctx context.Context, in *CheckContext, out *Report) {
	address := in.externalURL(out)
	if address == nil {
		return
	}
	if in.Stage == Before {
		out.skip("the runtime responds after the installation")
		return
	}
	target := address.JoinPath(wire.AppProxyPath).String()
	out.inspect("GET %s", target)
	// No token is sent: the router responds with its header even to an
	// unauthenticated request.
	client := in.probeClient()
	defer client.CloseIdleConnections()
	response, err := get(ctx, client, target, nil)
	if err != nil {
		out.fail(address.Host, "it does not respond: "+describeError(err), "see P15, P17 and P21")
		return
	}
	// The header distinguishes the router from default backends and other
	// servers on the same host.
	marker := response.Header.Get(wire.RouterHeader)
	switch {
	case marker == in.Settings.Runtime:
		out.inspect("the router of %s responds with %d", marker, response.StatusCode)
	case marker != "":
		out.fail(address.Host, fmt.Sprintf("another runtime responds there: %q", marker), "give each runtime a host of its own")
	case response.StatusCode >= 500:
		out.fail(address.Host, fmt.Sprintf("the controller responds with %s, not the runtime", response.Status),
			fmt.Sprintf("see whether the runtime is up: kubectl -n %s get pods,endpointslices", in.Settings.Namespace))
	default:
		out.fail(address.Host, fmt.Sprintf("another server responds there: %s without the header %s", response.Status, wire.RouterHeader), "see P20 for the routes, and P21 for where the name leads")
	}
}
