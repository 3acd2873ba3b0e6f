package upstream

import (
	"math/rand/v2"

	"slipway.dev/slipway/internal/route"
)

// revisionIndex is the revision of an endpoint in a set.
type revisionIndex uint8

const (
	noRevision revisionIndex = iota
	stableRevision
	canaryRevision

	revisions = int(canaryRevision) + 1
)

// indexOf returns the index of a revision.
func indexOf(name route.Revision) revisionIndex {
	switch name {
	case route.RevisionStable:
		return stableRevision
	case route.RevisionCanary:
		return canaryRevision
	}
	return noRevision
}

// releaseShares divides the requests of a backend between the revisions of a Release.
// Only backends with a Release have it (decision 0066).
type releaseShares struct {
	release *route.Release
	parts   [revisions]revisionPart
	// drawn is set while both revisions have a weight and a ready endpoint. Otherwise
	// the candidates of the set are those of one revision, and there is nothing to draw.
	drawn bool
	// open are the revisions whose endpoints are candidates of the set.
	open [revisions]bool
}

// revisionPart is one revision of a backend.
type revisionPart struct {
	candidateSet
	weight   uint64
	counters *Revision
	// mark ends the sticky values of its endpoints, so that a client whose endpoint is
	// gone stays with the revision.
	mark string
}

// newReleaseShares prepares the shares of a backend, nil without a Release.
func newReleaseShares(release *route.Release) *releaseShares {
	if release == nil {
		return nil
	}
	s := &releaseShares{release: release}
	s.parts[stableRevision].weight = uint64(release.Stable.Weight)
	s.parts[canaryRevision].weight = uint64(release.Canary.Weight)
	return s
}

// divide sets the candidates of each revision, and returns those of the whole backend:
// the endpoints of the revisions with a weight. A revision without a ready endpoint
// leaves its share to the other. Endpoints without a revision are there only when no
// other is.
func (s *releaseShares) divide(ready []*endpointEntry, zone string, preferZone bool) []*endpointEntry {
	var of [revisions][]*endpointEntry
	for _, m := range ready {
		of[m.revision] = append(of[m.revision], m)
	}
	var weighted [revisions]bool
	for i := stableRevision; i <= canaryRevision; i++ {
		s.parts[i].candidateSet = newCandidateSet(of[i], zone, preferZone)
		weighted[i] = s.parts[i].weight > 0 && len(of[i]) > 0
	}
	switch {
	case weighted[stableRevision] && weighted[canaryRevision]:
		s.drawn = true
		s.open[stableRevision], s.open[canaryRevision] = true, true
		return append(of[stableRevision], of[canaryRevision]...)
	case weighted[canaryRevision]:
		return s.only(canaryRevision, of[canaryRevision])
	case len(of[stableRevision]) > 0:
		return s.only(stableRevision, of[stableRevision])
	case len(of[canaryRevision]) > 0:
		return s.only(canaryRevision, of[canaryRevision])
	}
	return s.only(noRevision, ready)
}

// only makes the endpoints of one revision the candidates.
func (s *releaseShares) only(at revisionIndex, endpoints []*endpointEntry) []*endpointEntry {
	s.open[at] = true
	return endpoints
}

// part returns the revision of a request, nil for the candidates of the backend: the
// one that the request selects, that of its sticky cookie, or one by weight. Each
// request is drawn on its own, so that a pattern of requests does not meet a pattern of
// revisions: the two are compared.
func (s *releaseShares) part(choice *PickOptions, mark string) *revisionPart {
	if at := indexOf(choice.Revision); at != noRevision {
		return &s.parts[at]
	}
	if !s.drawn {
		return nil
	}
	stable, canary := &s.parts[stableRevision], &s.parts[canaryRevision]
	if mark != "" {
		switch mark {
		case stable.mark:
			return stable
		case canary.mark:
			return canary
		}
	}
	total := stable.weight + canary.weight
	var at uint64
	if choice.HasClient {
		// A growing weight adds clients and moves none back.
		at = mix(choice.Client) >> 32 * total >> 32
	} else {
		at = rand.Uint64N(total)
	}
	if at < canary.weight {
		return canary
	}
	return stable
}

// keeps reports whether a client may stay at its sticky endpoint: not if it selects
// another revision, and not at a revision that has no share.
func (s *releaseShares) keeps(m *endpointEntry, choice *PickOptions) bool {
	if s == nil {
		return true
	}
	if at := indexOf(choice.Revision); at != noRevision {
		return m.revision == at
	}
	return s.open[m.revision]
}

// pickRevision picks an endpoint of the revision of a request. It reports false when
// the backend has nothing to divide, or that revision has no endpoint for it.
func (h *Handle) pickRevision(r *endpointSet, g *pickFilter, choice *PickOptions, mark string) (Lease, bool) {
	part := r.shares.part(choice, mark)
	if part == nil || len(part.all.entries) == 0 {
		return Lease{}, false
	}
	return h.pickAvailable(r, &part.candidateSet, g, *choice)
}

// Release is the Release of the backend, nil for none.
func (h *Handle) Release() *route.Release {
	if shares := h.endpoints.Load().shares; shares != nil {
		return shares.release
	}
	return nil
}

// Revision is the revision of the endpoint, nil for a backend without a Release and
// after Done.
func (l *Lease) Revision() *Revision {
	if l.endpoints == nil || !l.endpoints.transport.Divided || l.endpoint == nil {
		return nil
	}
	return l.endpoint.revision.Load()
}
