package up

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
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

// A port of the first start that another program has is a reason in the table,
// and a port of this start that is in use an error.
func TestListenForGit(t *testing.T) {
	taken := programs.Listen(t, "").Addr().(*net.TCPAddr).Port
	free := programs.Listen(t, "")
	offset := free.Addr().(*net.TCPAddr).Port - gitPort
	must.Do(t, free.Close())
	for _, test := range []struct {
		first, now int
		listeners  int
	}{
		{first: gitPort + offset, now: offset, listeners: 1},
		{first: taken, now: offset, listeners: 1},
		{first: 0, now: offset, listeners: 2}, // the kernel chooses a free one
		{first: taken, now: taken - gitPort, listeners: 0},
	} {
		s := &scene{state: &state{marker: marker{GitPort: test.first}}, options: Options{PortOffset: test.now}}
		listeners, err := s.listenForGit(t.Context())
		for _, one := range listeners {
			must.Do(t, one.Close())
		}
		if len(listeners) != test.listeners || (err == nil) != (test.listeners > 0) || (s.git.unreached != "") != (test.first == taken && err == nil) {
			t.Errorf("%+v: %d listeners, %q, %v", test, len(listeners), s.git.unreached, err)
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
