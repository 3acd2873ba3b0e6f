package programs

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	// longestTail bounds a log in the message of a failure, and longestLog one
	// that is shown beside the message.
	longestTail = 3 << 10
	longestLog  = 1 << 10
	// longestLogs bounds all logs that a test shows: a reader of a long run sees
	// only the last few kilobytes of a test, and its message must be among them.
	longestLogs = 4 << 10
	// logsVariable has the bytes of each log for a run in which the logs are
	// wanted; there is no other bound then.
	logsVariable = "TEST_LOG_BYTES"
)

// shown has the bytes of logs that each test has shown. Tests run in parallel,
// so mu guards the map.
var shown = struct {
	mu    sync.Mutex
	bytes map[string]int
}{bytes: map[string]int{}}

// wantedLogs returns the bytes of each log that the run is started with, or 0.
func wantedLogs() int {
	wanted, _ := strconv.Atoi(os.Getenv(logsVariable))
	return max(wanted, 0)
}

// end returns the last bytes of a text, from the beginning of a line if there is one.
func end(text string, size int) string {
	if len(text) <= size {
		return text
	}
	text = text[len(text)-size:]
	if _, lines, found := strings.Cut(text, "\n"); found && lines != "" {
		text = lines
	}
	return "...\n" + text
}

// Tail returns the end of a long text, for the message of a failure.
func Tail(text string) string { return end(text, max(longestTail, wantedLogs())) }

// ShowLog logs the end of what a program wrote, for a test that has failed. All
// logs of a test and its subtests together are bounded; those above the bound
// are left out, with a line that has the name. Show the log that matters most
// first.
func ShowLog(t testing.TB, name, text string) {
	t.Helper()
	if text = strings.TrimSpace(text); text == "" {
		return
	}
	if wanted := wantedLogs(); wanted > 0 {
		t.Logf("the log of %s:\n%s", name, end(text, wanted))
		return
	}
	test, _, _ := strings.Cut(t.Name(), "/")
	shown.mu.Lock()
	room := longestLogs - shown.bytes[test]
	size := min(len(text), longestLog, room)
	shown.bytes[test] += max(size, 0)
	shown.mu.Unlock()
	if size <= 0 {
		t.Logf("the log of %s is left out: %s=10000 shows more", name, logsVariable)
		return
	}
	t.Logf("the log of %s:\n%s", name, end(text, size))
}

// Logged returns a writer for the log of a part that runs in the test process. What
// it has is shown if the test fails, like that of a program.
func Logged(t testing.TB, name string) *Output {
	output := &Output{}
	t.Cleanup(func() {
		if t.Failed() {
			ShowLog(t, name, output.String())
		}
	})
	return output
}
