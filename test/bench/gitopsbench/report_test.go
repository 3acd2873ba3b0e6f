package main

import (
	"bytes"
	"strings"
	"testing"

	"slipway.dev/slipway/test/bench/ground"
)

// A run of the size that goals are for is judged by them, and no other.
func TestGoals(t *testing.T) {
	good := figures{
		Applications: 1000, Install: syncFigures{Seconds: 14, Peak: 149}, Upgrade: syncFigures{Seconds: 15, Peak: 100},
		One: oneFigures{Seconds: 1, Renders: 1, Requests: 8}, Drift: ground.Spread{P99: 1999},
	}
	slow := good
	slow.Install.Seconds, slow.Idle = 16, idleFigures{Seconds: 60, Requests: 0.2, Written: 1}
	busy := good
	busy.One.Requests, busy.Upgrade.Peak, busy.Idle = 9, 151, idleFigures{Seconds: 60, Requests: 0.21}
	small := slow
	small.Applications = 100
	divided := slow
	divided.Agents, divided.first = 2, &good
	large := figures{
		Applications: 10_000, Agents: 1, Install: syncFigures{Seconds: 299, Peak: 400}, Upgrade: syncFigures{Seconds: 300, Peak: 399},
		One: oneFigures{Seconds: 20, Renders: 1, Requests: 80}, Idle: idleFigures{Seconds: 60, Requests: 2}, Drift: ground.Spread{P99: 20_000},
	}
	tooLarge := large
	tooLarge.Install.Seconds, tooLarge.Upgrade.Seconds, tooLarge.Upgrade.Peak, tooLarge.One.Renders = 301, 301, 401, 2
	for name, tt := range map[string]struct {
		figures figures
		missed  int
	}{"good": {good, 0}, "slow, and writes": {slow, 2}, "busy": {busy, 3}, "another size": {small, 0},
		"two agents": {divided, 0}, "10,000": {large, 0}, "10,000, slow and large": {tooLarge, 4}} {
		r := report{Sizes: []*figures{&tt.figures}}
		if got := ground.Missed(r.decisions()); got != tt.missed {
			t.Errorf("%s: %d goals are missed, want %d", name, got, tt.missed)
		}
		var out bytes.Buffer
		r.print(&out)
		if strings.Contains(out.String(), "Inf") || strings.Contains(out.String(), "NaN") {
			t.Errorf("%s: a figure is no number:\n%s", name, out.String())
		}
		if got := strings.Count(out.String(), "MISSED"); got != tt.missed {
			t.Errorf("%s: %d are told:\n%s", name, got, out.String())
		}
	}
}

// Goals of phases that a run did not get to are not judged: zero is within every
// limit.
func TestGoalsOfFailedRun(t *testing.T) {
	for name, tt := range map[string]struct {
		figures figures
		judged  int
	}{
		"nothing": {figures{Applications: 1000}, 0},
		"install": {figures{Applications: 1000, Install: syncFigures{Seconds: 1, Peak: 1}}, 2},
		"upgrade": {figures{Applications: 1000, Install: syncFigures{Seconds: 1, Peak: 1}, Upgrade: syncFigures{Seconds: 1, Peak: 1}}, 3},
	} {
		r := report{Sizes: []*figures{&tt.figures}}
		if got := len(r.decisions()); got != tt.judged {
			t.Errorf("%s: %d goals are judged, want %d", name, got, tt.judged)
		}
	}
}

// Runs of one size with several numbers of agents are compared with the first.
func TestBeside(t *testing.T) {
	one := &figures{Applications: 100, Agents: 1, Install: syncFigures{Seconds: 8}, Upgrade: syncFigures{Seconds: 4}}
	two := &figures{Applications: 100, Agents: 2, Install: syncFigures{Seconds: 6}, Upgrade: syncFigures{Seconds: 1}, first: one}
	var out bytes.Buffer
	(&report{Sizes: []*figures{one, two}}).print(&out)
	shown := strings.Join(strings.Fields(out.String()), " ")
	for _, line := range []string{"Applications / agents 100 / 1 100 / 2", "install / upgrade by the first run's 0.00 / 0.00 0.75 / 0.25"} {
		if !strings.Contains(shown, line) {
			t.Errorf("%q is missing in\n%s", line, out.String())
		}
	}
	out.Reset()
	(&report{Sizes: []*figures{one}}).print(&out)
	if strings.Contains(out.String(), "by the first run") {
		t.Errorf("one run is compared with itself:\n%s", out.String())
	}
}
