package programs

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
)

// shell is a command line as a process.
func shell(text string) *exec.Cmd { return exec.Command("sh", "-c", text) }

// A process is waited for by what it writes, and ends in order.
func TestStop(t *testing.T) {
	p := Run(t, "sh", shell(`trap 'echo bye >&2; exit 0' TERM; echo '{"server": "web", "address": "127.0.0.1:1", "url": "http://x"}' >&2; echo 'password: secret'; while :; do sleep 0.01; done`))
	if at := p.Listens(t, "web"); at.Address != "127.0.0.1:1" || at.URL != "http://x" {
		t.Errorf("it listens at %+v", at)
	}
	if password := p.Password(t); password != "secret" {
		t.Errorf("the password is %q", password)
	}
	if err := p.Alive(); err != nil {
		t.Error(err)
	}
	p.Stop(t)
	if !p.Logged("bye") || p.Logged("bye", "web") || !p.State().Success() {
		t.Errorf("it ended with %v and wrote %q", p.State(), p.Log)
	}
	p.Kill() // again is no error
}

// A process that does not end when it is requested to is killed, and what it
// has started in its process group too.
func TestEndKills(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	command := shell(`trap '' TERM; sleep 600 & echo child $!; wait; wait`)
	p, err := StartLogging("stubborn", log, command)
	must.Do(t, err)
	defer p.Kill()
	p.Grace = 50 * time.Millisecond
	child := 0
	Eventually(t, func(context.Context) error {
		_, number, _ := strings.Cut(p.Output(), "child ")
		child, err = strconv.Atoi(number)
		return err
	})
	if err := p.End(nil); err == nil || !strings.Contains(err.Error(), "stubborn did not end within 50ms") {
		t.Errorf("the error is %v", err)
	}
	Eventually(t, func(context.Context) error {
		if err := syscall.Kill(child, 0); !errors.Is(err, syscall.ESRCH) && !zombie(child) {
			return errors.New("its child still runs")
		}
		return nil
	})
}

// zombie reports whether a process has ended and only its parent does not know.
func zombie(pid int) bool {
	_, err := ReadMemory(pid)
	return err != nil
}

// An exit ends every wait, with the reason and the end of the log.
func TestExitEndsWaits(t *testing.T) {
	p, err := Start("short", shell("echo broken >&2; exit 3"))
	must.Do(t, err)
	err = p.Await(t.Context(), time.Millisecond, func(context.Context) error { return errors.New("not yet") })
	if ended := (*ExitedError)(nil); !errors.As(err, &ended) || ended.State.ExitCode() != 3 || ended.Output != "broken" {
		t.Errorf("the error is %v", err)
	}
	if err := p.Expect(p.Log, "repaired"); err == nil || !strings.Contains(err.Error(), "the process has ended") {
		t.Errorf("the error is %v", err)
	}
	if err := p.Expect(p.Log, "broken"); err != nil {
		t.Error(err)
	}
	if code := p.Wait(t).ExitCode(); code != 3 {
		t.Errorf("the exit code is %d", code)
	}
}

// Metrics are found by their whole name, and summed by a part of their labels.
func TestMetric(t *testing.T) {
	const page = "# TYPE requests counter\nrequests{code=\"200\",path=\"/a b\"} 2\nrequests{code=\"500\",path=\"/\"} 3\nrequests_total 7\nidle 1.5"
	for _, c := range []struct {
		name, labels string
		sum          float64
		found        bool
	}{
		{"requests", "", 5, true}, {"requests", `code="200"`, 2, true}, {"requests", `code="404"`, 0, true},
		{"requests_total", "", 7, true}, {"idle", "", 1.5, true}, {"missing", "", 0, false},
	} {
		if sum, found, err := Metric(page, c.name, c.labels); sum != c.sum || found != c.found || err != nil {
			t.Errorf("%s %s is %v, %t, %v", c.name, c.labels, sum, found, err)
		}
	}
	if _, _, err := Metric("requests many\n", "requests", ""); err == nil {
		t.Error("a value that is no number is taken")
	}
}
