//go:build !linux

package edgeprocess

import "os/exec"

// Tie does nothing where the kernel does not offer it.
func Tie(*exec.Cmd) {}
