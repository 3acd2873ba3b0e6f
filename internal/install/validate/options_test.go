package validate_test

import (
	"strings"
	"testing"
)

// TestOptions: what becomes the configuration of agent and edge is checked by their
// own declarations, each mistake with the key and the fix, and secrets are not
// repeated. What the chart adds is not missed.
func TestOptions(t *testing.T) {
	for _, tt := range []struct{ text, want, fix string }{
		{"agent: {config: {log: {level: debug}, render: {workers: 2}, applications: {pollInterval: 30s}}}", "", ""},
		{"edge: {config: {log: {level: debug}, entryPoints: {web: {address: ':8080'}}}}", "", ""},
		{"agent: {config: {access: {mode: ingress}}}", "", ""},
		{"agent: {config: {log: {levl: debug}}}", "error OptionInvalid agent.config.log.levl", "did you mean log.level?"},
		{"agent: {config: {log: {level: loud}}}", "error OptionInvalid agent.config.log.level", "choose one of debug"},
		{"agent: {config: {render: {memoryLimit: much}}}", "error OptionInvalid agent.config.render.memoryLimit", ""},
		{"agent: {config: {applications: {pollInterval: soon}}}", "error OptionInvalid agent.config.applications.pollInterval", ""},
		{"agent: {config: {kubernetes: {token: " + canary + "}}}", "warning OptionSecret agent.config.kubernetes.token", "leave it out"},
		{"edge: {config: {entryPoints: {web: {address: 'eighty'}}}}", "error OptionInvalid edge.config.entryPoints.web.address", ""},
		{"edge: {config: {log: [a]}}", "error OptionInvalid edge.config.log", ""},
		{"edge: {config: {providers: {kubernetesIngres: {}}}}\nagent: {config: {log: {level: loud, format: wide}}}",
			"error OptionInvalid agent.config.log.format\nerror OptionInvalid agent.config.log.level\nerror OptionInvalid edge.config.providers.kubernetesIngres", ""},
	} {
		report := offline(t, good+tt.text)
		if got := told(report); got != tt.want {
			t.Errorf("%s:\n%s\nwant:\n%s", tt.text, got, tt.want)
			continue
		}
		for _, finding := range report.Findings {
			if finding.Message == "" || finding.Fix == "" || strings.Contains(finding.String(), "options.yaml") || strings.Contains(finding.String(), canary) {
				t.Errorf("%s", finding)
			}
			if !strings.Contains(finding.String(), tt.fix) {
				t.Errorf("%s has no %q", finding, tt.fix)
			}
		}
	}
}
