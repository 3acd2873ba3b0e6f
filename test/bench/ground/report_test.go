package ground

import (
	"testing"
	"time"
)

func TestSpread(t *testing.T) {
	var delays []time.Duration
	for i := 200; i > 0; i-- {
		delays = append(delays, time.Duration(i)*time.Millisecond)
	}
	if got, want := SpreadOf(delays), (Spread{P50: 100, P99: 198, Max: 200}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := SpreadOf([]time.Duration{time.Second}), (Spread{P50: 1000, P99: 1000, Max: 1000}); got != want {
		t.Errorf("one: got %+v, want %+v", got, want)
	}
}
