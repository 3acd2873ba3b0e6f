package programs

import (
	"fmt"
	"strings"
	"testing"
)

// recorded is a test that keeps what it logs.
type recorded struct {
	testing.TB
	name string
	text strings.Builder
}

func (r *recorded) Helper()      {}
func (r *recorded) Name() string { return r.name }
func (r *recorded) Logf(format string, values ...any) {
	fmt.Fprintf(&r.text, format+"\n", values...)
}

// The logs of a failed test are the ends of them, and few enough that its message
// is near the end of the output.
func TestShowLogIsBounded(t *testing.T) {
	t.Setenv(logsVariable, "")
	long := strings.Repeat("a line of the log\n", 10_000) + "the end"
	of := func(name string, texts ...string) string {
		test := &recorded{name: t.Name() + " " + name}
		for i, text := range texts {
			ShowLog(test, fmt.Sprintf("program %d", i), text)
		}
		return test.text.String()
	}
	if got, want := of("short", "\n", "one\ntwo\n"), "the log of program 1:\none\ntwo\n"; got != want {
		t.Errorf("short texts give %q, and not %q", got, want)
	}
	got := of("long", long, long, long, long, long, "short")
	if len(got) > longestLogs+600 || strings.Count(got, "the end") != 4 || !strings.Contains(got, "...\na line") {
		t.Errorf("five long logs give %d bytes:\n%s", len(got), got)
	}
	if !strings.Contains(got, "program 5 is left out") {
		t.Errorf("it does not name what it leaves out:\n%s", got)
	}
	if sub := of("long/of a subtest", "its text"); strings.Contains(sub, "its text") {
		t.Errorf("a subtest shows more: %s", sub)
	}
	if got := Tail(long); len(got) > longestTail+4 || !strings.HasSuffix(got, "the end") {
		t.Errorf("the tail has %d bytes", len(got))
	}
	t.Setenv(logsVariable, "1000000")
	if got := of("long", long, long); len(got) < 2*len(long) || len(Tail(long)) != len(long) {
		t.Errorf("all of two logs has %d bytes", len(got))
	}
}
