package health_test

import "testing"

// TestGatewayRoutes: a route is healthy once a parent has accepted it as it is written,
// and degraded when one has refused it.
func TestGatewayRoutes(t *testing.T) {
	for _, kind := range []string{"TLSRoute", "TCPRoute", "UDPRoute"} {
		check(t, "gateway.networking.k8s.io/v1", kind, []row{
			{"{metadata: {generation: 2}}", progressing, "Waiting for the status of a parent"},
			{"{metadata: {generation: 2}, status: {parents: [{parentRef: {name: public}}]}}", progressing, "Waiting for the status"},
			{"{metadata: {generation: 2}, status: {parents: [{parentRef: {name: public}, conditions: [{type: Accepted, status: 'True', observedGeneration: 1}]}]}}", progressing, "Waiting"},
			{"{metadata: {generation: 2}, status: {parents: [{parentRef: {name: public}, conditions: [{type: Accepted, status: 'True', observedGeneration: 2}]}]}}", healthy, ""},
			{"{metadata: {generation: 2}, status: {parents: [{parentRef: {name: public}, conditions: [{type: Accepted, status: 'False', observedGeneration: 2, message: no listener}]}]}}", degraded, "Parent public: no listener"},
			{"{metadata: {generation: 2}, status: {parents: [{parentRef: {name: public}, conditions: [{type: Accepted, status: 'True'}, {type: ResolvedRefs, status: 'False'}]}]}}", degraded, "ResolvedRefs is False"},
		})
	}
}

// TestListenerSets: the listeners of a set are healthy once they are programmed.
func TestListenerSets(t *testing.T) {
	check(t, "gateway.networking.k8s.io/v1", "ListenerSet", []row{
		{"{metadata: {generation: 2}}", progressing, "Waiting for the status of the Gateway"},
		{"{metadata: {generation: 2}, status: {conditions: [{type: Accepted, status: 'True', observedGeneration: 1}, {type: Programmed, status: 'True', observedGeneration: 1}]}}", progressing, "Waiting for the status"},
		{"{metadata: {generation: 2}, status: {conditions: [{type: Accepted, status: 'False', observedGeneration: 2, message: not allowed}]}}", degraded, "not allowed"},
		{"{metadata: {generation: 2}, status: {conditions: [{type: Accepted, status: 'True', observedGeneration: 2}]}}", progressing, "Waiting for the listeners"},
		{"{metadata: {generation: 2}, status: {conditions: [{type: Accepted, status: 'True'}, {type: Programmed, status: 'False', message: no address}]}}", progressing, "no address"},
		{"{metadata: {generation: 2}, status: {conditions: [{type: Accepted, status: 'True'}, {type: Programmed, status: 'True'}]}}", healthy, ""},
	})
}
