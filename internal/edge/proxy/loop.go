package proxy

import (
	"strings"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
)

const (
	// HopPrefix starts the identity of every edge in CDN-Loop.
	HopPrefix = "slipway-"
	// maxHops is how many edges a request may have passed. Replicas without a shared
	// secret have different identities, so a loop through them is found only when
	// it meets one again. No sensible chain of clusters is that long.
	maxHops = 8

	hopField = "CDN-Loop"
)

// loopDetected is the response to a request that this edge has sent itself.
var loopDetected = &filter.LocalResponse{Status: 508, Reason: "LoopDetected"}

// looped reports whether a request has passed this edge before, or too many edges:
// a backend leads back here, such as an ExternalName with the address of the
// edge's own load balancer. Each turn would hold two connections until the edge
// has none left. CDN-Loop is used and not Via, because servers such as nginx do
// not compress responses to requests with a Via.
func (p *Proxy) looped(head *h1.Head) bool {
	if p.cfg.Hop == "" {
		return false
	}
	hops := 0
	for i := range head.Len() {
		if head.ID(i) != normalize.FieldCDNLoop {
			continue
		}
		for element := range strings.SplitSeq(normalize.View(head.Value(i)), ",") {
			id, _, _ := strings.Cut(element, ";") // parameters follow
			id = strings.TrimSpace(id)
			if id == p.cfg.Hop {
				return true
			}
			if strings.HasPrefix(id, HopPrefix) {
				hops++
			}
		}
	}
	return hops >= maxHops
}
