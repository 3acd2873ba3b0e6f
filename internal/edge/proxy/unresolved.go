package proxy

import (
	"slices"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// unresolvedShare is the share of a rule's requests whose backend does not exist.
// They get an error, and not another backend: the weights are what the author of
// the rule asked for.
type unresolvedShare struct {
	response *filter.LocalResponse
	// turns decides whose turn it is: 0 is this share, 1 the other backends.
	turns *weightedBackends
}

// splitUnresolved returns the backends of a rule that exist, and the share of the
// others; nil if all exist.
func splitUnresolved(refs []route.BackendRef) ([]route.BackendRef, *unresolvedShare) {
	missing := func(ref route.BackendRef) bool { return ref.Status != 0 }
	first := slices.IndexFunc(refs, missing)
	if first < 0 {
		return refs, nil
	}
	share := &unresolvedShare{response: &filter.LocalResponse{Status: refs[first].Status, Reason: string(route.ReasonNoService)}}
	var weights [2]uint32
	for _, ref := range refs {
		if missing(ref) {
			weights[0] += ref.Weight
		} else {
			weights[1] += ref.Weight
		}
	}
	resolved := slices.DeleteFunc(slices.Clone(refs), missing)
	if weights[0] == 0 && weights[1] > 0 {
		return resolved, nil // weight 0 gets no request
	}
	nothing := func(route.BackendID) *upstream.Handle { return nil }
	share.turns = newWeightedBackends([]route.BackendRef{{Weight: weights[0]}, {Weight: weights[1]}}, false, nothing)
	return resolved, share
}

// localResponse returns the response of the rule itself; nil to forward the request.
func (b *binding) localResponse() *filter.LocalResponse {
	if b.response == nil && b.unresolved != nil && b.unresolved.turns.nextIndex() == 0 {
		return b.unresolved.response
	}
	return b.response
}
