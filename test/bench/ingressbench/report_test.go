package main

import (
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/test/bench/ground"
)

func TestCost(t *testing.T) {
	all := cost{}.plus(cost{3 * time.Millisecond, 100}).plus(cost{time.Millisecond, 300})
	if got := all.micros(); got != 10 {
		t.Errorf("a request took %v µs", got)
	}
	if got := (cost{cpu: time.Millisecond}).micros(); got != 1000 {
		t.Errorf("none took %v µs", got)
	}
}

// good are figures that reach every goal.
func good() *figures {
	return &figures{
		Ingresses: 5000, Cold: 1, Settled: 149, InUse: 149,
		Create:    delayFigures{FromCall: ground.Spread{P99: 99}},
		Endpoint:  delayFigures{FromCall: ground.Spread{P99: 49}},
		CreateCPU: 4.9, EndpointCPU: 4.9,
		Request: requestFigures{One: 19, Wide: 19, WideTimes: 1, All: 20, AllTimes: 1.05, RoutesTimes: 1.05, Any: 19, Shared: 20, SharedTimes: 1.05, Alone: 19, SharedAloneTimes: 1.05},
	}
}

func TestGoals(t *testing.T) {
	for name, worse := range map[string]func(*figures){
		"new Ingress live":        func(f *figures) { f.Create.FromCall.P99 = 100 },
		"endpoint change live":    func(f *figures) { f.Endpoint.FromCall.P99 = 50 },
		"CPU per new Ingress":     func(f *figures) { f.CreateCPU = 5.1 },
		"CPU per endpoint change": func(f *figures) { f.EndpointCPU = 5.1 },
		"with all endpoints":      func(f *figures) { f.Request.RoutesTimes = 1.1 },
		"with one endpoint":       func(f *figures) { f.Request.SharedAloneTimes = 1.1 },
		"with all names":          func(f *figures) { f.Request.SharedTimes = 1.1 },
		"memory, settled":         func(f *figures) { f.Settled = 150 },
		"memory, all routes":      func(f *figures) { f.InUse = 150 },
		"cold start":              func(f *figures) { f.Ingresses, f.Cold = 10_000, 5 },
	} {
		f := good()
		r := &report{Sizes: []*figures{f}}
		if ground.Missed(r.decisions()) != 0 {
			t.Fatalf("missed %d goals of %+v", ground.Missed(r.decisions()), f)
		}
		worse(f)
		var out strings.Builder
		r.print(&out)
		if ground.Missed(r.decisions()) != 1 || strings.Count(out.String(), "MISSED") != 1 || !lineHas(out.String(), "MISSED", name) {
			t.Errorf("%s: %d missed:\n%s", name, ground.Missed(r.decisions()), out.String())
		}
	}
	// What was not measured is missed.
	if r := (&report{Sizes: []*figures{{Ingresses: 5000}}}); ground.Missed(r.decisions()) != 9 {
		t.Errorf("%d missed without any figure", ground.Missed(r.decisions()))
	}
}

// Gateways have goals of their own, besides those of all routes.
func TestGatewayGoals(t *testing.T) {
	for name, worse := range map[string]func(*figures){
		"new HTTPRoute live":         func(f *figures) { f.Create.FromCall.P99 = 10 },
		"endpoint of an HTTPRoute":   func(f *figures) { f.Endpoint.FromCall.P99 = 10 },
		"memory above an empty edge": func(f *figures) { f.Empty = 80 },
		"HTTPRoutes to Ingresses":    func(f *figures) { f.Beside.Times = 1.1 },
		"listener open":              func(f *figures) { f.Listeners.Added.FromCall.P99 = 50 },
		"listener closed":            func(f *figures) { f.Listeners.Removed.FromCall.P99 = 50 },
	} {
		f := good()
		f.Create.FromCall.P99, f.Endpoint.FromCall.P99, f.Empty = 9, 9, 90
		f.Listeners = &listenerFigures{Gateways: 1000, Added: delayFigures{FromCall: ground.Spread{P99: 49}}, Removed: delayFigures{FromCall: ground.Spread{P99: 49}}, Requests: 7}
		f.Beside = &besideFigures{Ingress: 20, Route: 20.4, Times: 1.02, Low: 0.99, High: 1.05}
		r := &report{Sizes: []*figures{f}, Gateway: true}
		if ground.Missed(r.decisions()) != 0 {
			t.Fatalf("missed %d goals of %+v", ground.Missed(r.decisions()), f)
		}
		worse(f)
		var out strings.Builder
		r.print(&out)
		if ground.Missed(r.decisions()) != 1 || !lineHas(out.String(), "MISSED", name) || !lineHas(out.String(), "requests meanwhile", "1000 (7)") {
			t.Errorf("%s: %d missed:\n%s", name, ground.Missed(r.decisions()), out.String())
		}
	}
}

// The ratio is the median of those of rounds, so that a disturbed round counts for no more
// than another one.
func TestRatios(t *testing.T) {
	of := func(micros ...int) []cost {
		var rounds []cost
		for _, one := range micros {
			rounds = append(rounds, cost{time.Duration(one) * time.Millisecond, 1000})
		}
		return rounds
	}
	low, median, high := quartiles(ratios(of(20, 22, 10, 90, 30), of(20, 20, 20, 10, 20)))
	if low != 1 || median != 1.1 || high != 1.5 {
		t.Errorf("the quartiles are %v, %v and %v", low, median, high)
	}
	if low, median, high = quartiles([]float64{2}); low != 2 || median != 2 || high != 2 {
		t.Errorf("of one they are %v, %v and %v", low, median, high)
	}
}

// What was left out on purpose is not judged.
func TestGoalsOfSomePhases(t *testing.T) {
	f := good()
	f.Create, f.CreateCPU = delayFigures{}, 0
	r := &report{Sizes: []*figures{f}, Only: []string{phaseLoad}}
	if ground.Missed(r.decisions()) != 0 || len(r.goals(f)) != 3 {
		t.Errorf("%d of %d goals are missed", ground.Missed(r.decisions()), len(r.goals(f)))
	}
	f.Request.RoutesTimes = 1.2
	f.Peer = &peerFigures{Name: nginxName, requestFigures: requestFigures{One: 20, Wide: 200, All: 36, AllTimes: 1.8, Any: 23, Shared: 24}}
	var out strings.Builder
	r.print(&out)
	if ground.Missed(r.decisions()) != 1 || !lineHas(out.String(), "all routes to all endpoints", "36.0 (1.80)") {
		t.Errorf("%d missed:\n%s", ground.Missed(r.decisions()), out.String())
	}
}

func lineHas(text string, parts ...string) bool {
	for line := range strings.Lines(text) {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			return true
		}
	}
	return false
}
