package agentcmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/agentcmd"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/must"
)

// R71: a runtime knows the chart that it is installed from, and the values of the
// moment, with a reference to the Secret of an API key that they have, in both
// spellings. What cannot be read is not shown.
func TestRuntimeChart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "values.yaml")
	self := config.RuntimeSelf{ChartRepository: "oci://charts.example.com", ChartVersion: "1.2.3", Release: "installed", ValuesFile: file}
	write := func(text string) {
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	}
	find := agentcmd.RuntimeChart(self)
	if _, err := find(t.Context()); err == nil {
		t.Error("values that are not there were read")
	}
	write("global: {runtime: {name: one}}\n")
	chart, err := find(t.Context())
	if err != nil || chart.Repository != self.ChartRepository || chart.Version != "1.2.3" || chart.Release != "installed" || len(chart.Archive) == 0 || chart.Values["global"] == nil {
		t.Errorf("got %+v, %v", chart.Values, err)
	}
	write("global: {platform: {userToken: {token: '', secretKeyRef: {name: mine}}}, codefresh: {userToken: {token: canary-1}}}\n")
	chart = must.Get(find(t.Context()))(t)
	if got := fmt.Sprint(chart.Values); got != "map[global:map[codefresh:map[userToken:map[secretKeyRef:map[key:token name:slipway-user-token]]] platform:map[userToken:map[secretKeyRef:map[name:mine] token:]]]]" {
		t.Errorf("the values are %s", got)
	}
	write("global: {token: canary-1\n")
	if _, err := find(t.Context()); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v", err)
	}
	write(strings.Repeat("#", 5<<20))
	if _, err := find(t.Context()); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a file without end: %v", err)
	}
}
