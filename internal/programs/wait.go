package programs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
)

const (
	// Timeout bounds every wait. Only a failing test waits that long.
	Timeout = 3 * time.Minute
	// lookAgain is the first poll interval for conditions that have no notification.
	lookAgain = 25 * time.Millisecond
	// lookSoon is the poll interval for conditions within the process, which
	// cost nothing to look at.
	lookSoon = 2 * time.Millisecond
)

// Eventually polls a condition until it returns nil, and fails the test after
// Patience.
func Eventually(t testing.TB, condition func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	must.Do(t, Await(ctx, condition))
}

// Until polls a condition of this process until it holds, and fails the test
// after Patience with what it waited for.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	err := poll(ctx, lookSoon, nil, func(context.Context) error {
		if holds() {
			return nil
		}
		return errors.New(what)
	})
	if err != nil {
		t.Fatalf("waited in vain: %v", err)
	}
}

// Background calls run in a goroutine. At the end of the test it calls stop,
// which has to end run, and waits for that.
func Background(t testing.TB, run, stop func()) {
	var running sync.WaitGroup
	running.Go(run)
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

// Receive returns what a channel delivers, and fails the test when nothing comes
// within Patience.
func Receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(Timeout):
		t.Fatalf("waited in vain for %s", what)
		panic("not reached")
	}
}

// Await polls a condition until it returns nil or the context is done. It
// returns the last error from before that point.
func Await(ctx context.Context, condition func(ctx context.Context) error) error {
	return poll(ctx, lookAgain, nil, condition)
}

// poll is Await with an interval. It ends early when ended is closed; the error
// is then that of the condition.
//
// The interval grows with the wait, to slower times the first one, and is never
// shorter than twice the condition took: what is waited for needs the processor
// as well, and a condition may be a command.
func poll(ctx context.Context, interval time.Duration, ended <-chan struct{}, condition func(ctx context.Context) error) error {
	const slower, share = 4, 20
	began := time.Now()
	again := time.NewTimer(interval)
	defer again.Stop()
	var last error
	for {
		checked := time.Now()
		err := condition(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // later errors only report the expired context
		}
		now := time.Now()
		again.Reset(max(interval, min(now.Sub(began)/share, slower*interval), 2*now.Sub(checked)))
		select {
		case <-again.C:
		case <-ended:
			return last
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		}
	}
}

// Setting returns a number of the environment with which a test is run, which is
// at least 0, or another one without it.
func Setting[Number int | int64](t testing.TB, name string, otherwise Number) Number {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < 0 {
		t.Fatalf("%s is %q: give a number", name, text)
	}
	return Number(value)
}
