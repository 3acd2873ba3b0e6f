package edgeprocess

import (
	"os/exec"
	"syscall"
)

// Tie makes a process that is not started yet end with this one: a test that
// runs out of time stops nothing that it started.
func Tie(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
