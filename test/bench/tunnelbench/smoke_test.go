package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/test/bench/ground"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The program measures everything, reports it, and leaves nothing behind.
func TestSmoke(t *testing.T) {
	for _, secure := range []string{"true", "false"} {
		file := filepath.Join(t.TempDir(), "report.json")
		var out, complaint bytes.Buffer
		code := program.Run([]string{"-megabytes", "4", "-streams", "2", "-requests", "100", "-rounds", "1", "-tls=" + secure, "-json", file}, &out, &complaint)
		if code != ground.ExitOK {
			t.Fatalf("exit code %d: %s", code, complaint.String())
		}
		for _, row := range []string{"one stream", "many streams", "latency p50", "latency p99", "requests", "processor per request"} {
			if !strings.Contains(out.String(), row) {
				t.Errorf("no row %q in\n%s", row, out.String())
			}
		}
		text := must.Get(os.ReadFile(file))(t)
		var r report
		must.Do(t, json.Unmarshal(text, &r))
		for _, f := range []figures{r.Direct, r.Tunnel} {
			if min(f.OneStream, f.ManyStreams, f.P50, f.P99, f.PerSecond) <= 0 {
				t.Errorf("something was not measured: %+v", f)
			}
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-megabytes", "0"}, {"-requests", "1"}, {"-requests", "100", "-streams", "101"}, {"-unknown"}, {"word"}} {
		var out, complaint bytes.Buffer
		if code := program.Run(args, &out, &complaint); code != ground.ExitUsage || complaint.Len() == 0 {
			t.Errorf("%v: exit code %d, %q", args, code, complaint.String())
		}
	}
}
