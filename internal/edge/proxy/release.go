package proxy

import (
	"bytes"

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

// countRevision counts the attempt for the revision of its endpoint, once. A client that
// has left is no sign about the revision, and neither does a pooled connection that had
// died.
func (a *attempt) countRevision(outcome upstream.Outcome) {
	revision := a.target.lease.Revision()
	if revision == nil {
		return
	}
	x := a.x
	x.record.Revision = revision.Name()
	if a.counted || outcome == upstream.Cancelled {
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
