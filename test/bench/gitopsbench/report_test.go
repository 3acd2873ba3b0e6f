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
		Applications: goalSize, Install: syncFigures{Seconds: 14, Peak: 149}, Upgrade: syncFigures{Seconds: 15, Peak: 100},
		One: oneFigures{Seconds: 1, Renders: 1, Requests: 8}, Drift: ground.Spread{P99: 1999},
	}
	slow := good
	slow.Install.Seconds, slow.Idle = 16, idleFigures{Seconds: 60, Requests: 0.2, Written: 1}
	busy := good
	busy.One.Requests, busy.Upgrade.Peak, busy.Idle = 9, 151, idleFigures{Seconds: 60, Requests: 0.21}
	small := slow
	small.Applications = 100
	for name, tt := range map[string]struct {
		figures figures
		missed  int
	}{"good": {good, 0}, "slow, and writes": {slow, 2}, "busy": {busy, 3}, "another size": {small, 0}} {
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
		"nothing": {figures{Applications: goalSize}, 0},
		"install": {figures{Applications: goalSize, Install: syncFigures{Seconds: 1, Peak: 1}}, 2},
		"upgrade": {figures{Applications: goalSize, Install: syncFigures{Seconds: 1, Peak: 1}, Upgrade: syncFigures{Seconds: 1, Peak: 1}}, 3},
	} {
		r := report{Sizes: []*figures{&tt.figures}}
		if got := len(r.decisions()); got != tt.judged {
			t.Errorf("%s: %d goals are judged, want %d", name, got, tt.judged)
		}
	}
}
