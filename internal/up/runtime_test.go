package up

import (
	"fmt"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/wire/platformv1"
)

// A runtime is complete when nothing is left to do and what Git has is there.
func TestIncomplete(t *testing.T) {
	const synced, behind = platformv1.SyncStatus_SYNC_STATUS_SYNCED, platformv1.SyncStatus_SYNC_STATUS_OUT_OF_SYNC
	source := func(name string, sync platformv1.SyncStatus) []*platformv1.GitSourceSummary {
		return []*platformv1.GitSourceSummary{{Name: name, Sync: sync}}
	}
	step := []platformv1.CompletionStep{platformv1.CompletionStep_COMPLETION_STEP_USER_TOKEN}
	for _, test := range []struct {
		runtime *platformv1.Runtime
		missing string
	}{
		{&platformv1.Runtime{Sync: synced, GitSources: source(sourceName, synced)}, ""},
		{&platformv1.Runtime{Sync: synced, GitSources: source(sourceName, synced), PendingSteps: step}, "the step user token"},
		{&platformv1.Runtime{Sync: behind, GitSources: source(sourceName, synced)}, "the runtime's own Application"},
		{&platformv1.Runtime{Sync: synced, GitSources: source(sourceName, behind)}, "the Git Source apps"},
		{&platformv1.Runtime{Sync: synced, GitSources: source("other", synced)}, "the Git Source apps"},
		{&platformv1.Runtime{Sync: synced}, "the Git Source apps"},
	} {
		err := incomplete(test.runtime)
		if (test.missing == "") != (err == nil) || !strings.Contains(fmt.Sprint(err), test.missing) {
			t.Errorf("%v: %v, want %q", test.runtime, err, test.missing)
		}
	}
}

// The port of the first start stays that of the shared repository, and the demo
// follows the port of this one.
func TestRepositoryAddresses(t *testing.T) {
	s := &scene{state: &state{marker: marker{GitPort: 8085}}, options: Options{PortOffset: 100}}
	for name, want := range map[string]string{
		demoRepository: "http://127.0.0.1:8185/demo.git", sharedRepository: "http://127.0.0.1:8085/config.git", appsRepository: "http://127.0.0.1:8085/apps.git",
	} {
		if got := s.urlOf(name); got != want {
			t.Errorf("%s is at %s, want %s", name, got, want)
		}
	}
}
