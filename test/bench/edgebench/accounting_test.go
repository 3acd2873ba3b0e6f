package main

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
)

// burn is a shell that counts for a good tenth of a second.
const burn = `i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; `

// What a process, its living and its dead children used is all there, and
// agrees with what the kernel says when the process is over.
func TestMeasureTree(t *testing.T) {
	tests := []struct {
		name, script string
		processes    int
	}{
		{"alone", burn + `echo done; read line; exit 0`, 1},
		{"a child that ended", `sh -c '` + burn + `'; echo done; read line; exit 0`, 1},
		{"a child that lives", `sh -c '` + burn + `echo done; read line' <&0; exit 0`, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			command := exec.Command("sh", "-c", test.script)
			goOn, err := command.StdinPipe()
			must.Do(t, err)
			said, err := command.StdoutPipe()
			must.Do(t, err)
			must.Do(t, command.Start())
			watchdog := time.AfterFunc(time.Minute, func() { _ = command.Process.Kill() })
			defer watchdog.Stop()
			if line, err := bufio.NewReader(said).ReadString('\n'); line != "done\n" {
				t.Errorf("the child said %q, %v", line, err)
			}
			used, err := measureTree(command.Process.Pid)
			if err != nil {
				t.Error(err)
			}
			goOn.Close()
			if err := command.Wait(); err != nil {
				t.Error(err)
			}
			kernel := command.ProcessState.UserTime() + command.ProcessState.SystemTime()
			// Each of the four times of each process loses up to a tick, and the
			// child still has to end.
			if off := kernel - used.CPU; off < -2*clockTick || off > 10*clockTick || used.CPU < 3*clockTick {
				t.Errorf("measured %s, the kernel says %s", used.CPU, kernel)
			}
			if used.Processes != test.processes || used.Memory < 100_000 || used.Memory > 100_000_000 {
				t.Errorf("%d processes with %d bytes, want %d", used.Processes, used.Memory, test.processes)
			}
		})
	}
}

func TestMeasureTreeGone(t *testing.T) {
	command := exec.Command("true")
	must.Do(t, command.Run())
	if used, err := measureTree(command.Process.Pid); err == nil {
		t.Errorf("a process that is over: got %+v", used)
	}
}

func TestParseStat(t *testing.T) {
	// A program may have any name.
	line := "42 (a) b (c) S 7 42 42 0 -1 4194304 100 0 0 0 1 2 3 4 20 0 1 0 100 1000000 250 18446744073709551615 1 1"
	pid, stat, err := parseStat([]byte(line))
	if want := (processStat{parent: 7, cpu: 10 * clockTick, pages: 250}); err != nil || pid != 42 || stat != want {
		t.Errorf("got %d %+v, %v; want 42 %+v", pid, stat, err, want)
	}
	for _, wrong := range []string{"", "42 sh S 1", "42 (sh) S 7 42", "x (sh)" + line[9:], "42 (sh) S 7 42 42 0 -1 4194304 100 0 0 0 1 2 x 4 20 0 1 0 100 1000000 250 1"} {
		if pid, stat, err := parseStat([]byte(wrong)); err == nil {
			t.Errorf("%q: got %d %+v", wrong, pid, stat)
		}
	}
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Error(err)
	}
}
