package httperr_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/httperr"
)

func TestOf(t *testing.T) {
	broken := httperr.New(431, "too_large", "the headers are too large")
	reset := httperr.Reset(http2.ErrCodeFlowControl, "window", "the window is exceeded")
	for _, test := range []struct {
		err    error
		status int
		code   http2.ErrCode
		reason string
	}{
		{nil, 0, 0, ""},
		{io.EOF, 0, 0, ""},
		{broken, 431, http2.ErrCodeProtocol, "too_large"},
		{fmt.Errorf("read: %w", broken), 431, http2.ErrCodeProtocol, "too_large"},
		{errors.Join(io.EOF, reset), 0, http2.ErrCodeFlowControl, "window"},
	} {
		if got := httperr.Of(test.err); got.Status != test.status || got.Code != test.code || got.Reason != test.reason {
			t.Errorf("%v: %+v, want %d, %v and %q", test.err, got, test.status, test.code, test.reason)
		}
	}
}

// A peer that breaks rules on purpose must not make the edge allocate.
func TestNoAllocations(t *testing.T) {
	broken := httperr.New(400, "bare_lf", "a line ends in LF")
	check := func() error { return broken }
	status := 0
	if n := testing.AllocsPerRun(100, func() {
		err := check()
		if status = httperr.Of(err).Status; !errors.Is(err, broken) {
			t.Error("the error is another one")
		}
	}); n != 0 || status != 400 {
		t.Errorf("%v allocations, status %d", n, status)
	}
}
