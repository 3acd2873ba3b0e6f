package trafficreport

// ReleaseTraffic has what the revisions of a Release served.
type ReleaseTraffic struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Revisions []RevisionTraffic `json:"revisions"`
}

// RevisionTraffic has the requests of a revision since the edge started, or of a period.
// A request that is sent again counts for the revision of each attempt.
type RevisionTraffic struct {
	// Name is stable or canary, and Hash distinguishes the revisions that had the name.
	Name string `json:"name"`
	Hash string `json:"hash"`
	// Requests are those that a client waited for, and Errors those of them that
	// failed: a status of 500 or more, a gRPC status that stands for a fault of the
	// server, or no response.
	Requests uint64 `json:"requests"`
	Errors   uint64 `json:"errors"`
	// Latency is the histogram of the time to the response head, of the requests that
	// did not fail, without empty buckets at its end. Its numbers wrap around.
	Latency []uint32 `json:"latency,omitempty"`
}

// Add adds the counts of another edge.
func (t *RevisionTraffic) Add(other *RevisionTraffic) {
	t.Requests += other.Requests
	t.Errors += other.Errors
	if short := len(other.Latency) - len(t.Latency); short > 0 {
		t.Latency = append(t.Latency, make([]uint32, short)...)
	}
	for i, n := range other.Latency {
		t.Latency[i] += n
	}
}

// Since returns the difference to earlier counts of the same run of an edge.
func (t *RevisionTraffic) Since(earlier *RevisionTraffic) RevisionTraffic {
	out := RevisionTraffic{Name: t.Name, Hash: t.Hash, Latency: make([]uint32, len(t.Latency))}
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
