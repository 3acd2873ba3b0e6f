package proxy

import (
	"bytes"
	"net/http"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// selectRevision sets what of the request decides about its revision. A Release that
// went away since the transport was read decides nothing.
func (x *exchange) selectRevision(release *route.Release, options *upstream.PickOptions) {
	if release == nil {
		return
	}
	if release.Header != nil {
		value, _ := x.Value(release.Header.Name, 0)
		options.Revision = release.Select(release.Header, value)
	}
	if release.Cookie != nil && options.Revision == "" {
		options.Revision = release.Select(release.Cookie, x.cookie(release.Cookie.Name))
	}
	if release.ByClient {
		options.Client, options.HasClient = x.hash(route.HashKey{By: route.KeyClient})
	}
}

// abandonedAfter is how long a client waited that left because there was no response. That
// a client left is noticed with a delay of goneCheckPeriod.
const abandonedAfter = 5 * goneCheckPeriod / 2

// mayRetryStable decides whether an error of the canary is dropped, and the request sent
// again to the stable revision.
func (a *attempt) mayRetryStable() bool {
	switch a.x.conn.buffers.response.Status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return false
	}
	canary := a.canaryToLeave()
	if canary == nil || !canary.TakeRetry(time.Now()) {
		return false
	}
	a.target.retryOf = canary
	return true
}

// leavesOverdue decides whether a response of the canary is not waited for any longer, and the
// request sent again to the stable revision.
func (a *attempt) leavesOverdue() bool {
	canary := a.canaryToLeave()
	if canary == nil || !canary.Overdue(a.waited) || !canary.TakeRetry(time.Now()) {
		return false
	}
	a.isOverdue = true
	a.target.retryOf, a.target.overdue = canary, a.waited
	return true
}

// canaryToLeave is the revision of the attempt if it is a canary and the request may be sent
// again to the stable revision, else nil. Only requests are that may be sent twice without an
// effect. One that selects the canary gets its response, whatever that is.
func (a *attempt) canaryToLeave() *upstream.Revision {
	x := a.x
	revision := a.target.lease.Revision()
	if revision == nil || revision.Name() != string(route.RevisionCanary) || a.target.options.Revision != "" {
		return nil
	}
	if !safe(x.conn.head.MethodID) || a.forward.Upgrade || !a.replayable() || x.record.Attempts >= maxAttempts {
		return nil
	}
	// Without a weight the stable revision is about to go, and its Pods are too few.
	if release := a.target.handle.Release(); release == nil || release.Stable.Weight == 0 {
		return nil
	}
	return revision
}

// safe reports whether a method asks for nothing but a response (RFC 9110, 9.2.1).
func safe(method h1.Method) bool {
	return method == h1.MethodGet || method == h1.MethodHead || method == h1.MethodOptions
}

// leaveCanary leads the attempts after one at the canary to the stable revision.
func (a *attempt) leaveCanary() {
	if t := &a.target; a.x.record.Revision == string(route.RevisionCanary) && t.options.Revision == "" {
		t.options.Revision, t.retried = route.RevisionStable, true
	}
}

// countRevision counts the attempt for the revision of its endpoint, once. A client that
// has left is no sign about the revision unless it waited for long, and neither is a
// pooled connection that had died. A request that the canary failed does not count for the stable
// revision: it was not drawn, and may fail there for its own reason.
func (a *attempt) countRevision(outcome upstream.Outcome) {
	revision := a.target.lease.Revision()
	if revision == nil {
		return
	}
	x := a.x
	x.record.Revision = revision.Name()
	if canary := a.target.retryOf; canary != nil && revision != canary && outcome == upstream.OK {
		canary.ReturnRetry()
		// The stable revision shows how long the request takes. One that is as long there,
		// because of its work or of a slow database, is no fault of the canary.
		if overdue := a.target.overdue; overdue > 0 && x.record.Responded-x.record.Connected < overdue {
			canary.Observe(true, 0)
		}
		a.target.retryOf = nil
	}
	if a.counted || a.target.retried || outcome == upstream.Cancelled && !a.abandoned {
		return
	}
	a.counted = true
	failed := outcome != upstream.OK || a.cutOff || a.failedCall()
	began := x.proxied
	if x.record.Attempts > 1 {
		began = x.record.Connected // when the attempts before were over
	}
	revision.Observe(failed, x.record.Responded-began)
}

// The header fields of gRPC, whose status is 200 also for a call that failed.
const (
	grpcType   = "application/grpc"
	grpcStatus = "grpc-status"
)

// failedCall reports whether the response is that of a gRPC call that failed by a fault
// of the server. Its status is in the trailers, or in the head of a response without a
// body.
func (a *attempt) failedCall() bool {
	buffers := a.x.conn.buffers
	response := &buffers.response
	if kind, _ := response.Find("Content-Type"); !bytes.HasPrefix(kind, normalize.Bytes(grpcType)) {
		return false
	}
	status, found := response.Find(grpcStatus)
	if !found && response.Framing == h1.Chunked {
		status, found = buffers.responseBody.Trailers.Find(grpcStatus)
	}
	return found && serverFault(normalize.View(status))
}

// serverFault reports whether a status of gRPC is a fault of the server: Unknown,
// DeadlineExceeded, Internal, Unavailable or DataLoss. The others are about the request
// or the caller.
func serverFault(status string) bool {
	switch status {
	case "2", "4", "13", "14", "15":
		return true
	}
	return false
}
