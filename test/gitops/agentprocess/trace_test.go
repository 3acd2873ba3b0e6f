package agentprocess_test

import (
	"testing"

	"slipway.dev/slipway/test/gitops/agentprocess"
)

// TestExecutions: what is executed by any process, and what could not be, is
// found. A trace that is not understood is no proof of anything.
func TestExecutions(t *testing.T) {
	found, err := agentprocess.Executions(`26523 execve("/bin/slipway", ["slipway", "agent"], 0x7ffd /* 35 vars */) = 0
26532 execve("/usr/bin/git", ["git", "fetch"], 0x55 /* 35 vars */ <unfinished ...>
26523 +++ exited with 0 +++
26532 <... execve resumed>) = -1 EACCES (Permission denied)
26533 execveat(AT_FDCWD, "/bin/sh", ["sh"], 0x55 /* 3 vars */, 0) = 0
26534 ???( <detached ...>
26535 ???( <unfinished ...>
26535 <... ??? resumed> <detached ...>
`)
	if err != nil || len(found) != 3 {
		t.Fatalf("found %v: %v", found, err)
	}
	for i, want := range []agentprocess.Execution{
		{Process: "26523", Program: "/bin/slipway"}, {Process: "26532", Program: "/usr/bin/git"}, {Process: "26533", Program: "/bin/sh"},
	} {
		if found[i].Process != want.Process || found[i].Program != want.Program {
			t.Errorf("found %+v, not %+v", found[i], want)
		}
	}
	if _, err := agentprocess.Executions("26533 vfork() = 3\n"); err == nil {
		t.Error("a call that is none of ours is taken")
	}
}
