package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/bench/ground"
	"slipway.dev/slipway/test/binary"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// programVariable makes the test binary be the program, so that the tests run
// what make bench-gitops runs, with the race detector.
const programVariable = "GITOPSBENCH_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
	}
	edgeprocess.Main(m)
}

// runProgram is a run of the whole program.
func runProgram(t *testing.T, args ...string) (code int, out, complaint string) {
	t.Helper()
	return programs.RunSelf(t, programVariable, filepath.Join("..", "..", ".."), args...) // where the definitions are
}

// TestSmoke goes through all phases with few Applications, with charts and with
// charts that have dependencies. What it measures is not judged, only that there is
// something.
func TestSmoke(t *testing.T) {
	t.Run("charts with dependencies", func(t *testing.T) { smoke(t, umbrella) })
	t.Run("two agents beside one", func(t *testing.T) { smoke(t, chart, "-agents=1,2", "-alone=false") })
}

// smoke is a run with one form.
func smoke(t *testing.T, chosen form, more ...string) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	result := filepath.Join(t.TempDir(), "result.json")
	code, out, complaint := runProgram(t, append([]string{"-sizes=4", "-form=" + string(chosen), "-idle=1s", "-drift=2",
		"-json=" + result, "-slipway=" + os.Getenv(binary.Variable)}, more...)...)
	if code != ground.ExitOK {
		t.Fatalf("exit code %d: %s\n%s", code, complaint, out)
	}
	text := must.Get(os.ReadFile(result))(t)
	var got report
	must.Do(t, json.Unmarshal(text, &got))
	runs := 1
	if len(more) > 0 {
		runs = 2
	}
	if len(got.Sizes) != runs {
		t.Fatalf("the runs are wrong: %s", text)
	}
	for i, f := range got.Sizes {
		if f.Applications != 4 || f.Agents != i+1 || f.Install.Seconds <= 0 || f.Install.Renders != 4 || f.Install.Requests < 16 || f.Install.Peak <= 0 ||
			f.Upgrade.Seconds <= 0 || f.Upgrade.Renders != 4 || f.One.Renders != 1 || f.One.Requests < 2 || f.Drift.P50 <= 0 || (f.Alone <= 0) != (len(more) > 0) {
			t.Errorf("a figure is missing or wrong: %+v", f)
		}
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A program that is missing is named, with what to do.
func TestMissingProgram(t *testing.T) {
	code, _, complaint := runProgram(t, "-devcluster=none")
	if code != ground.ExitFailure || !strings.Contains(complaint, "run make build") {
		t.Errorf("exit code %d: %s", code, complaint)
	}
}

// Outside the repository the definitions are missing. The message is about that, and
// no goal is judged.
func TestMissingDefinitions(t *testing.T) {
	code, out, complaint := programs.RunSelf(t, programVariable, t.TempDir(), "-sizes=1000",
		"-devcluster="+must.Get(filepath.Abs(filepath.Join("..", "..", "..", "bin", "slipway-devcluster")))(t), "-slipway="+os.Getenv(binary.Variable))
	if code != ground.ExitFailure || !strings.Contains(complaint, "root of the repository") || strings.Contains(complaint, "<nil>") || strings.Contains(out, "ok ") {
		t.Errorf("exit code %d: %s\n%s", code, complaint, out)
	}
}

func TestUsage(t *testing.T) {
	for _, flag := range []string{"-sizes=0", "-form=none", "-drift=0", "-idle=2h", "-agents=1,0"} {
		name, _, _ := strings.Cut(flag, "=")
		if code, _, complaint := runProgram(t, flag); code != ground.ExitUsage || !strings.Contains(complaint, name) {
			t.Errorf("%s: exit code %d: %s", flag, code, complaint)
		}
	}
	if code, _, complaint := runProgram(t, "-help"); code != ground.ExitOK || !strings.Contains(complaint, "-form") {
		t.Errorf("exit code %d: %s", code, complaint)
	}
}
