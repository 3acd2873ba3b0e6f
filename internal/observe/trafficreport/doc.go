// Package trafficreport is what an edge tells about its traffic, as plain values:
// the edge writes them as JSON, and the agent of the runtime reads them. They are
// here because neither may know the other.
//
//	report    what is served: routes, backends, certificates, refusals; and counts
//	spread    how long requests took, in a fixed number of buckets
//	explain   what becomes of one request
//
// Counts only grow while an edge runs. Who wants to know what happened in a while
// takes the difference of two reports with the same Started.
package trafficreport
