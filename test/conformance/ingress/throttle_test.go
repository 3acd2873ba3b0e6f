package ingress

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// testThrottle shows for both options that two changes within the time become
// one, and that it is not too early.
func (s *suite) testThrottle(t *testing.T) {
	for _, option := range []string{"providers.kubernetesIngress.throttleDuration=1s", "providers.providersThrottleDuration=1s"} {
		t.Run(option, func(t *testing.T) {
			s.testThrottled(t, "--"+option)
		})
	}
}

// throttleTime is that of the options. It is long for an API server that writes
// two objects.
const throttleTime = time.Second

func (s *suite) testThrottled(t *testing.T, option string) {
	g := &group{name: fmt.Sprintf("throttle-%d", s.probes)}
	edge := s.startEdge(t, g.name, []string{option})
	c := s.newScene(t, g, edge, g.name)
	c.backendLine(t, "svc")
	c.settle(t)
	changes := func() float64 { return edge.Metric(t, "slipway_ingress_apply_seconds_count", "") }
	for round := range 10 {
		host := func(which string) string { return fmt.Sprintf("%s-%d", which, round) }
		began := time.Now()
		s.apply(t, c.namespace, throttledIngress(host("first")))
		// The edge got the first change then or later.
		told := c.awaitLive(t, host("first"), began)
		before := changes()
		s.apply(t, c.namespace, throttledIngress(host("second")))
		s.apply(t, c.namespace, throttledIngress(host("third")))
		written := time.Now()
		c.awaitLive(t, host("second"), written)
		if took := time.Since(told); took < throttleTime {
			t.Errorf("a change is live %s after the one before, want at least %s", took, throttleTime)
		}
		c.awaitLive(t, host("third"), written)
		if written.Sub(told) > throttleTime/2 {
			continue // the API server was slow: they need not have come within the time
		}
		if got := changes() - before; got != 1 {
			t.Errorf("two changes within %s became %v", throttleTime, got)
		}
		return
	}
	t.Errorf("the API server never wrote two objects within %s", throttleTime/2)
}

// awaitLive waits until a host is served. It returns when the last look began
// that found it was not, or the time that is given when there was none.
func (c *scene) awaitLive(t *testing.T, name string, last time.Time) time.Time {
	t.Helper()
	q := &request{
		method: http.MethodGet, url: "http://" + name + ".example/", header: http.Header{}, times: 1,
		wantStatus: http.StatusOK, wantBackends: []string{"svc"},
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		began := time.Now()
		wrong := q.try(t, c)
		if wrong == "" {
			return last
		}
		if ctx.Err() != nil {
			t.Fatal(wrong)
		}
		last = began
		pause(ctx)
	}
}

func throttledIngress(name string) string {
	return fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[1]s}
spec:
  rules: [{host: %[1]s.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: svc, port: {number: 80}}}}]}}]
`, name)
}
