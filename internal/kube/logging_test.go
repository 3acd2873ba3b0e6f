package kube_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/kube"
)

// What client-go logs is debug, and its most verbose levels, which show responses,
// are nothing at all.
func TestQuietLogger(t *testing.T) {
	var text bytes.Buffer
	at := func(level slog.Level) *slog.Logger {
		text.Reset()
		return slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: level}))
	}
	log := kube.QuietLogger(at(slog.LevelInfo)).WithName("n").WithValues("a", "b")
	log.Info("one")
	log.Error(errors.New("x"), "two")
	if text.Len() > 0 {
		t.Errorf("logged %s, want nothing on the level info", text.String())
	}
	log = kube.QuietLogger(at(slog.LevelDebug)).WithValues("a", "b")
	log.Info("one")
	log.Error(errors.New("x"), "two")
	log.V(4).Info("three")
	log.V(8).Info("body of an answer")
	if got := text.String(); strings.Count(got, "level=DEBUG") != 3 || strings.Contains(got, "body") || !strings.Contains(got, "a=b") {
		t.Errorf("logged %s, want three lines of the level debug", got)
	}
}
