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

// isolations has no namespaces: they exist on Linux only.
func isolations() []*syscall.SysProcAttr { return []*syscall.SysProcAttr{{}} }

// isUnsupported is never true without isolation.
func isUnsupported(error) bool { return false }
