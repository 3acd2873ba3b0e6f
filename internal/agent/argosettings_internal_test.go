package agent

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/argosetting"
)

// TestDescribeSettings: settings are named with what to do about them, those that
// concern delivery first.
func TestDescribeSettings(t *testing.T) {
	if got := describeSettings(argosetting.Config(), map[string]string{"url": " ", "dex.config": ""}); got != "" {
		t.Errorf("settings without a value have no effect anywhere: %s", got)
	}
	got := describeSettings(argosetting.Config(), map[string]string{
		"url": "https://argocd.example.com", "admin.enabled": "false",
		"resource.customizations.health.cert-manager.io_Certificate": "hs = {}",
		"resource.customizations.ignoreDifferences.all":              "jsonPointers: []",
		"resource.customizations.actions.batch_Job":                  "definitions: []",
		"resource.customizations.knownTypeFields.batch_Job":          "[]",
		"timeout.reconciliation":                                     "180s",
		"kustomize.buildOptions":                                     "--enable-helm --load_restrictor none --reorder=legacy",
		"globalProjects":                                             "[{projectName: all}]",
		"application.resourceTrackingMethod":                         "label",
	})
	want := "these settings of Argo CD have no effect: " +
		"timeout.reconciliation (set applications.pollInterval and applications.pollJitter of the agent); " +
		"application.resourceTrackingMethod (remove it: objects are tracked by annotation); " +
		"kustomize.buildOptions (--load-restrictor: a kustomization reads files of its own folder and below: make the others a base or a component; " +
		"--reorder: objects are applied by phase, wave and kind); " +
		"admin.enabled (users sign in at the platform: see its options oidc.*); " +
		"url (of Argo CD's own API and console: nothing to do)"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := describeSettings(argosetting.Config(), map[string]string{"globalProjectsOfTomorrow": "x"}); !strings.Contains(got, "no such setting") {
		t.Errorf("a key that only begins like another: %s", got)
	}
}
