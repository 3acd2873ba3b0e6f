package traffic

import (
	"slices"

	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// measured are counts of some edges: since they started, and in the last
// interval.
type measured struct {
	// total is since the start of the edges, and step in the last interval.
	total, step trafficreport.Count
	// The rates are of the last interval, which differs between edges.
	requests, errors, clientErrors float64
}

// add adds the counts of one edge.
func (m *measured) add(total, step *trafficreport.Count, seconds float64) {
	m.total.Add(total)
	if seconds <= 0 {
		return
	}
	m.step.Add(step)
	m.requests += float64(step.Requests()) / seconds
	m.errors += float64(step.Statuses[5]) / seconds
	m.clientErrors += float64(step.Statuses[4]) / seconds
}

// message converts the counts.
func (m *measured) message() *runtimev1.TrafficNumbers {
	return &runtimev1.TrafficNumbers{
		RequestsPerSecond: m.requests, ErrorsPerSecond: m.errors, ClientErrorsPerSecond: m.clientErrors,
		P50: trafficreport.Quantile(m.step.Spread, 0.5).Seconds(), P99: trafficreport.Quantile(m.step.Spread, 0.99).Seconds(),
		Requests: m.total.Requests(), Errors: m.total.Statuses[5],
	}
}

// numbers returns the counts of the routes with requests. Rates are summed over
// the edges, each with the interval that it was measured in.
func numbers(edges []*edgeView, routes []trafficreport.RouteID) []*runtimev1.RouteTraffic {
	var all []*runtimev1.RouteTraffic
	for place, id := range routes {
		var sum measured
		for _, edge := range edges {
			if total, any := edge.counts[id]; any {
				step := edge.step[id]
				sum.add(&total, &step, edge.seconds)
			}
		}
		if sum.total.Requests() > 0 {
			all = append(all, &runtimev1.RouteTraffic{Route: int32(place), Numbers: sum.message()})
		}
	}
	return all
}

// sums returns the counts of all requests, and of those without a route.
func sums(edges []*edgeView) (all, unrouted *runtimev1.TrafficNumbers) {
	var total, stray measured
	for _, edge := range edges {
		total.add(&edge.totals.all, &edge.steps.all, edge.seconds)
		stray.add(&edge.totals.unrouted, &edge.steps.unrouted, edge.seconds)
	}
	return total.message(), stray.message()
}

// states returns the state of each edge. An edge that responds but has no table
// is not ready.
func states(edges []*edgeView) []*runtimev1.EdgeState {
	messages := make([]*runtimev1.EdgeState, len(edges))
	for i, edge := range edges {
		var sum measured
		sum.add(&edge.totals.all, &edge.steps.all, edge.seconds)
		messages[i] = &runtimev1.EdgeState{
			Name: edge.name, Address: edge.address, Version: edge.version, Ready: edge.ready && edge.problem == "", Problem: edge.problem,
			StartedAt: wire.Timestamp(edge.started), RequestsPerSecond: sum.requests,
		}
		if edge.problem == "" && !edge.ready {
			messages[i].Problem = "it serves no table yet"
		}
	}
	return messages
}

// selectEdges returns the edge of a name, or all for an empty name.
func selectEdges(edges []*edgeView, name string) []*edgeView {
	if name == "" {
		return edges
	}
	return slices.DeleteFunc(slices.Clone(edges), func(e *edgeView) bool { return e.name != name })
}
