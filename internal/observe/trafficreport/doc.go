// Package trafficreport has the traffic report of an edge as plain values: the edge
// serves them as JSON, and the agent of the runtime reads them. They are here
// because neither may import the other.
//
//	report    routes, backends, certificates and refusals, with request counts
//	release   what the revisions of Releases served
//	spread    a histogram of durations with a fixed number of buckets
//	explain   how one request is routed
//
// Counts only grow while an edge runs. For a period, take the difference of two
// reports with the same Started.
package trafficreport
