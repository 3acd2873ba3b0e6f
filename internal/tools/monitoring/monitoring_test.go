package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

const root = "../../.."

// TestFilesAreCurrent: the files in the repository are what is generated.
func TestFilesAreCurrent(t *testing.T) {
	files := must.Get(generate(root))(t)
	if len(files) != 13 {
		t.Errorf("%d files are generated", len(files))
	}
	for name, content := range files {
		committed, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(committed) != string(content) {
			t.Errorf("%s is out of date: run make generate (%v)", name, err)
		}
	}
}

// declaredRoles are the roles of the page in the repository.
func declaredRoles(t *testing.T) []role {
	t.Helper()
	return must.Get(parse(string(must.Get(os.ReadFile(filepath.Join(root, page)))(t))))(t)
}

// TestEveryMetricIsShown: each declared metric has a panel, with its help.
func TestEveryMetricIsShown(t *testing.T) {
	for _, r := range declaredRoles(t) {
		var dashboard struct{ UID string }
		text := must.Get(dashboardOf(r))(t)
		must.Do(t, json.Unmarshal(text, &dashboard))
		if dashboard.UID != "slipway-"+r.name {
			t.Errorf("the UID is %s", dashboard.UID)
		}
		for _, m := range r.metrics {
			if !regexp.MustCompile(`\b` + m.name + `(_bucket)?\{`).Match(text) {
				t.Errorf("the dashboard of %s does not show %s", r.name, m.name)
			}
			if m.help == "" || (m.kind != "counter" && m.kind != "gauge" && m.kind != "histogram") {
				t.Errorf("%+v", m)
			}
		}
	}
}

// TestAreasAreDeclared: a part of the program that registers metrics is in the
// declarations of its role.
func TestAreasAreDeclared(t *testing.T) {
	known := string(must.Get(os.ReadFile(filepath.Join(root, page)))(t))
	registered := regexp.MustCompile(`\.For\("([a-z0-9]+)"\)`)
	areas := 0
	must.Do(t, filepath.WalkDir(filepath.Join(root, "internal"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, area := range registered.FindAllStringSubmatch(string(must.Get(os.ReadFile(path))(t)), -1) {
			areas++
			if !strings.Contains(known, "`slipway_"+area[1]+"_") {
				t.Errorf("%s registers slipway_%s_…, and %s has none: add it to DeclareMetrics of its role", path, area[1], page)
			}
		}
		return nil
	}))
	if areas < 10 {
		t.Errorf("only %d registrations were found", areas)
	}
}

// TestUndeclared: a metric or label that does not exist is refused.
func TestUndeclared(t *testing.T) {
	r := role{name: "edge", metrics: []metric{
		{name: "slipway_edge_requests_total", kind: "counter", labels: []string{"status"}}, {name: "slipway_edge_wait_seconds", kind: "histogram"},
	}}
	for _, good := range []string{`rate(slipway_edge_requests_total{status="200"}[5m])`, `sum by (le) (slipway_edge_wait_seconds_bucket)`, `process_open_fds{job="x"}`} {
		must.Do(t, r.check(good))
	}
	for expression, want := range map[string]string{
		`slipway_edge_request_total`:                      "no metric slipway_edge_request_total",
		`slipway_edge_requests_total_bucket`:              "no metric",
		`slipway_edge_wait_seconds`:                       "no metric",
		`slipway_edge_requests_total{state="x"}`:          "no label state",
		`sum by (route) (slipway_edge_requests_total)`:    "has the label route",
		`process_open_fds / on (node) slipway_build_info`: "has the label node",
	} {
		if err := r.check(expression); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", expression, err, want)
		}
	}
	if _, err := rowsOf(role{name: "agent"}); err == nil || !strings.Contains(err.Error(), "which it does not declare") {
		t.Errorf("a dashboard without its metrics: %v", err)
	}
}

// TestRules: promtool takes the rules, and each alert fires for the series of
// testdata and for no other series of them.
func TestRules(t *testing.T) {
	annotations := regexp.MustCompile(`(?m)^ +(annotations:|summary: .*|description: .*)\n`)
	for _, r := range declaredRoles(t) {
		t.Run(r.name, func(t *testing.T) {
			rules := filepath.Join(root, "deploy/monitoring", r.name+".rules.yaml")
			promtool(t, "check", "rules", rules)
			cases := string(must.Get(os.ReadFile(filepath.Join("testdata", r.name+".yaml")))(t))
			for _, one := range alerts[r.name] {
				if !strings.Contains(cases, "alertname: "+one.name+"\n        exp_alerts") {
					t.Errorf("the alert %s has no case in testdata", one.name)
				}
			}
			// promtool would compare the texts too, which are for people.
			dir := t.TempDir()
			plain := annotations.ReplaceAll(must.Get(os.ReadFile(rules))(t), nil)
			must.Do(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), plain, 0o600))
			must.Do(t, os.WriteFile(filepath.Join(dir, "cases.yaml"), []byte(strings.Replace(cases, "[RULES]", "[rules.yaml]", 1)), 0o600))
			promtool(t, "test", "rules", filepath.Join(dir, "cases.yaml"))
		})
	}
}

// TestExpressions: promtool parses every query of the dashboards, as rules.
func TestExpressions(t *testing.T) {
	for _, r := range declaredRoles(t) {
		var made strings.Builder
		made.WriteString("groups:\n  - name: panels\n    rules:\n")
		for _, line := range must.Get(rowsOf(r))(t) {
			for _, p := range line.panels {
				for _, q := range p.queries {
					expression := strings.NewReplacer("$__rate_interval", "5m", "$namespace", ".*", "$job", ".*").Replace(q.expression)
					made.WriteString("      - record: panel:" + regexp.MustCompile(`\W`).ReplaceAllString(p.title+q.legend, "_") + "\n        expr: " + string(must.Get(json.Marshal(expression))(t)) + "\n")
				}
			}
		}
		file := filepath.Join(t.TempDir(), r.name+".yaml")
		must.Do(t, os.WriteFile(file, []byte(made.String()), 0o600))
		promtool(t, "check", "rules", "--lint=none", file)
	}
}

// promtool runs Prometheus' own tool, which make deps installs.
func promtool(t *testing.T, arguments ...string) {
	t.Helper()
	if output, err := exec.CommandContext(t.Context(), "promtool", arguments...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
}
