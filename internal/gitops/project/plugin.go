package project

import (
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// PluginsAnnotation is the annotation of an AppProject with the config management
// plugins that its Applications may use: patterns of names, with commas between
// them. As with DiskAnnotation, Argo CD's definition of projects has no field for
// it. A project without limits may use every plugin without it.
const PluginsAnnotation = "slipway.dev/plugins"

// plugins reads PluginsAnnotation.
func (c *compiler) plugins(annotations map[string]string, unlimited bool) (rules []rule) {
	text, found := annotations[PluginsAnnotation]
	if !found && unlimited {
		text = "*"
	}
	for pattern := range strings.SplitSeq(text, ",") {
		if pattern = strings.TrimSpace(pattern); pattern != "" {
			rules = append(rules, c.rule(plainRule, pattern, "metadata.annotations["+PluginsAnnotation+"]"))
		}
	}
	return rules
}

// AdmitPlugin checks a config management plugin, wherever it is named: in a spec,
// an operation or a file of a repository. A plugin runs with credentials of its
// own, so that not every project may use it. The error is a *refusal.Refusal.
func (p *Project) AdmitPlugin(name string) error {
	if anyMatches(p.plugins, name) {
		return nil
	}
	return refusal.New("plugin", refusal.NotAllowed,
		"project %s does not allow the config management plugin %.100q: add it to the annotation %s of the AppProject", p.name, name, PluginsAnnotation)
}
