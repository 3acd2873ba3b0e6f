//go:build unix

package datagram

import "syscall"

// receive reads a datagram of a connected socket without waiting.
func receive(fd uintptr, buf []byte) (int, error) { return syscall.Read(int(fd), buf) }
