package proxy

import (
	"testing"
	"time"
)

// The shorter of two timeouts bounds a connection; 0 is none.
func TestShorter(t *testing.T) {
	for _, test := range [][3]time.Duration{{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {5, 3, 3}, {3, 5, 3}} {
		if got := shorter(test[0], test[1]); got != test[2] {
			t.Errorf("%d and %d: %d", test[0], test[1], got)
		}
	}
}
