package bridge_test

import (
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/bridge"
)

func TestResets(t *testing.T) {
	limits := bridge.DefaultResetLimits()
	for _, tt := range []struct {
		name string
		// of each ten streams, so many are cut off
		cut  int
		age  time.Duration
		most int // streams until that is too many, 0 for never
	}{
		{"all", 10, 0, 250},
		{"nine of ten", 9, 0, 278},
		{"half", 5, 0, 500},
		{"four of ten", 4, 0, 0},
		{"all, but late", 10, time.Second, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := bridge.Resets{Limits: limits}
			ended := 0
			for i := 0; i < 20_000 && ended == 0; i++ {
				r.Opened()
				if i%10 < tt.cut && r.Cut(tt.age) {
					ended = i + 1
				}
			}
			if tt.most == 0 && ended != 0 || tt.most != 0 && (ended == 0 || ended > tt.most+10) {
				t.Errorf("ended after %d streams, want %d", ended, tt.most)
			}
		})
	}
	t.Run("after a long good past", func(t *testing.T) {
		r := bridge.Resets{Limits: limits}
		for range 100_000 {
			r.Opened()
		}
		for i := range 1500 {
			r.Opened()
			if r.Cut(0) {
				t.Logf("ended after %d", i)
				return
			}
		}
		t.Error("never ended")
	})
}
