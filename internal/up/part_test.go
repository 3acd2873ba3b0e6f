package up

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// stage is a supervisor with real processes as parts.
type stage struct {
	supervisor
	shown    *programs.Output
	journal  string
	children map[string]*child
	killNow  chan struct{}
}

func newStage(t *testing.T, parts ...program) *stage {
	t.Helper()
	st := &stage{
		shown:    &programs.Output{},
		journal:  filepath.Join(t.TempDir(), "journal"),
		children: map[string]*child{},
		killNow:  make(chan struct{}),
	}
	names := []string{"one", "two", "three"}[:len(parts)]
	st.supervisor = supervisor{
		scene: &scene{}, timeout: testDeadline, grace: testDeadline,
		ui:       UI{Progress: st.shown, KillNow: st.killNow},
		progress: newProgress(st.shown, nil, names),
	}
	for i, p := range parts {
		if len(p.args) == 2 && p.args[1] == "part" {
			p.args = append(p.args, names[i], st.journal)
		}
		st.parts = append(st.parts, st.fakePart(names[i], p))
	}
	return st
}

func (st *stage) fakePart(name string, p program) part {
	return part{
		name: name,
		start: func(context.Context, *scene) (*child, error) {
			c, err := startChild(p)
			if err == nil {
				st.children[name] = c
			}
			return c, err
		},
		ready: func(ctx context.Context, _ *scene, say func(string)) (string, error) {
			say("waiting for its word")
			select {
			case line := <-st.children[name].output.line:
				return line, nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		},
	}
}

// requireGone fails when a process of the stage still runs.
func (st *stage) requireGone(t *testing.T) {
	t.Helper()
	for name, c := range st.children {
		select {
		case <-c.exited:
		default:
			t.Errorf("%s (pid %d) still runs", name, c.pid())
			c.kill()
			<-c.exited
		}
	}
}

func (st *stage) journalText() string {
	content, _ := os.ReadFile(st.journal)
	return string(content)
}

// start runs the stage in the background and returns what ends it, and its end.
func (st *stage) start(t *testing.T) (cancel context.CancelFunc, ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	result := make(chan error, 1)
	up := make(chan struct{})
	go func() {
		result <- st.run(ctx, func() error { close(up); return nil })
	}()
	select {
	case <-up:
	case err := <-result:
		t.Fatalf("did not come up: %v\n%s", err, st.shown)
	case <-time.After(testDeadline):
		t.Fatalf("did not come up:\n%s", st.shown)
	}
	return cancel, result
}

func TestStopsInReverseOrder(t *testing.T) {
	st := newStage(t, fakeProgram("part"), fakeProgram("part"), fakeProgram("part"))
	cancel, ended := st.start(t)
	cancel()
	if err := programs.Receive(t, ended, "end"); err != nil {
		t.Errorf("a stop that was asked for: %v", err)
	}
	st.requireGone(t)
	if got, want := st.journalText(), "three: terminated\ntwo: terminated\none: terminated\n"; got != want {
		t.Errorf("stopped as\n%s\nwant\n%s", got, want)
	}
	var lines []string
	for line := range strings.Lines(st.shown.String()) {
		if strings.Contains(line, "stop") {
			name, rest, _ := strings.Cut(line, ": ")
			lines = append(lines, name+" "+strings.Fields(rest)[0])
		}
	}
	want := "three stopping, three stopped, two stopping, two stopped, one stopping, one stopped"
	if got := strings.Join(lines, ", "); got != want {
		t.Errorf("said %q, want %q", got, want)
	}
}

func TestPartThatDies(t *testing.T) {
	dying := fakeProgram("part")
	dying.log = filepath.Join(t.TempDir(), "two.log")
	put(t, filepath.Dir(dying.log), "two.log", "a line of an earlier run\n")
	st := newStage(t, fakeProgram("part"), dying, fakeProgram("part"))
	_, ended := st.start(t)
	put(t, filepath.Dir(dying.log), "two.log", "a line of an earlier run\nthe last words\n")
	must.Do(t, st.children["two"].command.Process.Signal(syscall.SIGUSR1))
	err := programs.Receive(t, ended, "end")
	requireText(t, err, "two ended by itself", "exit status 3", "boom", dying.log, "the last words")
	if strings.Contains(err.Error(), "earlier run") {
		t.Errorf("the message quotes an earlier run: %v", err)
	}
	st.requireGone(t)
	if got, want := st.journalText(), "three: terminated\none: terminated\n"; got != want {
		t.Errorf("stopped as\n%s\nwant\n%s", got, want)
	}
}

func TestStartErrorStopsEarlierParts(t *testing.T) {
	for _, test := range []struct {
		name  string
		third program
		says  []string
	}{
		{"refuses", fakeProgram("refuse"), []string{"three ended by itself", "exit status 1", "in use by pid 4711"}},
		{"not a program", program{path: "/nonexistent/program"}, []string{"three", "/nonexistent/program"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			st := newStage(t, fakeProgram("part"), fakeProgram("part"), test.third)
			err := st.run(t.Context(), func() error { t.Error("was called up"); return nil })
			requireText(t, err, test.says...)
			st.requireGone(t)
			if got, want := st.journalText(), "two: terminated\none: terminated\n"; got != want {
				t.Errorf("stopped as\n%s\nwant\n%s", got, want)
			}
			if !strings.Contains(st.shown.String(), "three: failed") {
				t.Errorf("the display does not say that three failed:\n%s", st.shown)
			}
		})
	}
}

// A part that dies while a later one is waited for ends the wait.
func TestDeathDuringStart(t *testing.T) {
	st := newStage(t, fakeProgram("part"), fakeProgram("silent"))
	ended := make(chan error, 1)
	go func() { ended <- st.run(t.Context(), func() error { return errors.New("came up") }) }()
	st.shown.WaitFor(t, "two: waiting for its word")
	must.Do(t, st.children["one"].command.Process.Signal(syscall.SIGUSR1))
	requireText(t, programs.Receive(t, ended, "end"), "one ended by itself", "boom")
	st.requireGone(t)
}

func TestStartTimeout(t *testing.T) {
	silent := fakeProgram("silent")
	silent.log = "/logs/two.log"
	st := newStage(t, fakeProgram("part"), silent)
	st.timeout = 300 * time.Millisecond
	// The first part is not the subject: it gets no chance to be late.
	first := st.parts[0]
	st.parts[0].ready = func(_ context.Context, s *scene, say func(string)) (string, error) {
		return first.ready(t.Context(), s, say)
	}
	err := st.run(t.Context(), func() error { return errors.New("came up") })
	requireText(t, err, "two: not ready within 300ms (--timeout): waiting for its word", "the log of two is /logs/two.log")
	st.requireGone(t)
}

func TestInterruptDuringStart(t *testing.T) {
	st := newStage(t, fakeProgram("part"), fakeProgram("silent"))
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- st.run(ctx, func() error { return errors.New("came up") }) }()
	st.shown.WaitFor(t, "two: waiting for its word")
	cancel(errors.New("interrupt signal received"))
	if err := programs.Receive(t, ended, "end"); !errors.Is(err, errStopped) {
		t.Errorf("got %v, want %v", err, errStopped)
	}
	st.requireGone(t)
}

func TestStubbornPartIsKilled(t *testing.T) {
	st := newStage(t, fakeProgram("part"), fakeProgram("stubborn"))
	st.grace = 100 * time.Millisecond
	// The first part may need longer than that, and is no part of the test.
	cancel, ended := st.start(t)
	cancel()
	err := programs.Receive(t, ended, "end")
	requireText(t, err, "two: killed, it did not stop within 100ms")
	st.requireGone(t)
}

func TestSecondInterruptKills(t *testing.T) {
	st := newStage(t, fakeProgram("part"), fakeProgram("stubborn"))
	cancel, ended := st.start(t)
	cancel()
	st.shown.WaitFor(t, "two: stopping")
	close(st.killNow)
	requireText(t, programs.Receive(t, ended, "end"), "two: killed, as requested")
	st.requireGone(t)
}

// A killed part takes its own processes with it.
func TestKillReachesTheGroup(t *testing.T) {
	read, write, err := os.Pipe()
	must.Do(t, err)
	defer read.Close()
	family := fakeProgram("family")
	family.hold = write
	c, err := startChild(family)
	write.Close()
	must.Do(t, err)
	programs.Receive(t, c.output.line, "the family")
	now := make(chan struct{})
	close(now)
	requireText(t, c.stop(testDeadline, now), "killed")
	// The pipe ends when the last process that inherited it has ended.
	read.SetReadDeadline(time.Now().Add(testDeadline))
	if _, err := io.ReadAll(read); err != nil {
		t.Errorf("a process of the group is left: %v", err)
	}
}

// Ctrl-C in a terminal goes to the whole foreground group: the parts must not
// be in it.
func TestPartsHaveTheirOwnGroup(t *testing.T) {
	st := newStage(t, fakeProgram("part"))
	cancel, ended := st.start(t)
	group, err := syscall.Getpgid(st.children["one"].pid())
	if err != nil || group != st.children["one"].pid() {
		t.Errorf("group %d (%v), want its own, %d", group, err, st.children["one"].pid())
	}
	cancel()
	programs.Receive(t, ended, "end")
}

func TestFirstLine(t *testing.T) {
	long := strings.Repeat("x", maxFirstLine)
	for _, test := range []struct {
		name   string
		writes []string
		want   string
	}{
		{"one write", []string{"/a/kubeconfig\nmore\n"}, "/a/kubeconfig"},
		{"pieces", []string{"/a/kube", "config", "\n", "more\n"}, "/a/kubeconfig"},
		{"endless", []string{long, "y"}, long},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &firstLine{line: make(chan string, 1)}
			for _, text := range test.writes {
				if n, err := f.Write([]byte(text)); n != len(text) || err != nil {
					t.Fatalf("wrote %d, %v", n, err)
				}
			}
			if got := <-f.line; got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestOutputTailIsBounded(t *testing.T) {
	var kept outputTail
	for range 100 {
		io.WriteString(&kept, strings.Repeat("x", 1000))
	}
	io.WriteString(&kept, "the end")
	if got := kept.String(); len(got) != keptOutput || !strings.HasSuffix(got, "xthe end") {
		t.Errorf("kept %d bytes", len(got))
	}
}

func TestLogTail(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "part.log")
	write := func(content string) os.FileInfo {
		put(t, dir, "part.log", content)
		return must.Get(os.Stat(path))(t)
	}
	noise := strings.Repeat("noise\n", 100000)
	got := strings.Split(logTail(path, nil), "\n")
	if len(got) != 1 || got[0] != "" {
		t.Errorf("got %q from a missing log", got)
	}
	before := write(noise + "the end\n")
	got = strings.Split(logTail(path, nil), "\n")
	if len(got) != tailLines || got[tailLines-1] != "    the end" {
		t.Errorf("got %d lines, the last %q", len(got), got[len(got)-1])
	}
	write(noise + "the end\nappended\n")
	if got := logTail(path, before); got != "    appended" {
		t.Errorf("after an append: %q", got)
	}
	write("begun anew\n")
	if got := logTail(path, before); got != "    begun anew" {
		t.Errorf("after a truncation: %q", got)
	}
	must.Do(t, os.Rename(path, path+".1"))
	write(noise + "a longer one\n")
	if got := logTail(path, before); !strings.HasSuffix(got, "noise\n    a longer one") {
		t.Errorf("after a rotation: %q", got)
	}
}

// TestRunEndsWithoutAProcess: a process that survives SIGKILL, as one in an
// uninterruptible read does, is reported and does not keep the run from ending.
func TestRunEndsWithoutAProcess(t *testing.T) {
	process := exec.Command("sleep", "3600")
	must.Do(t, process.Start())
	defer func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	}()
	synctest.Test(t, func(t *testing.T) {
		stuck := &child{command: process, errors: &outputTail{}, exited: make(chan struct{})}
		st := newStage(t, program{})
		st.parts[0].start = func(context.Context, *scene) (*child, error) { return stuck, nil }
		st.parts[0].ready = func(context.Context, *scene, func(string)) (string, error) { return "", nil }
		ctx, cancel := context.WithCancel(t.Context())
		err := st.run(ctx, func() error {
			cancel()
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), "does not end") {
			t.Errorf("the run ended with %v", err)
		}
		close(stuck.exited)
	})
}
