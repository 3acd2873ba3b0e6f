package ground

import (
	"testing"
	"time"
)

func TestCPUTime(t *testing.T) {
	got, err := parseCPUTime([]byte("42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 120 30 1 1 20 0 9 0\n"))
	if err != nil || got != 1500*time.Millisecond {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := parseCPUTime([]byte("42 (a) S")); err == nil {
		t.Error("a short line is read")
	}
}
