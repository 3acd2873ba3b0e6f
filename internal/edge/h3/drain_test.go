package h3_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/bridge/bridgetest"
	"slipway.dev/slipway/internal/edge/h3"
	"slipway.dev/slipway/internal/must"
)

// Drain waits for what runs, refuses what is new, and closes what is idle.
func TestDrain(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	s := start(t, h3.Config{DrainQuiet: 100 * time.Millisecond, Handler: bridgetest.Handler(func(x *bridgetest.Exchange) {
		if string(x.Head.Method()) == "POST" {
			_ = x.Respond(200, "")
			return
		}
		_ = x.Send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
		close(arrived)
		<-release
		_ = x.Send("hello")
	})})
	idle := client(t, s)
	response := must.Get(idle.Post(s.url, "", nil))(t)
	response.Body.Close()
	busy := client(t, s)
	running := must.Get(busy.Get(s.url))(t)
	defer running.Body.Close()
	bridgetest.Within(t, "the request", arrived)
	if s.Len() != 2 {
		t.Errorf("%d connections", s.Len())
	}
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(t.Context()) }()
	// Serve ends at once: no new client is let in.
	if err := bridgetest.Within(t, "the end of Serve", s.served); err != nil {
		t.Error(err)
	}
	s.served <- nil // for the end of the test
	if s.AltSvc() != "" {
		t.Error("it is still announced")
	}
	if _, err := dial(t, s); err == nil {
		t.Error("a new connection was let in")
	}
	if reason := bridgetest.Within(t, "a refusal", s.refused); reason != h3.ReasonDraining {
		t.Errorf("refused because of %s", reason)
	}
	select {
	case err := <-drained:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	close(release)
	if body, err := io.ReadAll(running.Body); string(body) != "hello" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	if err := bridgetest.Within(t, "the end of Drain", drained); err != nil {
		t.Error(err)
	}
}

// Drain ends with its context, whatever runs.
func TestDrainInTime(t *testing.T) {
	arrived := make(chan struct{})
	s := start(t, h3.Config{Handler: bridgetest.Handler(func(x *bridgetest.Exchange) {
		close(arrived)
		<-x.Stream.Context().Done()
	})})
	failed := make(chan error, 1)
	c := client(t, s)
	go func() {
		response, err := c.Get(s.url)
		if err == nil {
			response.Body.Close()
		}
		failed <- err
	}()
	bridgetest.Within(t, "the request", arrived)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it ended with %v", err)
	}
	if err := bridgetest.Within(t, "the client", failed); err == nil {
		t.Error("the client got an answer")
	}
}

// A Server that was never used can be closed, and does not serve after that.
func TestCloseUnused(t *testing.T) {
	s := must.Get(h3.Listen(h3.Config{Address: "127.0.0.1:0", TLS: tlsConfig(t), Handler: http.NotFoundHandler()}))(t)
	s.Close()
	if err := s.Serve(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}
