package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/bench/ground"
	"slipway.dev/slipway/test/binary"
)

// programVariable makes the test binary be the program, so that the tests run
// what make bench-platform runs.
const programVariable = "PLATFORMBENCH_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestSmoke goes through all phases with few runtimes. What it measures is not
// judged, only that there is something.
func TestSmoke(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	file := filepath.Join(t.TempDir(), "result.json")
	code, out, complaint := programs.RunSelf(t, programVariable, ".", "-runtimes=3", "-applications=5", "-steady=100ms", "-down=0", "-changes=3",
		"-json="+file, "-slipway="+binary.Path(t))
	if code != ground.ExitOK {
		t.Fatalf("exit code %d: %s\n%s", code, complaint, out)
	}
	var got report
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(file))(t), &got))
	if len(got.Sizes) != 1 || got.Sizes[0].Applications != 15 {
		t.Fatalf("the sizes are wrong: %+v", got)
	}
	f := got.Sizes[0]
	if min(f.Register, f.Connect, f.Report, f.ReportPeak, f.Requests, f.SteadyMemory, f.FirstRows, f.AllRows, f.Change.P50, f.Ready, f.Restart, f.Served, f.RestartPeak) <= 0 {
		t.Errorf("something was not measured: %+v", f)
	}
	if left := must.Get(os.ReadDir(temporary))(t); len(left) > 0 {
		t.Errorf("files are left behind: %v", left)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-runtimes", "0"}, {"-runtimes", "x"}, {"-applications", "0"}, {"-changes", "0"}, {"-steady", "2h"}, {"-unknown"}, {"word"}} {
		var complaint bytes.Buffer
		if _, err := parseSettings(args, &complaint); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}
