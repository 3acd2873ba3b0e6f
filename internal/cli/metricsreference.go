package cli

import (
	"fmt"
	"strings"

	"slipway.dev/slipway/internal/agent"
	"slipway.dev/slipway/internal/controller"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/server"
)

// metricsReference returns the page with the metrics of each role, from the
// same functions that register them. The program of make generate that writes
// the dashboards and alerts reads its tables.
func metricsReference() string {
	var page strings.Builder
	page.WriteString("# Metrics\n\n" + generatedNote +
		"The metrics of each role, on `/metrics` of its health server. [monitoring.md](../monitoring.md) has dashboards and alerts for them.\n" +
		"Every role also has `slipway_build_info`, whose labels are `version`, `commit` and `goversion`, and the metrics of the Go runtime and of the\n" +
		"process, `go_…` and `process_…`. A metric with labels appears with its first value.\n")
	for _, role := range []struct {
		name    string
		declare func(*observe.Metrics)
	}{
		{"edge", controller.DeclareMetrics}, {"agent", agent.DeclareMetrics}, {"platform", server.DeclareMetrics},
	} {
		fmt.Fprintf(&page, "\n## slipway %s\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n", role.name)
		for _, metric := range observe.Declare(role.declare) {
			var labels []string
			for _, label := range metric.Labels {
				labels = append(labels, "`"+label+"`")
			}
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", metric.Name, metric.Type, strings.Join(labels, ", "), metric.Help)
		}
	}
	return page.String()
}
