// Monitoring generates the Grafana dashboards and Prometheus alerts of the three
// roles, and the page about the alerts. `make generate` runs it.
//
// It reads the metrics from docs/reference/metrics.md, which the program itself
// writes from their registration. A dashboard has the panels that are chosen in
// dashboards.go, and below them one for every other metric of its role, so that a
// new metric is shown without a change here. A metric or label that no role
// declares is an error.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"slipway.dev/slipway/internal/tools/generator"
)

// page is where the declarations are.
const page = "docs/reference/metrics.md"

func main() { generator.Main("monitoring", generate) }

// role is a role of the program with its metrics, in the order of the page.
type role struct {
	name    string
	metrics []metric
}

// metric is a declared metric.
type metric struct {
	name, kind, help string
	labels           []string
}

// charts maps a role to the chart that installs it.
var charts = map[string]string{"edge": "gitops-runtime", "agent": "gitops-runtime", "platform": "platform"}

// generate returns the files by their path in the repository. The charts have
// copies, because a chart cannot read files outside of its folder.
func generate(root string) (map[string][]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		return nil, err
	}
	roles, err := parse(string(text))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, r := range roles {
		dashboard, err := dashboardOf(r)
		if err != nil {
			return nil, err
		}
		rules, err := rulesOf(r)
		if err != nil {
			return nil, err
		}
		for _, folder := range []string{"deploy/monitoring/", "charts/" + charts[r.name] + "/monitoring/"} {
			files[folder+r.name+".dashboard.json"] = dashboard
			files[folder+r.name+".rules.yaml"] = rules
		}
	}
	files["docs/reference/alerts.md"] = alertsPage(roles)
	return files, nil
}

// parse reads the tables of the page.
func parse(text string) ([]role, error) {
	var roles []role
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "## slipway "); ok {
			roles = append(roles, role{name: name})
			continue
		}
		if !strings.HasPrefix(line, "| `slipway_") || len(roles) == 0 {
			continue
		}
		cells := strings.SplitN(strings.Trim(line, "| "), " | ", 4)
		if len(cells) != 4 {
			return nil, fmt.Errorf("%s: not a row of four cells: %s", page, line)
		}
		one := metric{name: strings.Trim(cells[0], "`"), kind: cells[1], help: cells[3]}
		for label := range strings.SplitSeq(cells[2], ", ") {
			if label = strings.Trim(label, "` "); label != "" {
				one.labels = append(one.labels, label)
			}
		}
		last := &roles[len(roles)-1]
		last.metrics = append(last.metrics, one)
	}
	if len(roles) != len(charts) {
		return nil, fmt.Errorf("%s has %d roles, and there are %d", page, len(roles), len(charts))
	}
	return roles, nil
}

// find returns a metric of the role by its name in an expression, which for a
// histogram has a suffix.
func (r role) find(name string) (metric, bool) {
	for _, one := range r.metrics {
		if one.name == name {
			return one, one.kind != "histogram"
		}
		if one.kind == "histogram" && (name == one.name+"_bucket" || name == one.name+"_sum" || name == one.name+"_count") {
			return one, true
		}
	}
	return metric{}, false
}

// alertsPage returns the reference of the alerts.
func alertsPage(roles []role) []byte {
	var made bytes.Buffer
	made.WriteString("# Alerts\n\n<!-- Written by `make generate`. Change internal/tools/monitoring, not this page. -->\n\n" +
		"The alerts of `deploy/monitoring`, with what to do. [monitoring.md](../monitoring.md) describes how to install them.\n")
	for _, r := range roles {
		fmt.Fprintf(&made, "\n## slipway %s\n\n| alert | severity | fires when | what to do |\n|---|---|---|---|\n", r.name)
		for _, one := range alerts[r.name] {
			fmt.Fprintf(&made, "| `%s` | %s | %s | %s |\n", one.name, one.severity, one.means, one.action)
		}
	}
	return made.Bytes()
}
