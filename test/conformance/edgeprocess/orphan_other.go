//go:build !linux

package edgeprocess

import "os/exec"

// Tie does nothing on systems without a parent-death signal.
func Tie(*exec.Cmd) {}
