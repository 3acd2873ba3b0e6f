package main

import (
	"bufio"
	"os/exec"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
)

// burn is a shell that counts for a good tenth of a second.
const burn = `i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; `

// What a process, its living and its dead children used is all there, and
// agrees with what the kernel reports when the process is over.
func TestMeasureTree(t *testing.T) {
	const clockTick = 10 * time.Millisecond
	tests := []struct {
		name, script string
		processes    int64
	}{
		{"alone", burn + `echo done; read line; exit 0`, 1},
		{"a child that ended", `sh -c '` + burn + `'; echo done; read line; exit 0`, 1},
		{"a child that lives", `sh -c '` + burn + `echo done; read line' <&0; exit 0`, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			command := exec.Command("sh", "-c", test.script)
			goOn := must.Get(command.StdinPipe())(t)
			said := must.Get(command.StdoutPipe())(t)
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
			if used.Memory < 100_000*test.processes || used.Memory > 100_000_000 {
				t.Errorf("%d processes with %d bytes", test.processes, used.Memory)
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
