package script_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/script"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// run runs a script on an object.
func run(t *testing.T, source string, object map[string]any) (any, error) {
	t.Helper()
	compiled, err := script.Compile("test", source)
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Run(script.Input{Object: object, Parameters: map[string]string{"replicas": "3"}, Now: noon})
}

// TestResults: values become JSON types, whole numbers stay whole, and fields
// have one order.
func TestResults(t *testing.T) {
	object := map[string]any{
		"spec":   map[string]any{"replicas": int64(3), "share": 0.5, "on": true, "none": nil},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready"}, "x"}},
	}
	for source, want := range map[string]any{
		`return obj`: map[string]any{
			"spec": map[string]any{"replicas": int64(3), "share": 0.5, "on": true}, "status": object["status"],
		},
		`return nil`:                    nil,
		`return {}`:                     []any{},
		`return obj.spec.replicas / 2`:  1.5,
		`return {status = "Healthy"}`:   map[string]any{"status": "Healthy"},
		`return #obj.status.conditions`: int64(2),
		`local n = "" for k in pairs(obj.spec) do n = n .. k .. " " end return n`: "on replicas share ",
		`return os.time()`:                                  noon.Unix(),
		`return os.date("!%Y-%m-%dT%H:%M:%SZ")`:             "2026-03-01T12:00:00Z",
		`local os = require("os") return os.date("!%Y", 0)`: "1970",
		`print("x") return string.format("%s-%d", "a", 3)`:  "a-3",
		`return ("a,b"):gsub(",", ";")`:                     "a;b",
		`return table.concat({"a", "b"}, "-")`:              "a-b",
		`return actionParams["replicas"]`:                   "3",
	} {
		got, err := run(t, source, object)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nis %#v, %v, want %#v", source, got, err, want)
		}
	}
	if object["spec"].(map[string]any)["replicas"] != int64(3) {
		t.Error("the object was changed")
	}
}

// TestLimits: a script that loops, recurses, returns too much or fails ends with
// a reason.
func TestLimits(t *testing.T) {
	for source, want := range map[string]string{
		`while true do end`: "instructions",
		`while true do pcall(function() while true do end end) end`:                 "instructions",
		`local function f() return 1 + f() end return f()`:                          "stack overflow",
		`return {unpack({}, 1, 1000000)}`:                                           "registry overflow",
		`local t = {} t.t = t return t`:                                             "nested deeper",
		`local t = {} for i = 1, 5 do t[i] = string.rep("x", 1048576) end return t`: "larger than",
		`return {1, nil, 3}`:                                                        "gaps",
		`return {a = 1, [0.5] = 2}`:                                                 "names and numbers",
		`return function() end`:                                                     "type function",
		`return 0/0`:                                                                "finite",
		`error("no such field")`:                                                    "no such field",
		`return obj.status.conditions`:                                              "attempt to index",
		`require("io")`:                                                             "not available",
		`require("obj")`:                                                            "not available",
	} {
		if got, err := run(t, source, map[string]any{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nis %v, %v, want %s", source, got, err, want)
		} else if strings.Contains(err.Error(), "stack traceback") {
			t.Errorf("%s\nhas a trace: %v", source, err)
		}
	}
}

// TestClosed: nothing leads to files, processes, code or the environment of
// others.
func TestClosed(t *testing.T) {
	for _, name := range []string{
		"io", "debug", "coroutine", "channel", "package", "load", "loadstring", "loadfile", "dofile", "module", "newproxy",
		"collectgarbage", "getfenv", "setfenv", "_G", "_printregs", "os.execute", "os.exit", "os.getenv", "os.remove",
		"os.rename", "os.setenv", "os.tmpname", "os.clock",
	} {
		if got, err := run(t, "return "+name, map[string]any{}); err != nil || got != nil {
			t.Errorf("%s is %v, %v", name, got, err)
		}
	}
}

// TestCompile: what is no Lua, or too long, is refused.
func TestCompile(t *testing.T) {
	for _, source := range []string{"return {", "x = = 1", strings.Repeat("-", 300<<10), strings.Repeat("(", 200000)} {
		if _, err := script.Compile("test", source); err == nil {
			t.Errorf("%.20s is compiled", source)
		}
	}
}
