package handover_test

import (
	"os/exec"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/install/handover"
)

// FuzzShellWord: a shell reads the word as it was.
func FuzzShellWord(f *testing.F) {
	f.Add("it's $(touch x) `y` \\ \" ;")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsAny(text, "\x00") {
			t.Skip()
		}
		out, err := exec.Command("sh", "-c", "printf %s "+handover.ShellWord(text)).Output()
		if err != nil || string(out) != text {
			t.Errorf("%q becomes %q: %v", text, out, err)
		}
	})
}
