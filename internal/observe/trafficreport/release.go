package trafficreport

import "time"

// ReleasesPath is the path of the edge's API for the counts of Releases. They are apart
// from the report, because they are read often while a release runs.
const ReleasesPath = "/api/v1/releases"

// MaxReleases bounds the Releases of one report.
const MaxReleases = 1000

// ReleaseReport has the Releases of one edge at one moment.
type ReleaseReport struct {
	// Started is when the edge began to count.
	Started  time.Time        `json:"started"`
	At       time.Time        `json:"at"`
	Releases []ReleaseTraffic `json:"releases"`
}

// ReleaseTraffic has what the revisions of a Release served.
type ReleaseTraffic struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// UID is that of the object: another object of its name is another release.
	UID string `json:"uid,omitempty"`
	// Ended is set if no backend has the Release any more.
	Ended     bool              `json:"ended,omitempty"`
	Revisions []RevisionTraffic `json:"revisions"`
}

// RevisionTraffic has the requests of a revision since the edge started, or of a period.
// A request that is sent again counts for the revision of each attempt.
type RevisionTraffic struct {
	// Name is stable or canary, and Hash distinguishes the revisions that had the name.
	Name string `json:"name"`
	Hash string `json:"hash"`
	// Ended is set if the Release has another revision of the name now.
	Ended bool `json:"ended,omitempty"`
	// Weight is its share now.
	Weight uint32 `json:"weight,omitempty"`
	// Started are the requests that were sent to it, with those that it has not responded
	// to yet.
	Started uint64 `json:"started,omitempty"`
	// Requests are those that a client waited for, and Errors those of them that
	// failed: a status of 500 or more, a gRPC status that stands for a fault of the
	// server, or no response.
	Requests uint64 `json:"requests"`
	Errors   uint64 `json:"errors"`
	// Latency is the histogram of the time to the response head, of the requests that
	// did not fail, without empty buckets at its end. Its numbers wrap around.
	Latency []uint32 `json:"latency,omitempty"`
	// Took is the sum of these times.
	Took time.Duration `json:"took,omitempty"`
}

// Add adds the counts of another edge.
func (t *RevisionTraffic) Add(other *RevisionTraffic) {
	t.Started += other.Started
	t.Requests += other.Requests
	t.Errors += other.Errors
	t.Took += other.Took
	if short := len(other.Latency) - len(t.Latency); short > 0 {
		t.Latency = append(t.Latency, make([]uint32, short)...)
	}
	for i, n := range other.Latency {
		t.Latency[i] += n
	}
}

// Since returns the difference to earlier counts of the same run of an edge.
func (t *RevisionTraffic) Since(earlier *RevisionTraffic) RevisionTraffic {
	out := RevisionTraffic{Name: t.Name, Hash: t.Hash, Weight: t.Weight, Took: t.Took - min(t.Took, earlier.Took), Latency: make([]uint32, len(t.Latency))}
	out.Started = t.Started - min(t.Started, earlier.Started)
	out.Requests = t.Requests - min(t.Requests, earlier.Requests)
	out.Errors = t.Errors - min(t.Errors, earlier.Errors)
	for i, n := range t.Latency {
		if i < len(earlier.Latency) {
			n -= earlier.Latency[i]
		}
		out.Latency[i] = n
	}
	return out
}
