package preflight

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/access/mode"
)

// checkDNS is P21: the host resolves to an address of the controller (R88).
func checkDNS(ctx context.Context, in *CheckContext, out *Report) {
	address := in.externalURL(out)
	if address == nil {
		return
	}
	host := address.Hostname()
	// Without known addresses only the existence of a record is checked.
	wanted := in.publicAddresses(ctx)
	out.inspect("DNS for %s", host)
	if len(wanted) > 0 {
		out.inspect("the controller has %s", shorten(wanted))
	}
	found, err := in.resolve(ctx, host)
	// Before the installation a missing record is only a warning.
	if err != nil || len(found) == 0 {
		reason := "DNS has no record of it"
		if err != nil {
			reason = describeError(err)
		}
		out.pending(host, reason, in.recordFor(host, wanted))
		return
	}
	out.inspect("it resolves to %s", shorten(texts(found)))
	// Load balancers of AWS are names, whose addresses change; they are
	// resolved at the same time.
	allowed := in.resolveAll(ctx, wanted)
	if len(allowed) == 0 || slices.ContainsFunc(found, func(one netip.Addr) bool { return slices.Contains(allowed, one) }) {
		return
	}
	out.warn(host, fmt.Sprintf("it resolves to %s, and the controller has %s", shorten(texts(found)), shorten(wanted)),
		in.recordFor(host, wanted)+"; with a proxy in front of the controller this is expected, and P19 shows whether it works")
}

// resolveAll resolves names of load balancers.
func (in *CheckContext) resolveAll(ctx context.Context, names []string) []netip.Addr {
	var all []netip.Addr
	for _, name := range names[:min(len(names), maxDialed)] {
		found, err := in.resolve(ctx, name)
		if err == nil {
			all = append(all, found...)
		}
	}
	return all
}

// texts formats addresses.
func texts(addresses []netip.Addr) []string {
	var all []string
	for _, one := range addresses {
		all = append(all, one.String())
	}
	return all
}

// recordFor returns the DNS record to create.
func (in *CheckContext) recordFor(host string, wanted []string) string {
	if view, err := in.controller(); in.requestedMode() == mode.Ingress && err == nil && view.known && view.controller.ID == ALB {
		return fmt.Sprintf("create a record %s in its hosted zone of Route 53 after the install: Alias on, Alias to Application and Classic Load Balancer, the region, and the load balancer of the Ingress; "+
			"if the install ended before that, run slipway integration git add default --runtime %s --api-url URL and slipway integration git register default --runtime %s --token-file FILE",
			host, in.Settings.Runtime, in.Settings.Runtime)
	}
	if len(wanted) == 0 {
		return "create a record of " + host + " with the address of the controller, see P15"
	}
	// The type of the record follows from the address: A, AAAA, or CNAME for
	// a name.
	kind := "CNAME"
	if address, err := netip.ParseAddr(wanted[0]); err == nil {
		kind = "A"
		if address.Is6() {
			kind = "AAAA"
		}
	}
	return fmt.Sprintf("create the record %s. %s %s", strings.TrimSuffix(host, "."), kind, wanted[0])
}
