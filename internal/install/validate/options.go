package validate

import (
	"strings"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/config"
)

// checkOptions checks the options of edge and agent in the values with the
// programs' own declarations: an error there would show only when a Pod starts.
func (i *inspection) checkOptions() {
	for _, part := range []struct {
		key   string
		check func([]byte) []finding.Finding
	}{
		{"agent.config", config.CheckAgent},
		{"edge.config", config.CheckEdge},
	} {
		given := i.document.Object(part.key)
		// Options that are no map were reported with the values already.
		if len(given) == 0 || i.faulty(part.key) {
			continue
		}
		text, err := yaml.Marshal(given)
		if err != nil {
			i.wrong(config.CodeInvalid, part.key, "it cannot be written as YAML", "write options as in the configuration file")
			continue
		}
		for _, problem := range part.check(text) {
			problem.Subject = strings.TrimSuffix(part.key+"."+problem.Subject, ".")
			i.add(problem)
		}
	}
}
