//go:build !race

package render_test

// raceEnabled: the race detector has memory of its own.
const raceEnabled = false
