package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/install/release"
)

// printGitUpgrade prints what to change in Git for a runtime that is an
// Application of itself (R110): the version of its chart, and the values that
// the flags change.
func (g *UpgradeOptions) printGitUpgrade(ctx context.Context, o *operation, runtime string, current *release.State) error {
	repository := "-"
	if o.platform != nil {
		settings, err := o.platform.GitSettings(ctx)
		if err != nil {
			return err
		}
		repository = cmp.Or(settings.GetSharedRepository(), "-")
	}
	folder := sharedrepo.ChartFolder(runtime)
	lines := []string{runtime + " is an Application of itself. In the Shared Configuration Repository", "  " + repository}
	changed := changedValues(current.Values, o.values)
	if version := cmp.Or(g.Version, o.chart.Version(), current.Version); version != current.Version || len(changed) == 0 {
		lines = append(lines, "set version and dependencies[0].version to "+version+" in", "  "+folder+"/Chart.yaml")
	}
	if len(changed) > 0 {
		kept, left := sharedrepo.WithoutSecrets(changed)
		text, err := yaml.Marshal(map[string]any{sharedrepo.ChartName: kept})
		if err != nil {
			return err
		}
		lines = append(lines, "set these values in", "  "+folder+"/values.yaml")
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			lines = append(lines, "    "+line)
		}
		if len(left) > 0 {
			lines = append(lines, "and keep "+strings.Join(left, ", ")+" in a Secret and not in Git")
		}
	}
	if g.ResetValues {
		lines = append(lines, "remove the other values from "+folder+"/values.yaml")
	}
	lines = append(lines, "and push. slipway runtime get "+runtime+" shows when it is done.")
	_, err := fmt.Fprintln(o.ui.Output(), "# "+strings.Join(lines, "\n# "))
	return err
}

// changedValues returns the values of after that before does not have, or has
// with another content.
func changedValues(before, after map[string]any) map[string]any {
	changed := map[string]any{}
	for key, value := range after {
		group, isGroup := value.(map[string]any)
		old, wasGroup := before[key].(map[string]any)
		switch {
		case reflect.DeepEqual(before[key], value):
		case isGroup && wasGroup:
			changed[key] = changedValues(old, group)
		default:
			changed[key] = value
		}
	}
	return changed
}
