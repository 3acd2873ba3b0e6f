package kube

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// mostVerbose is how far the levels of client-go are followed. From level 8 on
// it logs the bodies of answers, and those have Secrets.
const mostVerbose = slog.Level(-4)

// QuietLogger gives a logger for client-go. What it writes is for somebody who
// looks for a fault, so all of it is on the level debug.
func QuietLogger(log *slog.Logger) logr.Logger {
	return logr.FromSlogHandler(quietHandler{log.Handler()})
}

// LogTo sends what client-go logs for the whole process to a logger, on the
// level debug. It is for the start of the program: klog can not be given a
// logger while it is in use.
func LogTo(log *slog.Logger) {
	klog.SetLogger(QuietLogger(log))
}

// quietHandler writes everything on the level debug.
type quietHandler struct{ slog.Handler }

// Enabled reports whether debug is written, and the message is not about the
// innermost workings.
func (h quietHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= mostVerbose && h.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle writes the record. Errors come here without a question before.
func (h quietHandler) Handle(ctx context.Context, record slog.Record) error {
	if !h.Handler.Enabled(ctx, slog.LevelDebug) {
		return nil
	}
	record.Level = slog.LevelDebug
	return h.Handler.Handle(ctx, record)
}

// WithAttrs keeps it quiet.
func (h quietHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	return quietHandler{h.Handler.WithAttrs(attributes)}
}

// WithGroup keeps it quiet.
func (h quietHandler) WithGroup(name string) slog.Handler {
	return quietHandler{h.Handler.WithGroup(name)}
}
