//go:build !linux

package store

import "time"

// boundUnacknowledged is for Linux, where platforms run.
func boundUnacknowledged(int, time.Duration) error { return nil }
