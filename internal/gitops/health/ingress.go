package health

import (
	"slices"
	"strings"
)

// The status that Slipway's edge writes: errors at ports, and its field
// manager.
const (
	edgeManager              = "slipway-edge"
	edgePrefix               = "slipway.dev/"
	edgeRefused              = edgePrefix + "Refused"
	edgeCertificateNotReady  = edgePrefix + "CertificateNotReady"
	edgeNoEndpoints          = edgePrefix + "NoEndpoints"
	refusedMessage           = "The edge refuses a part of it: its Events have the reason, and so does slipway lint -f FILE"
	certificateNeededMessage = "Waiting for a certificate: one is missing, invalid, expired or being issued; its Events have the details"
	endpointsNeededMessage   = "Waiting for endpoints: a Service that it names is missing, or has none that is ready"
)

// ingress is Argo CD's rule, an address and no more, for controllers that write
// no more. Our edge writes at the ports why an Ingress is not served as it is
// written. Problems that resolve by themselves are Progressing, and the
// deadline ends them.
func ingress(o *object) *Status {
	if !hasAddress(o) {
		return progressing("Waiting for an address of the load balancer")
	}
	found := portErrors(o)
	if len(found) == 0 {
		return healthy("")
	}
	ours := o.writtenBy(edgeManager)
	has := map[string]bool{}
	foreign := ""
	for _, text := range found {
		has[text] = true
		known := text == edgeRefused || text == edgeCertificateNotReady || text == edgeNoEndpoints
		if foreign == "" && !known && (ours || strings.HasPrefix(text, edgePrefix)) {
			foreign = text
		}
	}
	// A refusal needs a change in Git and goes first; the others can end by
	// themselves.
	switch {
	case has[edgeRefused]:
		return degraded(refusedMessage)
	case foreign != "":
		return degraded("A port of it has the error %s", foreign)
	case has[edgeCertificateNotReady] && has[edgeNoEndpoints]:
		return progressing(certificateNeededMessage + ". " + endpointsNeededMessage)
	case has[edgeCertificateNotReady]:
		return progressing(certificateNeededMessage)
	case has[edgeNoEndpoints]:
		return progressing(endpointsNeededMessage)
	default:
		return healthy("") // Argo CD ignores port errors of other controllers
	}
}

// portErrors returns the errors at the ports of all addresses, in their order.
func portErrors(o *object) []string {
	var found []string
	for _, address := range o.status.group("loadBalancer").groups("ingress") {
		for _, port := range address.groups("ports") {
			if text := port.text("error"); text != "" {
				found = append(found, text)
			}
		}
	}
	return found
}

// writtenBy reports whether a field manager owns a part of the status. Port
// errors have no author, so that the owner of the status decides whose format
// they are in.
func (o *object) writtenBy(manager string) bool {
	return slices.ContainsFunc(o.metadata.groups("managedFields"), func(entry group) bool {
		return entry.text("manager") == manager && entry.text("subresource") == "status"
	})
}
