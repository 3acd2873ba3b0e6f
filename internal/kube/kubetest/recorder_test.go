package kubetest_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// record runs f with a testing.TB that notes failures instead of failing.
func record(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	recorder := &recorder{TB: t, ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer recorder.runCleanups()
		f(recorder)
	}()
	<-done
	return recorder.text.String()
}

// recorder stands in for the test of someone else, which fails.
type recorder struct {
	testing.TB
	ctx      context.Context
	text     bytes.Buffer
	failed   bool
	cleanups []func()
}

func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Helper()                  {}
func (r *recorder) Failed() bool             { return r.failed }
func (r *recorder) Cleanup(f func())         { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Logf(format string, args ...any) { fmt.Fprintf(&r.text, format+"\n", args...) }

func (r *recorder) Errorf(format string, args ...any) {
	r.failed = true
	r.Logf(format, args...)
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

func (r *recorder) runCleanups() {
	for len(r.cleanups) > 0 {
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		last()
	}
}

// processHandle stays with one process even when its id is used again.
type processHandle struct{ file *os.File }

func openProcess(t *testing.T, pid int) processHandle {
	t.Helper()
	descriptor, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("open process %d: %v", pid, err)
	}
	handle := processHandle{os.NewFile(uintptr(descriptor), "process")}
	t.Cleanup(func() { handle.file.Close() })
	return handle
}

// ended waits for the end of the process, at most for the given time.
func (p processHandle) ended(t *testing.T, timeout time.Duration) bool {
	t.Helper()
	poll := []unix.PollFd{{Fd: int32(p.file.Fd()), Events: unix.POLLIN}}
	deadline := time.Now().Add(timeout)
	for {
		n, err := unix.Poll(poll, int(max(0, time.Until(deadline)).Milliseconds()))
		if err != unix.EINTR {
			return err == nil && n == 1
		}
	}
}
