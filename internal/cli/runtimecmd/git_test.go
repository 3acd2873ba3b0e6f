package runtimecmd_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// TestInstallGitCredentials: R37, R63: after an installation with
// global.runtime.gitCredentials, which name no URL, the Git step is done.
func TestInstallGitCredentials(t *testing.T) {
	w := newReleaseWorld(t, "slipway")
	g := newGitAccount(t)
	w.Must(t, "account git set --provider github --api-url "+g.provider.APIURL+" --shared-repository "+g.from)
	values := must.Get(yaml.Marshal(map[string]any{
		"agent":  map[string]any{"repositories": map[string]any{"certificates": map[string]any{"127.0.0.1": string(g.provider.CA)}}},
		"global": map[string]any{"runtime": map[string]any{"gitCredentials": map[string]any{"password": map[string]any{"value": gitToken}}}},
	}))(t)
	file := filepath.Join(t.TempDir(), "git.yaml")
	clitest.WriteFile(t, file, string(values))
	got := w.ends(t, "runtime install prod --create-key -f "+file+quiet, 0, "The runtime prod is installed.")
	programs.Eventually(t, func(context.Context) error {
		out := w.Must(t, "runtime get prod")
		if strings.Contains(out, "Git credentials of the runtime") || !strings.Contains(out, "Runtime as an Application") {
			return fmt.Errorf("the steps are\n%s", out)
		}
		return nil
	})
	if strings.Contains(got.Stdout+got.Stderr+w.agentLog.String(), gitToken) {
		t.Errorf("the token is shown: %+v\n%s", got, w.agentLog.String())
	}
}
