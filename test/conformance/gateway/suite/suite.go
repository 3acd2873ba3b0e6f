// Package suite pins the programs of the Gateway API conformance run: the
// upstream suite, the echo server of its manifests and CoreDNS. It is a Go
// module of its own, so that their requirements do not become those of Slipway;
// make conformance builds it.
package suite

import (
	_ "sigs.k8s.io/gateway-api/conformance" // built as its own test, without a change
)
