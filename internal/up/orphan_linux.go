package up

import "syscall"

// tie has the kernel tell a process when the thread that starts it dies.
func tie(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGTERM }
