package route

import (
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// Release divides the requests of a backend between two revisions of a workload. The
// revision of each endpoint is in Endpoint.Revision.
type Release struct {
	// Namespace and Name are those of the object, which several backends can share.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// UID is that of the object. Another object of its name is another release, whose
	// counts begin at 0.
	UID string `json:"uid,omitempty"`
	// Stable and Canary are the two revisions.
	Stable RevisionShare `json:"stable"`
	Canary RevisionShare `json:"canary"`
	// ByClient divides clients by their address, not requests.
	ByClient bool `json:"byClient,omitempty"`
	// Header and Cookie select a revision for a request, whatever the weights are.
	Header *ReleaseMatch `json:"header,omitempty"`
	Cookie *ReleaseMatch `json:"cookie,omitempty"`
}

// RevisionShare is a revision with its share of the requests.
type RevisionShare struct {
	// Hash distinguishes the revision from others of the workload.
	Hash string `json:"hash"`
	// Weight is relative to that of the other revision. A revision of weight 0 gets
	// only requests that select it, unless the other has no ready endpoint.
	Weight uint32 `json:"weight,omitempty"`
	// Commit is the Git commit of the revision, by which a request can select it.
	Commit string `json:"commit,omitempty"`
}

// ReleaseMatch is a header or cookie that selects a revision.
type ReleaseMatch struct {
	Name string `json:"name"`
	// Value selects the canary. When it is empty, the value of the request is the
	// name of a revision, or at least 7 characters of its commit.
	Value string `json:"value,omitempty"`
}

// Revision is the part of a Release that an endpoint belongs to.
type Revision string

// The revisions. An endpoint of a backend with a Release that has none gets no request
// while an endpoint of a revision is ready.
const (
	RevisionStable Revision = "stable"
	RevisionCanary Revision = "canary"
)

// minCommit is how much of a commit a request has to name: an abbreviation of Git.
const minCommit = 7

// Select returns the revision that a value of a header or cookie selects, empty for
// none.
func (r *Release) Select(match *ReleaseMatch, value string) Revision {
	switch {
	case value == "":
		return ""
	case match.Value != "":
		if value == match.Value {
			return RevisionCanary
		}
		return ""
	case value == string(RevisionCanary) || r.Canary.is(value):
		return RevisionCanary
	case value == string(RevisionStable) || r.Stable.is(value):
		return RevisionStable
	}
	return ""
}

// is reports whether a value names the commit of the revision.
func (s *RevisionShare) is(commit string) bool {
	return len(commit) >= minCommit && strings.HasPrefix(s.Commit, commit)
}

// check validates a Release.
func (l *Release) check(r *report) {
	if l == nil {
		return
	}
	r.enter("release")
	checkName(r, "name", l.Name)
	checkOptionalName(r, "namespace", l.Namespace)
	if l.Stable.Hash == "" || l.Stable.Hash == l.Canary.Hash {
		r.add("stable", refusal.Conflict, "the two revisions have the same hash; give each its own")
	}
	for name, match := range map[string]*ReleaseMatch{"header": l.Header, "cookie": l.Cookie} {
		if match != nil && !validToken(match.Name) {
			r.add(name, refusal.Invalid, "%q is not a name that a header or cookie can have", match.Name)
		}
	}
	r.leave()
}
