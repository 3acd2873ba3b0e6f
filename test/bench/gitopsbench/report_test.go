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
		Applications: goalSize, Install: syncFigures{Seconds: 29, Peak: 199}, Upgrade: syncFigures{Seconds: 30, Peak: 100},
		One: oneFigures{Seconds: 1, Renders: 1, Requests: 10}, Drift: ground.Spread{P99: 1999},
	}
	slow := good
	slow.Install.Seconds, slow.Idle = 31, idleFigures{Seconds: 60, Requests: 0.5, Written: 1}
	small := slow
	small.Applications = 100
	for name, tt := range map[string]struct {
		figures figures
		missed  int
	}{"good": {good, 0}, "slow, and writes": {slow, 2}, "another size": {small, 0}} {
		r := report{Sizes: []*figures{&tt.figures}}
		if got := ground.Missed(r.decisions()); got != tt.missed {
			t.Errorf("%s: %d goals are missed, want %d", name, got, tt.missed)
		}
		var out bytes.Buffer
		r.print(&out)
		if got := strings.Count(out.String(), "MISSED"); got != tt.missed {
			t.Errorf("%s: %d are told:\n%s", name, got, out.String())
		}
	}
}
