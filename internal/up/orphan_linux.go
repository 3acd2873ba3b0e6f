package up

import "syscall"

// tie has the kernel send SIGTERM to a process when the thread that started it
// dies.
func tie(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGTERM }
