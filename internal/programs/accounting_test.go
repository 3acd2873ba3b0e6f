package programs

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
)

func TestCPUTime(t *testing.T) {
	own, ended, err := parseCPUTime([]byte("42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 120 30 7 2 20 0 9 0\n"))
	if err != nil || own != 1500*time.Millisecond || ended != 90*time.Millisecond {
		t.Errorf("got %s and %s, %v", own, ended, err)
	}
	for _, text := range []string{"42 (a) S", "42 (a) S 1 2 3 4 5 6 7 8 9 10 120 30 7 x 20\n"} {
		if _, _, err := parseCPUTime([]byte(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

// The clock of a process and its times in /proc are the same time.
func TestCPUClock(t *testing.T) {
	for began := time.Now(); time.Since(began) < 50*time.Millisecond; {
	}
	before, _, err := readCPUTime(os.Getpid())
	must.Do(t, err)
	clock := must.Get(CPUTime(os.Getpid()))(t)
	after, _, err := readCPUTime(os.Getpid())
	// User and system time are each cut to whole ticks.
	if err != nil || clock < before || clock > after+2*clockTick {
		t.Errorf("the clock says %s, /proc %s before and %s after, %v", clock, before, after, err)
	}
	if _, err := CPUTime(1 << 25); err == nil {
		t.Error("a process that does not exist has a clock")
	}
}

// What a process has started counts while it runs, and when it has ended.
func TestChildrenCPUTime(t *testing.T) {
	before := must.Get(ChildrenCPUTime(os.Getpid()))(t)
	command := exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; read end || exit 0")
	stdin := must.Get(command.StdinPipe())(t)
	stdout := must.Get(command.StdoutPipe())(t)
	must.Do(t, command.Start())
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Error(err)
	}
	running, err := ChildrenCPUTime(os.Getpid())
	if err != nil || running <= before {
		t.Errorf("%s before it worked, %s after, %v", before, running, err)
	}
	stdin.Close()
	if err := command.Wait(); err != nil {
		t.Error(err)
	}
	if ended, err := ChildrenCPUTime(os.Getpid()); err != nil || ended < running {
		t.Errorf("%s while it ran, %s when it has ended, %v", running, ended, err)
	}
}

// Both ways to ask for memory mean the same process: what it shares with others
// is all that they may differ in.
func TestMemory(t *testing.T) {
	resident, err := ResidentMemory(os.Getpid())
	if err != nil || resident < 1<<20 {
		t.Errorf("%d bytes are resident, %v", resident, err)
	}
	proportional, err := ProportionalMemory(os.Getpid())
	if err != nil || proportional <= 0 || proportional > 2*resident {
		t.Errorf("%d bytes in proportion, %d are resident, %v", proportional, resident, err)
	}
}
