package observe_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/observe"
)

func TestLoggerLevels(t *testing.T) {
	for level, want := range map[string]string{"debug": "dbg inf wrn err", "info": "inf wrn err", "warn": "wrn err", "error": "err"} {
		var out bytes.Buffer
		log := must.Get(observe.NewLogger(&out, level, "json"))(t)
		log.Debug("dbg")
		log.Info("inf")
		log.Warn("wrn")
		log.Error("err")
		var got []string
		for line := range strings.Lines(out.String()) {
			var entry struct{ Msg string }
			if err := json.Unmarshal([]byte(line), &entry); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			got = append(got, entry.Msg)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", level, got, want)
		}
	}
}

func TestLoggerFormats(t *testing.T) {
	for format, start := range map[string]string{"json": "{", "text": "time=", "auto": "{"} {
		var out bytes.Buffer // not a terminal
		log := must.Get(observe.NewLogger(&out, "info", format))(t)
		log.Info("hello", observe.KeyAddress, "a")
		if !strings.HasPrefix(out.String(), start) || !strings.Contains(out.String(), "hello") {
			t.Errorf("%s: got %q", format, out.String())
		}
	}
}

func TestLoggerRefuses(t *testing.T) {
	for _, c := range []struct{ level, format, want string }{
		{"loud", "text", `the log level "loud" is not known: choose one of debug, info, warn, error`},
		{"", "text", `the log level "" is not known: choose one of debug, info, warn, error`},
		{"info+2", "text", `the log level "info+2" is not known: choose one of debug, info, warn, error`},
		{"info", "xml", `the log format "xml" is not known: choose one of auto, text, json`},
	} {
		log, err := observe.NewLogger(&bytes.Buffer{}, c.level, c.format)
		if log != nil || err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}
