package edgeprocess

import (
	"os/exec"
	"syscall"
)

// Tie makes the kernel kill a process, which is not started yet, when this
// process dies. A test binary that exceeds its timeout runs no cleanup.
func Tie(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
