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
// what make bench-ingress runs, with the race detector.
const programVariable = "INGRESSBENCH_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
	}
	edgeprocess.Main(m)
}

// program is a run of the whole program.
func program(t *testing.T, args ...string) (code int, out, complaint string) {
	t.Helper()
	return programs.RunSelf(t, programVariable, "", args...)
}

// TestSmoke goes through all phases with few Ingresses. What it measures is not
// judged, only that there is something.
func TestSmoke(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	result := filepath.Join(t.TempDir(), "result.json")
	cluster := must.Get(filepath.Abs("../../../bin/slipway-devcluster"))(t)
	code, out, complaint := program(t, "-sizes=20", "-samples=5", "-rate=50", "-settle=0s", "-duration=1s", "-rounds=1",
		"-tls", "-status", "-json="+result, "-slipway="+os.Getenv(binary.Variable), "-devcluster="+cluster)
	if code != ground.ExitOK {
		t.Fatalf("exit code %d: %s\n%s", code, complaint, out)
	}
	text := must.Get(os.ReadFile(result))(t)
	var got report
	must.Do(t, json.Unmarshal(text, &got))
	if len(got.Sizes) != 1 || got.Sizes[0].Ingresses != 20 {
		t.Fatalf("the sizes are wrong: %s", text)
	}
	f := got.Sizes[0]
	if f.Ready <= 0 || f.Cold < f.Ready || f.Settled <= 0 || f.Peak < f.Settled || f.PeakEver < f.Loaded ||
		f.Create.FromCall.P50 <= 0 || f.Endpoint.FromCall.P50 <= 0 || f.Endpoint.FromCall.P99 < f.Endpoint.FromCall.P50 ||
		f.InUse <= 0 || f.Request.One <= 0 || f.Request.WideTimes <= 0 || f.Request.AllTimes <= 0 || f.Request.RoutesTimes <= 0 ||
		f.Request.Any <= 0 || f.Request.SharedTimes <= 0 || f.Request.SharedAloneTimes <= 0 {
		t.Errorf("a figure is missing: %+v", f)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestGatewaySmoke goes through all phases with routes of a Gateway.
func TestGatewaySmoke(t *testing.T) {
	result := filepath.Join(t.TempDir(), "result.json")
	cluster := must.Get(filepath.Abs("../../../bin/slipway-devcluster"))(t)
	code, out, complaint := program(t, "-sizes=20", "-samples=5", "-rate=50", "-settle=0s", "-duration=1s", "-rounds=1",
		"-gateway", "-gateways=10", "-json="+result, "-slipway="+os.Getenv(binary.Variable), "-devcluster="+cluster)
	if code != ground.ExitOK {
		t.Fatalf("exit code %d: %s\n%s", code, complaint, out)
	}
	var got report
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(result))(t), &got))
	if len(got.Sizes) != 1 || got.Setting != "gateway" {
		t.Fatalf("the report is wrong: %+v", got)
	}
	if f := got.Sizes[0]; f.Ready <= 0 || f.Create.FromCall.P50 <= 0 || f.Create.Call.P50 <= 0 || f.Endpoint.FromCall.P50 <= 0 || f.Request.RoutesTimes <= 0 || f.Request.SharedTimes <= 0 || f.Empty <= 0 {
		t.Errorf("a figure is missing: %+v", f)
	}
	if b := got.Sizes[0].Beside; b == nil || b.Ingress <= 0 || b.Route <= 0 || b.Times <= 0 || b.Low > b.Times || b.High < b.Times {
		t.Errorf("a figure of HTTPRoutes beside Ingresses is missing: %+v", b)
	}
	if l := got.Sizes[0].Listeners; l == nil || l.Gateways != 10 || l.Added.FromCall.P50 <= 0 || l.Removed.FromCall.P50 <= 0 || l.Requests == 0 || l.Resident <= 0 {
		t.Errorf("a figure of listeners is missing: %+v", l)
	}
}

// TestNGINXSmoke goes through the phases that change objects, with Ingresses of
// ingress-nginx.
func TestNGINXSmoke(t *testing.T) {
	result := filepath.Join(t.TempDir(), "result.json")
	cluster := must.Get(filepath.Abs("../../../bin/slipway-devcluster"))(t)
	code, out, complaint := program(t, "-sizes=20", "-samples=5", "-rate=50", "-settle=0s", "-duration=1s", "-rounds=1",
		"-nginx", "-only=create,load", "-json="+result, "-slipway="+os.Getenv(binary.Variable), "-devcluster="+cluster)
	if code != ground.ExitOK {
		t.Fatalf("exit code %d: %s\n%s", code, complaint, out)
	}
	var got report
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(result))(t), &got))
	if len(got.Sizes) != 1 || got.Setting != "nginx" || got.Sizes[0].Create.FromCall.P50 <= 0 || got.Sizes[0].Request.One <= 0 {
		t.Errorf("the report is wrong: %+v", got)
	}
}

// A program that is missing is named, with what to do.
func TestMissingProgram(t *testing.T) {
	code, _, complaint := program(t, "-devcluster=none")
	if code != ground.ExitFailure || !strings.Contains(complaint, "run make build") {
		t.Errorf("exit code %d: %s", code, complaint)
	}
}

func TestUsage(t *testing.T) {
	if code, _, complaint := program(t, "-sizes=0"); code != ground.ExitUsage || !strings.Contains(complaint, "-sizes") {
		t.Errorf("exit code %d: %s", code, complaint)
	}
	if code, _, complaint := program(t, "-help"); code != ground.ExitOK || !strings.Contains(complaint, "-samples") {
		t.Errorf("exit code %d: %s", code, complaint)
	}
}
