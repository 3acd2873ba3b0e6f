package kube

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// mostVerbose bounds the verbosity of client-go. From level 8 on it logs response
// bodies, and those have Secrets.
const mostVerbose = slog.Level(-4)

// QuietLogger returns a logger for client-go that writes everything on the level
// debug: callers report the errors that matter themselves.
func QuietLogger(log *slog.Logger) logr.Logger {
	return logr.FromSlogHandler(quietHandler{log.Handler()})
}

// LogTo redirects the log of client-go for the whole process to a logger, on the
// level debug. Call it at the start of the program: klog does not allow a change
// of the logger while it is in use.
func LogTo(log *slog.Logger) {
	klog.SetLogger(QuietLogger(log))
}

// quietHandler writes everything on the level debug.
type quietHandler struct{ slog.Handler }

// Enabled reports whether debug is enabled and the message is within mostVerbose.
func (h quietHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= mostVerbose && h.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle writes the record on the level debug. Errors arrive without a call of
// Enabled, hence the check.
func (h quietHandler) Handle(ctx context.Context, record slog.Record) error {
	if !h.Handler.Enabled(ctx, slog.LevelDebug) {
		return nil
	}
	record.Level = slog.LevelDebug
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h quietHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	return quietHandler{h.Handler.WithAttrs(attributes)}
}

// WithGroup implements slog.Handler.
func (h quietHandler) WithGroup(name string) slog.Handler {
	return quietHandler{h.Handler.WithGroup(name)}
}
