package route

import (
	"reflect"
	"testing"
	"time"
)

func TestHealthCheckDefaults(t *testing.T) {
	second := Duration(time.Second)
	full := HealthCheck{
		Mode: CheckTCP, Path: "/x", Service: "s", Host: "h", Port: 1, Interval: 9 * second, Timeout: 5 * second, Healthy: 4, Unhealthy: 5,
		Statuses: []StatusRange{{From: 204, To: 204}},
	}
	usual := []StatusRange{{From: 200, To: 399}}
	for _, test := range []struct{ given, want HealthCheck }{
		{HealthCheck{}, HealthCheck{Mode: CheckHTTP, Path: "/", Interval: 10 * second, Timeout: 3 * second, Healthy: 1, Unhealthy: 2, Statuses: usual}},
		{HealthCheck{Interval: second}, HealthCheck{Mode: CheckHTTP, Path: "/", Interval: second, Timeout: second, Healthy: 1, Unhealthy: 2, Statuses: usual}},
		{full, full},
	} {
		got := test.given.Settled()
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("got  %+v\nwant %+v", got, test.want)
		}
		check := got
		if problems := (&Backend{ID: BackendID{Name: "a"}, HealthCheck: &HealthCheck{Interval: check.Interval, Timeout: check.Timeout}}).Validate(); len(problems) > 0 {
			t.Errorf("the defaults are not valid: %s", problems[0])
		}
	}
	check := HealthCheck{Statuses: []StatusRange{{From: 200, To: 204}, {From: 418, To: 418}}}
	for status, want := range map[int]bool{199: false, 200: true, 204: true, 205: false, 418: true, 0: false} {
		if check.Passes(status) != want {
			t.Errorf("%d passes: %v, want %v", status, !want, want)
		}
	}
}

func TestProtocols(t *testing.T) {
	for protocol, want := range map[Protocol][2]bool{
		"": {false, false}, ProtocolHTTP1: {false, false}, ProtocolH2C: {false, true},
		ProtocolTLS: {true, false}, ProtocolH2: {true, true}, ProtocolALPN: {true, true},
	} {
		if got := [2]bool{protocol.Encrypted(), protocol.HTTP2()}; got != want {
			t.Errorf("%q: encrypted and HTTP/2 are %v, want %v", protocol, got, want)
		}
	}
}
