package backoff_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/internal/backoff"
)

func TestBase(t *testing.T) {
	policy := backoff.Policy{First: time.Second, Longest: 10 * time.Second}
	for _, test := range []struct {
		policy   backoff.Policy
		failures int
		want     time.Duration
	}{
		{policy, -1, time.Second},
		{policy, 0, time.Second},
		{policy, 1, time.Second},
		{policy, 2, 2 * time.Second},
		{policy, 4, 8 * time.Second},
		{policy, 5, 10 * time.Second},
		{policy, math.MaxInt, 10 * time.Second},
		{backoff.Policy{First: time.Second, Longest: time.Hour, Factor: 3}, 3, 9 * time.Second},
		{backoff.Policy{First: time.Minute, Longest: time.Second}, 1, time.Second},
		{backoff.Policy{First: time.Second, Longest: math.MaxInt64}, 200, math.MaxInt64},
		{backoff.Policy{}, math.MaxInt, 0},
		{backoff.Policy{Longest: time.Second}, 5, 0},
	} {
		if got := test.policy.Base(test.failures); got != test.want {
			t.Errorf("%+v after %d failures: %v, want %v", test.policy, test.failures, got, test.want)
		}
	}
}

func TestDelayIsSpreadWithinTheJitter(t *testing.T) {
	for _, test := range []struct {
		name        string
		policy      backoff.Policy
		least, most time.Duration
	}{
		{"none", backoff.Policy{}, time.Second, time.Second},
		{"full", backoff.Policy{JitterDown: 1}, 0, time.Second},
		{"down", backoff.Policy{JitterDown: 0.5}, 500 * time.Millisecond, time.Second},
		{"up", backoff.Policy{JitterUp: 0.25}, time.Second, 1250 * time.Millisecond},
		{"both", backoff.Policy{JitterDown: 0.5, JitterUp: 0.5}, 500 * time.Millisecond, 1500 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.policy.First, test.policy.Longest = time.Second, time.Second
			shortest, longest := time.Duration(math.MaxInt64), time.Duration(0)
			for range 2000 {
				delay := test.policy.Delay(7)
				shortest, longest = min(shortest, delay), max(longest, delay)
			}
			if shortest < test.least || longest > test.most {
				t.Errorf("between %v and %v, want between %v and %v", shortest, longest, test.least, test.most)
			}
			// 2000 random delays leave no tenth of the range unused at either end.
			if tenth := (test.most - test.least) / 10; shortest > test.least+tenth || longest < test.most-tenth {
				t.Errorf("between %v and %v: the range of %v to %v is not used", shortest, longest, test.least, test.most)
			}
		})
	}
}

func TestSpreadOfNothing(t *testing.T) {
	if got := (backoff.Policy{JitterDown: 1, JitterUp: 1}).Spread(-time.Second); got != 0 {
		t.Errorf("%v, want 0", got)
	}
}

func TestRetriesCountFailuresInARow(t *testing.T) {
	retries := backoff.Retries{Policy: backoff.Policy{First: time.Second, Longest: time.Minute}}
	for _, want := range []time.Duration{1, 2, 4} {
		if got := retries.Next(); got != want*time.Second {
			t.Errorf("%v, want %v", got, want*time.Second)
		}
	}
	retries.Reset()
	if got := retries.Next(); got != time.Second {
		t.Errorf("after a success %v, want %v", got, time.Second)
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := backoff.Sleep(ctx, 10*time.Second); err != nil || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := backoff.Sleep(ctx, 0); err != nil {
			t.Errorf("without a duration: %v", err)
		}
		if err := backoff.Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := backoff.Sleep(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a context that is done: %v", err)
		}
	})
}
