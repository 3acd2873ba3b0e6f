//go:build !linux

package render

import (
	"os"
	"syscall"
)

// program is the one that runs now.
func program() string {
	name, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return name
}

func isolations() []*syscall.SysProcAttr { return []*syscall.SysProcAttr{{}} }

func isUnsupported(error) bool { return false }
