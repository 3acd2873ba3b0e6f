package main

import (
	"testing"
)

// The counters of two times become costs of one change.
func TestAPICosts(t *testing.T) {
	const text = `# HELP apiserver_request_total Counter of apiserver requests.
apiserver_request_total{code="200",component="apiserver",resource="httproutes",subresource="status",verb="PATCH"} 30
apiserver_request_total{code="409",component="apiserver",resource="httproutes",subresource="status",verb="PATCH"} 1
apiserver_request_total{code="201",component="apiserver",resource="httproutes",subresource="",verb="POST"} 20
apiserver_request_total{code="200",component="apiserver",resource="leases",subresource="",verb="PUT"} 1
apiserver_watch_events_sizes_sum{group="gateway.networking.k8s.io",resource="httproutes",version="v1"} 2.4e+04
process_cpu_seconds_total 1.5
`
	before := parseAPICosts("process_cpu_seconds_total 1\n")
	got := parseAPICosts(text).text(before, 20)
	if want := "25.0 ms CPU; PATCH httproutes/status 1.55, POST httproutes 1.00, events of httproutes 1200 B"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
