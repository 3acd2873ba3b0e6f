package agent

import (
	"strings"
	"testing"
)

// TestDescribeSettings: settings are named with what to do about them, those that
// concern delivery first.
func TestDescribeSettings(t *testing.T) {
	if got := describeSettings(map[string]string{"url": " ", "dex.config": ""}); got != "" {
		t.Errorf("settings without a value have no effect anywhere: %s", got)
	}
	got := describeSettings(map[string]string{
		"url": "https://argocd.example.com", "admin.enabled": "false",
		"resource.customizations.health.cert-manager.io_Certificate": "hs = {}",
		"resource.customizations.ignoreDifferences.all":              "jsonPointers: []",
		"resource.customizations.actions.batch_Job":                  "definitions: []",
		"resource.customizations.knownTypeFields.batch_Job":          "[]",
		"timeout.reconciliation":                                     "180s",
		"kustomize.buildOptions":                                     "--enable-helm",
		"globalProjects":                                             "[{projectName: all}]",
		"application.resourceTrackingMethod":                         "label",
	})
	want := "these settings of Argo CD have no effect: " +
		"timeout.reconciliation (set applications.pollInterval and applications.pollJitter of the agent); " +
		"globalProjects (write its limits into each AppProject); " +
		"resource.customizations.knownTypeFields.batch_Job (write ignoreDifferences for fields that a controller spells differently); " +
		"application.resourceTrackingMethod (remove it: objects are tracked by annotation); " +
		"kustomize.buildOptions (write options into the sources of the Applications); " +
		"admin.enabled (users sign in at the platform: see its options oidc.*); " +
		"url (of Argo CD's own API and console: nothing to do)"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := describeSettings(map[string]string{"globalProjectsOfTomorrow": "x"}); !strings.Contains(got, "no such setting") {
		t.Errorf("a key that only begins like another: %s", got)
	}
}
