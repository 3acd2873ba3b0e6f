package tunnel

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"time"
)

// The first try is at once; the bound of the others doubles up to the slowest, and all
// of it is used.
func TestDelay(t *testing.T) {
	const maxBackoff = 15 * time.Second
	if got := delay(0, maxBackoff); got != 0 {
		t.Errorf("the first try waits %v", got)
	}
	for try, bound := range map[int]time.Duration{
		1: 500 * time.Millisecond, 2: time.Second, 3: 2 * time.Second, 6: maxBackoff, 100: maxBackoff, 1 << 40: maxBackoff,
	} {
		var least, most time.Duration = bound, 0
		for range 2000 {
			d := delay(try, maxBackoff)
			least, most = min(least, d), max(most, d)
		}
		if most > bound || most < bound*9/10 || least > bound/10 {
			t.Errorf("try %d waits between %v and %v; want 0 to %v", try, least, most, bound)
		}
	}
}

func TestTunnelURL(t *testing.T) {
	for _, tt := range []struct{ give, want string }{
		{"https://p.test", "https://p.test/tunnel/v1/connect"},
		{"https://p.test/", "https://p.test/tunnel/v1/connect"},
		{"wss://p.test:8443/tunnel/v1/connect", "https://p.test:8443/tunnel/v1/connect"},
		{"https://p.test/sub/", "https://p.test/sub/tunnel/v1/connect"},
		{"ws://p.test", "http://p.test/tunnel/v1/connect"},
		{"p.test", ""},
		{"https://", ""},
		{"https://user:secret@p.test", ""},
		{"https://p.test?x=1", ""},
		{"https://p.test#x", ""},
		{"https://\x7f", ""},
	} {
		got, err := tunnelURL(tt.give)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q: %q, %v; want %q", tt.give, got, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func FuzzReadNotice(f *testing.F) {
	for _, seed := range []string{`{"replicas":2}`, `{"drain":true}`, `{"refused":"why"}`, "", "null", "[]", strings.Repeat("x", maxControlLine+1)} {
		f.Add([]byte(seed + "\n"))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		reader := bufio.NewReaderSize(bytes.NewReader(text), maxControlLine)
		for lines := 0; ; lines++ {
			if _, err := readHubMessage(reader); err != nil {
				return
			}
			if lines > len(text) {
				t.Fatal("it reads more lines than there are")
			}
		}
	})
}
